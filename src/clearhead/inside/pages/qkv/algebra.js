// The arithmetic of attention on arrays of rows, as `clearhead.nn.attention` does it on tensors.

const transpose = (a) => a[0].map((_, j) => a.map((row) => row[j]));
const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const times = (a, b) => a.map((row) => transpose(b).map((column) => dot(row, column)));

function softmax(row) {
  const most = Math.max(...row);
  const powers = row.map((value) => Math.exp(value - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((value) => value / sum);
}

// which tokens a token may see: with a causal mask none after it, with padding not the last
const mayLook = (count, { causal, padding }) => (i, j) => (!causal || j <= i) && (!padding || j < count - 1 || count < 2);

// scores (T, T) -> weights: what may not be seen has a score of −∞, so a weight of 0
function weigh(scores, masks) {
  const may = mayLook(scores.length, masks);
  return scores.map((row, i) => softmax(row.map((score, j) => (may(i, j) ? score : -Infinity))));
}

// one head: its matrices and x (T, M) -> everything on the way to z (T, K)
function attendByHand(x, { query, key, value }, keyWidth, masks = {}) {
  const [q, k, v] = [query, key, value].map((matrix) => times(x, matrix));
  const scores = times(q, transpose(k));
  const by = masks.undivided ? 1 : Math.sqrt(keyWidth);
  const scaled = scores.map((row) => row.map((score) => score / by));
  const weights = weigh(scaled, masks);
  return { q, k, v, scores, scaled, weights, z: times(weights, v) };
}

// without parameters: a_ij = x_i · x_j
function basicAttention(x) {
  const scores = times(x, transpose(x));
  const weights = scores.map(softmax);
  return { scores, plain: times(scores, x), weights, z: times(weights, x) };
}

function keyValue({ q, k, v }) {
  const scores = times(q, transpose(k));
  return { scores, output: times(scores, v) };
}
