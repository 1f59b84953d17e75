// An SVG that is drawn shape by shape, in places of the page.

const SPACE = "http://www.w3.org/2000/svg";
const INHERITED = [
  "fill", "fill-opacity", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity",
  "font-size", "font-weight", "font-family", "text-anchor", "dominant-baseline", "display",
];
const colours = new Map();
const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });

// [rgb, opacity]: other programs know no other colours
function colourOf(text) {
  if (!text || text === "none") return null;
  if (!colours.has(text)) {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = "#000";
    context.fillStyle = text;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    colours.set(text, a ? [`rgb(${r},${g},${b})`, a / 255] : null);
  }
  return colours.get(text);
}

export function shape(tag, properties, ...children) {
  const made = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(properties)) if (value !== null && value !== undefined) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export const short = (value) => Math.round(value * 100) / 100;
export const filled = (name, text) => {
  const [colour, opacity] = colourOf(text) ?? ["none", 1];
  return { [name]: colour, [`${name}-opacity`]: opacity < 1 ? short(opacity) : null };
};

export class Sheet {
  constructor(box) {
    this.left = box.left;
    this.top = box.top;
    this.svg = shape("svg", { width: box.width, height: box.height, viewBox: `0 0 ${box.width} ${box.height}` });
    this.at = this.svg;
    this.clips = 0;
  }

  add(made) {
    this.at.append(made);
    return made;
  }

  inside(group, does) {
    const before = this.at;
    this.at = this.add(group);
    does();
    this.at = before;
    if (!group.childNodes.length) group.remove();
  }

  within(opacity, does) {
    Number(opacity) < 1 ? this.inside(shape("g", { opacity }), does) : does();
  }

  clipped(box, does) {
    const id = `clip-${this.clips++}`;
    this.add(shape("clipPath", { id }, shape("rect", this.place(box))));
    this.inside(shape("g", { "clip-path": `url(#${id})` }), does);
  }

  place({ left, top, width, height }) {
    return { x: short(left - this.left), y: short(top - this.top), width: short(width), height: short(height) };
  }

  rect(box, { fill, stroke = null, line = 0, radius = 0 }) {
    if (box.width <= 0 || box.height <= 0 || !(colourOf(fill) || (stroke && colourOf(stroke)))) return;
    const lined = stroke ? { ...filled("stroke", stroke), "stroke-width": line } : {};
    this.add(shape("rect", { ...this.place(box), rx: radius ? short(radius) : null, ...filled("fill", fill), ...lined }));
  }

  // text whose baseline is at y
  text(words, x, y, style) {
    if (!words) return;
    const font = {
      "font-size": style.fontSize, "font-weight": style.fontWeight, "font-family": style.fontFamily,
      "font-style": style.fontStyle === "normal" ? null : style.fontStyle,
      "letter-spacing": style.letterSpacing === "normal" ? null : style.letterSpacing,
    };
    this.add(shape("text", { x: short(x - this.left), y: short(y - this.top), ...font, ...filled("fill", style.color) }, words));
  }

  line(words, box, style) {
    context.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = context.measureText(words);
    this.text(words, box.left, box.top + (box.height - up - down) / 2 + up, style);
  }

  // a drawing of the page, with the styles that its sheet gives it
  drawing(svg, box) {
    const copy = svg.cloneNode(true);
    const [mine, theirs] = [svg, copy].map((one) => [one, ...one.querySelectorAll("*")]);
    mine.forEach((one, i) => {
      const style = getComputedStyle(one);
      for (const name of INHERITED) {
        const value = style.getPropertyValue(name);
        if (name === "fill" || name === "stroke") {
          for (const [key, worth] of Object.entries(filled(name, value))) if (worth !== null) theirs[i].setAttribute(key, worth);
        } else if (value && !name.endsWith("-opacity")) theirs[i].setAttribute(name, value);
      }
      for (const name of ["style", "class", "tabindex", "role"]) theirs[i].removeAttribute(name);
    });
    for (const [name, value] of Object.entries(this.place(box))) copy.setAttribute(name, value);
    this.add(copy);
  }

  painting(canvas, box, shapes) {
    if (!shapes) {
      if (canvas.width && canvas.height) this.add(shape("image", { ...this.place(box), href: canvas.toDataURL() }));
      return;
    }
    const { x, y, width, height } = this.place(box);
    const inner = shape("svg", { x, y, width, height, viewBox: `0 0 ${width} ${height}`, overflow: "hidden" });
    inner.append(...shapes);
    this.add(inner);
  }

  toString(about) {
    if (about) this.svg.prepend(shape("title", {}, about));
    return new XMLSerializer().serializeToString(this.svg);
  }
}
