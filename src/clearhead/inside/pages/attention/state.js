// What is chosen. It lives in the address, so that a link reproduces the picture.

const VIEWS = ["lines", "matrix"];
const ZOOMS = ["whole", "close"];
const PAIRS = ["all", "AA", "AB", "BA", "BB"];
const isPair = segments.includes(0) && segments.includes(1);

const state = {
  layer: facts.layer, head: facts.head ?? AVERAGE, // where the page opens
  token: null, side: "from", // the token that is kept, and in which column
  from: null, to: null, // the tokens whose links are looked for
  view: T > 80 ? "matrix" : "lines", zoom: "whole", pair: "all",
};
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
  for (const name of ["token", "from", "to"]) state[name] = number(name, T);
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
  Object.assign(shown, { view }, zoom === "close" && { zoom }, isPair && pair !== "all" && { pair });
  try {
    history.replaceState(null, "", "#" + new URLSearchParams(shown));
  } catch {
    // a frame inside a notebook has no address of its own
  }
}

// whether the filter between the two texts lets a weight through
function lets(from, to) {
  return state.pair === "all" || "AB"[segments[from]] + "AB"[segments[to]] === state.pair;
}

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
