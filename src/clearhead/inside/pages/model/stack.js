// One stack of the model, drawn from the bottom: tokens, the sum of the input, blocks, the head. An opened block shows
// its parts in the order in which this model computes them.

let LABELS = 168; // room for the names of the rows
const [TOKENS, GAP] = [24, 30]; // height of the row of tokens; room for the lines of an attention
const INPUT_NAMES = {
  token: "token", position: "+ position", segment: "+ segment", capital: "+ capitals", sum: "= sum",
  normalised: "norm", projected: "projection",
};
const HEAD_NAMES = {
  masked_lm: "masked-LM head", causal_lm: "next-token head", classes: "classifier", tags: "tagger",
  span: "start and end", next_sentence: "next-sentence head",
};

const kindOf = (name) =>
  name.includes("attention") ? "attention" : name.startsWith("feed") ? "forward" : "joined";

// what stands in the box; all that this model does there is said beside the drawing
const partName = (name, { heads }) => (name.includes("attention") ? `${name.replace("masked attention", "masked attn.")} × ${heads}` : name);

// the rows of a stack from the bottom up; the norms of a pre-norm block stand before its parts
function rowsOf(side, open) {
  const rows = [{ kind: "tokens" }];
  for (const { name, ...row } of side.input) {
    const positions = name === "position" ? ` (${side.anatomy.positions})` : "";
    rows.push({ kind: "embedded", title: INPUT_NAMES[name] + positions, name: INPUT_NAMES[name], ...row });
  }
  side.blocks.forEach((steps, block) => {
    if (open !== block) {
      const { values, norms } = steps.at(-1);
      rows.push({ kind: "block", title: `Block ${block + 1}`, name: `after block ${block + 1}`, block, values, norms });
      return;
    }
    steps.forEach((step, i) => {
      const title = partName(step.name, side.anatomy);
      const before = step.normed ? "norm → " : "";
      rows.push({
        kind: kindOf(step.name), title: before + title, name: step.name, block, values: step.values, norms: step.norms,
        weights: step.weights, cross: step.name === "cross-attention", first: i === 0, last: i === steps.length - 1,
      });
    });
  });
  if (side.output) rows.push({ kind: "joined", title: "last norm", name: "last norm", ...side.output });
  if (side.headed) rows.push({ kind: "head", title: side.headed, said: side.said });
  return rows;
}

// where everything lies: rows get their y from the bottom, columns their x
function placed(side, rows, { left, width, height, row }) {
  const column = (width - LABELS) / side.tokens.length;
  let y = height;
  for (const one of rows) {
    if (one.weights) y -= GAP;
    one.height = one.kind === "tokens" ? TOKENS : one.kind === "head" ? Math.max(row, 30) : row;
    y -= one.height;
    one.y = y;
  }
  return { left, width, column, x: (token) => left + LABELS + token * column, top: y };
}

function drawStack(side, index, rows, place, state) {
  const group = drawn("g", {});
  const { left, column, x } = place;
  if (state.side === index && state.token !== null)
    group.append(drawn("rect", {
      class: "column", x: x(state.token), y: place.top, width: column, height: rows[0].y + TOKENS - place.top, rx: 4,
    }));
  let below = null;
  for (const row of rows) {
    if (row.kind === "tokens") drawTokens(group, side, index, row, place);
    else if (row.kind === "head") drawHead(group, side, row, place);
    else {
      if (row.weights && !row.cross) drawLinks(group, row, below, place, place, index, state);
      const most = fullColour(row.values);
      row.values.forEach((values, token) => {
        const cell = vectorCell({ x: x(token), y: row.y, width: column, height: row.height }, values, row.norms[token], most);
        cell.dataset.reading = `${row.name} · ${plainToken(side.tokens[token])}: length ${row.norms[token].toFixed(2)}; ` +
          `${values.slice(0, 6).map((value) => signed(value, 3)).join("  ")} …`;
        group.append(cell);
      });
      drawLabel(group, side, index, row, place);
    }
    below = row;
  }
  drawFrame(group, rows, place, side);
  return group;
}

function drawTokens(group, side, index, row, { x, column }) {
  side.tokens.forEach((token, i) => {
    const text = plainToken(token);
    const special = label(token).special ? "special" : "token";
    const second = side.segments[i] ? " second" : "";
    const button = drawn("g", { tabindex: 0, role: "button", "data-name": `${index} ${i}` },
      drawn("title", {}, `token ${i + 1}, ${text}`),
      drawn("rect", { class: "hit", x: x(i), y: row.y, width: column, height: row.height }),
      fittedText(shortToken(token), column - 3, {
        class: special + second, x: x(i) + column / 2, y: row.y + 16, size: special === "special" ? 11 : 12,
      }));
    pressed(button, () => chooseToken(index, i));
    group.append(button);
  });
}

