// A chart for each measurement that some run has; new numbers from the studio draw them anew.

const FIRST = ["loss", "learning_rate", "tokens_per_second"]; // then evaluation, then the rest
const PLACES = new Set(["step", "epoch", "tokens", "elapsed"]);
const TITLES = {
  loss: "Loss", learning_rate: "Learning rate", tokens_per_second: "Tokens per second", norm: "Gradient norm",
};
const titleOf = (name) => TITLES[name] ?? name.replace(/^evaluation\//, "Evaluation: ").replaceAll("_", " ");
const charts = new Map([["loss", chart(query("[data-name=loss]"))]]);
let runs = facts.runs;

// a run of one part has its loss twice, under the name of the part too
const twice = (name) => runs.every(({ columns }) => !columns[name] || String(columns[name]) === String(columns.loss));

function measured() {
  const names = new Set(runs.flatMap(({ columns }) => Object.keys(columns)));
  const rank = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : name.startsWith("evaluation/") ? 3 : 4);
  const drawable = (name) => !PLACES.has(name) && (name === "loss" || !twice(name));
  return [...names].filter(drawable).sort((a, b) => rank(a) - rank(b));
}

function paneFor(name) {
  const picture = drawn("svg", { tabindex: 0, role: "img", "aria-label": titleOf(name) });
  const reading = element("p", { className: "reading", ariaLive: "polite" }, "\u00a0");
  const pane = element("section", { className: "card pane" }, element("h2", {}, titleOf(name)), picture, reading);
  pane.dataset.name = name;
  query("#charts").append(pane);
  return chart(pane);
}

const last = (values = []) => values.findLast((value) => value != null);

function standing(names) {
  const shown = ["loss", ...names.filter((name) => name.startsWith("evaluation/"))];
  const head = ["run", "steps", "tokens", "time", ...shown.map(titleOf)];
  const rows = runs.map(({ name, columns }, index) => {
    const dash = element("span", { className: "dash", ariaHidden: "true" });
    dash.style.setProperty("--own", tint(index));
    const written = (value, how = figure) => (value === undefined ? "–" : how(value));
    const cells = [
      written(last(columns.step)), written(last(columns.tokens)), written(last(columns.elapsed), clock),
      ...shown.map((measure) => written(last(columns[measure]))),
    ];
    const heading = element("th", { scope: "row" }, dash, element("bdi", {}, name));
    return element("tr", {}, heading, ...cells.map((text) => element("td", {}, text)));
  });
  query(".standing").replaceChildren(
    element("tr", {}, ...head.map((text) => element("th", { scope: "col" }, text))), ...rows,
  );
}

function show() {
  const names = measured();
  const across = query("[name=across]:checked").value;
  mixColours(runs.length);
  standing(names);
  for (const name of names) {
    if (!charts.has(name)) charts.set(name, paneFor(name));
    charts.get(name)(runs, across);
  }
}

query(`[name=across][value=${remembered("across", Object.keys(ACROSS)) ?? "step"}]`).checked = true;
query("#across").addEventListener("change", ({ target }) => {
  remember({ across: target.value });
  show();
});
dark.addEventListener("change", () => mixColours(runs.length));
// the studio, which is of this origin, sends what the runs have written since
addEventListener("message", ({ source, origin, data }) => {
  if (source !== parent || origin !== location.origin || !data?.runs) return;
  ({ runs } = data);
  show();
});
show();
