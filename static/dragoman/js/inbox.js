// Keys of the inbox: j and k move through the list, x selects a row, b opens the bulk decision, a approves, d denies,
// q asks a question. Fields keep their keys; Escape leaves a field.
const items = () => [...document.querySelectorAll("[data-inbox] [data-item]")];
const here = (all) => all.findIndex((item) => item.getAttribute("aria-current"));
const MOVED = "dg:inbox-moved";
const move = (by) => {
  const all = items();
  const to = all[Math.min(Math.max(here(all) + by, 0), all.length - 1)];
  if (!to) return;
  sessionStorage.setItem(MOVED, "1");
  to.click();
};
// After a move by key, focus the new row instead of the top of the page.
if (sessionStorage.getItem(MOVED)) {
  sessionStorage.removeItem(MOVED);
  const all = items();
  all[here(all)]?.focus();
}
const noteOf = () => document.getElementById("note");
// a and d only focus their button (or the note that a denial needs), so that a slip decides nothing; Enter decides.
let denies = false;
const keys = {
  j: () => move(1),
  k: () => move(-1),
  x: () => {
    const all = items();
    const box = all[here(all)]?.parentElement.querySelector("[data-pick]");
    box?.focus();
    box?.click();
  },
  b: () => document.querySelector("#bulk button")?.click(),
  a: () => {
    denies = false;
    document.querySelector("[data-approve]")?.focus();
  },
  d: () => {
    denies = true;
    const note = noteOf();
    if (note && !note.value) note.focus();
    else document.querySelector("[data-deny]")?.focus();
  },
  q: () => {
    const ask = document.querySelector("[data-ask]");
    if (!ask) return;
    ask.open = true;
    ask.querySelector("textarea").focus();
  },
};
// The card comes after the list: a key of a button that is not there yet works once it is.
const OF_CARD = ["a", "d", "q"];
let early = "";
document.addEventListener("htmx:afterSettle", () => {
  if (!early || !document.getElementById("card-title")) return;
  keys[early]();
  early = "";
});
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input:not([type=checkbox]), textarea, select");
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (typing) {
    if (event.key === "Escape" && !typing.closest("dialog")) typing.blur();
    // In the note, Enter focuses the button of the decision; another Enter decides.
    if (event.key === "Enter" && typing === noteOf()) {
      event.preventDefault();
      document.querySelector(denies ? "[data-deny]" : "[data-approve]")?.focus();
    }
    return;
  }
  if (keys[event.key]) {
    event.preventDefault();
    early = OF_CARD.includes(event.key) && !document.getElementById("card-title") ? event.key : "";
    if (!early) keys[event.key]();
  }
});
// A saved reason is inserted into the note, where it can be edited. The focus stays on the select, so that arrow keys
// go through the reasons.
let inserted = "";
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-pick-all]")) for (const box of document.querySelectorAll("[data-pick]")) box.checked = event.target.checked;
  const reason = event.target.closest("[data-reason]"); // the card comes after the list
  if (!reason) return;
  const note = noteOf();
  const own = (inserted && note.value.endsWith(inserted) ? note.value.slice(0, -inserted.length) : note.value).trim();
  inserted = reason.value;
  note.value = [own, inserted].filter(Boolean).join(" ").slice(0, note.maxLength);
  denies = true;
});
