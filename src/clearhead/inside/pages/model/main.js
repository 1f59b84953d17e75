// The drawing is made anew for every choice, at the size that there is room for.

const sides = facts.sides;
const box = query("#box");
const state = { side: 0, open: sides.map(() => 0), token: null }; // the open block of each stack

sides.forEach((side, i) => {
  side.reads = i === sides.length - 1 ? facts.answer?.reads ?? [] : [];
  side.headed = i === sides.length - 1 && facts.answer ? HEAD_NAMES[facts.answer.head] ?? facts.answer.head : null;
});

const million = facts.parameters >= 1e5 ? `${(facts.parameters / 1e6).toFixed(1)} M` : String(facts.parameters);
const shapes = sides.map(({ name, blocks }) => `${name.toLowerCase()} of ${blocks.length}`).join(" and ");
query("#lead").textContent =
  `${facts.family}, ${million} parameters: ${shapes} block${sides[0].blocks.length > 1 ? "s" : ""}, with the numbers of this one pass. ` +
  "Read it from the bottom; click a block to open it.";
query("#legend").textContent =
  `Each strip is the first ${sides[0].blocks[0][0].values[0].length} of ${facts.width} features, blue above 0, orange below; ` +
  "the number is the length of the whole vector. Blocks are counted from 1.";

function draw() {
  if (!box.clientWidth) return;
  const room = box.clientWidth;
  LABELS = room < 560 ? 112 : sides.length > 1 ? 140 : 168;
  const counts = sides.map((side) => side.tokens.length);
  const labels = LABELS * sides.length + 12 * (sides.length - 1);
  const column = Math.max(25, (room - labels) / counts.reduce((a, b) => a + b));
  const rows = sides.map((side, i) => rowsOf(side, state.open[i]));
  // as tall as the window lets it be, so that the first picture needs no scrolling
  const extra = (list) => TOKENS + list.reduce((sum, { weights, kind }) => sum + (weights ? GAP : 0) + (kind === "head" ? 8 : 0), 0);
  const free = Math.max(300, innerHeight - box.getBoundingClientRect().top - scrollY - 86);
  const row = Math.max(13, Math.min(32, ...rows.map((list) => (free - extra(list)) / (list.length - 1))));
  const height = Math.max(...rows.map((list) => extra(list) + row * (list.length - 1) + (row < 30 && list.at(-1).kind === "head" ? 30 - row : 0))) + 8;
  let left = 0;
  const places = sides.map((side, i) => {
    const width = LABELS + column * counts[i];
    const place = placed(side, rows[i], { left, width, height, row });
    left += width + 12;
    return place;
  });
  const size = { width: left - 12, height, viewBox: `0 0 ${left - 12} ${height}` };
  Object.entries(size).forEach(([name, value]) => svg.setAttribute(name, value));
  const kept = svg.contains(document.activeElement) ? document.activeElement.dataset.name : null;
  svg.replaceChildren(...sides.map((side, i) => drawStack(side, i, rows[i], places[i], state)));
  if (sides.length > 1) svg.append(bridge(rows, places));
  if (kept) [...svg.querySelectorAll("[data-name]")].find((one) => one.dataset.name === kept)?.focus();
}

// what the decoder reads of the encoder: a way for all, and for a chosen token the weights
function bridge([read, written], [from, to]) {
  const group = drawn("g", {});
  const top = read.at(-1);
  const cross = written.find(({ cross }) => cross);
  const first = cross ?? written.find(({ block }) => block !== undefined);
  const start = [from.left + LABELS / 2, top.y];
  const end = [to.left + (cross ? 17 : 5), first.y + first.height / 2];
  group.append(drawn("path", {
    class: "wire", d: `M ${start[0]} ${start[1]} V ${Math.max(6, start[1] - 12)} H ${to.left - 6} V ${end[1]} H ${end[0]} m -4 -3 l 4 3 l -4 3`,
  }));
  if (cross && state.side === 1) drawLinks(group, cross, top, from, to, 1, state);
  return group;
}

// what nobody has chosen is not handed on to other views
function keep() {
  const [first, second] = state.open;
  remember({
    side: state.side || null, layer: first, token: state.token,
    closed: first === null ? 1 : null, written: second === undefined ? null : second ?? "closed",
  });
  show();
}

function show() {
  showNumbers(state);
  draw();
  const { side, token } = state;
  query(".spoken").textContent = [
    state.open[side] === null ? "" : `Block ${state.open[side] + 1} is open.`,
    token === null ? "" : `Token ${plainToken(sides[side].tokens[token])} is chosen.`,
  ].join(" ");
}

function chooseBlock(side, block) {
  if (side !== state.side) Object.assign(state, { side, token: null });
  state.open[side] = block;
  keep();
}

function chooseToken(side, token) {
  const again = state.side === side && state.token === token;
  Object.assign(state, { side, token: again ? null : token });
  keep();
}

svg.addEventListener("pointermove", (event) => {
  query("#reading").textContent = event.target.closest?.("[data-reading]")?.dataset.reading ?? "\u00a0";
});
addEventListener("keydown", (event) => {
  if (event.target.closest?.("select, input, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const { side } = state;
  const moved = (at, by, last) => {
    const next = at === null ? (by > 0 ? 0 : last) : at + by;
    return next < 0 || next > last ? null : next;
  };
  const up = { ArrowUp: 1, ArrowDown: -1 }[event.key];
  const along = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (event.key === "Escape") Object.assign(state, { open: sides.map(() => null), token: null });
  else if (up) state.open[side] = moved(state.open[side], up, sides[side].blocks.length - 1);
  else if (along) state.token = moved(state.token, along, sides[side].tokens.length - 1);
  else return;
  event.preventDefault();
  keep();
});

query("#reading").textContent = "\u00a0";
state.side = remembered("side", sides.length) ?? 0;
state.open[0] = address.get("closed") ? null : remembered("layer", sides[0].blocks.length) ?? 0;
if (sides.length > 1)
  state.open[1] = address.get("written") === "closed" ? null : remembered("written", sides[1].blocks.length) ?? 0;
state.token = remembered("token", sides[state.side].tokens.length);
query("main").classList.toggle("two", sides.length > 1);
showAnswer();
show();
new ResizeObserver(draw).observe(box);
