// One slider chooses the layer; the pictures that belong to a layer follow it.

const { tokens, hidden, similarity, said, kept } = facts;
const names = tokens.map(plainToken);
const L = hidden.length - 1;
const slider = query("#layer");

const alike = heatmap(query("#similarity"), {
  name: "token × token", rows: names, columns: names, values: similarity[L], square: true,
});
const shown = hidden[0][0].length;
// a few features are so large that they would leave no colour for the others
const most = hidden.flat(2).map(Math.abs).sort((a, b) => a - b)[Math.floor(0.99 * hidden.flat(2).length)] || 1;
const states = heatmap(query("#hidden"), {
  name: "token × feature", rows: names, columns: hidden[0][0].map((_, j) => String(j + 1)), values: hidden[L], most,
});
query("#shown").textContent = `The first ${shown} of ${facts.width} features; full colour from ${most.toFixed(2)} on.`;
heatmap(query("#kept"), {
  name: "layer × token", rows: kept.map((_, l) => `layer ${l + 1}`), columns: names, values: kept, tall: 40,
});
for (const [name, values] of Object.entries(facts.features)) {
  const box = element("div");
  query("#features").append(box);
  heatmap(box, { name, rows: names, columns: names, values, square: true, tall: 22 });
}

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
  query("#layer-name").textContent = layer === 0 ? "0, the embeddings" : layer === L ? `${layer}, the last` : layer;
  alike.show(similarity[layer]);
  states.show(hidden[layer]);
  if (said) query(".said").replaceChildren(...sayings(layer));
}

query("#said-pane").hidden = !said;
query("#asked").textContent = facts.head === "causal_lm" ? "The next token." : "The token itself, or the one behind a mask.";
slider.max = L;
slider.value = remembered("layer", L + 1) ?? L;
slider.addEventListener("input", () => {
  remember({ layer: slider.value });
  show(Number(slider.value));
});
query(".controls").addEventListener("submit", (event) => event.preventDefault());
show(Number(slider.value));
