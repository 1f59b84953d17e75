// Puts it together: a change of what is chosen draws the page anew, at most once a frame.

let weights = null; // of the chosen layer and head
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
  if (state.view === "lines") drawLines(weights);
  else drawMatrix(weights);
}

async function load() {
  const { layer, head } = state;
  const slow = setTimeout(() => (query(".wait").hidden = false), 120);
  try {
    const opened = await openLayer(layer);
    if (layer !== state.layer || head !== state.head) return; // another one was chosen meanwhile
    weights = plane(opened, head);
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
  document.documentElement.style.setProperty("--tint", colour(state.head));
}

function choose(change) {
  Object.assign(state, change);
  tip.hidden = true;
  writeAddress();
  showControls();
  drawOverview();
  if ("layer" in change || "head" in change) load();
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
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("select, input") || event.ctrlKey || event.metaKey || event.altKey) return;
    const move = { ArrowLeft: ["head", -1], ArrowRight: ["head", 1], ArrowUp: ["layer", -1], ArrowDown: ["layer", 1] };
    if (event.key === "Escape") choose({ token: null });
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
  matrixCanvas.addEventListener("click", (event) => {
    const spot = cellUnder(event);
    if (!spot) return;
    keep(spot);
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

query("#layer").append(...Array.from({ length: L }, (_, layer) => new Option(layer, layer)));
query("#head").append(...Array.from({ length: H }, (_, head) => new Option(head, head)));
query("#head").append(new Option("average", AVERAGE));
readAddress();
listen();
choose({ layer: state.layer });
find();
unpack("small").then((bytes) => {
  pictures = bytes;
  drawOverview();
});
