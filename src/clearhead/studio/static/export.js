// What is on the page as a file: an SVG of shapes and words, or that painted as PNG. Below stands what it shows.

import { element } from "./dom.js";
import { Sheet } from "./shapes.js";
import { shapesOf } from "./vector.js";

const px = (value) => Number.parseFloat(value) || 0;
const LEFT_OUT = "script, style, template, .spoken, .tip, option";

// the lines of a text node with their places, as the browser broke them
function linesOf(node) {
  const lines = [];
  const range = document.createRange();
  for (const { 0: word, index } of node.data.matchAll(/\S+\s*/g)) {
    range.setStart(node, index);
    range.setEnd(node, index + word.trimEnd().length);
    for (const box of range.getClientRects()) {
      if (!box.width) continue;
      const last = lines.at(-1);
      if (last && Math.abs(last.box.top - box.top) < 2) last.words += ` ${word.trimEnd()}`;
      else lines.push({ box, words: word.trimEnd() });
      break;
    }
  }
  return lines;
}

function drawBox(sheet, style, box) {
  const radius = Math.min(px(style.borderTopLeftRadius), box.width / 2, box.height / 2);
  const line = Math.max(px(style.borderTopWidth), px(style.borderLeftWidth));
  const bordered = line > 0 && style.borderTopStyle !== "none";
  sheet.rect(box, { fill: style.backgroundColor, stroke: bordered ? style.borderTopColor : null, line, radius });
}

// what stands before or after an element as decoration: bars, for the most part
function drawPseudo(sheet, node, kind) {
  const style = getComputedStyle(node, kind);
  if (style.content === "none" || style.position !== "absolute") return;
  const box = node.getBoundingClientRect();
  const scale = new DOMMatrix(style.transform === "none" ? "" : style.transform);
  const wide = px(style.width) * scale.a;
  const origin = px(style.transformOrigin) * (1 - scale.a);
  const place = new DOMRect(box.left + px(style.left) + origin, box.top + px(style.top), wide, px(style.height));
  sheet.within(style.opacity, () => sheet.rect(place, { fill: style.backgroundColor, radius: px(style.borderTopLeftRadius) }));
}

function drawField(sheet, node, style, box) {
  const words = node.localName === "select" ? node.selectedOptions[0]?.text : node.value;
  if (node.type === "range") {
    const share = (node.value - node.min) / (node.max - node.min || 1);
    const middle = box.top + box.height / 2;
    sheet.rect(new DOMRect(box.left, middle - 2, box.width, 4), { fill: style.color, radius: 2 });
    return sheet.rect(new DOMRect(box.left + share * (box.width - 12), middle - 6, 12, 12), { fill: style.color, radius: 6 });
  }
  if (["radio", "checkbox"].includes(node.type)) {
    if (px(style.opacity)) sheet.rect(box, { fill: node.checked ? style.color : "none", stroke: style.color, line: 1, radius: 2 });
    return undefined;
  }
  const size = px(style.fontSize);
  return sheet.text(words ?? "", box.left + px(style.paddingLeft) + 1, box.top + box.height / 2 + size * 0.35, style);
}

function draw(sheet, node) {
  if (node.nodeType === Node.TEXT_NODE) {
    const style = getComputedStyle(node.parentElement);
    for (const { box, words } of linesOf(node)) sheet.line(words, box, style);
    return;
  }
  if (node.nodeType !== Node.ELEMENT_NODE || node.matches(LEFT_OUT)) return;
  const style = getComputedStyle(node);
  if (style.display === "none" || style.visibility === "hidden" || !Number(style.opacity)) return;
  const box = node.getBoundingClientRect();
  sheet.within(style.opacity, () => {
    if (style.display !== "contents") drawBox(sheet, style, box);
    for (const kind of ["::before", "::after"]) drawPseudo(sheet, node, kind);
    if (node.localName === "svg") return sheet.drawing(node, box);
    if (node.localName === "canvas") return sheet.painting(node, box, shapesOf(node));
    if (node.matches("input, select, textarea")) return drawField(sheet, node, style, box);
    const inside = () => {
      for (const child of (node.shadowRoot ?? node).childNodes) draw(sheet, child);
    };
    return style.overflowX !== "visible" || style.overflowY !== "visible" ? sheet.clipped(box, inside) : inside();
  });
}

const MARGIN = 16;

// `about` is the line that says what is shown
export function svgOf(root, about = "") {
  const { left, top, width, height } = root.getBoundingClientRect();
  const box = new DOMRect(left - MARGIN, top - MARGIN, width + 2 * MARGIN, height + (about ? 3 : 2) * MARGIN);
  const style = getComputedStyle(root);
  const sheet = new Sheet(box);
  sheet.rect(box, { fill: getComputedStyle(document.body).backgroundColor });
  draw(sheet, root);
  if (about) sheet.text(about, left, box.bottom - MARGIN + 4, { ...textStyle(style), fontSize: "12px", color: style.color });
  return sheet.toString(about);
}

const textStyle = ({ fontFamily, fontWeight, fontStyle, letterSpacing }) => ({
  fontFamily, fontWeight, fontStyle, letterSpacing,
});

export async function pngOf(root, about) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgOf(root, about))}`;
  await image.decode();
  const canvas = element("canvas", { width: 2 * image.width, height: 2 * image.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

export function download(name, blob) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
