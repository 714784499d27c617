// Sortable tables: columns are {title, key, text?, show?}, rows are records; a column sorts by row[key].
function table(columns, rows, { open = null, label = "" } = {}) {
  const body = el("tbody");
  const heads = columns.map((column) => {
    const button = el("button", { type: "button", onclick: () => sort(column) }, column.title);
    return el("th", { scope: "col", class: column.text ? "text" : null }, button);
  });
  let order = null;
  function fill(sorted) {
    body.replaceChildren(
      ...sorted.map((row) => {
        const cells = columns.map((column, index) => {
          const shown = column.show ? column.show(row) : column.text ? exact(row[column.key]) : number(row[column.key]);
          const kind = {
            class: [column.text ? "text" : "", column.best && column.best(row) ? "best" : ""].join(" ").trim() || null,
          };
          return el(index ? "td" : "th", index ? kind : { ...kind, scope: "row" }, ...[shown].flat());
        });
        if (!open) return el("tr", {}, ...cells);
        const go = () => open(row);
        const key = (event) => {
          if (event.key === "Enter") go();
        };
        return el("tr", { class: "open", tabindex: "0", onclick: go, onkeydown: key }, ...cells);
      }),
    );
  }
  function sort(column) {
    const rising = order && order.key === column.key ? !order.rising : Boolean(column.text);
    order = { key: column.key, rising };
    const value = (row) => row[column.key];
    const missing = (row) => value(row) === null || value(row) === undefined;
    fill(
      [...rows].sort((a, b) => {
        if (missing(a) || missing(b)) return missing(a) - missing(b);
        const compared =
          typeof value(a) === "number"
            ? value(a) - value(b)
            : String(value(a)).localeCompare(String(value(b)), "en", { numeric: true });
        return rising ? compared : -compared;
      }),
    );
    heads.forEach((head, index) => {
      if (columns[index] === column) head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
  }
  fill(rows);
  const inner = el("table", { "aria-label": label || null }, el("thead", {}, el("tr", {}, ...heads)), body);
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label || null }, inner);
}

const words = (title, key, show) => ({ title, key, show, text: true });
const numbers = (title, key, show) => ({ title, key, show });
const coded = (title, key) => words(title, key, (row) => code(row[key]));
const method = words("method", "method", (row) => named(row.method));
const task = words("task", "env");
