// The address holds what was asked, and after the # what was chosen in the picture: every state is an entry of the history.

export const LONGEST = 30000; // characters; servers refuse an address that is much longer
const TOGETHER = 700; // milliseconds; the moves of one hand are one entry

// values without the empty ones, as the question mark of an address
export function written(values) {
  const filled = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return new URLSearchParams(filled.map(([name, value]) => [name, String(value)])).toString();
}

// where we are: the texts that an address could not take are in the entry itself
export function place() {
  const values = history.state?.values ?? Object.fromEntries(new URLSearchParams(location.search));
  return { path: location.pathname, values, hash: location.hash };
}

export const fits = (values) => written(values).length <= LONGEST;

export function linkTo({ path, values = {}, hash = "" }) {
  const words = fits(values) ? written(values) : "";
  return path + (words && `?${words}`) + (hash === "#" ? "" : hash);
}

export function go(next, { replace = false } = {}) {
  const state = fits(next.values ?? {}) ? null : { values: next.values };
  history[replace ? "replaceState" : "pushState"](state, "", linkTo(next));
}

let moved = 0;
let touched = false;
for (const kind of ["pointerdown", "keydown", "input", "click"])
  document.addEventListener(kind, () => (touched = true), { capture: true });

// a new picture says what it shows: until a hand moves, that is no choice of anybody's
export const untouched = () => (touched = false);
export const isTouched = () => touched;

// what was chosen in a picture; a slider that is drawn along makes one entry
export function move(hash, { replace = !touched } = {}) {
  const now = Date.now();
  const along = now - moved < TOGETHER;
  go({ ...place(), hash }, { replace: replace || along });
  if (!replace) moved = now;
}
