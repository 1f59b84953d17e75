// The picture as a matrix: one canvas as large as what is in sight; a long text is shown whole or close up.

const matrixBox = query("#matrix");
const sheet = query(".sheet");
const matrixCanvas = query(".sheet canvas");
const tip = query(".tip");
const [LEAST, CLOSE, MOST] = [13, 18, 46]; // size of a cell: with a label, close up, at most
const PAD = 12;

// the eye sees small weights only if they are lifted
const lifted = (value) => Math.sqrt(value / scale);

// where the cells lie: with labels if there is room for them, else the whole matrix, or close up and scrolled
function measure() {
  const width = matrixBox.clientWidth;
  const room = parseFloat(getComputedStyle(matrixBox).maxHeight);
  const labelRoom = Math.min(width < 520 ? 72 : 104, longestLabel() + 14);
  const [across, down] = [width, room].map((length) => (length - 2 * PAD - labelRoom) / T);
  let cell = Math.min(MOST, across, Math.max(down, LEAST));
  const fits = cell >= LEAST;
  if (!fits) cell = state.zoom === "close" ? CLOSE : (Math.min(width, room) - 2 * PAD) / T;
  const gutter = cell >= LEAST ? labelRoom : 0;
  const side = T * cell + gutter + 2 * PAD;
  const left = gutter + PAD + Math.max(0, (width - side) / 2);
  return { cell, gutter, fits, width, side, left, top: gutter + PAD, height: Math.min(side, room) };
}

let longest = 0;

function longestLabel() {
  if (!longest) {
    const context = matrixCanvas.getContext("2d");
    context.font = fontOf(13);
    longest = Math.max(...plain.map((text) => context.measureText(text).width));
  }
  return longest;
}

function drawMatrix(weights) {
  const { cell, gutter, width, side, left, top, height } = measure();
  sheet.style.width = `${Math.max(width, side)}px`;
  sheet.style.height = `${side}px`;
  const context = prepare(matrixCanvas, width, height);
  const [dx, dy] = [matrixBox.scrollLeft, matrixBox.scrollTop];
  context.save();
  context.beginPath();
  context.rect(left - 1, top - 1, width, height);
  context.clip();
  context.translate(left - dx, top - dy);
  if (cell < 6) paintWhole(context, weights, cell);
  else paintCells(context, weights, cell, dx, dy, width, height);
  markFocus(context, cell);
  context.restore();
  if (gutter) drawLabels(context, cell, left, top, dx, dy, width, height);
}

let whole = {}; // the last picture painted by pixel, since pointing at a cell changes only what lies over it

function wholePicture(weights) {
  const key = [state.layer, state.head, state.pair, state.least, state.plain, dark.matches].join(" ");
  if (whole.key === key) return whole.picture;
  const image = new ImageData(T, T);
  const [r, g, b] = channels(state.head);
  for (let i = 0, k = 0; i < T; i++)
    for (let j = 0; j < T; j++, k++) image.data.set([r, g, b, 255 * lifted(shownWeight(weights, i, j))], 4 * k);
  const picture = new OffscreenCanvas(T, T);
  picture.getContext("2d").putImageData(image, 0, 0);
  whole = { key, picture };
  return picture;
}

function paintWhole(context, weights, cell) {
  context.imageSmoothingEnabled = cell < 2; // shrunk or about as is: mix; enlarged: keep the squares
  context.strokeStyle = themed("--line");
  context.strokeRect(0, 0, T * cell, T * cell);
  context.drawImage(wholePicture(weights), 0, 0, T * cell, T * cell);
}

