// What pages gain where there is JavaScript. Each part finds its elements by a data- attribute; none needs another.
const root = document.documentElement;
root.classList.add("js");

// data-copy="text" or data-copy-from="selector": copies, and says so for two seconds.
const say = (button, words) => {
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
  say(button, root.dataset.copied);
});

// <time data-time="relative|elapsed">: the same words as core/times.py, kept current.
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

// The zone of this browser, in which the server writes times for those who have chosen none.
const zone = `timezone=${Intl.DateTimeFormat().resolvedOptions().timeZone}`;
if (!document.cookie.split("; ").includes(zone)) {
  document.cookie = `${zone}; path=/; max-age=31536000; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;
}

// "/" goes to the search, Esc closes what is open; a menu closes when one clicks beside it.
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") for (const menu of document.querySelectorAll("details.dg-menu[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  event.preventDefault();
  document.getElementById("search")?.focus();
});
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.dg-menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});

// data-theme-form: switches at once, and tells the server behind it.
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
  fetch(form.action, { method: "POST", body, redirect: "manual", keepalive: true }); // also when one goes on at once
  form.closest("details").open = false;
  document.dispatchEvent(new Event("dg:theme"));
});

// data-dialog="id" opens a <dialog>; without it the same element is a link or a button of a plain form. What it
// showed before goes first: a form that htmx is about to replace must not take what somebody types.
document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-dialog]");
  if (opener) {
    event.preventDefault();
    const dialog = document.getElementById(opener.dataset.dialog);
    if (opener.hasAttribute("hx-get")) dialog?.replaceChildren(Object.assign(document.createElement("p"), { textContent: "Loading…", role: "status" }));
    dialog?.showModal();
    // A page that updates itself may have replaced what opened the dialog: focus goes back to its like.
    dialog?.addEventListener("close", () => {
      const href = opener.getAttribute("href");
      const like = opener.isConnected ? opener : href && document.querySelector(`[data-dialog][href="${CSS.escape(href)}"]`);
      like?.focus();
    }, { once: true });
  }
  const closer = event.target.closest("[data-close]");
  if (closer) {
    event.preventDefault();
    closer.closest("dialog")?.close();
  }
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

// form[data-send]: Ctrl or Cmd + Enter sends it by its main button.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  const form = event.target.closest("form[data-send]");
  if (!form) return;
  event.preventDefault();
  form.requestSubmit(form.querySelector(".btn-primary"));
});

// data-toast: goes away after six seconds, unless the pointer rests on it.
const hideToasts = () => {
  for (const toast of document.querySelectorAll("[data-toast]:not([data-seen])")) {
    toast.dataset.seen = "";
    const go = () => { if (toast.matches(":hover, :focus-within")) setTimeout(go, 2000); else toast.remove(); };
    setTimeout(go, 6000);
  }
};

// data-dismiss: closes the toast it stands in.
document.addEventListener("click", (event) => event.target.closest("[data-dismiss]")?.closest(".dg-toast")?.remove());

// What the server refuses to an htmx request is shown as a toast that stays: the sentence of its error page.
document.addEventListener("htmx:responseError", (event) => {
  const answer = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html").querySelector("[data-error] p");
  const toast = document.createElement("div");
  toast.className = "dg-toast bad";
  toast.textContent = answer?.textContent ?? `${event.detail.xhr.status} ${event.detail.xhr.statusText}`;
  document.getElementById("messages")?.append(toast);
});

// A list's form sends neither empty fields nor the columns that are shown anyway: addresses stay short enough to pass on.
document.addEventListener("htmx:configRequest", ({ detail: { elt, formData } }) => {
  if (elt.id !== "listing-form") return;
  for (const [name, value] of [...formData]) if (value === "" || value === "unknown") formData.delete(name);
  const columns = [...elt.querySelectorAll("[name=col]")];
  if (columns.every((box) => box.checked === box.hasAttribute("data-shown"))) formData.delete("col");
});

// Charts are fetched where a page has one.
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
