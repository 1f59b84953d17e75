// One head of a real pass: the chosen token's query, every key and value, and the way from scores to what is added.

const real = facts.q ? facts : null;

function headSection() {
  if (!real) return () => {};
  const { tokens, q, k, v, x, output, added } = real;
  const names = tokens.map((token, i) => `${i + 1} ${plainToken(token)}`);
  const count = (row) => row.map((_, j) => String(j + 1));
  const strip = (id, rows, values, all) =>
    heatmap(query(id), { name: "", rows, columns: count(values[0]), values, most: largest(all), digits: 3 });
  // some features of x are so large that the others would have no colour
  const sizes = x.flat().map(Math.abs).sort((a, b) => a - b);
  const most = sizes[Math.floor(0.98 * (sizes.length - 1))] || 1;
  const own = heatmap(query("#own-x"), { name: "", rows: [" "], columns: count(x[0]), values: [x[0]], most, digits: 3 });
  const mine = strip("#own-q", [" "], [q[0]], q);
  strip("#keys", names, k, k);
  strip("#values", names, v, v);
  const products = strip("#products", names, k, k.map((row) => row.map((value, j) => value * q[0][j])));
  const sum = strip("#output", [" "], [output[0]], output);
  const adds = strip("#added", [" "], [added[0]], added);
  const rows = tokens.map((token) => {
    const cells = [0, 1, 2].map(() => element("td"));
    query(".steps tbody").append(element("tr", {}, element("th", { scope: "row" }, wordOf(token)), ...cells));
    return cells;
  });
  const root = Math.sqrt(q[0].length);

  return () => {
    const { token, undivided, causal, padding } = state;
    const changed = undivided || causal || padding;
    // what a model adds to its scores for distances is what divided scores differ by
    const beside = real.scaled[token].map((value, j) => value - real.scores[token][j] / root);
    const scores = real.scores[token].map((score, j) => (undivided ? score : score / root) + beside[j]);
    const may = mayLook(tokens.length, { causal: causal || real.causal, padding });
    const shown = changed ? scores : real.scaled[token];
    const weights = changed
      ? softmax(scores.map((score, j) => (may(token, j) ? score : -Infinity))) : real.weights[token];
    const taken = v[0].map((_, f) => weights.reduce((all, weight, j) => all + weight * v[j][f], 0));
    own.show([x[token]]);
    mine.show([q[token]]);
    const parts = k.map((row) => row.map((value, j) => value * q[token][j]));
    products.show(parts, { most: largest(parts) });
    sum.show([changed ? taken : output[token]]);
    adds.show([added[token]]);
    query("#added").parentElement.hidden = changed; // W^O was applied to what the model itself took
    query("#divided").replaceChildren(...(undivided ? ["not divided"] : [`÷ √${q[0].length}`]));
    rows.forEach((cells, j) => {
      cells[0].textContent = real.scores[token][j].toFixed(3);
      cells[1].textContent = may(token, j) ? shown[j].toFixed(3) : "−∞";
      cells[2].textContent = weights[j].toFixed(4);
      cells[2].style.setProperty("--share", weights[j]);
    });
    const best = weights.indexOf(Math.max(...weights));
    const [from, to] = [token, best].map((i) => plainToken(tokens[i]));
    query(".spoken").textContent = `${from} takes most from ${to}: ${weights[best].toFixed(4)}`;
  };
}
