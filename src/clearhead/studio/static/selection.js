// What is chosen, a token, a layer and a head, survives another text, another skill and another view.

const SHARED = ["layer", "head", "token"];
// views whose layers are the states between the blocks: the embeddings are 0, and what the first block gave is 1
const STATES = new Set(["/look/layers", "/look/senses"]);

const read = (hash) => new URLSearchParams(hash.replace(/^#/, ""));
const write = (words) => (String(words) ? `#${words}` : "");

export function chosen(hash, name) {
  const value = read(hash).get(name);
  return /^\d{1,6}$/.test(value ?? "") ? Number(value) : null;
}

export function choose(hash, change) {
  const words = read(hash);
  for (const [name, value] of Object.entries(change)) value === null ? words.delete(name) : words.set(name, value);
  return write(words);
}

// what one view hands on to another
export function handedOn(hash, from, to) {
  const given = read(hash);
  const words = new URLSearchParams();
  for (const name of SHARED) if (given.has(name)) words.set(name, given.get(name));
  const by = Number(STATES.has(to)) - Number(STATES.has(from));
  if (words.has("layer") && by) words.set("layer", Math.max(0, Number(words.get("layer")) + by));
  return write(words);
}

// the same word in another text: in its place, else the nearest that is written alike
function sameToken(index, before, after) {
  if (after[index] === before[index] || after.length === before.length) return index < after.length ? index : null;
  const alike = after.map((token, i) => [token, i]).filter(([token]) => token === before[index]);
  alike.sort(([, a], [, b]) => Math.abs(a - index) - Math.abs(b - index));
  return alike.length ? alike[0][1] : null;
}

export function carried(hash, before, after) {
  if (!before || !after) return hash;
  const change = {};
  for (const name of ["token", "from", "to"]) {
    const index = chosen(hash, name);
    if (index !== null) change[name] = sameToken(index, before, after);
  }
  return choose(hash, change);
}
