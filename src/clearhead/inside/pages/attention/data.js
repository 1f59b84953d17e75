// What the page shows: facts (tokens, segments, sizes) and, per layer, the weights of its heads and of their average.
// T tokens · H heads · a weight is a whole number of 1 / scale

const { tokens, segments, layers: L, heads: H, scale } = facts;
const T = tokens.length;
const AVERAGE = H; // the plane after the last head

async function unpack(id) {
  const text = atob(document.getElementById(id).textContent);
  const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const opened = new Map(); // layer -> promise of Uint16Array (H + 1, T, T), the most recently used last

function openLayer(layer) {
  const weights = opened.get(layer) ?? unpack(`layer-${layer}`).then(join);
  opened.delete(layer);
  opened.set(layer, weights);
  // a layer of a long text takes megabytes, and opening it again takes a moment only
  if (opened.size > 4) opened.delete(opened.keys().next().value);
  return weights;
}

// low bytes first, then high bytes: that way they compress better
function join(bytes) {
  const n = bytes.length / 2;
  const values = new Uint16Array(n);
  for (let i = 0; i < n; i++) values[i] = bytes[i] | (bytes[n + i] << 8);
  return values;
}

const plane = (weights, head) => weights.subarray(head * T * T, (head + 1) * T * T);

const digits = Math.round(Math.log10(scale));
const written = (value) => (value / scale).toFixed(digits);

const labels = tokens.map(label);
const plain = labels.map(({ mark, text }) => mark + text);
const wordElement = (index) => wordOf(tokens[index]);
