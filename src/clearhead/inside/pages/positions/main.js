// The sliders draw sines and cosines anew; below, a card for each way to write positions that Python has computed.

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

const SLIDE = 4; // rows that are written as numbers: those of the slide, and one more

function show() {
  const [width, base] = [widthOf(), 10 ** choice.base];
  const rows = sinusoidal(choice.long, width, base);
  for (const [name, text] of [["wide", width], ["base", base.toLocaleString("en")], ["long", choice.long]]) {
    query(`#${name}`).value = choice[name];
    query(`#${name}-shown`).textContent = text;
  }
  drawCurves(rows);
  query("#drawn").replaceChildren();
  heatmap(query("#drawn"), {
    name: "position × feature", rows: count(rows.length, 0), columns: count(width, 1), values: rows, digits: 4, tall: 34,
  });
  query("#first").hidden = width > 8;
  query("#first").replaceChildren(...rows.slice(0, SLIDE).map((row, i) => element("tr", {}, element("th", { scope: "row" }, `position ${i}`),
    ...row.map((value) => element("td", {}, String(Number(value.toFixed(4))).replace("-", "−"))))));
  query(".spoken").textContent = `Width ${width}, base ${base}, ${choice.long} positions.`;
  remember({ wide: choice.wide, base: choice.base, long: choice.long });
}

for (const [name, most] of [["wide", 7], ["base", 7], ["long", 129]]) {
  choice[name] = remembered(name, most) || choice[name];
  query(`#${name}`).addEventListener("input", ({ target }) => {
    choice[name] = Number(target.value);
    show();
  });
}
query("#slide").addEventListener("click", () => {
  Object.assign(choice, { wide: 1, base: 4, long: 24 });
  show();
});
query("#wide").max = WIDTHS.length;
dark.addEventListener("change", show);
show();

const { swapped } = facts;
query("#swapped").hidden = !swapped;
if (swapped) {
  const { tokens, places, alike } = swapped;
  const words = places.map((place) => `“${plainToken(tokens[place])}”`).join(" and ");
  query("#swapped-note").textContent = `${words} are exchanged, and each token is compared with itself: the cosine of its last ` +
    "vector before and after. " + (alike.without.every((value) => value >= 0.999)
      ? "Without positions nothing changes at all: the words are a bag."
      : "Without positions it still changes: a token that sees only what is before it knows some of the order.");
  const line = (name, values) => element("tr", {}, element("th", { scope: "row" }, name), ...values.map((value) => {
    const cell = element("td", {}, value.toFixed(3));
    cell.style.setProperty("--share", Math.max(0, value));
    return cell;
  }));
  query("#alike").append(
    element("tr", {}, element("td"), ...tokens.map((token, i) =>
      element("th", { scope: "col", className: places.includes(i) ? "moved" : "" }, wordOf(token)))),
    line("with positions", alike.with), line("without", alike.without));
}
