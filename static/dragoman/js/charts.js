// Draws <div class="dg-plot" data-plot="activity" data-from="id of a json_script" data-unit="%" data-max="100">.
// The JSON has x (Unix seconds), step (seconds), and under the name of the plot either values or a list of
// {label, values, dash, bar}; null is a gap: hatched, no line across it. Bars are stacked, the first at the bottom, below the lines. `lines` of the JSON has constants to compare with by
// plot, {label, value, kind}; [data-lines] of the page may add one per plot. `units` overrides the unit of a plot.
// `spans` of the JSON are shaded and named, {from, to, kind, label}: where no value is expected, and where one is idle.
const root = document.documentElement;
const DEFAULTS = { activity: { unit: "%", top: 100 }, compute: { unit: "%", top: 100 }, memory: { unit: "GiB" }, power: { unit: "W" }, traffic: { unit: "GB/s" } };
const LINE_COLORS = { idle: "--dg-wait", size: "--dg-held" };
const drawn = new Map();

// A token is light-dark(…); the computed color of an element resolves it.
const probe = document.createElement("span");
probe.hidden = true;
document.body.append(probe);
const token = (name) => {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
};
const faint = (color, alpha) => `color-mix(in srgb, ${color} ${alpha}%, transparent)`;

const hatch = (color) => {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  pen.strokeStyle = color;
  pen.lineWidth = 1.5;
  pen.beginPath();
  for (const at of [-4, 4, 12]) { pen.moveTo(at - 4, 12); pen.lineTo(at + 12, -4); }
  pen.stroke();
  return tile;
};

// [first, last] indices of the ranges without a value in any series, where one is expected.
const gapsIn = (columns, x, spans) => {
  const gaps = [], empty = spans.filter(isEmpty);
  columns[0]?.forEach((_, index) => {
    if (columns.some((values) => values[index] !== null) || empty.some(({ from, to }) => from <= x[index] && x[index] < to)) return;
    const last = gaps.at(-1);
    if (last && last[1] === index - 1) last[1] = index;
    else gaps.push([index, index]);
  });
  return gaps;
};

const paintGaps = (gaps, x, step) => (plot) => {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.fillStyle = ctx.createPattern(hatch(token("--dg-hatch")), "repeat");
  for (const [first, last] of gaps) {
    const left = Math.max(plot.valToPos(x[first] - step / 2, "x", true), bbox.left);
    const right = Math.min(plot.valToPos(x[last] + step / 2, "x", true), bbox.left + bbox.width);
    if (right > left) ctx.fillRect(left, bbox.top, right - left, bbox.height);
  }
  ctx.restore();
};

// A span has its name at the top, if there is room; a dashed line is between it and its neighbours. Only idle has values.
const isEmpty = ({ kind }) => kind !== "idle";
const SPAN_COLORS = { idle: "--dg-wait-bg", unmanaged: "--dg-over-bg" };
const paintSpans = (spans) => (plot) => {
  const { ctx, bbox } = plot, ratio = devicePixelRatio, right = bbox.left + bbox.width;
  ctx.save();
  ctx.font = `${11 * ratio}px ${getComputedStyle(document.body).fontFamily}`;
  ctx.textBaseline = "top";
  ctx.textAlign = "center";
  ctx.strokeStyle = token("--dg-line-2");
  ctx.lineWidth = ratio;
  ctx.setLineDash([3 * ratio, 3 * ratio]);
  for (const { from, to, kind, label } of spans) {
    const start = Math.max(plot.valToPos(from, "x", true), bbox.left), end = Math.min(plot.valToPos(to, "x", true), right);
    if (end <= start) continue;
    if (SPAN_COLORS[kind]) {
      ctx.fillStyle = token(SPAN_COLORS[kind]);
      ctx.fillRect(start, bbox.top, end - start, bbox.height);
    }
    ctx.beginPath();
    for (const edge of [start, end]) if (edge > bbox.left && edge < right) { ctx.moveTo(edge, bbox.top); ctx.lineTo(edge, bbox.top + bbox.height); }
    ctx.stroke();
    ctx.fillStyle = token(kind === "idle" ? "--dg-wait-fg" : "--dg-text-3");
    if (ctx.measureText(label).width + 8 * ratio < end - start) ctx.fillText(label, (start + end) / 2, bbox.top + 4 * ratio);
  }
  ctx.restore();
};

