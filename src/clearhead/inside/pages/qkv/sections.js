// The five calculations. Each section builds its tables once and returns how to show new numbers in them.

const hand = facts.hand ?? facts; // the numbers by hand, beside those of a head where there is one
const numbers = structuredClone(hand); // what people change
const words = hand.words;
const H = hand.heads.length;
const DRAWN = hand.heads[0].query[0].length;
const state = { head: 0, word: 0, token: facts.token ?? 0, undivided: false, causal: false, padding: false };

// a table in the colour that queries, keys, values and what comes out have everywhere
const KINDS = { q: "q", Q: "q", k: "k", Kᵀ: "k", v: "v", V: "v", Z: "z", z: "z" };
const tinted = (made, name) => {
  const kind = name.includes("×") ? null : KINDS[name.split(/[ ,]/)[0]];
  if (kind) made.table.dataset.kind = kind;
  return made;
};

// a table that writes into `values()` and computes anew
const editable = (name, values, rows, columns) =>
  matrix({ name, rows, columns, values: values(), changed: (i, j, value) => {
    values()[i][j] = value;
    compute();
  } });
const computed = (name, values, rows, columns, weights = false) =>
  tinted(matrix({ name, rows, columns, values, weights }), name);

function stepSection(box) {
  const head = hand.heads[0];
  const [x, query, key, value] = [
    editable("x", () => numbers.x, words),
    editable("W^Q", () => numbers.heads[state.head].query),
    editable("W^K", () => numbers.heads[state.head].key),
    editable("W^V", () => numbers.heads[state.head].value),
  ];
  const [q, k, v] = ["q", "k", "v"].map((name) => computed(name, head[name], words));
  const mine = computed("q of the word", [head.q[0]], [words[0]]);
  const products = computed("q × k, by feature", head.k, words);
  const lines = [
    computed("score q · k", [head.scores[0]], [words[0]], words),
    computed("÷ √d_k", [head.scaled[0]], [], words),
    computed("softmax", [head.weights[0]], [], words, true),
  ];
  const shares = computed("weight × v", head.v, words);
  const sum = computed("z, their sum", [head.z[0]], [words[0]]);
  box.append(
    element("h2", {}, "1  Three vectors for every word"),
    formula(x.table, "×", query.table, "=", q.table),
    element("div", { className: "beside" },
      formula("x ×", key.table, "=", k.table), formula("x ×", value.table, "=", v.table)),
    element("h2", {}, "2  Match the word's query with every key, feature by feature; add, divide, softmax"),
    formula(mine.table, "→", products.table, "→", lines[0].table, "→", lines[1].table, "→", lines[2].table),
    element("h2", {}, "3  Add up the values, each by its weight"),
    formula(shares.table, "→", sum.table),
  );
  return (all) => {
    const { word } = state;
    const now = all.heads[state.head];
    x.show(numbers.x);
    [[query, "query"], [key, "key"], [value, "value"]].forEach(([table, name]) =>
      table.show(numbers.heads[state.head][name]));
    [q, k, v].forEach((table, i) => table.show(now["qkv"[i]]));
    mine.show([now.q[word]]);
    products.show(now.k.map((row) => row.map((value, j) => value * now.q[word][j])));
    lines[1].table.caption.replaceChildren(...written(state.undivided ? "not divided" : "÷ √d_k"));
    [now.scores, now.scaled, now.weights].forEach((values, i) => lines[i].show([values[word]]));
    shares.show(now.v.map((row, i) => row.map((value) => value * now.weights[word][i])));
    sum.show([now.z[word]]);
    for (const one of [mine, lines[0], sum]) one.table.querySelector("tr:last-child th").textContent = words[word];
  };
}

function matrixSection(box) {
  const head = hand.heads[0];
  const [q, k] = [computed("Q", head.q, words), computed("Kᵀ", transpose(head.k), [], words)];
  const scaled = computed("Q Kᵀ / √d_k", head.scaled, words, words);
  const weights = computed("softmax, row by row", head.weights, words, words, true);
  const [v, z] = [computed("V", head.v, words), computed("Z", head.z, words)];
  box.append(
    element("h2", {}, ...written("Z = softmax(Q Kᵀ / √d_k) V")),
    formula(q.table, "×", k.table, "÷ √dₖ =", scaled.table),
    formula(weights.table, "×", v.table, "=", z.table),
  );
  return (all) => {
    const now = all.heads[state.head];
    q.show(now.q);
    k.show(transpose(now.k));
    scaled.show(now.scaled);
    weights.show(now.weights);
    v.show(now.v);
    z.show(now.z);
  };
}

function headsSection(box) {
  const each = hand.heads.map((head, i) => computed(`Z of head ${i + 1}`, head.z, words));
  const joined = computed("side by side", hand.joined, words);
  const output = editable("W^O", () => numbers.output_matrix);
  const out = computed("output", hand.output, words);
  const [n, m] = [words.length, hand.x[0].length];
  box.append(
    element("h2", {}, ...written("Every head looks in its own way; W^O brings them together")),
    formula(...each.flatMap(({ table }, i) => (i ? ["and", table] : [table])), "→", joined.table),
    formula("side by side ×", output.table, "=", out.table),
    element("p", { className: "note" },
      `${n} words × (${H} heads · ${DRAWN}), times Wᴼ, gives ${n} × ${m} again: the shape of x.`),
  );
  return (all) => {
    each.forEach((table, i) => table.show(all.heads[i].z));
    joined.show(all.joined);
    output.show(numbers.output_matrix);
    out.show(all.output);
  };
}

function basicSection(box) {
  const { basic } = hand;
  const x = editable("x", () => numbers.x, words);
  const scores = computed("x xᵀ", basic.scores, words, words);
  const plain = computed("x xᵀ x", basic.plain, words);
  const weights = computed("softmax(x xᵀ)", basic.weights, words, words, true);
  const z = computed("softmax(x xᵀ) x", basic.z, words);
  box.append(
    element("h2", {}, ...written("Without any parameter: a word takes from each other what x_i · x_j says")),
    formula(x.table, "→", scores.table, "→", plain.table),
    formula(weights.table, "× x =", z.table),
    element("p", { className: "note" },
      "Nothing here knows the order of the words: exchange two rows of x, " +
      "and two rows of the result change places."),
  );
  return (all) => {
    x.show(numbers.x);
    [[scores, "scores"], [plain, "plain"], [weights, "weights"], [z, "z"]].forEach(([table, name]) =>
      table.show(all.basic[name]));
  };
}

function mappingSection(box) {
  const { mapping } = hand;
  const q = editable("Q", () => numbers.mapping.q, mapping.queries, mapping.features);
  const k = editable("K", () => numbers.mapping.k, mapping.keys, mapping.features);
  const v = editable("V", () => numbers.mapping.v, mapping.keys, mapping.meanings);
  const scores = computed("Q Kᵀ", mapping.scores, mapping.queries, mapping.keys);
  const output = computed("Q Kᵀ V", mapping.output, mapping.queries, mapping.meanings);
  box.append(
    element("h2", {}, "A dictionary that answers softly: each query takes the values of the keys that are like it"),
    formula(q.table, "×", k.table, "ᵀ =", scores.table),
    formula("Q Kᵀ ×", v.table, "=", output.table),
  );
  return (all) => {
    q.show(numbers.mapping.q);
    k.show(numbers.mapping.k);
    v.show(numbers.mapping.v);
    scores.show(all.mapping.scores);
    output.show(all.mapping.output);
  };
}
