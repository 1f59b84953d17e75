// The slider walks along the best text; the tree may lead to any other beginning.

const { nodes, path, read, results, greedy } = facts;
const slider = query("#step");
const layers = nodes[0].attention.length;
const heads = facts.heads.length ? facts.heads[0][0].length : 0;
const looks = layers > 0;
let here = path[0]; // the node that is looked at
const chosenToken = (i) => nodes[path[i + 1]]?.token ?? nodes[path[i]].chosen[0] ?? null;
const mean = (rows) => rows[0].map((_, j) => rows.reduce((sum, row) => sum + row[j], 0) / rows.length);

// the weights of one node: of a layer and head, or their mean; other beginnings have the mean of the heads alone
function weightsOf(i, layer, head) {
  const step = path.indexOf(i);
  const each = step >= 0 && head !== "all" ? facts.heads[step].map((rows) => rows[Number(head)]) : nodes[i].attention;
  return layer === "all" ? mean(each) : each[Number(layer)];
}

// what a step could look at: the source, or the prompt and all that was written since
function seenBy(i) {
  if (facts.source) return read;
  const written = [];
  for (let at = i; nodes[at].parent !== null; at = nodes[at].parent) written.unshift(nodes[at].token);
  return [...read, ...written];
}

const matrixColumns = seenBy(path.at(-1)).map(plainToken);
function matrixOf(layer, head) {
  return path.map((i) => {
    const row = weightsOf(i, layer, head);
    return [...row, ...new Array(matrixColumns.length - row.length).fill(0)];
  });
}

query("#lead").textContent = (facts.source
  ? `${facts.family} has read ${read.length} tokens and writes beside them, one token at a time.`
  : `${facts.family} goes on from ${read.length} tokens, one token at a time.`) +
  " Each choice has its probability; a text has their product, in logarithms their sum.";
query("#layer").append(new Option("mean", "all"), ...Array.from({ length: layers }, (_, l) => new Option(l + 1, l)));
query("#head").append(new Option("mean", "all"), ...Array.from({ length: heads }, (_, h) => new Option(h + 1, h)));
query("#head-field").hidden = heads < 2;
query("#looked-pane").hidden = !looks;
query("#tree-pane").hidden = facts.beams < 2;
query("#looked-title").textContent = facts.source ? "Where it looked in the source" : "Where it looked back";
const minus = (value, digits = 2) => value.toFixed(digits).replace("-", "−");
const line = (name, { mean, log_prob, text, ended }) => element("tr", {},
  element("td", {}, name), element("td", {}, minus(mean, 3)), element("td", {}, minus(log_prob)),
  element("td", {}, ended ? text : `${text} …`));
query(".results tbody").append(
  ...results.map((one, i) => line(facts.beams > 1 ? `beam ${i + 1}` : "greedy", one)),
  ...(greedy ? [line("greedy", greedy)] : []),
);
if (greedy) {
  const same = greedy.text === results[0].text;
  const kept = greedy.nodes.length - 1;
  const left = kept < greedy.tokens ? `; the beams let go of it after ${kept} token${kept === 1 ? "" : "s"}` : "";
  query("#tree-note").textContent =
    "A number is the probability of the token, Σ the log-probability of all so far. The best text is drawn strong; " +
    (same ? "greedy goes the same way (dashed)."
      : `greedy would have gone where it is dashed, to “${greedy.text}” (${minus(greedy.log_prob)})${left}.`);
}
const rowNames = path.map((_, i) => plainToken(chosenToken(i) ?? (results[0].ended ? "(end)" : "…")));
const matrix = looks && heatmap(query("#matrix"), {
  name: "written × read", rows: rowNames, columns: matrixColumns, values: matrixOf("all", "all"), tall: 34,
});
const boxes = facts.beams > 1 ? drawTree(nodes, path, greedy?.nodes ?? [], choose) : [];

function showCandidates(node, step) {
  const next = step >= 0 ? [chosenToken(step)] : node.chosen;
  const spread = step >= 0 ? facts.spread[step] : null;
  const shares = spread && changedSpread() ? spreadOf(spread) : null;
  const most = Math.min(spread?.names.length ?? 0, Math.max(node.candidates.length, 8));
  const listed = shares
    ? spread.names.slice(0, most).map((name, i) => [name, shares[i]])
    : node.candidates;
  query(".candidates tbody").replaceChildren(...listed.map(([token, share], i) => {
    const cell = element("td", {}, share.toFixed(4));
    cell.style.setProperty("--share", share);
    const classes = [next.includes(token) ? "taken" : "", shares && !share ? "out" : "", pick === i ? "drawn" : ""];
    return element("tr", { className: classes.join(" ").trim() }, element("th", { scope: "row" }, wordOf(token)), cell);
  }));
  const left = shares ? shares.filter(Boolean).length : 0;
  query("#spread-note").textContent = shares
    ? `${left} of the ${spread.names.length} listed tokens may be drawn; the shares are those of sampling.` +
      (pick !== null && spread.names[pick] !== undefined ? ` Drawn: ${plainToken(spread.names[pick])}.` : "")
    : pick !== null && spread ? `Drawn: ${plainToken(spread.names[pick])}.` : "";
}

function show(i) {
  here = i;
  const node = nodes[i];
  const step = path.indexOf(i);
  if (step >= 0) slider.value = step;
  query("#step-name").textContent = step >= 0 ? `${step + 1} of ${path.length}` : "of another beginning";
  query("#written").textContent = node.written || "…";
  showCandidates(node, step);
  if (looks) {
    const weights = weightsOf(i, query("#layer").value, query("#head").value);
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

function choose(i) {
  pick = null;
  show(i);
}

slider.max = path.length - 1;
slider.value = remembered("step", path.length) ?? 0;
slider.addEventListener("input", () => {
  remember({ step: slider.value });
  choose(path[Number(slider.value)]);
});
for (const name of ["layer", "head"]) {
  query(`#${name}`).value = remembered(name, name === "layer" ? layers : heads) ?? "all";
  query(`#${name}`).addEventListener("change", (event) => {
    remember({ [name]: event.target.value === "all" ? null : event.target.value });
    matrix.show(matrixOf(query("#layer").value, query("#head").value));
    show(here);
  });
}
for (const [id, name, usual] of [["temperature", "temperature", 10], ["top-k", "k", NO_LIMIT], ["top-p", "p", 20]]) {
  const field = query(`#${id}`);
  choice[name] = remembered(name, NO_LIMIT + 1) || usual;
  field.value = choice[name];
  field.addEventListener("input", () => {
    choice[name] = Number(field.value);
    pick = null;
    remember({ [name]: choice[name] === usual ? null : choice[name] });
    tellSpread();
    show(here);
  });
}
query("#draw").addEventListener("click", () => {
  const step = path.indexOf(here);
  if (step < 0) return;
  pick = drawFrom(spreadOf(facts.spread[step]));
  show(here);
  if (pick === null) query("#spread-note").textContent = "Drawn: one of the many tokens that are not listed.";
});
tellSpread();
if (looks) matrix.show(matrixOf(query("#layer").value, query("#head").value));
show(path[Number(slider.value)]);
showBeside();
