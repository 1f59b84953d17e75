// Small pictures of all heads, a row for each layer; the last column is the average.

const overview = query(".overview canvas");
const SMALL = facts.small; // side of a small picture as stored
const GAP = 3;
let pictures = null; // Uint8Array (L, H + 1, SMALL, SMALL)
let overHead = null; // { layer, head } under the pointer

function overviewSize() {
  const width = overview.parentElement.clientWidth - 32;
  const gutter = 20;
  const apart = 6; // between the heads and their average
  const cell = Math.min(44, Math.floor((width - gutter - apart) / (H + 1)));
  const x = (head) => gutter + head * cell + (head === AVERAGE ? apart : 0);
  const y = (layer) => 18 + layer * cell;
  return { width, cell, x, y, height: y(L) };
}

function drawOverview() {
  if (!pictures) return;
  const { width, cell, x, y, height } = overviewSize();
  const context = prepare(overview, width, height);
  const size = cell - GAP;
  context.font = fontOf(10);
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let head = 0; head <= AVERAGE; head++) {
    context.fillStyle = themed(head === state.head ? "--ink" : "--soft");
    context.fillText(head === AVERAGE ? "avg" : head + 1, x(head) + size / 2, 8);
  }
  context.imageSmoothingQuality = "high";
  for (let layer = 0; layer < L; layer++) {
    context.fillStyle = themed(layer === state.layer ? "--ink" : "--soft");
    context.fillText(layer + 1, 7, y(layer) + size / 2);
    for (let head = 0; head <= AVERAGE; head++) {
      context.fillStyle = themed("--faint");
      context.fillRect(x(head), y(layer), size, size);
      context.imageSmoothingEnabled = SMALL > size;
      context.drawImage(smallPicture(layer, head), x(head), y(layer), size, size);
    }
  }
  if (overHead) frame(context, overHead, "--soft", 1);
  frame(context, state, "--ink", 2);

  function frame(context, { layer, head }, name, thickness) {
    context.strokeStyle = themed(name);
    context.lineWidth = thickness;
    context.strokeRect(x(head) - 1, y(layer) - 1, size + 2, size + 2);
  }
}

const painted = new Map(); // "layer head" -> picture in the colours of the theme

function smallPicture(layer, head) {
  const key = `${layer} ${head}`;
  if (!painted.has(key)) {
    const [r, g, b] = channels(head);
    const image = new ImageData(SMALL, SMALL);
    const start = (layer * (H + 1) + head) * SMALL * SMALL;
    for (let k = 0; k < SMALL * SMALL; k++) image.data.set([r, g, b, pictures[start + k]], 4 * k);
    const picture = new OffscreenCanvas(SMALL, SMALL);
    picture.getContext("2d").putImageData(image, 0, 0);
    painted.set(key, picture);
  }
  return painted.get(key);
}

function headUnder(event) {
  const { cell, x, y } = overviewSize();
  const layer = Math.floor((event.offsetY - y(0)) / cell);
  const head = event.offsetX >= x(AVERAGE) ? AVERAGE : Math.floor((event.offsetX - x(0)) / cell);
  return layer >= 0 && layer < L && head >= 0 && event.offsetX < x(AVERAGE) + cell ? { layer, head } : null;
}

overview.addEventListener("pointermove", (event) => {
  overHead = headUnder(event);
  overview.title = overHead ? `block ${overHead.layer + 1}, ${headName(overHead.head)}` : "";
  drawOverview();
});
overview.addEventListener("pointerleave", () => {
  overHead = null;
  drawOverview();
});
overview.addEventListener("click", (event) => {
  const found = headUnder(event);
  if (found) choose(found);
});
