// A change of a number, of the head, of the word or of a mask computes everything anew.

const SECTIONS = {
  head: headSection, steps: stepSection, matrix: matrixSection, heads: headsSection, division: divisionSection,
  basic: basicSection, mapping: mappingSection,
};
const paneOf = (name) => query(name === "head" ? "#head-pane" : `#${name}`);
const shown = Object.entries(SECTIONS).map(([name, build]) => [name, build(paneOf(name))]);

function compute() {
  const heads = numbers.heads.map((head) => attendByHand(numbers.x, head, numbers.key_width, state));
  const joined = words.map((_, i) => heads.flatMap(({ z }) => z[i]));
  const all = {
    heads, joined, output: times(joined, numbers.output_matrix),
    basic: basicAttention(numbers.x), mapping: keyValue(numbers.mapping),
  };
  const largest = all.heads[state.head].weights[state.word];
  const most = largest.indexOf(Math.max(...largest));
  query(".spoken").textContent = `${words[state.word]} takes most from ${words[most]}: ${figure(largest[most])}.`;
  shown.forEach(([name, show]) => (name === "head") === (state.section === "head") && show(all));
  keepNumbers();
}

function open(name) {
  state.section = name;
  for (const section of Object.keys(SECTIONS)) paneOf(section).hidden = section !== name;
  query(`[name=section][value=${name}]`).checked = true;
  for (const field of ["#head-field", "#width-field"]) query(field).hidden = !["steps", "matrix"].includes(name);
  query("#word-field").hidden = name !== "steps";
  query("#token-field").hidden = name !== "head";
  query("#switches").hidden = !["head", "steps", "matrix", "heads"].includes(name);
  query("#reset").hidden = name === "head" || name === "division";
  query("#width-note").textContent = ["steps", "matrix"].includes(name) && hand.key_width > DRAWN
    ? `${DRAWN} features are drawn; all others, up to d_k, are 0.` : "";
  query("#count-note").textContent = name === "head"
    ? "Blocks, heads and tokens are counted from 1. Blue is above 0, orange below."
    : "Numbers are shown with three decimals and computed with all.";
  query("#lead").textContent = name === "head" ? aboutHead()
    : "Every number of a small self-attention. Change one in a blue field and see what follows from it.";
  compute();
}

function aboutHead() {
  const { layer, head, width, q, turned, far, causal } = real;
  return `Block ${layer + 1}, head ${head + 1} in a real pass: W^Q, W^K and W^V make ${q[0].length} features of ${width}. ` +
    "Choose a token and follow it." +
    (turned ? " Queries and keys are those that the scores use, turned by their positions." : "") +
    (far ? " What the model adds for the distance of two tokens is in the scaled scores." : "") +
    (causal ? " A token sees only itself and what is before it." : "");
}

query("#head").append(...hand.heads.map((_, i) => new Option(`head ${i + 1}`, i)));
query("#word").append(...words.map((word, i) => new Option(word, i)));
recallNumbers();
query("#width").value = numbers.key_width;
query("#width").min = 1;
if (!real) query("#head-choice").remove();
if (real) query("#token").append(...real.tokens.map((token, i) => new Option(`${i + 1} ${plainToken(token)}`, i)));
query("#section").addEventListener("change", ({ target }) => {
  remember({ section: target.value });
  open(target.value);
});
// the head of a calculation by hand is not the head of a model, which pages hand on to one another
for (const [name, count, kept] of [["head", H, "hand"], ["word", words.length, "word"], ["token", real?.tokens.length ?? 0, "token"]]) {
  state[name] = remembered(kept, count) ?? state[name];
  query(`#${name}`).value = state[name];
  query(`#${name}`).addEventListener("change", ({ target }) => {
    state[name] = Number(target.value);
    remember({ [kept]: target.value });
    compute();
  });
}
for (const [id, name, meaning] of [["divide", "undivided", false], ["causal", "causal", true], ["padding", "padding", true]]) {
  state[name] = remembered(name, 2) === 1;
  query(`#${id}`).checked = state[name] === meaning;
  query(`#${id}`).addEventListener("change", ({ target }) => {
    state[name] = target.checked === meaning;
    remember({ [name]: state[name] ? 1 : null });
    compute();
  });
}
query("#width").addEventListener("input", ({ target }) => {
  if (!(target.valueAsNumber > 0)) return;
  numbers.key_width = target.valueAsNumber;
  compute();
});
query("#reset").addEventListener("click", () => {
  Object.assign(numbers, structuredClone(hand));
  query("#width").value = hand.key_width;
  compute();
});
const wanted = remembered("section", Object.keys(SECTIONS));
open(wanted && (real || wanted !== "head") ? wanted : real ? "head" : "steps");
