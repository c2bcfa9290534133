for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th"), body = head.closest("table").tBodies[0];
    const column = head.cellIndex, up = head.getAttribute("aria-sort") !== "ascending";
    const key = row => row.cells[column].dataset.key ?? row.cells[column].textContent;
    const order = (a, b) => isNaN(key(a)) || isNaN(key(b)) ? key(a).localeCompare(key(b)) : key(a) - key(b);
    const rows = [...body.rows].filter(row => !row.classList.contains("more")).sort((a, b) => up ? order(a, b) : order(b, a));
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    body.append(...rows.flatMap(row => {
      const more = document.getElementById(row.querySelector("td button")?.getAttribute("aria-controls"));
      return more ? [row, more] : [row];
    }));
  });
}
for (const button of document.querySelectorAll("td button")) {
  button.addEventListener("click", () => {
    const more = document.getElementById(button.getAttribute("aria-controls"));
    more.hidden = !more.hidden;
    button.setAttribute("aria-expanded", String(!more.hidden));
  });
}
