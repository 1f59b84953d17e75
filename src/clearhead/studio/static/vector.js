// What a view paints on a canvas is noted, the calls since it was cleared, and becomes shapes when it is exported.

import { filled, shape, short } from "./shapes.js";

const CELLS = 20_000; // of a table of colours; a larger one is an image
const MOST = 30_000; // calls; a picture with more is exported as pixels
const STATE = [
  "fillStyle", "strokeStyle", "lineWidth", "lineCap", "lineJoin", "globalAlpha", "font", "textAlign", "textBaseline",
  "imageSmoothingEnabled",
];
const NOTED = new Set([
  "fillRect", "strokeRect", "fillText", "strokeText", "drawImage", "stroke", "fill", "clip", "save", "restore", "translate",
  "rotate", "scale", "setTransform", "beginPath", "closePath", "moveTo", "lineTo", "bezierCurveTo", "quadraticCurveTo",
  "arc", "rect", "roundRect", "setLineDash",
]);
const contexts = new WeakMap(); // canvas -> { context, calls }

// a path whose parts can be read again
export class RecordedPath extends Path2D {
  constructor(from) {
    super(from);
    this.steps = typeof from === "string" ? [["path", from]] : [...(from?.steps ?? [])];
  }
}
for (const name of ["moveTo", "lineTo", "bezierCurveTo", "quadraticCurveTo", "arc", "rect", "roundRect", "closePath"])
  RecordedPath.prototype[name] = function (...given) {
    this.steps.push([name, ...given]);
    return Path2D.prototype[name].apply(this, given);
  };

// let a canvas note what is painted on it
export function record(canvas) {
  const real = canvas.getContext.bind(canvas);
  canvas.getContext = (kind, options) => (kind === "2d" ? noted(canvas, real(kind, options)) : real(kind, options));
  return canvas;
}

function noted(canvas, context) {
  const known = contexts.get(canvas);
  if (known) return known.proxy;
  const calls = [];
  const note = (call) => calls.length <= MOST && calls.push(call);
  const functions = new Map();
  const functionOf = (name) => {
    if (!functions.has(name))
      functions.set(name, (...given) => {
        if (name === "clearRect") calls.length = 0;
        else if (NOTED.has(name)) note([name, given]);
        return context[name](...given);
      });
    return functions.get(name);
  };
  const proxy = new Proxy(context, {
    get: (target, name) => (typeof target[name] === "function" ? functionOf(name) : target[name]),
    set(target, name, value) {
      target[name] = value;
      if (STATE.includes(name)) note(["set", [name, target[name]]]);
      return true;
    },
  });
  contexts.set(canvas, { proxy, calls });
  return proxy;
}

const PATHS = {
  moveTo: (x, y) => `M${x} ${y}`,
  lineTo: (x, y) => `L${x} ${y}`,
  bezierCurveTo: (...p) => `C${p.join(" ")}`,
  quadraticCurveTo: (...p) => `Q${p.join(" ")}`,
  rect: (x, y, w, h) => `M${x} ${y}h${w}v${h}h${-w}Z`,
  roundRect: (x, y, w, h) => `M${x} ${y}h${w}v${h}h${-w}Z`,
  closePath: () => "Z",
  path: (d) => d,
  arc(x, y, r, from, to, against = false) {
    const whole = Math.abs(to - from) >= 2 * Math.PI - 1e-6;
    const end = whole ? from + (against ? -1 : 1) * (2 * Math.PI - 1e-3) : to;
    const large = Math.abs(end - from) > Math.PI ? 1 : 0;
    const at = (angle) => `${x + r * Math.cos(angle)} ${y + r * Math.sin(angle)}`;
    return `M${at(from)}A${r} ${r} 0 ${large} ${against ? 0 : 1} ${at(end)}${whole ? "Z" : ""}`;
  },
};
const pathOf = (steps) => steps.map(([name, ...given]) => PATHS[name](...given.map((one) => (typeof one === "number" ? short(one) : one)))).join("");
const ANCHOR = { center: "middle", right: "end", end: "end" };
const DOWN = { middle: "0.35em", top: "0.8em", hanging: "0.8em" };

