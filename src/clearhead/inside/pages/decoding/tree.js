// The tree of beginnings: a column for each step, lines from a beginning to those that went on from it.

const CELL = { width: 94, height: 40, gap: 20 };

// draw the tree into the page's svg; `choose` is called with the number of a node
function drawTree(nodes, path, greedy, choose) {
  const depth = [];
  nodes.forEach((node, i) => (depth[i] = node.parent === null ? 0 : depth[node.parent] + 1));
  const columns = [];
  nodes.forEach((_, i) => (columns[depth[i]] ??= []).push(i));
  const place = (i) => [
    depth[i] * (CELL.width + CELL.gap) + 4, columns[depth[i]].indexOf(i) * (CELL.height + 8) + 4,
  ];
  const rows = Math.max(...columns.map((column) => column.length));
  const width = columns.length * (CELL.width + CELL.gap) + 4;
  const height = rows * (CELL.height + 8) + 4;
  for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) {
    svg.setAttribute(name, value);
  }
  const kindOf = (i) => [path.includes(i) ? "strong" : "", greedy.includes(i) ? "greedy" : ""].join(" ");
  nodes.forEach((node, i) => {
    if (node.parent === null) return;
    const [[x1, y1], [x2, y2]] = [place(node.parent), place(i)];
    const from = `${x1 + CELL.width} ${y1 + CELL.height / 2}`;
    const bend = `${x2 - CELL.gap / 2} ${y1 + CELL.height / 2} ${x2 - CELL.gap / 2} ${y2 + CELL.height / 2}`;
    const strong = path.includes(i) ? "strong" : "";
    svg.append(drawn("path", { d: `M ${from} C ${bend} ${x2} ${y2 + CELL.height / 2}`, class: strong }));
  });
  return nodes.map((node, i) => {
    const [x, y] = place(i);
    const word = node.token === null ? "start" : plainToken(node.token);
    const short = word.length > 11 ? `${word.slice(0, 10)}…` : word;
    const score = node.score === null || node.token === null ? "" : `Σ ${node.score.toFixed(2).replace("-", "−")}`;
    const box = drawn("g", { class: kindOf(i), tabindex: 0, role: "button" },
      drawn("rect", { x, y, width: CELL.width, height: CELL.height, rx: 6 }),
      drawn("text", { x: x + 8, y: y + 17 }, short),
      drawn("text", { x: x + 8, y: y + 32, class: "number" }, node.chance === null ? "" : node.chance.toFixed(3)),
      drawn("text", { x: x + CELL.width - 7, y: y + 32, class: "number", "text-anchor": "end" }, score),
    );
    const told = greedy.includes(i) && !path.includes(i) ? ", greedy would have gone here" : "";
    const chances = `probability ${node.chance ?? 1}, log-probability so far ${node.score}`;
    box.append(drawn("title", {}, `${word}, which gives “${node.written}”: ${chances}${told}`));
    box.addEventListener("click", () => choose(i));
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") choose(i);
    });
    svg.append(box);
    return box;
  });
}