function drawLabel(group, side, index, row, { left }) {
  const inside = row.block !== undefined;
  const [x, width] = [left + (inside && row.kind !== "block" ? 18 : 6), LABELS - (inside && row.kind !== "block" ? 30 : 18)];
  const size = row.height < 16 ? 11 : 12;
  const text = fittedText(row.title, width - 4, { x: x + width / 2, y: row.y + row.height / 2 + 4, size, weight: 400 });
  const box = drawn("rect", { class: `box ${row.kind}`, x, y: row.y + 1.5, width, height: row.height - 3, rx: 4 });
  const opened = inside && row.kind !== "block";
  const made = drawn("g", {}, drawn("title", {}, `${row.title}${opened ? `, of block ${row.block + 1}` : ""}`), box, text);
  if (inside) {
    const said = { tabindex: 0, role: "button", "aria-expanded": opened, "data-name": `${index} ${row.title} ${row.block}` };
    Object.entries(said).forEach(([name, value]) => made.setAttribute(name, value));
    pressed(made, () => chooseBlock(index, opened ? null : row.block));
  }
  group.append(made);
}

// the weights of an attention: all that are large, or those of the chosen token
function drawLinks(group, row, below, from, to, index, state) {
  const chosen = state.side === index ? state.token : null;
  const bottom = below.y + (below.kind === "tokens" ? 2 : 0);
  row.weights.forEach((weights, token) => {
    if (chosen !== null && token !== chosen) return;
    weights.forEach((weight, other) => {
      if (weight < (chosen === null ? 0.12 : 0.01)) return;
      const [x1, x2] = [from.x(other) + from.column / 2, to.x(token) + to.column / 2];
      const [y1, y2] = [bottom, row.y + row.height];
      const middle = (y1 + y2) / 2;
      group.append(drawn("path", {
        class: "link", d: `M ${x1} ${y1} C ${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`,
        "stroke-width": (0.6 + 4 * weight).toFixed(2), opacity: (chosen === null ? 0.75 * weight : 0.25 + 0.75 * weight).toFixed(2),
      }));
    });
  });
}

// the opened block: a frame, and the two ways round its parts
function drawFrame(group, rows, { left, width, x }, side) {
  const parts = rows.filter(({ kind, block }) => block !== undefined && kind !== "block");
  if (!parts.length) return;
  const [low, high] = [parts[0], parts.at(-1)];
  const bottom = low.y + low.height + GAP - 4;
  group.append(drawn("rect", { class: "frame", x: left + 1, y: high.y - 3, width: width - 2, height: bottom - high.y, rx: 6 }));
  let from = bottom;
  for (const row of parts) {
    if (row.kind !== "joined") continue;
    const at = row.y + row.height / 2;
    group.append(drawn("path", {
      class: "wire", d: `M ${left + 100} ${from} H ${left + 9} V ${at} H ${left + 17} m -4 -3 l 4 3 l -4 3`,
    }));
    from = row.y;
  }
  const name = drawn("text", { class: "small", x: left + 22, y: bottom - 6 },
    `Block ${low.block + 1}: ${side.pre_norm ? "pre-norm" : "post-norm"}`);
  group.append(name);
}

function drawHead(group, side, row, { left, x, column, top }) {
  group.append(
    drawn("rect", { class: "box head", x: left + 6, y: row.y + 1.5, width: LABELS - 18, height: row.height - 3, rx: 4 }),
    fittedText(row.title, LABELS - 22, {
      x: left + 6 + (LABELS - 18) / 2, y: row.y + row.height / 2 + 4, weight: 400,
    }),
  );
  side.tokens.forEach((_, token) => {
    const reads = side.reads.includes(token);
    const said = side.said[token];
    if (!reads && !said) return;
    group.append(drawn("rect", {
      class: reads ? "box head" : "ground", x: x(token) + 2, y: row.y + 2, width: column - 4, height: row.height - 4, rx: 4,
    }));
    if (!said) return;
    const middle = { x: x(token) + column / 2, "text-anchor": "middle" };
    group.append(
      drawn("title", {}, `${said[0]} ${said[1]}`),
      fittedText(shortToken(said[0]), column - 6, { x: middle.x, y: row.y + 13, class: "token" }),
      drawn("text", { ...middle, y: row.y + 25, class: "small" }, said[1].toFixed(2)),
    );
  });
}

function pressed(made, act) {
  made.addEventListener("click", act);
  made.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    act();
  });
}