// In the order of the page's own dates: "Mon 23 Nov, 10:43".
const PARTS = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const clock = () => {
  const format = new Intl.DateTimeFormat(root.lang, { timeZone: root.dataset.zone, ...PARTS });
  return (seconds) => Object.fromEntries(format.formatToParts(seconds * 1000).map(({ type, value }) => [type, value]));
};
const numbers = new Intl.NumberFormat(root.lang, { maximumFractionDigits: 2 });
// A unit with a place, such as "€{} / h", stands around the number, any other behind it.
const amount = (value, unit) => unit.includes("{}") ? unit.replace("{}", numbers.format(value)) : `${numbers.format(value)} ${unit}`.trim();
const day = ({ day, month }) => `${day} ${month}`;
const hour = ({ hour, minute }) => `${hour}:${minute}`;

// A plot of percent ends at 100 %, with its label, unless little of it is used.
const ending = (high, top) => top && high > top / 2 ? top : high;

const axes = (unit) => {
  const text = token("--dg-text-3"), font = `11px ${getComputedStyle(document.body).fontFamily}`, grid = token("--dg-grid");
  const parts = clock();
  const times = (_, splits) => splits.map(parts).map(splits.at(-1) - splits[0] > 2 * 86400 ? day : hour);
  return [
    { stroke: text, font, grid: { show: false }, ticks: { show: false }, size: 26, space: 90, values: times },
    { stroke: text, font, grid: { stroke: grid, width: 1 }, ticks: { show: false }, size: 62, space: 38, values: (_, splits) => splits.map((value) => amount(value, unit)) },
  ];
};

const buildSeries = (lines, constants) => {
  const colors = ["--dg-c1", "--dg-c2", "--dg-c3", "--dg-c4", "--dg-c5"].map(token);
  const list = lines.map((line, index) => ({
    label: line.label ?? "",
    stroke: colors[index % colors.length],
    fill: lines.length === 1 || lines[1].dash && index === 0 ? faint(colors[0], 12) : undefined,
    width: 1.5,
    dash: line.dash ? [5, 4] : undefined,
    points: { show: false },
    spanGaps: false,
  }));
  for (const { label, kind } of constants) list.push({ label, stroke: token(LINE_COLORS[kind] ?? "--dg-text-3"), width: 1.5, dash: kind ? [2, 3] : [5, 4], points: { show: false } });
  return list;
};

const constantsOf = (plot, data) => {
  const offered = [...document.querySelectorAll("[data-lines]")].map((element) => JSON.parse(element.dataset.lines)[plot]);
  return [...(data.lines?.[plot] ?? []), ...offered.filter(Boolean)];
};

// The label of a constant stands above its line, below it where there is no room: at the left, that of a suggestion at the right.
const paintLabels = (constants) => (plot) => {
  const { ctx, bbox } = plot, size = 11 * devicePixelRatio;
  ctx.save();
  ctx.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  ctx.fillStyle = token("--dg-text-2");
  ctx.textBaseline = "alphabetic";
  for (const { label, value, kind } of constants) {
    const y = plot.valToPos(value, "y", true), atEnd = kind === "size";
    ctx.textAlign = atEnd ? "right" : "left";
    ctx.fillText(label, atEnd ? bbox.left + bbox.width - 4 : bbox.left + 4, y - size * 1.4 < bbox.top ? y + size * 1.2 : y - size * 0.4);
  }
  ctx.restore();
};

const legend = (host, lines, keys = []) => {
  host.parentElement.querySelector(`[data-legend="${host.dataset.plot}"]`)?.remove();
  if (lines.length < 2) return;
  const box = document.createElement("div");
  box.className = "dg-legend";
  box.dataset.legend = host.dataset.plot;
  lines.forEach((line, index) => {
    const entry = document.createElement("span"), key = document.createElement("i");
    key.className = `dg-key ${keys[index] ?? `line c${(index % 5) + 1}`}`;
    entry.append(key, line.label);
    box.append(entry);
  });
  host.before(box);
};

