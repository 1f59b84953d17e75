// A change of a number, of the head or of the word computes everything anew.

const SECTIONS = {
  steps: stepSection, matrix: matrixSection, heads: headsSection, basic: basicSection, mapping: mappingSection,
};
const shown = Object.entries(SECTIONS).map(([name, build]) => build(query(`#${name}`)));

function compute() {
  const heads = numbers.heads.map((head) => attendByHand(numbers.x, head, numbers.key_width));
  const joined = words.map((_, i) => heads.flatMap(({ z }) => z[i]));
  const all = {
    heads, joined, output: times(joined, numbers.output_matrix),
    basic: basicAttention(numbers.x), mapping: keyValue(numbers.mapping),
  };
  shown.forEach((show) => show(all));
  const largest = all.heads[state.head].weights[state.word];
  const most = largest.indexOf(Math.max(...largest));
  query(".spoken").textContent = `${words[state.word]} takes most from ${words[most]}: ${figure(largest[most])}.`;
  keepNumbers();
}

function open(name) {
  for (const section of Object.keys(SECTIONS)) query(`#${section}`).hidden = section !== name;
  query(`[name=section][value=${name}]`).checked = true;
  for (const field of ["#head-field", "#width-field"]) query(field).hidden = !["steps", "matrix"].includes(name);
  query("#word-field").hidden = name !== "steps";
}

query("#head").append(...facts.heads.map((_, i) => new Option(`head ${i + 1}`, i)));
query("#word").append(...words.map((word, i) => new Option(word, i)));
recallNumbers();
query("#width").value = numbers.key_width;
query("#width").min = 1;
query("#width-note").textContent = facts.key_width > DRAWN
  ? `${DRAWN} features are drawn; the other ${facts.key_width - DRAWN} are 0.` : "";
query("#section").addEventListener("change", ({ target }) => {
  remember({ section: target.value });
  open(target.value);
});
for (const [name, count] of [["head", H], ["word", words.length]]) {
  state[name] = remembered(name, count) ?? 0;
  query(`#${name}`).value = state[name];
  query(`#${name}`).addEventListener("change", ({ target }) => {
    state[name] = Number(target.value);
    remember({ [name]: target.value });
    compute();
  });
}
query("#width").addEventListener("input", ({ target }) => {
  if (!(target.valueAsNumber > 0)) return;
  numbers.key_width = target.valueAsNumber;
  compute();
});
query("#reset").addEventListener("click", () => {
  Object.assign(numbers, structuredClone(facts));
  query("#width").value = facts.key_width;
  compute();
});
open(remembered("section", Object.keys(SECTIONS)) ?? "steps");
compute();
