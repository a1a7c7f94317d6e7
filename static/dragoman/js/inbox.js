// Keys of the approvals inbox: j and k move through the list, x chooses a row, b goes on with the chosen, a approves,
// d denies, q asks. Typing in a field stays typing; Escape leaves it.
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
// Who moved by key goes on from the row they moved to, not from the top of the page.
if (sessionStorage.getItem(MOVED)) {
  sessionStorage.removeItem(MOVED);
  const all = items();
  all[here(all)]?.focus();
}
const noteOf = () => document.getElementById("note");
// The answers only move the focus to their button (or to the note that a denial needs): Enter decides, not a slip.
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
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input:not([type=checkbox]), textarea, select");
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (typing) {
    if (event.key === "Escape" && !typing.closest("dialog")) typing.blur();
    // From the note Enter goes to the answer that was begun; there it decides.
    if (event.key === "Enter" && typing === noteOf()) {
      event.preventDefault();
      document.querySelector(denies ? "[data-deny]" : "[data-approve]")?.focus();
    }
    return;
  }
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});
// A reason that is ready to use is put into the note, where it can still be changed. The focus stays: who goes through
// the reasons by arrow keys changes the choice with each of them.
const reason = document.querySelector("[data-reason]");
let ready = "";
reason?.addEventListener("change", () => {
  const note = noteOf();
  const own = (ready && note.value.endsWith(ready) ? note.value.slice(0, -ready.length) : note.value).trim();
  ready = reason.value;
  note.value = [own, ready].filter(Boolean).join(" ").slice(0, note.maxLength);
  denies = true;
});
