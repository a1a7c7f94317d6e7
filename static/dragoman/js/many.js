// Choosing rows of a list: all on the page, a range with Shift, the row in focus with x. Without this the boxes still work.
const form = document.getElementById("many");
const ticks = () => [...document.querySelectorAll("[data-tick]")];
let last = null;
const count = () => {
  const chosen = ticks().filter((box) => box.checked).length;
  const said = form.querySelector("[data-count]");
  said.textContent = chosen ? said.dataset.words.replace("{}", chosen) : "";
  const page = form.querySelector("[data-page]");
  page.checked = chosen > 0 && chosen === ticks().length;
  page.indeterminate = chosen > 0 && !page.checked;
  for (const box of ticks()) box.closest("tr").classList.toggle("sel", box.checked);
};
document.addEventListener("click", (event) => {
  const box = event.target.closest("[data-tick]");
  if (!box) return;
  const all = ticks();
  if (event.shiftKey && last && all.includes(last)) {
    const [from, to] = [all.indexOf(last), all.indexOf(box)].sort((one, other) => one - other);
    for (const between of all.slice(from, to + 1)) between.checked = box.checked;
  }
  last = box;
});
document.addEventListener("change", (event) => {
  if (!form) return;
  if (event.target.matches("[data-page]")) for (const box of ticks()) box.checked = event.target.checked;
  count();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "x" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input:not([type=checkbox]), textarea, select")) return;
  event.target.closest("tr")?.querySelector("[data-tick]")?.click();
});
// The list changes its address without a reload: what "all that match" means is what the address says now.
form?.addEventListener("submit", () => {
  for (const field of form.querySelectorAll("[data-query]")) field.remove();
  if (!form.elements.all.checked) return;
  for (const [name, value] of new URLSearchParams(location.search)) {
    form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
  }
});
document.addEventListener("htmx:afterSettle", () => { if (form) count(); });
