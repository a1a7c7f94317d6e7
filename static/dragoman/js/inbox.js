// Keys of the approvals inbox: j and k move through the list, a approves, d denies. Typing in a field stays typing.
const items = () => [...document.querySelectorAll("[data-inbox] [data-item]")];
const move = (by) => {
  const all = items();
  const here = all.findIndex((item) => item.getAttribute("aria-current"));
  all[Math.min(Math.max(here + by, 0), all.length - 1)]?.click();
};
// Both answers only move the focus to their button (or to the note that a denial needs): Enter decides, not a slip.
const keys = {
  j: () => move(1),
  k: () => move(-1),
  a: () => document.querySelector("[data-approve]")?.focus(),
  d: () => {
    const note = document.getElementById("note");
    if (note && !note.value) note.focus();
    else document.querySelector("[data-deny]")?.focus();
  },
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});
