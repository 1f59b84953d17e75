// The slider walks along the best text; the tree may lead to any other beginning.

const { nodes, path, read, results } = facts;
const slider = query("#step");
const layers = nodes[0].attention.length;
const looks = layers > 0;
const chosenToken = (i) => nodes[path[i + 1]]?.token ?? nodes[path[i]].chosen[0] ?? null;
const mean = (rows) => rows[0].map((_, j) => rows.reduce((sum, row) => sum + row[j], 0) / rows.length);
const weightsOf = (node, layer) => (layer === "all" ? mean(node.attention) : node.attention[Number(layer)]);

// what a step could look at: the source, or the prompt and all that was written since
function seenBy(i) {
  if (facts.source) return read;
  const written = [];
  for (let at = i; nodes[at].parent !== null; at = nodes[at].parent) written.unshift(nodes[at].token);
  return [...read, ...written];
}

const matrixColumns = seenBy(path.at(-1)).map(plainToken);
function matrixOf(layer) {
  return path.map((i) => {
    const row = weightsOf(nodes[i], layer);
    return [...row, ...new Array(matrixColumns.length - row.length).fill(0)];
  });
}

query("#lead").textContent = facts.source
  ? `The model has read ${read.length} tokens and writes beside them, one token at a time.`
  : `The model goes on from ${read.length} tokens, one token at a time.`;
query("#layer").append(new Option("mean of all", "all"), ...Array.from({ length: layers }, (_, l) => new Option(l, l)));
query("#layer-field").hidden = layers < 2;
query("#looked-pane").hidden = query("#matrix-pane").hidden = !looks;
query("#tree-pane").hidden = facts.beams < 2;
query("#looked-title").textContent = facts.source ? "Where it looked in the source" : "Where it looked back";
query(".results tbody").append(...results.map(({ score, text, ended }) =>
  element("tr", {}, element("td", {}, score.toFixed(3)), element("td", {}, ended ? text : `${text} …`)),
));
const rowNames = path.map((_, i) => plainToken(chosenToken(i) ?? (results[0].ended ? "(end)" : "…")));
const matrix = looks && heatmap(query("#matrix"), {
  name: "written × read", rows: rowNames, columns: matrixColumns, values: matrixOf("all"), tall: 40,
});
const boxes = facts.beams > 1 ? drawTree(nodes, path, show) : [];

function show(i) {
  const node = nodes[i];
  const step = path.indexOf(i);
  if (step >= 0) slider.value = step;
  query("#step-name").textContent = step >= 0 ? `${step + 1} of ${path.length}` : "of another beginning";
  query("#written").textContent = node.written || "(nothing yet)";
  const next = step >= 0 ? [chosenToken(step)] : node.chosen;
  query(".candidates tbody").replaceChildren(...node.candidates.map(([token, share]) => {
    const cell = element("td", {}, share.toFixed(4));
    cell.style.setProperty("--share", share);
    const taken = next.includes(token) ? "taken" : "";
    return element("tr", { className: taken }, element("th", { scope: "row" }, wordOf(token)), cell);
  }));
  if (looks) {
    const weights = weightsOf(node, query("#layer").value);
    query("#looked").replaceChildren(...seenBy(i).map((token, j) => {
      const word = element("span", { title: weights[j].toFixed(3) }, wordOf(token));
      word.style.setProperty("--share", weights[j]);
      return word;
    }));
  }
  boxes.forEach((box, j) => box.classList.toggle("here", j === i));
  const [token, share] = node.candidates[0];
  query(".spoken").textContent = `most likely next: ${plainToken(token)}, ${share.toFixed(2)}`;
}

slider.max = path.length - 1;
slider.value = remembered("step", path.length) ?? 0;
slider.addEventListener("input", () => {
  remember({ step: slider.value });
  show(path[Number(slider.value)]);
});
query("#layer").addEventListener("change", (event) => {
  matrix.show(matrixOf(event.target.value));
  show(path[Number(slider.value)]);
});
show(path[Number(slider.value)]);