// the shapes that were painted on a canvas, in its own pixels of the page; null if they are not known
export function shapesOf(canvas) {
  const { calls } = contexts.get(canvas) ?? {};
  if (!calls?.length || calls.length > MOST) return null;
  const ratio = canvas.width / (canvas.clientWidth || canvas.width);
  const made = [];
  let state = { matrix: new DOMMatrix(), fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1, font: "10px sans-serif", textAlign: "start", textBaseline: "alphabetic" };
  const stack = [];
  let path = [];
  const add = (tag, properties, ...children) => {
    const { a, b, c, d, e, f } = state.matrix;
    const own = [a, b, c, d, e, f].map((one) => Math.round((one / ratio) * 1e4) / 1e4);
    const moved = own.join() === "1,0,0,1,0,0" ? null : `matrix(${own.join(" ")})`;
    const { globalAlpha: alpha } = state;
    made.push(shape(tag, { ...properties, transform: moved, opacity: alpha < 1 ? short(alpha) : null }, ...children));
  };
  const box = (x, y, width, height) => ({ x: short(x), y: short(y), width: short(width), height: short(height) });
  const lined = () => ({
    fill: "none", ...filled("stroke", state.strokeStyle), "stroke-width": state.lineWidth, "stroke-linecap": state.lineCap,
    "stroke-dasharray": state.dash?.length ? state.dash.join(" ") : null,
  });
  const moves = {
    set: (name, value) => (state = { ...state, [name]: value }),
    save: () => stack.push(state),
    restore: () => (state = stack.pop() ?? state),
    setTransform: (...m) => (state = { ...state, matrix: new DOMMatrix(m.length ? m : undefined) }),
    translate: (x, y) => (state = { ...state, matrix: state.matrix.translate(x, y) }),
    rotate: (angle) => (state = { ...state, matrix: state.matrix.rotate((angle * 180) / Math.PI) }),
    scale: (x, y) => (state = { ...state, matrix: state.matrix.scale(x, y) }),
    setLineDash: (dash) => (state = { ...state, dash }),
    beginPath: () => (path = []),
    fillRect: (...at) => add("rect", { ...box(...at), ...filled("fill", state.fillStyle) }),
    strokeRect: (...at) => add("rect", { ...box(...at), ...lined() }),
    stroke: (own) => add("path", { d: pathOf(own?.steps ?? path), ...lined() }),
    fill: (own) => add("path", { d: pathOf(own?.steps ?? path), ...filled("fill", state.fillStyle) }),
    clip: () => {},
    fillText(words, x, y) {
      const [, weight = null, size, family] = state.font.match(/^(?:(\d+|bold) )?([\d.]+px) (.*)$/) ?? [null, null, "12px", "sans-serif"];
      const font = { "font-size": size, "font-family": family, "font-weight": weight };
      const anchor = ANCHOR[state.textAlign] ?? null;
      add("text", { x: short(x), y: short(y), dy: DOWN[state.textBaseline] ?? null, "text-anchor": anchor, ...font, ...filled("fill", state.fillStyle) }, String(words));
    },
    drawImage: (image, ...at) => drawCells(image, at, state, add),
  };
  for (const [name, given] of calls) {
    if (moves[name]) moves[name](...given);
    else path.push([name, ...given]);
  }
  return made;
}

// a table of colours as rectangles, neighbours of one colour together
function drawCells(image, [x, y, width = image.width, height = image.height], { imageSmoothingEnabled }, add) {
  const { width: columns, height: rows } = image;
  if (columns * rows > CELLS || imageSmoothingEnabled === true) {
    const copy = Object.assign(document.createElement("canvas"), { width: columns, height: rows });
    copy.getContext("2d").drawImage(image, 0, 0);
    return add("image", { x, y, width, height, preserveAspectRatio: "none", href: copy.toDataURL() });
  }
  const copy = new OffscreenCanvas(columns, rows).getContext("2d", { willReadFrequently: true });
  copy.drawImage(image, 0, 0);
  const { data } = copy.getImageData(0, 0, columns, rows);
  const [w, h] = [width / columns, height / rows];
  for (let i = 0; i < rows; i++)
    for (let j = 0, start = 0; j < columns; j++) {
      const at = 4 * (i * columns + j);
      const same = j + 1 < columns && [0, 1, 2, 3].every((k) => data[at + k] === data[at + 4 + k]);
      if (same) continue;
      const [r, g, b, a] = data.slice(at, at + 4);
      if (a) {
        const place = { x: short(x + start * w), y: short(y + i * h), width: short((j + 1 - start) * w), height: short(h) };
        add("rect", { ...place, fill: `rgb(${r},${g},${b})`, "fill-opacity": short(a / 255) });
      }
      start = j + 1;
    }
  return undefined;
}
