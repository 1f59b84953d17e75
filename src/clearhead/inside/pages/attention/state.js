// What is chosen. It lives in the address, so that a link reproduces the picture.

const VIEWS = ["lines", "matrix"];
const ZOOMS = ["whole", "close"];
const PAIRS = ["all", "AA", "AB", "BA", "BB"];
const isPair = segments.includes(0) && segments.includes(1);

const state = {
  layer: facts.layer, head: facts.head ?? AVERAGE, // where the page opens
  token: null, side: "from", // the token that is kept, and in which column
  from: null, to: null, // the tokens whose links are looked for
  more: [], // heads that are drawn beside the chosen one
  least: 0, plain: 0, // what is hidden: smaller weights, special tokens
  view: T > 80 ? "matrix" : "lines", zoom: "whole", pair: "all",
};
if (facts.telling && facts.telling.token !== null) state.token = facts.telling.token;
let hover = null; // { token, side } under the pointer; it comes before the token that is kept

const focused = () => hover ?? (state.token === null ? null : state);

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const number = (name, end) => {
    const value = Number.parseInt(given.get(name) ?? "", 10);
    return value >= 0 && value < end ? value : null;
  };
  const one = (name, known) => (known.includes(given.get(name)) ? given.get(name) : state[name]);
  state.layer = number("layer", L) ?? state.layer;
  state.head = given.get("head") === "average" ? AVERAGE : (number("head", H) ?? state.head);
  // who gives an address without a token means all of them, unless it says nothing at all
  if ([...given.keys()].some((name) => name !== "layer" && name !== "head")) state.token = null;
  state.token = number("token", T) ?? state.token;
  for (const name of ["from", "to"]) state[name] = number(name, T);
  state.more = (given.get("more") ?? "").split(" ").filter(Boolean).map(Number).filter((head) => head >= 0 && head < H);
  state.least = number("least", scale) ?? 0;
  state.plain = number("plain", 2) ?? 0;
  state.side = given.get("side") === "to" ? "to" : "from";
  state.view = one("view", VIEWS);
  state.zoom = one("zoom", ZOOMS);
  state.pair = isPair ? one("pair", PAIRS) : "all";
}

function writeAddress() {
  const { layer, token, side, from, to, view, zoom, pair } = state;
  const shown = { layer, head: state.head === AVERAGE ? "average" : state.head };
  if (token !== null) Object.assign(shown, { token, side });
  if (from !== null && to !== null) Object.assign(shown, { from, to });
  if (state.more.length) shown.more = state.more.join(" ");
  if (state.least) shown.least = state.least;
  if (state.plain) shown.plain = 1;
  Object.assign(shown, { view }, zoom === "close" && { zoom }, isPair && pair !== "all" && { pair });
  try {
    history.replaceState(null, "", "#" + new URLSearchParams(shown));
  } catch {
    // a frame inside a notebook has no address of its own
  }
}

// whether the filters let a weight through: between the two texts, and of special tokens
function lets(from, to) {
  if (state.plain && (labels[from].special || labels[to].special)) return false;
  return state.pair === "all" || "AB"[segments[from]] + "AB"[segments[to]] === state.pair;
}

// a weight as it is shown: nothing where it is hidden
const shownWeight = (weights, from, to) => {
  const value = weights[from * T + to];
  return value >= state.least && lets(from, to) ? value : 0;
};

// One colour per head, all equally light; the average has none.
const rgb = new Map();

function colour(head) {
  const [light, chroma] = dark.matches ? [0.77, 0.12] : [0.54, 0.145];
  return head === AVERAGE
    ? `oklch(${light} 0.025 260)`
    : `oklch(${light} ${chroma} ${Math.round((360 * head) / H + 255) % 360})`;
}

function channels(head) {
  if (!rgb.has(head)) rgb.set(head, channelsOf(colour(head)));
  return rgb.get(head);
}
