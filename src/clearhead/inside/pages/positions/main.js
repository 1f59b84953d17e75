// A card for each way to write positions: its vectors, and how alike they are.

const count = (n, from) => Array.from({ length: n }, (_, i) => String(i + from));

for (const { name, about, features, vectors, similarity } of facts.tables) {
  const [left, right] = [element("div"), element("div")];
  const heading = element("h2", {}, name[0].toUpperCase() + name.slice(1));
  const grid = element("div", { className: "grid" }, left, right);
  const note = element("p", { className: "note" }, about);
  query("#tables").append(element("section", { className: "card pane" }, heading, note, grid));
  const rows = count(vectors.length, 0);
  const columns = count(vectors[0].length, 1);
  heatmap(left, { name: `position × ${features}`, rows, columns, values: vectors, most: largest(vectors), digits: 3 });
  heatmap(right, { name: "similarity of positions", rows, columns: rows, values: similarity, square: true });
}
