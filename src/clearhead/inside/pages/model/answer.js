// Beside the drawing: the answer with its probabilities, and the numbers of the chosen token in the opened block.

function showAnswer() {
  const { answer } = facts;
  query("#answer-pane").hidden = !answer;
  if (!answer) return;
  const place = answer.reads.length === 1 ? plainToken(facts.sides.at(-1).tokens[answer.reads[0]]) : "";
  const notes = {
    masked_lm: answer.items.length ? `What stands behind the ${place}.`
      : "No mask is in the text: at the top stands what the head would say in each place.",
    causal_lm: answer.text === undefined ? `What comes after “${place}”.` : "What it writes greedily; the probability of each token stands at the top.",
    classes: `Read from ${place || "the mean of all tokens"}.`,
    next_sentence: `Read from ${place}.`,
    tags: "A tag for each token, at the top.",
    span: "The likeliest start and end; its probability is their product.",
  };
  query("#answer-note").textContent = notes[answer.head] ?? "";
  query("#answer-text").textContent = answer.text ?? "";
  query("#answers").append(...answer.items.map(([name, share]) => {
    const cell = element("td", {}, share.toFixed(4));
    cell.style.setProperty("--share", Math.max(0, Math.min(1, share)));
    return element("tr", {}, element("th", { scope: "row" }, wordOf(name)), cell);
  }));
}

// the opened block, or the input, for the chosen token
function showNumbers({ side, open, token }) {
  const [stack, block] = [facts.sides[side], open[side]];
  const { anatomy, pre_norm } = stack;
  const rows = block === null ? stack.input : stack.blocks[block];
  const name = block === null ? "The input" : `Block ${block + 1}`;
  const at = token ?? 0;
  query("#open-title").textContent = `${facts.sides.length > 1 ? `${stack.name}: ` : ""}${name}, “${plainToken(stack.tokens[at])}”`;
  const added = { rotary: " Queries and keys are turned by their positions.", relative: " The distance of two tokens is added to their score." };
  const order = pre_norm ? "norm before each part" : "norm after each sum";
  query("#open-note").textContent = block === null
    ? `Click a block to open it, a token to follow it. ${stack.blocks.length} blocks of ${anatomy.heads} heads, width ` +
      `${facts.width} → ${anatomy.inner}, ${order}, ${anatomy.positions} positions${anatomy.tied ? ", one set of weights for all" : ""}.`
    : `Lines are attention weights, the mean of ${anatomy.heads} heads${anatomy.window ? `, ±${anatomy.window} tokens` : ""}.` +
      `${added[anatomy.positions] ?? ""} The feed-forward is ${anatomy.inner} wide${anatomy.act ? `, ${anatomy.act.replace("_new", "")}` : ""}` +
      `${anatomy.gated ? ", gated" : ""}; ${order}.`;
  query("#numbers").replaceChildren(...rows.map((row) =>
    element("tr", {}, element("th", { scope: "row" }, block === null ? INPUT_NAMES[row.name] : row.name),
      element("td", {}, row.norms[at].toFixed(2)),
      element("td", {}, row.values[at].slice(0, 3).map((value) => signed(value, 2)).join(" ")))));
}
