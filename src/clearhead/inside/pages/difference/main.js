// The table of heads chooses whose difference is drawn.

const { tokens, differ, moved, scale } = facts;
const P = tokens.length;
const names = tokens.map((token) => token.split(" | ").map(plainToken).join(" | "));

async function unpack(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// low bytes first, then high bytes, each number with the scale added
async function changeOf(layer, head) {
  const bytes = await unpack(`layer-${layer}`);
  const half = bytes.length / 2;
  const value = (k) => ((bytes[k] | (bytes[half + k] << 8)) - scale) / scale;
  const start = head * P * P;
  return Array.from({ length: P }, (_, i) => Array.from({ length: P }, (_, j) => value(start + i * P + j)));
}

const most = largest(differ);
const buttons = differ.map((row, layer) => row.map((share, head) => {
  const label = `block ${layer + 1}, head ${head + 1}: ${share.toFixed(2)}`;
  const button = element("button", { type: "button", ariaLabel: label, title: label }, share.toFixed(2).slice(1));
  button.style.setProperty("--share", share / most);
  button.addEventListener("click", () => {
    remember({ layer, head });
    show(layer, head);
  });
  return button;
}));
query(".heads").append(
  element("tr", {}, element("td"), ...differ[0].map((_, head) => element("th", { scope: "col" }, String(head + 1)))),
  ...buttons.map((row, layer) =>
    element("tr", {}, element("th", { scope: "row" }, String(layer + 1)), ...row.map((one) => element("td", {}, one)))),
);

const empty = names.map(() => names.map(() => 0));
const change = heatmap(query("#change"), { name: "from × to", rows: names, columns: names, values: empty, square: true });
if (moved)
  heatmap(query("#moved"), {
    name: "block × token", rows: moved.map((_, l) => (l ? `block ${l}` : "embeddings")), columns: names, values: moved,
    most: largest(moved), tall: 44, digits: 3,
  });
query("#moved-pane").hidden = !moved;
query("#heads-pane").hidden = !facts.by_head;

let shown = 0;

async function show(layer, head) {
  const number = ++shown;
  buttons.forEach((row, l) => row.forEach((one, h) => (one.ariaPressed = String(l === layer && h === head))));
  query("#which").textContent = facts.by_head ? `Block ${layer + 1}, head ${head + 1}: who looks where` : "Mean of all heads: who looks where";
  const values = await changeOf(layer, head);
  if (number === shown) change.show(values, { most: Math.max(0.05, largest(values)) });
}

const told = facts.pairs.length === Math.max(facts.first.length, facts.second.length) ? "" : ` ${P} of their tokens are compared.`;
const [at, share] = differ.flat().reduce((best, value, i) => (value > best[1] ? [i, value] : best), [0, -1]);
query("#lead").textContent = share < 0.0005
  ? "Both passes attend alike, to three decimals."
  : `A has ${facts.first.length} tokens, B has ${facts.second.length}.${told}` + (facts.by_head
    ? ` They differ most in block ${Math.floor(at / differ[0].length) + 1}, head ${(at % differ[0].length) + 1}, where ${share.toFixed(2)} of the attention went elsewhere.`
    : " The models differ in their sizes, so means are compared.");
const layer = remembered("layer", differ.length) ?? facts.layer;
show(layer, remembered("head", differ[0].length) ?? facts.head);
addEventListener("hashchange", () => {
  const now = new URLSearchParams(location.hash.slice(1));
  const number = (name, end) => (/^\d{1,6}$/.test(now.get(name) ?? "") && Number(now.get(name)) < end ? Number(now.get(name)) : null);
  const [l, h] = [number("layer", differ.length), number("head", differ[0].length)];
  if (l !== null && h !== null) show(l, h);
});
