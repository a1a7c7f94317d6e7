// Enhancements of all pages. Each part finds its elements by a data- attribute and works without the others.
const root = document.documentElement;
root.classList.add("js");

// data-copy="text" or data-copy-from="selector": copies, and shows a confirmation for two seconds.
const confirmOn = (button, words) => {
  const before = button.dataset.before ?? button.getAttribute("aria-label") ?? "";
  button.dataset.before = before;
  button.setAttribute("aria-label", words);
  button.dataset.tip = words;
  setTimeout(() => { button.setAttribute("aria-label", before); delete button.dataset.tip; }, 2000);
};
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-from]");
  if (!button) return;
  const source = button.dataset.copyFrom && document.querySelector(button.dataset.copyFrom);
  await navigator.clipboard.writeText(source ? source.textContent : button.dataset.copy);
  confirmOn(button, root.dataset.copied);
});

// <time data-time="relative|elapsed">: kept current, with the same format as core/times.py.
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
const duration = (seconds) => {
  let left = Math.floor(Math.abs(seconds));
  if (left >= 60) left -= left % 60;
  const words = [];
  for (const [symbol, size] of UNITS) {
    const count = Math.floor(left / size);
    if (count) words.push(`${count} ${symbol}`);
    else if (words.length) break;
    left %= size;
    if (words.length === 2) break;
  }
  return words.join(" ") || "0 s";
};
const refreshTimes = () => {
  for (const element of document.querySelectorAll("time[data-time]")) {
    const seconds = (Date.parse(element.dateTime) - Date.now()) / 1000;
    let words = duration(seconds);
    if (element.dataset.time === "relative") {
      words = Math.abs(seconds) < 1 ? root.dataset.now : (seconds > 0 ? root.dataset.in : root.dataset.ago).replace("{}", words);
    }
    if (element.textContent !== words) element.textContent = words;
  }
};
setInterval(refreshTimes, 5000);