const tip = (host, x, lines, unit) => {
  const box = document.createElement("div");
  box.className = "dg-plottip";
  box.hidden = true;
  host.append(box);
  const parts = clock();
  const when = (seconds) => { const at = parts(seconds); return `${at.weekday} ${day(at)}, ${hour(at)}`; };
  return (plot) => {
    const { idx, left } = plot.cursor;
    box.hidden = idx === null || idx === undefined || left < 0;
    if (box.hidden) return;
    const values = lines.map(({ label, values }) => `${label ? `${label} ` : ""}${values[idx] === null ? "–" : amount(values[idx], unit)}`);
    box.textContent = [when(x[idx]), ...values].join(" · ");
    const middle = plot.bbox.left / devicePixelRatio + left;
    box.style.left = `${Math.min(Math.max(middle - box.offsetWidth / 2, 0), host.clientWidth - box.offsetWidth)}px`;
  };
};

// A drag across one plot zooms all plots of its data; the button shows everything again.
const zoom = (host, x) => {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "btn btn-sm dg-plotall";
  button.textContent = "Show all";
  button.hidden = true;
  host.append(button);
  button.addEventListener("click", () => {
    for (const plot of together(host)) plot.setScale("x", { min: x[0], max: x.at(-1) });
  });
  return (plot, key) => {
    const { min, max } = plot.scales.x;
    if (key === "x" && min !== null) button.hidden = min <= x[0] && max >= x.at(-1);
  };
};

// All plots of the same data.
const together = (host) => [...drawn].filter(([other]) => other.dataset.from === host.dataset.from).map(([, plot]) => plot);

// The keyboard does what the mouse does: arrows move the cursor (with Shift by ten), + and - zoom around it, Escape shows all.
const byKeyboard = (host) => {
  host.tabIndex = 0;
  host.setAttribute("role", "group");
  host.setAttribute("aria-label", `${host.dataset.label ?? host.dataset.plot}: arrow keys read values, + and - zoom, Escape shows everything`);
  if (host.dataset.keys) return;
  host.dataset.keys = "1";
  host.addEventListener("keydown", (event) => {
    const plot = drawn.get(host);
    if (!plot || event.target !== host || event.ctrlKey || event.metaKey || event.altKey) return;
    const x = plot.data[0], { min, max } = plot.scales.x, last = x.length - 1;
    const shown = plot.cursor.idx ?? (event.key === "ArrowLeft" ? last + 1 : -1);
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -x.length, End: x.length }, factor = { "+": 0.5, "=": 0.5, "-": 2 }[event.key];
    if (event.key in moves) {
      const first = x.findIndex((at) => at >= min), end = x.findLastIndex((at) => at <= max);
      const index = Math.min(Math.max(shown + moves[event.key] * (event.shiftKey ? 10 : 1), first), end);
      host.querySelector(".dg-plottip")?.setAttribute("aria-live", "polite");
      for (const other of together(host)) other.setCursor({ left: other.valToPos(x[index], "x"), top: other.over.clientHeight / 2 }, true, false);
    } else if (factor) {
      const middle = x[plot.cursor.idx] ?? (min + max) / 2, half = Math.max((max - min) * factor / 2, x[1] - x[0]);
      for (const other of together(host)) other.setScale("x", { min: Math.max(middle - half, x[0]), max: Math.min(middle + half, x[last]) });
    } else if (event.key === "Escape") {
      for (const other of together(host)) other.setScale("x", { min: x[0], max: x[last] });
    } else return;
    event.preventDefault();
  });
};

