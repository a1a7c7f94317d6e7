// Keys of the approvals inbox: j and k move through the list, x chooses a row, a approves, d denies, q asks. Typing in
// a field stays typing.
const items = () => [...document.querySelectorAll("[data-inbox] [data-item]")];
const here = (all) => all.findIndex((item) => item.getAttribute("aria-current"));
const move = (by) => {
  const all = items();
  all[Math.min(Math.max(here(all) + by, 0), all.length - 1)]?.click();
};
// The answers only move the focus to their button (or to the note that a denial needs): Enter decides, not a slip.
const keys = {
  j: () => move(1),
  k: () => move(-1),
  x: () => {
    const all = items();
    all[here(all)]?.parentElement.querySelector("[data-pick]")?.click();
  },
  a: () => document.querySelector("[data-approve]")?.focus(),
  d: () => {
    const note = document.getElementById("note");
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
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input:not([type=checkbox]), textarea, select");
  if (event.ctrlKey || event.metaKey || event.altKey || typing) return;
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});
// A reason that is ready to use is put into the note, where it can still be changed.
document.querySelector("[data-reason]")?.addEventListener("change", (event) => {
  const note = document.getElementById("note");
  note.value = event.target.value;
  event.target.value = "";
  note.focus();
});