// The time zone of this browser; the server uses it for users who have not set one.
const zone = `timezone=${Intl.DateTimeFormat().resolvedOptions().timeZone}`;
if (!document.cookie.split("; ").includes(zone)) {
  document.cookie = `${zone}; path=/; max-age=31536000; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;
}

// Esc closes what is open; a click outside closes a menu. "/" and Ctrl K open the palette, "?" the list of keys.
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") for (const menu of document.querySelectorAll("details.dg-menu[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
    event.preventDefault();
    openPalette();
    return;
  }
  if (!["/", "?"].includes(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]") || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  if (event.key === "/") openPalette();
  else document.getElementById("keys")?.showModal();
});
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.dg-menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});

// The palette. Arrows choose a result, Enter opens it, with Ctrl or Cmd in a new tab; Tab goes to the next kind, with Shift to
// the one before: the links of kinds load into it.
const palette = document.getElementById("palette");
const typed = palette?.querySelector("[role=combobox]");
const options = () => [...palette.querySelectorAll("[role=option]")];
const choose = (to) => {
  for (const [place, option] of options().entries()) option.setAttribute("aria-selected", place === to);
  const chosen = options()[to];
  if (chosen) typed.setAttribute("aria-activedescendant", chosen.id);
  else typed.removeAttribute("aria-activedescendant");
  chosen?.scrollIntoView({ block: "nearest" });
};
const openPalette = () => {
  if (!palette || palette.open) return;
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  typed.value = "";
  const kind = palette.querySelector("[name=kind]");
  if (kind) kind.value = "";
  palette.showModal();
  typed.focus();
  typed.dispatchEvent(new CustomEvent("open"));
};
document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  const kind = event.target.closest("#palette .dg-kinds a");
  if (!kind && !event.target.closest("[data-palette]")) {
    if (event.target === palette) palette.close(); // its backdrop
    return;
  }
  event.preventDefault();
  if (!kind) return openPalette();
  htmx.ajax("GET", kind.href, "#palette-body");
  typed.focus();
});
typed?.addEventListener("keydown", (event) => {
  const all = options();
  const now = all.findIndex((option) => option.getAttribute("aria-selected") === "true");
  const kinds = [...palette.querySelectorAll(".dg-kinds a")];
  if (event.key === "Tab" && kinds.length) {
    const current = kinds.findIndex((kind) => kind.hasAttribute("aria-current"));
    htmx.ajax("GET", kinds[(current + (event.shiftKey ? kinds.length - 1 : 1)) % kinds.length].href, "#palette-body");
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") choose((now + (event.key === "ArrowDown" ? 1 : all.length - 1)) % (all.length || 1));
  else if (event.key === "Enter" && now >= 0) {
    if (event.ctrlKey || event.metaKey) window.open(all[now].href, "_blank", "noopener");
    else location.assign(all[now].href);
  } else return;
  event.preventDefault();
});
document.addEventListener("htmx:afterSwap", ({ detail: { target } }) => {
  if (target.id !== "palette-body") return;
  const list = target.querySelector("[data-results]");
  list.id = "palette-list";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Results");
  for (const section of list.querySelectorAll("section")) section.setAttribute("role", "group");
  for (const [place, link] of [...list.querySelectorAll("section a")].entries()) {
    Object.assign(link, { id: `palette-${place}`, tabIndex: -1 });
    link.setAttribute("role", "option");
  }
  choose(0);
});

// a[data-term]: the definition of a term, while the pointer is on the term or on the definition, on focus, and on the first
// touch; a second touch follows the link. Esc closes it. It is a popover in the top layer, so nothing moves and nothing cuts it off.
const hint = Object.assign(document.createElement("div"), { id: "term-hint", className: "dg-hint", popover: "manual" });
hint.setAttribute("role", "tooltip");
let hinted = null;
let hiding = 0;
const hideHint = () => {
  clearTimeout(hiding);
  if (!hinted) return;
  hinted.removeAttribute("aria-describedby");
  hinted = null;
  hint.remove();
};
const showHint = (link) => {
  clearTimeout(hiding);
  if (hinted === link) return;
  hideHint();
  hint.textContent = link.dataset.term;
  (link.closest("dialog[open]") ?? document.body).append(hint); // outside of a dialog it would be inert
  hint.showPopover();
  const at = link.getBoundingClientRect();
  hint.style.left = `${Math.max(8, Math.min(at.left, innerWidth - hint.offsetWidth - 8))}px`;
  hint.style.top = `${at.bottom + hint.offsetHeight + 12 < innerHeight ? at.bottom + 4 : at.top - hint.offsetHeight - 4}px`;
  link.setAttribute("aria-describedby", hint.id);
  hinted = link;
};
const termOf = (event) => event.target.closest?.("a[data-term]");
document.addEventListener("pointerover", (event) => {
  if (event.pointerType !== "mouse") return;
  if (termOf(event)) showHint(termOf(event));
  else if (hint.contains(event.target)) clearTimeout(hiding);
  else if (hinted && hinted !== document.activeElement) {
    clearTimeout(hiding);
    hiding = setTimeout(hideHint, 200); // time to move onto the definition
  }
});
document.addEventListener("focusin", (event) => { if (termOf(event)?.matches(":focus-visible")) showHint(termOf(event)); else hideHint(); });
document.addEventListener("focusout", (event) => { if (termOf(event)) hideHint(); });
document.addEventListener("click", (event) => {
  const link = termOf(event);
  if (event.pointerType !== "touch") return;
  if (link && hinted !== link) {
    event.preventDefault();
    showHint(link);
  } else if (!hint.contains(event.target)) hideHint();
});
document.addEventListener("scroll", hideHint, { capture: true, passive: true });
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !hinted) return;
  event.preventDefault(); // a dialog around it stays open
  hideHint();
});
document.addEventListener("htmx:afterSwap", () => { if (!hinted?.isConnected) hideHint(); });

// data-theme-form: switches the theme at once and stores it on the server.
document.addEventListener("submit", (event) => {
  const form = event.target.closest("[data-theme-form]");
  if (!form) return;
  event.preventDefault();
  const theme = event.submitter.value;
  if (theme === "system") root.removeAttribute("data-bs-theme");
  else root.dataset.bsTheme = theme;
  for (const button of form.querySelectorAll("button")) button.setAttribute("aria-pressed", button.value === theme);
  const body = new FormData(form);
  body.set("theme", theme);
  fetch(form.action, { method: "POST", body, redirect: "manual", keepalive: true }); // survives leaving the page
  form.closest("details").open = false;
  document.dispatchEvent(new Event("dg:theme"));
});

// data-dialog="id" opens a <dialog>; without JavaScript the element is a plain link or button. The old content is removed
// first, so that nobody types into a form that htmx is about to replace.
document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-dialog]");
  if (opener) {
    event.preventDefault();
    const dialog = document.getElementById(opener.dataset.dialog);
    if (opener.hasAttribute("hx-get")) dialog?.replaceChildren(Object.assign(document.createElement("p"), { textContent: "Loading…", role: "status" }));
    dialog?.showModal();
    // Polling may have replaced the opener: focus then goes to the element with the same address.
    dialog?.addEventListener("close", () => {
      const href = opener.getAttribute("href");
      const target = opener.isConnected ? opener : href && document.querySelector(`[data-dialog][href="${CSS.escape(href)}"]`);
      target?.focus();
    }, { once: true });
  }
  const closer = event.target.closest("[data-close]");
  if (closer) {
    event.preventDefault();
    closer.closest("dialog")?.close();
  }
});

// data-drawer="id": a cell of the map, or a[data-row] of a list, opens its page in that <dialog>; with a modifier key, or without
// JavaScript, as a page, and so does a row on phones. Of a GPU in partitions it is the partition that was clicked on; another
// partition of the GPU takes its place there. data-part of the dialog is the part of the page that it shows. While a row is open,
// the address is that of its page; when it closes after a change, the list is read again.
document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-drawer] :is(a.dg-dev, [data-device], a[data-row]), .drawer [data-partition]");
  if (!opener || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const isRow = opener.matches("[data-row]");
  if (isRow && matchMedia("(max-width: 767px)").matches) return;
  event.preventDefault();
  const address = opener.dataset.device || opener.href;
  const drawer = opener.closest(".drawer") || document.getElementById(opener.closest("[data-drawer]").dataset.drawer);
  const body = drawer.querySelector("[data-body]");
  drawer.querySelector("[data-page]").href = address;
  body.replaceChildren(Object.assign(document.createElement("p"), { textContent: "Loading…", role: "status" }));
  if (!drawer.open) {
    const behind = location.href;
    const messages = document.getElementById("messages"); // outside of a dialog nobody sees them
    drawer.append(messages);
    drawer.showModal();
    drawer.addEventListener("close", () => {
      if (isRow) history.replaceState(history.state, "", behind);
      document.body.append(messages);
      opener.closest("tr")?.classList.remove("sel");
      const list = document.getElementById("listing-form");
      if (drawer.dataset.changed && list) htmx.trigger(list, "submit");
      delete drawer.dataset.changed;
    }, { once: true });
  }
  if (isRow) {
    opener.closest("tr").classList.add("sel");
    history.replaceState(history.state, "", address);
  }
  htmx.ajax("GET", address, { source: body, target: body, select: drawer.dataset.part || "#device", swap: "innerHTML" });
});
document.addEventListener("htmx:afterRequest", ({ detail }) => {
  const drawer = detail.requestConfig?.verb === "post" && document.querySelector(".drawer[open]");
  if (drawer) drawer.dataset.changed = "1";
});

// data-step="1": the buttons of a stepper.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-step]");
  if (!button) return;
  const input = button.parentElement.querySelector("input");
  if (Number(button.dataset.step) > 0) input.stepUp();
  else input.stepDown();
  input.dispatchEvent(new Event("input", { bubbles: true }));
  input.dispatchEvent(new Event("change", { bubbles: true }));
});

// form[data-send]: Ctrl or Cmd + Enter submits it with its primary button.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  const form = event.target.closest("form[data-send]");
  if (!form) return;
  event.preventDefault();
  form.requestSubmit([...form.elements].find((element) => element.matches(".btn-primary")));
});

// data-toast: disappears after six seconds unless it is hovered or focused.
const hideToasts = () => {
  for (const toast of document.querySelectorAll("[data-toast]:not([data-seen])")) {
    toast.dataset.seen = "";
    const go = () => { if (toast.matches(":hover, :focus-within")) setTimeout(go, 2000); else toast.remove(); };
    setTimeout(go, 6000);
  }
};

// data-dismiss: closes its toast.
document.addEventListener("click", (event) => event.target.closest("[data-dismiss]")?.closest(".dg-toast")?.remove());

// An error of an htmx request is shown as a permanent toast with the sentence of the error page.
document.addEventListener("htmx:responseError", (event) => {
  const message = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html").querySelector("[data-error] p");
  const toast = document.createElement("div");
  toast.className = "dg-toast bad";
  toast.textContent = message?.textContent ?? `${event.detail.xhr.status} ${event.detail.xhr.statusText}`;
  document.getElementById("messages")?.append(toast);
});

// The form of a list sends neither empty fields nor default columns, so that addresses stay short.
document.addEventListener("htmx:configRequest", ({ detail: { elt, formData } }) => {
  if (elt.id !== "listing-form") return;
  for (const [name, value] of [...formData]) if (value === "" || value === "unknown") formData.delete(name);
  const columns = [...elt.querySelectorAll("[name=col]")];
  if (columns.every((box) => box.checked === box.hasAttribute("data-shown"))) formData.delete("col");
});

// data-poll="3": fires `poll` (hx-trigger) after so many seconds, later each time that nothing has changed, at most four times
// as late. A hidden tab does not poll; one that is shown again polls at once. data-etag is what the element shows: the answer
// is 304 while it is the same, and swaps nothing.
const polls = new WeakMap(); // element → seconds to wait, and when that is over
const poll = (atOnce) => {
  if (document.hidden) return;
  const now = Date.now();
  for (const element of document.querySelectorAll("[data-poll]")) {
    const seconds = Number(element.dataset.poll);
    let state = polls.get(element);
    if (!state || atOnce) polls.set(element, state = { seconds, due: atOnce ? now : now + 1000 * seconds });
    if (now < state.due) continue;
    state.due = now + 1000 * state.seconds;
    state.seconds = Math.min(1.5 * state.seconds, 4 * seconds);
    element.dispatchEvent(new CustomEvent("poll"));
  }
};
setInterval(poll, 1000, false);
document.addEventListener("visibilitychange", () => poll(true));
document.addEventListener("htmx:configRequest", ({ detail: { elt, headers } }) => {
  if (elt.dataset.poll) headers["X-By-Itself"] = "1"; // a page that is only open does not keep the session alive
  if (elt.dataset.poll && elt.dataset.etag) headers["If-None-Match"] = elt.dataset.etag;
});
document.addEventListener("htmx:afterRequest", ({ detail: { elt, xhr } }) => {
  const etag = elt.dataset.poll && xhr.status === 304 && xhr.getResponseHeader("ETag");
  if (etag) elt.dataset.etag = etag;
});

// A swap removes the element that has the focus, and closes a menu that is open: both go to the elements that replace them.
// (htmx keeps the focus of elements with an id.)
const nameOf = (element) => [element.tagName, element.getAttribute("href"), element.getAttribute("aria-label"), element.name, element.value, element.textContent.trim()].join("\n");
const sameAs = (name, selector) => [...document.querySelectorAll(selector)].find((element) => nameOf(element) === name);
let focused = "";
let openMenu = "";
let openFilters = false;
document.addEventListener("htmx:beforeSwap", ({ detail: { target } }) => {
  const active = document.activeElement;
  focused = !active?.id && active !== document.body && target?.contains(active) ? nameOf(active) : "";
  const menu = target?.querySelector("details.dg-menu[open] > summary");
  openMenu = menu ? nameOf(menu) : "";
  openFilters = Boolean(target?.querySelector("details.dg-filters[open]"));
});
document.addEventListener("htmx:afterSwap", () => {
  if (openMenu) sameAs(openMenu, "details.dg-menu > summary")?.parentElement.toggleAttribute("open", true);
  if (openFilters) document.querySelector("details.dg-filters")?.toggleAttribute("open", true);
  if (focused && document.activeElement === document.body) sameAs(focused, focused.split("\n", 1)[0])?.focus();
  focused = openMenu = "";
});

// Charts are loaded only on pages that have one.
let charts = null;
const loaded = (element) => new Promise((resolve, reject) => { element.onload = resolve; element.onerror = reject; document.head.append(element); });
const drawCharts = async () => {
  if (!document.querySelector("[data-plot]")) return;
  charts ??= Promise.all([
    loaded(Object.assign(document.createElement("link"), { rel: "stylesheet", href: root.dataset.uplotCss })),
    loaded(Object.assign(document.createElement("script"), { src: root.dataset.uplot })),
  ]).then(() => import(root.dataset.charts));
  (await charts).drawAll();
};

const ready = () => {
  for (const button of document.querySelectorAll("[data-copy][hidden], [data-copy-from][hidden]")) button.hidden = false;
  refreshTimes();
  hideToasts();
  drawCharts();
};
ready();
document.addEventListener("htmx:afterSettle", ready);

// After a refused form the first wrong field has the focus; without one, what is wrong with the form as a whole.
const focusError = (within) => {
  const error = within.querySelector("[aria-invalid=true]") ?? within.querySelector("form .dg-err, dialog .dg-err, .dg-banner.bad[role=alert]");
  if (!error) return;
  for (let part = error.closest("details:not([open])"); part; part = part.parentElement.closest("details:not([open])")) part.open = true;
  if (!error.matches("[aria-invalid]")) error.tabIndex = -1;
  error.focus();
};
focusError(document);
document.addEventListener("htmx:afterSettle", ({ detail }) => { if (detail.xhr?.status === 422) focusError(detail.elt); });
