// The map and its table follow the slider; a point, its row and its text belong together.

const { occurrences, word } = facts;
const L = facts.maps.length - 1;
// Python counts characters, JavaScript counts half of some of them
const part = (text, start, end) => Array.from(text).slice(start, end).join("");
const short = ({ text, start, end, sense }, i) => `${i + 1} ${sense || part(text, Math.max(0, start - 14), end + 12)}`;
const names = occurrences.map(short);
const table = heatmap(query("#cosines"), {
  name: "occurrence × occurrence", rows: names, columns: occurrences.map((_, i) => `${i + 1} `),
  values: facts.cosines[L], least: lowest(facts.cosines[L]), square: true, tall: 48,
});

query("#lead").textContent =
  `“${word}” in ${occurrences.length} places: a model that reads the whole text gives each its own vector.`;
const rows = occurrences.map(({ text, start, end, sense }, i) => {
  const dot = element("span", { className: "dot", ariaHidden: "true" });
  dot.style.setProperty("--own", colourOf(sense));
  const said = element("bdi", {}, part(text, 0, start), element("mark", {}, part(text, start, end)), part(text, end));
  const kind = sense === "" ? [] : [element("span", { className: "sense" }, sense)];
  return element("li", {}, dot, element("span", { className: "number" }, String(i + 1)), said, ...kind);
});
query(".occurrences").append(...rows);

function point(index) {
  rows.forEach((row, i) => row.classList.toggle("chosen", i === index));
  points.forEach(({ circle }, i) => circle.classList.toggle("chosen", i === index));
  query("#pointed").textContent = index === null ? "\u00a0" : `${index + 1}: ${occurrences[index].text}`;
}

// banks is another word than bank, with another vector from the beginning
const forms = occurrences.map(({ text, start, end }) => part(text, start, end).toLowerCase());
const others = [...new Set(forms)].filter((form) => form !== word.toLowerCase());
const leastOfOneForm = (layer) => Math.min(...facts.cosines[layer].flatMap((row, i) => row.filter((_, j) => forms[i] === forms[j])));

// whether each occurrence is nearest to one of its own sense; if not, how near it was
function verdict(layer) {
  const astray = facts.astray?.[layer];
  if (!astray) return "";
  if (!astray.length) return "Told apart: each is nearest to one of its own sense.";
  const near = (i, j) => facts.cosines[layer][i][j];
  const own = (i) => Math.max(...occurrences.map((one, j) =>
    j !== i && one.sense === occurrences[i].sense ? near(i, j) : -1));
  const same = astray.filter(([i, j]) => near(i, j) === 1).length;
  const apart = astray.filter(([i, j]) => near(i, j) < 1);
  const said = apart.map(([i, j]) => `${i + 1} is nearest to ${j + 1} (${near(i, j).toFixed(3)}), to its own ${own(i).toFixed(3)}`);
  if (same) said.unshift(`${same} have the very vector of another sense`);
  return `Not told apart: ${said.slice(0, 3).join("; ")}${said.length > 3 ? `; and ${said.length - 3} more` : ""}.`;
}

function show(layer) {
  place(facts.maps[layer]);
  table.show(facts.cosines[layer], { least: lowest(facts.cosines[layer]) });
  const [x, y] = facts.shares[layer].map((share) => Math.round(100 * share));
  query("#shares").textContent = x + y
    ? `The two directions in which the vectors differ most: ${x} % and ${y} % of the variance.`
    : "The vectors do not differ here.";
  const gap = facts.gaps?.[layer];
  const [least, first] = [layer, 0].map(leastOfOneForm);
  query("#static").textContent = layer === 0
    ? `One vector, many meanings: before any attention “${word}” is the same everywhere (smallest cosine ${least.toFixed(3)}), ` +
      `as in word2vec; only positions may differ.${others.map((form) => ` “${form}” is another word, with a vector of its own.`).join("")}`
    : `In context every “${word}” has a vector of its own: the smallest cosine of two is ${least.toFixed(3)} here, ` +
      `${first.toFixed(3)} in the embeddings.`;
  query("#gap").textContent = gap
    ? `Mean cosine ${gap.same.toFixed(3)} within a sense, ${gap.different.toFixed(3)} between senses. ${verdict(layer)}` : "";
}

chooseLayer(L, show);
