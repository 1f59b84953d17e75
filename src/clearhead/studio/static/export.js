// What is on the page as a file: SVG with the page's own elements and styles in it, or that painted as PNG.

import { element } from "./dom.js";

const SPACE = "http://www.w3.org/2000/svg";

// A copy in a document of its own, where nothing loads or runs. Fields keep what people wrote in them as a property,
// which a copy does not take along.
function copied(root) {
  const apart = document.implementation.createHTMLDocument();
  const copy = apart.importNode(root, true);
  const both = (selector) => [root, copy].map((from) => [...from.querySelectorAll(selector)]);
  const [canvases, blanks] = both("canvas");
  blanks.forEach((blank, i) => {
    const image = apart.createElement("img");
    image.src = canvases[i].toDataURL();
    image.style.cssText = `width: ${canvases[i].clientWidth}px; height: ${canvases[i].clientHeight}px`;
    blank.replaceWith(image);
  });
  const [fields, others] = both("input, select");
  fields.forEach((field, i) => {
    others[i].setAttribute("value", field.value);
    others[i].toggleAttribute("checked", field.checked);
    for (const option of others[i].options ?? []) option.toggleAttribute("selected", option.value === field.value);
  });
  for (const one of copy.querySelectorAll("script, .spoken")) one.remove();
  return copy;
}

// a part of a document that stands for itself; media queries are settled as they are now
export function svgOf(root) {
  const { documentElement, defaultView, styleSheets } = root.ownerDocument;
  const holds = ({ media }) => !media || defaultView.matchMedia(media.mediaText).matches;
  const settled = (rules) =>
    [...rules].filter(holds).map((rule) => (rule.media ? settled(rule.cssRules) : rule.cssText)).join("\n");
  const styles = [...styleSheets].map((sheet) => settled(sheet.cssRules)).join("\n");
  const [width, height] = [root.scrollWidth, root.scrollHeight];
  const copy = copied(root);
  const apart = copy.ownerDocument;
  const [svg, inner] = ["svg", "foreignObject"].map((tag) => apart.createElementNS(SPACE, tag));
  for (const one of [svg, inner]) {
    one.setAttribute("width", width);
    one.setAttribute("height", height);
  }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  svg.style.cssText = `${documentElement.style.cssText}; color-scheme: ${dark ? "dark" : "light"}`;
  const body = root.localName === "body" ? copy : apart.createElement("body");
  if (body !== copy) body.append(copy);
  Object.assign(body.style, { display: "block", maxWidth: "none", padding: body === copy ? "" : "0" });
  const style = apart.createElement("style");
  style.textContent = `${styles}\n* { scrollbar-width: none; }`;
  body.prepend(style);
  inner.append(body);
  svg.append(inner);
  return new XMLSerializer().serializeToString(svg);
}

export async function pngOf(root) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgOf(root))}`;
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
