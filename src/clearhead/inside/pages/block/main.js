// The chosen block and token decide what is drawn; the order of the parts is the model's own.

const { tokens, blocks, anatomy, pre_norm } = facts;
const state = { layer: remembered("layer", blocks.length) ?? facts.layer, token: remembered("token", tokens.length) ?? Math.min(1, tokens.length - 1) };
const KINDS = { attention: "attention", "feed-forward": "forward", "first sum": "sum", "second sum": "sum" };
const NAMES = { before: "enters", "first sum": "add", "second sum": "add", "first norm": "norm", "second norm": "norm" };
const gate = anatomy.gated ? "gated feed-forward" : "feed-forward";

query("#lead").textContent = `${facts.family}, with the numbers of one pass. ` + (pre_norm
  ? "What enters is normalised on its way into each part, and each part's result is added to what was there: the residual stream is never normalised itself."
  : "Each part's result is added to what was there, and the sum is normalised, as in 2017.");
query("#size").textContent = `${anatomy.heads} heads, ${gate} ${facts.width} → ${anatomy.inner} → ${facts.width}${anatomy.act ? `, ${anatomy.act}` : ""}.`;
query("#layer").append(...blocks.map((_, i) => new Option(i + 1, i)));
query("#token").append(...tokens.map((token, i) => new Option(`${i + 1} ${plainToken(token)}`, i)));

const stages = Object.keys(blocks[0]).toReversed().map((name) => {
  const title = NAMES[name] ?? (name === "feed-forward" ? gate : name);
  const before = pre_norm && KINDS[name] && KINDS[name] !== "sum" ? element("small", {}, "norm → ") : "";
  const label = element("span", { className: "name" }, before, title);
  label.dataset.kind = KINDS[name] ?? "";
  const [bars, long] = [element("div"), element("span", { className: "length" })];
  query("#stages").append(element("li", {}, label, bars, long));
  return { name, bars, long, before };
});

// some features are so large that the others would be no bars
const fullBar = (rows) => {
  const sizes = rows.flat().map(Math.abs).sort((a, b) => a - b);
  return sizes[Math.floor(0.97 * (sizes.length - 1))] || 1;
};

function show() {
  const block = blocks[state.layer];
  query("#layer").value = state.layer;
  query("#token").value = state.token;
  for (const { name, bars, long, before } of stages) {
    if (name === "attention" && before) before.hidden = !facts.normed[state.layer];
    const { values, norms } = block[name];
    const most = fullBar(values);
    vectorBars(bars, values[state.token], most);
    long.textContent = norms[state.token].toFixed(2);
    long.title = `length of all ${facts.width} features; a bar is full at ${most.toFixed(2)}`;
  }
  streamBars(query("#stream"), tokens, block, state.token, (token) => change({ token }));
  query(".spoken").textContent = `Block ${state.layer + 1}, ${plainToken(tokens[state.token])}.`;
}

function change(next) {
  Object.assign(state, next);
  remember(state); // what nobody has chosen is not handed on to other views
  show();
}

const step = (name, by, count) => change({ [name]: (state[name] + by + count) % count });
query("#layer").addEventListener("change", ({ target }) => change({ layer: Number(target.value) }));
query("#token").addEventListener("change", ({ target }) => change({ token: Number(target.value) }));
query("#back").addEventListener("click", () => step("layer", -1, blocks.length));
query("#next").addEventListener("click", () => step("layer", 1, blocks.length));
addEventListener("keydown", (event) => {
  if (event.target.closest?.("select, input, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const move = { ArrowUp: ["layer", 1, blocks.length], ArrowDown: ["layer", -1, blocks.length], ArrowRight: ["token", 1, tokens.length], ArrowLeft: ["token", -1, tokens.length] };
  if (!move[event.key]) return;
  event.preventDefault();
  step(...move[event.key]);
});
query("#legend").textContent = `The first ${blocks[0].before.values[0].length} of ${facts.width} features as bars; the number is the length of the whole vector. ` +
  "Orange beside a token: attention; blue: feed-forward.";
show();
