// The pictures that belong to a layer follow its slider.

const { tokens, hidden, similarity, said, kept } = facts;
const names = tokens.map(plainToken);
const L = hidden.length - 1;

const alike = heatmap(query("#similarity"), {
  name: "token × token", rows: names, columns: names, values: similarity[L], square: true, digits: 3,
});
const shown = hidden[0][0].length;
// a few features are so large that they would leave no colour for the others
function fullColour(values) {
  const sizes = values.flat().map(Math.abs).sort((a, b) => a - b);
  return sizes[Math.floor(0.99 * sizes.length)] || 1;
}
const states = heatmap(query("#hidden"), {
  name: "token × feature", rows: names, columns: hidden[0][0].map((_, j) => String(j + 1)), values: hidden[L],
});
heatmap(query("#kept"), {
  name: "layer × token", rows: kept.map((_, l) => `layer ${l + 1}`), columns: names, values: kept, tall: 40,
  least: lowest(kept), digits: 3,
});
for (const [name, values] of Object.entries(facts.features)) {
  const box = element("div");
  query("#features").append(box);
  heatmap(box, { name, rows: names, columns: names, values, least: lowest(values), square: true, tall: 22, digits: 3 });
}

query(".conll tbody").append(...Object.entries(facts.conll).map(([name, scores]) =>
  element("tr", {}, element("th", { scope: "row" }, name), ...scores.map((score) => {
    const cell = element("td", {}, score.toFixed(1));
    cell.style.setProperty("--share", (score - 40) / 60);
    return cell;
  }))));

function sayings(layer) {
  return said[layer].map((guesses, i) =>
    element("tr", {}, element("th", { scope: "row" }, wordOf(tokens[i])), ...guesses.map(([token, share]) => {
      const cell = element("td", {}, wordOf(token), element("small", {}, share.toFixed(2)));
      cell.style.setProperty("--share", share);
      return cell;
    })),
  );
}

function show(layer) {
  const [least, most] = [lowest(similarity[layer]), fullColour(hidden[layer])];
  alike.show(similarity[layer], { least });
  query("#alike").textContent = `Cosine of their vectors in this layer; no colour at ${least.toFixed(2)}, full at 1.`;
  states.show(hidden[layer], { most });
  query("#shown").textContent =
    `The first ${shown} of ${facts.width} features; full colour from ${most.toFixed(2)} on, in this layer.`;
  if (said) query(".said").replaceChildren(...sayings(layer));
}

query("#stream").hidden = !facts.stream;
query("#said-pane").hidden = !said;
query("#asked").textContent = facts.head === "causal_lm" ? "The next token." : "The token itself, or the one behind a mask.";
chooseLayer(L, show);