// A month (UTC) of money or GPU-hours, with "range" and without zoom: "spend" has lines, a level (the budget) and a
// mark (where it runs out), "bars" are parts of each day, the first of them at the bottom.
const BARS = {
  used: () => token("--dg-held"),
  idle: (pen) => pen.createPattern(striped("--dg-wait", "--dg-wait-bg"), "repeat"),
  "no telemetry": (pen) => pen.createPattern(striped("--dg-over", "--dg-over-bg"), "repeat"),
  "not yet split": () => token("--dg-c5"),
};
const striped = (color, ground) => {
  const tile = document.createElement("canvas"), pen = tile.getContext("2d");
  tile.width = tile.height = 8;
  pen.fillStyle = token(ground);
  pen.fillRect(0, 0, 8, 8);
  pen.drawImage(hatch(token(color)), 0, 0);
  return tile;
};
const DAY = 86400;
const dayOf = () => {
  const format = new Intl.DateTimeFormat(root.lang, { timeZone: "UTC", weekday: "short", day: "numeric", month: "short" });
  return (seconds) => Object.fromEntries(format.formatToParts(seconds * 1000).map(({ type, value }) => [type, value]));
};
const exact = new Intl.NumberFormat(root.lang, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const whole = new Intl.NumberFormat(root.lang, { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat(root.lang, { notation: "compact", maximumFractionDigits: 1 });
const priced = ({ symbol, unit }, value, format = whole) => `${symbol}${format.format(value).replace("K", "k")} ${unit}`.trim();

const paintLevel = ({ level, mark, ...data }) => (plot) => {
  if (!level) return;
  const { ctx, bbox } = plot, ratio = devicePixelRatio, y = plot.valToPos(level.value, "y", true);
  ctx.save();
  ctx.font = `${11 * ratio}px ${getComputedStyle(document.body).fontFamily}`;
  ctx.lineWidth = 1.5 * ratio;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.setLineDash([5 * ratio, 4 * ratio]);
  ctx.strokeStyle = ctx.fillStyle = token("--dg-text-2");
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.fillText(`${level.label} ${priced(data, level.value)}`, bbox.left + 4 * ratio, y - 5 * ratio);
  if (mark) {
    const x = plot.valToPos(mark.x, "x", true), bottom = bbox.top + bbox.height;
    ctx.strokeStyle = ctx.fillStyle = token("--dg-bad");
    ctx.beginPath();
    ctx.moveTo(x, y);
    ctx.lineTo(x, bottom);
    ctx.stroke();
    ctx.textAlign = x > bbox.left + bbox.width / 2 ? "right" : "left";
    ctx.fillText(mark.label, x + (ctx.textAlign === "right" ? -6 : 6) * ratio, bottom - 6 * ratio);
    ctx.setLineDash([]);
    ctx.fillStyle = token("--dg-surface");
    ctx.beginPath();
    ctx.arc(x, y, 4 * ratio, 0, 2 * Math.PI);
    ctx.fill();
    ctx.stroke();
  }
  ctx.restore();
};

const drawMonth = (host, data) => {
  const isBars = host.dataset.plot === "bars", lines = data[host.dataset.plot], [start, end] = data.range, parts = dayOf();
  const text = token("--dg-text-3"), font = `11px ${getComputedStyle(document.body).fontFamily}`, level = data.level?.value ?? 0;
  const stacked = lines.map((_, index) => data.x.map((_, at) => lines.slice(0, index + 1).reduce((sum, { values }) => sum + values[at], 0)));
  const columns = isBars ? stacked.toReversed() : lines.map(({ values }) => values);
  const pen = document.createElement("canvas").getContext("2d");
  const drawnAs = isBars
    ? lines.toReversed().map(({ label }) => ({ label, fill: BARS[label](pen), width: 0, paths: uPlot.paths.bars({ size: [0.8, 40] }), points: { show: false } }))
    : lines.map(({ label, dash, fill }) => ({ label, stroke: token("--dg-c1"), fill: fill && faint(token("--dg-c1"), 12), width: 1.5, dash: dash && [5, 4], points: { show: false } }));
  host.replaceChildren();
  byKeyboard(host);
  host.setAttribute("aria-label", `${host.dataset.label}: arrow keys read values`);
  if (!isBars) legend(host, data.level ? [...lines, { label: data.level.label }] : lines, ["line c1", "dash c1", "dash"]);
  const box = document.createElement("div");
  box.className = "dg-plottip";
  box.hidden = true;
  host.append(box);
  const follow = (plot) => {
    const { idx, left } = plot.cursor;
    box.hidden = idx === null || idx === undefined || left < 0;
    if (box.hidden) return;
    const at = parts(data.x[idx] - (isBars || idx === 0 ? 0 : 1)), said = lines.filter(({ values }) => values[idx]);
    box.textContent = [`${at.weekday} ${day(at)}`, ...said.map(({ label, values }) => `${label} ${priced(data, values[idx], exact)}`)].join(" · ");
    box.style.left = `${Math.min(Math.max(plot.bbox.left / devicePixelRatio + left - box.offsetWidth / 2, 0), host.clientWidth - box.offsetWidth)}px`;
  };
  const days = [0, 4, 9, 14, 19, 24, 29].map((number) => start + number * DAY).filter((at) => at < end);
  const plot = new uPlot({
    width: host.clientWidth,
    height: Number(host.dataset.height) || 160,
    legend: { show: false },
    cursor: { points: { show: !isBars, size: 6 }, drag: { x: false, y: false } },
    scales: { x: { range: [start, end] }, y: { range: (_, low, high) => [0, Math.max(high ?? 0, level, 0.01) * 1.12] } },
    axes: [
      { stroke: text, font, grid: { show: false }, ticks: { show: false }, size: 24, splits: () => isBars ? days.map((at) => at + DAY / 2) : days, values: (_, splits) => splits.map((at, index) => { const named = parts(at); return index ? named.day : day(named); }) },
      { stroke: text, font, grid: { stroke: token("--dg-grid"), width: 1 }, ticks: { show: false }, size: 62, space: 34, values: (_, splits) => splits.map((value) => priced(data, value, short)) },
    ],
    series: [{}, ...drawnAs],
    hooks: { draw: [paintLevel(data)], setCursor: [follow] },
  }, [data.x, ...columns], host);
  drawn.get(host)?.destroy();
  drawn.set(host, plot);
};

const BAR_KEYS = { used: "dg-m-used", idle: "dg-m-idle", "no telemetry": "dg-m-none" };
// Each with the sum of those below it, the highest first: the next is painted over it.
const stackedBars = (lines) => {
  const pen = document.createElement("canvas").getContext("2d");
  return lines.map(({ label }, index) => ({
    values: lines[0].values.map((_, at) => lines.slice(0, index + 1).reduce((sum, { values }) => sum + values[at], 0)),
    series: { label, fill: BARS[label](pen), width: 0, paths: uPlot.paths.bars({ size: [0.9, 40] }), points: { show: false } },
  })).toReversed();
};

const draw = (host) => {
  const data = JSON.parse(document.getElementById(host.dataset.from).textContent);
  if (data.range) return drawMonth(host, data);
  const defaults = DEFAULTS[host.dataset.plot] ?? {};
  const series = data[host.dataset.plot];
  const lines = typeof series[0] === "object" && series[0] !== null ? series : [{ values: series }];
  const unit = host.dataset.unit ?? data.units?.[host.dataset.plot] ?? defaults.unit ?? "", max = Number(host.dataset.max) || null;
  const constants = constantsOf(host.dataset.plot, data), least = Math.max(0, ...constants.map(({ value }) => value));
  const bars = stackedBars(lines.filter(({ bar }) => bar)), strokes = lines.filter(({ bar }) => !bar);
  const columns = [...bars.map(({ values }) => values), ...strokes.map(({ values }) => values)], spans = data.spans ?? [];
  const gaps = gapsIn(columns.slice(0, lines.some((line) => line.dash) ? 1 : undefined), data.x, spans);
  host.replaceChildren();
  byKeyboard(host);
  legend(host, lines, bars.length ? lines.map(({ label, bar }) => bar ? BAR_KEYS[label] : "dash") : []);
  const follow = tip(host, data.x, lines, unit);
  const plot = new uPlot({
    width: host.clientWidth,
    height: Number(host.dataset.height) || 160,
    legend: { show: false },
    cursor: { points: { size: 6 }, drag: { x: true, y: false }, sync: { key: host.dataset.from } },
    scales: { y: { range: (_, low, high) => [0, max ?? ending(Math.max(high ?? 1, least, 1e-3) * 1.15, defaults.top)] } },
    axes: axes(unit),
    series: [{}, ...bars.map(({ series }) => series), ...buildSeries(strokes, constants)],
    hooks: { drawClear: [paintSpans(spans)], draw: [paintGaps(gaps, data.x, data.step ?? 0), paintLabels(constants)], setCursor: [follow], setScale: [zoom(host, data.x)] },
  }, [data.x, ...columns, ...constants.map(({ value }) => data.x.map(() => value))], host);
  drawn.get(host)?.destroy();
  drawn.set(host, plot);
};

const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) drawn.get(target)?.setSize({ width: target.clientWidth, height: drawn.get(target).height });
});

export const drawAll = () => {
  for (const host of drawn.keys()) if (!host.isConnected) { drawn.get(host).destroy(); drawn.delete(host); }
  for (const host of document.querySelectorAll("[data-plot][data-from]")) if (!drawn.has(host)) { draw(host); resized.observe(host); }
};
// Advice that comes later brings lines of its own.
document.addEventListener("htmx:afterSettle", ({ target }) => { if (target.querySelector?.("[data-lines]")) redraw(); });
const redraw = () => { for (const host of drawn.keys()) draw(host); };
document.addEventListener("dg:theme", redraw);
for (const media of ["(prefers-color-scheme: dark)", "print"]) matchMedia(media).addEventListener("change", redraw);
