// What temperature, top k and top p make of the probabilities of a step, and a token drawn from them.

const NO_LIMIT = 33;
const choice = { temperature: 10, k: NO_LIMIT, p: 20 };
let pick = null; // what was drawn last, by its place among the candidates

const changedSpread = () => choice.temperature !== 10 || choice.k < NO_LIMIT || choice.p < 20;

// the share of each candidate after the three, largest first; those that fall out have 0
function spreadOf({ log_probs: logs, normalisers }) {
  const at = choice.temperature - 1;
  const temperature = facts.temperatures[at];
  const shares = logs.map((log) => Math.exp(log / temperature - normalisers[at]));
  let kept = choice.k < NO_LIMIT ? Math.min(choice.k, shares.length) : shares.length;
  const open = choice.k >= NO_LIMIT && choice.p >= 20; // nothing is cut off, so that the rest keeps its share
  if (choice.p < 20) {
    // the fewest whose shares, among those that top k left, reach p
    const total = choice.k < NO_LIMIT ? shares.slice(0, kept).reduce((a, b) => a + b, 0) : 1;
    let sum = 0;
    let needed = 0;
    while (needed < kept && sum < (choice.p / 20) * total - 1e-9) sum += shares[needed++];
    kept = Math.max(1, needed);
  }
  const left = open ? 1 : shares.slice(0, kept).reduce((a, b) => a + b, 0);
  return shares.map((share, i) => (i < kept ? share / left : 0));
}

function drawFrom(shares) {
  let at = Math.random();
  const found = shares.findIndex((share) => (at -= share) < 0);
  return found < 0 ? null : found; // one of the many that are not listed
}

function tellSpread() {
  query("#temperature-shown").textContent = facts.temperatures[choice.temperature - 1].toFixed(1);
  query("#top-k-shown").textContent = choice.k < NO_LIMIT ? choice.k : "all";
  query("#top-p-shown").textContent = choice.p < 20 ? (choice.p / 20).toFixed(2) : "all";
}
