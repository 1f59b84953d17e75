// A card for each table, the lectures' rows first; those that were measured here are bold.

for (const { name, columns, lines } of facts.tables) {
  const head = element("tr", {}, element("td"), element("td"), ...columns.map((column) => element("th", { scope: "col" }, column)));
  const rows = lines.map(({ model, source, split, values }) => element("tr", { className: source === "lectures" ? "" : "ours" },
    element("th", { scope: "row" }, model), element("th", { className: "split" }, split),
    ...values.map((value) => {
      const cell = element("td", {}, value === null ? "–" : value.toFixed(1));
      cell.style.setProperty("--share", value === null ? 0 : Math.max(0, Math.min(1, value / 100)));
      return cell;
    })));
  const table = element("table", { className: "results" }, element("thead", {}, head), element("tbody", {}, ...rows));
  query("#tables").append(element("section", { className: "card pane" }, element("h2", {}, name), element("div", { className: "wide" }, table)));
}
