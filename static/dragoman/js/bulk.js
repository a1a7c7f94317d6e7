// Selecting rows of a list: all on the page, a range with Shift, the focused row with x. The checkboxes work without it.
const form = document.getElementById("bulk");
const checkboxes = () => [...document.querySelectorAll("[data-tick]")];
let last = null;
const count = () => {
  const selected = checkboxes().filter((box) => box.checked).length;
  const counter = form.querySelector("[data-count]");
  counter.textContent = selected ? counter.dataset.words.replace("{}", selected) : "";
  const page = form.querySelector("[data-page]");
  page.checked = selected > 0 && selected === checkboxes().length;
  page.indeterminate = selected > 0 && !page.checked;
  for (const box of checkboxes()) box.closest("tr").classList.toggle("sel", box.checked);
};
document.addEventListener("click", (event) => {
  const box = event.target.closest("[data-tick]");
  if (!box) return;
  const all = checkboxes();
  if (event.shiftKey && last && all.includes(last)) {
    const [from, to] = [all.indexOf(last), all.indexOf(box)].sort((first, second) => first - second);
    for (const between of all.slice(from, to + 1)) between.checked = box.checked;
  }
  last = box;
});
document.addEventListener("change", (event) => {
  if (!form) return;
  if (event.target.matches("[data-page]")) for (const box of checkboxes()) box.checked = event.target.checked;
  count();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "x" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input:not([type=checkbox]), textarea, select")) return;
  event.target.closest("tr")?.querySelector("[data-tick]")?.click();
});
// The list changes its address without a reload, so "all that match" reads the filters from the current address.
form?.addEventListener("submit", () => {
  for (const field of form.querySelectorAll("[data-query]")) field.remove();
  if (!form.elements.all.checked) return;
  for (const [name, value] of new URLSearchParams(location.search)) {
    form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
  }
});
document.addEventListener("htmx:afterSettle", () => { if (form) count(); });
