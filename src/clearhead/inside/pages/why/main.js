// A row of tokens for each method, then the curves and the verdict.

const { tokens, answer, probability } = facts;
// question answering compares whole spans with one another, which has other probabilities than both ends apart
const ENDS = `its start × its end: ${probability.toFixed(digits - 1)}, which is explained here`;
const STATED = facts.stated === null ? ENDS : `probability ${facts.stated.toFixed(digits - 1)}; ${ENDS}`;
const told = facts.use === "answer" ? STATED : `probability ${probability.toFixed(digits - 1)}`;
const hidable = new Set(facts.hidable);
const ASKED = {
  classify: "the class",
  answer: "the answer",
  fill: "the word behind the mask",
  follows: "whether the second text follows the first",
};

query("#lead").replaceChildren(
  `Which tokens made the model say `, element("strong", {}, element("bdi", {}, answer)),
  ` (${ASKED[facts.use]}, ${told})? Five methods answer, and they differ.`,
);
query("#note").textContent = facts.note;
const fades = ({ curve }) => Math.min(...curve) < probability / 2;
const others = facts.as_faithful.map((name) => `“${name}”`).join(" and ");
const little = facts.faithful && !fades(facts.methods[facts.faithful]) ? " But it fades little, whatever is hidden." : "";
query("#verdict").textContent = facts.faithful
  ? `Here, “${facts.faithful}” is the most faithful${others && `, ${others} hardly less`}: ` +
    `the answer fades soonest when its tokens are hidden first.${little}`
  : "Here, none of them is better than hiding tokens by chance: believe none.";

// colour by strength within the row, special tokens left out: they often take most of the attention
function shade(score, most) {
  const share = Math.round(55 * Math.min(1, Math.abs(score) / most));
  return `color-mix(in oklab, ${score < 0 ? "oklch(0.72 0.15 50)" : "oklch(0.62 0.17 268)"} ${share}%, var(--faint))`;
}

const rows = methods.map((name) => {
  const { scores } = facts.methods[name];
  const most = Math.max(1e-9, ...facts.hidable.map((i) => Math.abs(scores[i])));
  const items = tokens.map((token, i) => {
    const item = element("li", { tabIndex: -1, className: hidable.has(i) ? "" : "fixed" }, wordOf(token));
    item.title = scores[i].toFixed(4);
    item.style.setProperty("--own", shade(scores[i], most));
    item.addEventListener("pointerenter", () => point(i));
    item.addEventListener("pointerleave", () => point(null));
    item.addEventListener("focus", () => point(i));
    return item;
  });
  items[0].tabIndex = 0;
  const dash = element("span", { className: "dash", ariaHidden: "true" });
  dash.style.setProperty("--own", colourOf(name));
  const list = element("ol", { className: "line", ariaLabel: name }, ...items);
  list.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const next = by && items[items.indexOf(document.activeElement) + by];
    if (!next) return;
    next.focus();
    event.preventDefault();
  });
  query("#methods").append(element("section", { className: "method" }, element("h3", {}, dash, name), list));
  return items;
});

function point(index) {
  rows.forEach((items) => items.forEach((item, i) => item.classList.toggle("chosen", i === index)));
  const opinion = (name) => `${name} ${facts.methods[name].scores[index].toFixed(3)}`;
  query("#pointed").textContent =
    index === null ? "\u00a0" : `${plainToken(tokens[index])}: ${methods.map(opinion).join(" · ")}`;
}

const areas = [...methods.map((name) => [name, facts.methods[name].area]), ["chance", facts.random.area]];
query(".areas").append(...areas.sort((a, b) => a[1] - b[1]).map(([name, area]) => {
  const dash = element("span", { className: "dash" });
  dash.style.setProperty("--own", colourOf(name));
  dash.classList.toggle("dashed", name === "chance");
  const className = name === facts.faithful ? "best" : "";
  const cells = [element("th", { scope: "row" }, dash, name), element("td", {}, area.toFixed(digits))];
  return element("tr", { className }, ...cells);
}));
drawChart();
