// The chosen token decides the query, the column of scores and the sum; keys and values stay.

const { tokens, q, k, v, scores, scaled, weights, output } = facts;
const names = tokens.map((token, i) => `${i} ${plainToken(token)}`);
const features = q[0].map((_, j) => String(j + 1));

// one table of vectors; the same colours for one row as for all of them
const strip = (id, rows, values, all) =>
  heatmap(query(id), { name: "token × feature", rows, columns: features, values, most: largest(all), digits: 3 });

query("#lead").textContent =
  `Layer ${facts.layer}, head ${facts.head}: the numbers of one forward pass. Choose a token and follow it.` +
  (facts.turned ? " Queries and keys are those that the scores use, turned by their positions." : "") +
  (facts.far ? " What the model adds for the distance of two tokens is in the scaled scores." : "");
query("#width").textContent = q[0].length;
query("#token").append(...names.map((name, i) => new Option(name, i)));
strip("#keys", names, k, k);
strip("#values", names, v, v);
const mine = strip("#query", [" "], [q[0]], q);
const sum = strip("#output", [" "], [output[0]], output);

const rows = tokens.map((token) => {
  const cells = [0, 1, 2].map(() => element("td"));
  query(".steps tbody").append(element("tr", {}, element("th", { scope: "row" }, wordOf(token)), ...cells));
  return cells;
});

function show(token) {
  query("#token").value = token;
  mine.show([q[token]]);
  sum.show([output[token]]);
  rows.forEach((cells, i) => {
    cells[0].textContent = scores[token][i].toFixed(3);
    cells[1].textContent = scaled[token][i].toFixed(3);
    cells[2].textContent = weights[token][i].toFixed(4);
    cells[2].style.setProperty("--share", weights[token][i]);
  });
  const most = weights[token].indexOf(Math.max(...weights[token]));
  const [from, to] = [token, most].map((i) => plainToken(tokens[i]));
  query(".spoken").textContent = `${from} takes most from ${to}: ${weights[token][most]}`;
}

query("#token").addEventListener("change", ({ target }) => {
  remember({ token: target.value });
  show(Number(target.value));
});
show(remembered("token", tokens.length) ?? facts.token);
