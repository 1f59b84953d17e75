// Three translators of the same text: what each wrote, what it could look at, and how good each is by length.

const { models, target, quality } = facts;
mixColours(models.length);
dark.addEventListener("change", () => mixColours(models.length));

query("#lead").textContent =
  `Three networks of ${facts.width} features have learnt${facts.here ? ", just now," : ""} to translate German numbers: ${facts.steps} steps on ` +
  `${facts.pairs.toLocaleString("en")} pairs of 1 to ${facts.learnt} numbers. The ones come first in German, the tens in English. ` +
  "The first network has one vector for the whole text; the others may look back.";

const wordsOf = (text) => text.split(" ").filter(Boolean);
const line = (name, words, className = "") =>
  element("tr", { className }, element("th", { scope: "row" }, name), ...words.map((word, i) =>
    element("td", { className: className || word === target[i] ? "" : "wrong" }, word)));
query(".said tbody").append(
  line("German", facts.source, "true"), line("English", target, "true"),
  ...models.map(({ name, text }) => line(name, wordsOf(text))),
);

for (const { name, text, read, written, attention, bottleneck } of models) {
  const right = wordsOf(text).filter((word, i) => word === target[i]).length;
  const box = element("div");
  const note = bottleneck.length
    ? `All that it knows of the ${read.length} tokens it has read are these ${bottleneck.length} numbers.`
    : "Each row is what a written token looked at.";
  const told = element("p", { className: "note" }, `${right} of ${target.length} words right. ${note}`);
  query("#models").append(element("section", { className: "card pane" }, element("h2", {}, name), told, box));
  if (attention.length)
    heatmap(box, {
      name: "written × read", rows: written.slice(0, attention.length).map(plainToken), columns: read.map(plainToken),
      values: attention, tall: 30,
    });
  else {
    // twelve to a row, since one row of all would be a line
    const rows = [];
    for (let at = 0; at < bottleneck.length; at += 12) rows.push(bottleneck.slice(at, at + 12));
    heatmap(box, {
      name: "the one vector", rows: rows.map((_, i) => `${12 * i + 1}–${12 * i + rows[i].length}`),
      columns: rows[0].map((_, j) => String(j + 1)), values: rows, most: largest(rows), digits: 3,
    });
  }
}

const numbersOf = ([low, high]) => (low === high ? `${low / 3}` : `${low / 3}–${high / 3}`); // three German words each
query("#quality-note").textContent =
  `chrF of ${quality.pairs} texts that nobody has seen, 20 of each length. None had read more than ${facts.learnt} numbers.`;

const [LEFT, TOP, WIDE, HIGH] = [44, 12, 580, 196];
const x = (i) => LEFT + 40 + (i * (WIDE - 80)) / (quality.words.length - 1);
const y = (value) => TOP + (1 - value / 100) * HIGH;
svg.append(
  ...[0, 25, 50, 75, 100].flatMap((value) => [
    drawn("line", { class: "grid-line", x1: LEFT, x2: LEFT + WIDE, y1: y(value), y2: y(value) }),
    drawn("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, value),
  ]),
  ...quality.words.map((words, i) => drawn("text", { x: x(i), y: TOP + HIGH + 20, "text-anchor": "middle" }, numbersOf(words))),
  drawn("text", { x: LEFT + WIDE, y: TOP + HIGH + 38, "text-anchor": "end" }, "numbers of the text"),
  ...quality.scores.map(({ family, chrf }, i) => {
    const made = drawn("polyline", { points: chrf.map((value, j) => `${x(j)},${y(value)}`).join(" ") }, drawn("title", {}, family));
    made.style.stroke = tint(i);
    return made;
  }),
);
query(".quality").append(
  element("thead", {}, element("tr", {}, element("td"), ...quality.words.map((words) => element("th", { scope: "col" }, numbersOf(words))))),
  element("tbody", {}, ...quality.scores.map(({ family, chrf }, i) => {
    const key = element("span", { className: "key" });
    key.style.background = tint(i);
    return element("tr", {}, element("th", { scope: "row" }, key, family), ...chrf.map((value) => element("td", {}, value.toFixed(1))));
  })),
);
