// A table of numbers as colours on one canvas: blue above 0, orange below. The pointer or the arrow keys read a cell.

const SIDE = 15; // a cell with a label beside it
const WARM = () => (dark.matches ? "oklch(0.76 0.13 55)" : "oklch(0.66 0.15 50)");
const COOL = () => (dark.matches ? "oklch(0.72 0.13 268)" : "oklch(0.52 0.19 268)");
const maps = new Set();
const largest = (values) => values.flat().reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
// where colours begin in a table of cosines that are all large: at the smallest, but equal ones are not torn apart
const lowest = (values) => Math.max(0, values.flat().reduce((least, value) => Math.min(least, value), 0.99));
const strength = (value, least, most) => Math.min(1, Math.max(0, (Math.abs(value) - least) / (most - least || 1)));

// paint a colour for each number, transparent at `least` and full at `most`
function paintCells(values, least, most) {
  const [height, width] = [values.length, values[0].length];
  const picture = new OffscreenCanvas(width, height);
  const context = picture.getContext("2d");
  const image = new ImageData(width, height);
  const [warm, cool] = [WARM(), COOL()].map((colour) => channelsOf(colour));
  values.forEach((row, i) =>
    row.forEach((value, j) => {
      const [r, g, b] = value < 0 ? warm : cool;
      image.data.set([r, g, b, 255 * strength(value, least, most)], 4 * (i * width + j));
    }),
  );
  context.putImageData(image, 0, 0);
  return picture;
}

/* heatmap(box, …) -> { show(values, scale) }; rows and columns are texts.
   A number has no colour up to `least` and the full one from `most` on; `tall` is the largest cell. `square` is for
   tables of the same things twice; where a cell has room, its number is written in it. */
function heatmap(box, { name, rows, columns, values, least = 0, most = 1, tall = 28, square = false, digits = 2 }) {
  const canvas = element("canvas", { tabIndex: 0, role: "img", ariaLabel: `${name || "Numbers"}. Arrow keys read the cells.` });
  const reading = element("p", { className: "reading", ariaLive: "polite" }, "\u00a0");
  box.classList.add("heatmap");
  box.append(...(name ? [element("h3", {}, name)] : []), canvas, reading);
  let at = null; // [row, column] that is read
  let picture = paintCells(values, least, most);

  const numbered = columns.every((text) => /^\d+$/.test(text));
  const upright = (cell) => !numbered && cell[0] >= SIDE - 1;

  function measure() {
    const width = box.clientWidth;
    const context = canvas.getContext("2d");
    context.font = fontOf(12);
    const room = (texts) => Math.min(width / 4, Math.max(...texts.map((text) => context.measureText(text).width)) + 8);
    const left = room(rows);
    const across = (width - left) / columns.length;
    const cell = square
      ? [Math.min(across, tall), Math.min(across, tall)]
      : [Math.min(across, tall), rows.length <= 40 ? SIDE + 3 : Math.max(3, Math.min(across, SIDE / 2))];
    const top = upright(cell) ? room(columns) : 18;
    return { left, top, cell, width, height: top + rows.length * cell[1] };
  }

  function draw() {
    if (!box.clientWidth) return;
    const { left, top, cell, width, height } = measure();
    const context = prepare(canvas, width, height);
    context.fillStyle = themed("--faint");
    context.fillRect(left, top, columns.length * cell[0], rows.length * cell[1]);
    context.imageSmoothingEnabled = false;
    context.drawImage(picture, left, top, columns.length * cell[0], rows.length * cell[1]);
    context.font = fontOf(12);
    context.textBaseline = "middle";
    if (square && cell[0] >= 34) writeNumbers(context, left, top, cell);
    labelRows(context, left, top, cell);
    labelColumns(context, left, top, cell);
    if (at) {
      context.strokeStyle = themed("--ink");
      context.lineWidth = 1.5;
      context.strokeRect(left + at[1] * cell[0], top + at[0] * cell[1], Math.max(3, cell[0]), Math.max(3, cell[1]));
    }
  }

  function writeNumbers(context, left, top, cell) {
    context.textAlign = "center";
    values.forEach((row, i) =>
      row.forEach((value, j) => {
        context.fillStyle = themed(strength(value, least, most) > 0.6 ? "--card" : "--ink");
        context.fillText(value.toFixed(digits), left + (j + 0.5) * cell[0], top + (i + 0.5) * cell[1]);
      }),
    );
  }

  function labelRows(context, left, top, cell) {
    const every = Math.ceil((SIDE - 1) / cell[1]);
    context.textAlign = "right";
    rows.forEach((text, i) => {
      if (i % every && i !== at?.[0]) return;
      context.fillStyle = themed(i === at?.[0] ? "--ink" : "--soft");
      context.fillText(cut(context, text, left - 6), left - 5, top + (i + 0.5) * cell[1]);
    });
  }

  function labelColumns(context, left, top, cell) {
    const turned = upright(cell);
    const every = turned ? 1 : Math.ceil(40 / cell[0]);
    columns.forEach((text, j) => {
      if (j % every || (!turned && !numbered)) return;
      context.save();
      context.translate(left + (j + 0.5) * cell[0], top - 5);
      context.fillStyle = themed(j === at?.[1] ? "--ink" : "--soft");
      context.textAlign = turned ? "left" : j + every >= columns.length ? "right" : "center";
      if (turned) context.rotate(-Math.PI / 2);
      context.fillText(turned ? cut(context, text, top - 6) : text, 0, turned ? 0 : -4);
      context.restore();
    });
  }

  function read(row, column) {
    at = row >= 0 && row < rows.length && column >= 0 && column < columns.length ? [row, column] : null;
    reading.textContent = at ? `${rows[row]} · ${columns[column]}: ${values[row][column].toFixed(digits)}` : "\u00a0";
    draw();
  }

  canvas.addEventListener("pointermove", ({ offsetX, offsetY }) => {
    const { left, top, cell } = measure();
    read(Math.floor((offsetY - top) / cell[1]), Math.floor((offsetX - left) / cell[0]));
  });
  canvas.addEventListener("pointerleave", () => read(-1, -1));
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    const within = (value, count) => Math.max(0, Math.min(count - 1, value));
    read(...(at ? [within(at[0] + move[0], rows.length), within(at[1] + move[1], columns.length)] : [0, 0]));
    event.preventDefault();
  });
  const map = {
    draw,
    repaint: () => (picture = paintCells(values, least, most)),
    show(next, scale = {}) {
      [values, least, most] = [next, scale.least ?? least, scale.most ?? most];
      picture = paintCells(values, least, most);
      if (at) read(...at);
      else draw();
    },
  };
  maps.add(map);
  new ResizeObserver(draw).observe(box);
  return map;
}

function cut(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  let end = text.length;
  while (end > 1 && context.measureText(text.slice(0, end) + "…").width > room) end--;
  return text.slice(0, end) + "…";
}

dark.addEventListener("change", () => maps.forEach((map) => (map.repaint(), map.draw())));
