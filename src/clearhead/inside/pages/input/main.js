// The table of pieces, then a picture for each summand.

const { tokens, vectors, width } = facts;
const line = (name, cells) => element("tr", {}, element("th", { scope: "row" }, name), ...cells);
const cell = (index, content) =>
  element("td", { className: facts.segments[index] === 2 ? "second" : "" }, content);

query(".pieces").append(
  line("text", facts.words.map((word, i) => cell(i, word))),
  line("piece", tokens.map((token, i) => cell(i, wordOf(token)))),
  line("id", facts.ids.map((id, i) => cell(i, String(id)))),
  line("position", facts.positions.map((position, i) => cell(i, String(position)))),
  line("sentence", facts.segments.map((segment, i) => cell(i, String(segment)))),
  ...("capitals" in facts ? [line("capitals", facts.capitals.map((kind, i) => cell(i, kind)))] : []),
);

const shown = vectors.token[0].length;
query("#shown").textContent =
  (shown < width ? `The first ${shown} of ${width} features.` : `All ${width} features.`) +
  ("position" in vectors ? "" : " This model adds no positions here: its attention brings them in.") +
  ("segment" in vectors ? "" : " It adds no vector for the sentence: two texts are told apart by what stands between.") +
  ("capital" in vectors ? " It adds one for the capitals of the word, which pieces do not have: none, some or all." : "");

const SIGNS = {
  token: "", position: "+", segment: "+", capital: "+",
  sum: "=", normalised: "→ norm", projected: "→ projection",
};
for (const [name, values] of Object.entries(vectors)) {
  const box = element("div");
  box.dataset.sign = SIGNS[name];
  query("#vectors").append(box);
  const columns = values[0].map((_, j) => String(j + 1));
  heatmap(box, { name, rows: tokens.map(plainToken), columns, values, most: largest(values), digits: 3 });
}
