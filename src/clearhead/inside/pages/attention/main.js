// Puts it together: a change of what is chosen draws the page anew, at most once a frame.

let weights = null; // of the chosen layer and head
let others = []; // { head, plane } of the heads drawn beside it
let waiting = false;

function render() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    if (!weights) return;
    showDetails(weights);
    if (state.view === "lines") fillColumns(weights);
    drawPicture();
  });
}

function drawPicture() {
  if (!weights) return;
  if (state.view === "lines") drawLines(weights, others);
  else drawMatrix(weights);
}

async function load() {
  const { layer, head } = state;
  const slow = setTimeout(() => (query(".wait").hidden = false), 120);
  try {
    const opened = await openLayer(layer);
    if (layer !== state.layer || head !== state.head) return; // another one was chosen meanwhile
    weights = plane(opened, head);
    others = state.more.filter((one) => one !== head).map((one) => ({ head: one, plane: plane(opened, one) }));
    render();
  } catch (error) {
    query(".failed").hidden = false;
    query(".failed").textContent = `This browser cannot open the weights: ${error.message}`;
  } finally {
    clearTimeout(slow);
    query(".wait").hidden = true;
  }
}

function showControls() {
  query("#layer").value = state.layer;
  query("#head").value = state.head;
  for (const name of ["view", "zoom", "pair"]) query(`[name=${name}][value=${state[name]}]`).checked = true;
  linesBox.hidden = state.view !== "lines";
  matrixBox.hidden = state.view !== "matrix";
  query("#pair").hidden = !isPair;
  query("#zoom").hidden = state.view !== "matrix" || measure().fits;
  query("#least").value = state.least;
  query("#least-shown").textContent = state.least ? (state.least / scale).toFixed(2) : "nothing";
  query("#plain").checked = Boolean(state.plain);
  query("#more").hidden = state.view !== "lines" || H < 2;
  chips.forEach(({ box, swatch }, head) => {
    box.checked = state.more.includes(head) || head === state.head;
    box.disabled = head === state.head;
    swatch.style.setProperty("--own", colour(head));
  });
  document.documentElement.style.setProperty("--tint", colour(state.head));
}

// a chip for each head that may be drawn beside the chosen one
const chips = Array.from({ length: H }, (_, head) => {
  const box = element("input", { type: "checkbox", ariaLabel: `draw head ${head + 1}, too` });
  const swatch = element("span", { title: `head ${head + 1}` }, String(head + 1));
  box.addEventListener("change", () =>
    choose({ more: box.checked ? [...state.more, head] : state.more.filter((one) => one !== head) }));
  query("#more").append(element("label", {}, box, swatch));
  return { box, swatch };
});

// why the page opens where it does
function tellWhy() {
  const { telling } = facts;
  query("#telling").hidden = !telling;
  if (!telling) return;
  const at = `block ${telling.layer + 1}, head ${telling.head + 1}`;
  const why = telling.pronoun
    ? "no head lets a pronoun look more at one word before it"
    : "no head has a stronger link between two words that are no neighbours";
  query("#telling").textContent = telling.token === null
    ? `Most telling is ${at}: no two words stand apart here, so no head tells more than another.`
    : `Most telling is ${at}: there “${plain[telling.token]}” gives “${plain[telling.other]}” ` +
      `${telling.weight.toFixed(2)} of its attention, and ${why}.`;
}

function choose(change) {
  Object.assign(state, change);
  tip.hidden = true;
  writeAddress();
  showControls();
  drawOverview();
  if ("layer" in change || "head" in change || "more" in change) load();
  else render();
}

function point(spot) {
  const same = (a, b) => a?.token === b?.token && a?.side === b?.side && a?.other === b?.other;
  if (same(spot, hover)) return;
  hover = spot;
  render();
}

// keep a token, or let it go again
function keep({ token, side }) {
  const again = state.token === token && state.side === side;
  hover = null;
  choose({ token: again ? null : token, side });
}

// a double click masks: what was chosen before its first click is chosen again, since it is what one wants to see
let before = null;

function keepOnce(event, spot) {
  if (event.detail > 1) return;
  before = { token: state.token, side: state.side };
  keep(spot);
}

function maskInstead({ token }) {
  choose(before);
  maskToken(token);
}

function step(name, by) {
  const count = name === "layer" ? L : H + 1;
  choose({ [name]: (state[name] + by + count) % count });
}

function listen() {
  query("#layer").addEventListener("change", (event) => choose({ layer: Number(event.target.value) }));
  query("#head").addEventListener("change", (event) => choose({ head: Number(event.target.value) }));
  for (const button of document.querySelectorAll("[data-step]"))
    button.addEventListener("click", () => step(button.dataset.step, Number(button.dataset.by)));
  for (const name of ["view", "zoom", "pair"])
    query(`#${name}`).addEventListener("change", (event) => choose({ [name]: event.target.value }));
  query("#least").addEventListener("input", (event) => choose({ least: Number(event.target.value) }));
  query("#plain").addEventListener("change", (event) => choose({ plain: Number(event.target.checked) }));
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("select, input") || event.ctrlKey || event.metaKey || event.altKey) return;
    const move = { ArrowLeft: ["head", -1], ArrowRight: ["head", 1], ArrowUp: ["layer", -1], ArrowDown: ["layer", 1] };
    if (event.key === "Escape") choose({ token: null });
    else if (event.key === "m" && focused()) maskToken(focused().token);
    else if (move[event.key]) step(...move[event.key]);
    else return;
    event.preventDefault();
  });
  watchColumn("from");
  watchColumn("to");
  matrixCanvas.addEventListener("pointermove", (event) => {
    const spot = event.pointerType === "mouse" ? cellUnder(event) : null;
    point(spot);
    if (weights) showTip(event, spot, weights);
  });
  matrixCanvas.addEventListener("pointerleave", () => {
    tip.hidden = true;
    point(null);
  });
  matrixCanvas.addEventListener("dblclick", (event) => {
    const spot = cellUnder(event);
    if (spot) maskInstead(spot);
  });
  matrixCanvas.addEventListener("click", (event) => {
    const spot = cellUnder(event);
    if (!spot) return;
    keepOnce(event, spot);
    showTip(event, spot, weights);
  });
  for (const box of [linesBox, matrixBox])
    box.addEventListener("scroll", () => requestAnimationFrame(drawPicture), { passive: true });
  addEventListener("hashchange", () => {
    readAddress();
    choose({ layer: state.layer });
    find();
  });
  dark.addEventListener("change", () => {
    rgb.clear();
    painted.clear();
    choose({});
  });
  new ResizeObserver(() => {
    showControls();
    drawOverview();
    drawPicture();
  }).observe(query("main"));
}

query("#layer").append(...Array.from({ length: L }, (_, layer) => new Option(layer + 1, layer)));
query("#head").append(...Array.from({ length: H }, (_, head) => new Option(head + 1, head)));
query("#head").append(new Option("average", AVERAGE));
readAddress();
tellWhy();
listen();
choose({ layer: state.layer });
find();
unpack("small").then((bytes) => {
  pictures = bytes;
  drawOverview();
});