function paintCells(context, weights, cell, dx, dy, width, height) {
  const gap = cell > 12 ? 1 : 0;
  const [rows, across] = [seen(dy, height, cell), seen(dx, width, cell)];
  const empty = themed("--faint");
  const tint = colour(state.head);
  const numbers = cell >= 30;
  const turn = dark.matches ? 0.6 : 0.72; // from here on the cell is so strong that its number is written in reverse
  context.font = fontOf(11);
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (const i of rows)
    for (const j of across) {
      const [x, y, size] = [j * cell, i * cell, cell - gap];
      context.globalAlpha = lets(i, j) ? 1 : 0.35;
      context.fillStyle = empty;
      context.fillRect(x, y, size, size);
      const value = shownWeight(weights, i, j);
      if (!value) continue;
      context.globalAlpha = lifted(value);
      context.fillStyle = tint;
      context.fillRect(x, y, size, size);
      if (!numbers || value < 0.01 * scale) continue;
      context.globalAlpha = 1;
      context.fillStyle = lifted(value) > turn ? themed("--card") : themed("--ink");
      context.fillText(written(value).replace(/^0/, ""), x + size / 2, y + size / 2 + 0.5);
    }
  context.globalAlpha = 1;
}

function seen(start, length, cell) {
  const first = Math.max(0, Math.floor(start / cell));
  const end = Math.min(T, Math.ceil((start + length) / cell));
  return Array.from({ length: end - first }, (_, i) => first + i);
}

function markFocus(context, cell) {
  const focus = focused();
  if (!focus) return;
  context.strokeStyle = themed("--ink");
  context.lineWidth = 1.25;
  const at = focus.token * cell - 0.5;
  const thick = Math.max(cell, 2);
  if (focus.side === "from") context.strokeRect(-0.5, at, T * cell, thick);
  else context.strokeRect(at, -0.5, thick, T * cell);
  if (focus.other !== undefined) {
    context.lineWidth = 2;
    context.strokeRect(focus.other * cell - 0.5, at, thick, thick);
  }
}

function drawLabels(context, cell, left, top, dx, dy, width, height) {
  const focus = focused();
  context.font = fontOf(Math.min(13, cell * 0.78));
  context.textBaseline = "middle";
  const write = (index, isRow) => {
    const chosen = focus?.token === index && (focus.side === "from") === isRow;
    const hot = chosen || (!isRow && focus?.other === index);
    context.fillStyle = hot || !labels[index].special ? themed("--ink") : themed("--soft");
    context.globalAlpha = focus && !hot ? 0.6 : 1;
    context.fillText(shortened(context, plain[index], top - PAD - 8), 0, 0);
  };
  context.save();
  context.beginPath();
  context.rect(0, top, left, height);
  context.clip();
  context.textAlign = "right";
  for (const i of seen(dy, height - top, cell))
    at(context, left - 7, top + (i + 0.5) * cell - dy, 0, () => write(i, true));
  context.restore();
  context.save();
  context.beginPath();
  context.rect(left, 0, width, top);
  context.clip();
  context.textAlign = "left";
  for (const j of seen(dx, width - left, cell))
    at(context, left + (j + 0.5) * cell - dx, top - 7, -Math.PI / 2, () => write(j, false));
  context.restore();
  context.globalAlpha = 1;
  context.font = fontOf(11);
  context.fillStyle = themed("--soft");
  context.textAlign = "right";
  context.fillText("to →", left - 7, top - 26);
  context.fillText("from ↓", left - 7, top - 10);
}

function at(context, x, y, angle, draw) {
  context.save();
  context.translate(x, y);
  context.rotate(angle);
  draw();
  context.restore();
}

function shortened(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  let end = text.length;
  while (end > 1 && context.measureText(text.slice(0, end) + "…").width > room) end--;
  return text.slice(0, end) + "…";
}

function cellUnder(event) {
  const { cell, left, top } = measure();
  const box = matrixCanvas.getBoundingClientRect();
  const to = Math.floor((event.clientX - box.left - left + matrixBox.scrollLeft) / cell);
  const from = Math.floor((event.clientY - box.top - top + matrixBox.scrollTop) / cell);
  return from >= 0 && from < T && to >= 0 && to < T ? { token: from, side: "from", other: to } : null;
}

function showTip(event, spot, weights) {
  tip.hidden = !spot;
  if (!spot) return;
  tip.textContent = `${plain[spot.token]} → ${plain[spot.other]}  ${written(weights[spot.token * T + spot.other])}`;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - box.width - 8)}px`;
  tip.style.top = `${event.clientY + 40 > innerHeight ? event.clientY - 40 : event.clientY + 14}px`;
}
