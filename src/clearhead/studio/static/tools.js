// The row below a result: a link to it, its numbers, and files of it.

import { element } from "./dom.js";
import { download, pngOf, svgOf } from "./export.js";

const say = (box, text) => (box.textContent = text);

// `root()` is what is exported, `about()` the line that says what it shows; `html` is where the view is as a page
export function tools({ name, root, json, html, about }) {
  const told = element("span", { className: "note", ariaLive: "polite" });
  const button = (label, does) => {
    const made = element("button", { type: "button" }, label);
    made.addEventListener("click", () => does().catch((error) => say(told, `That did not work: ${error.message}`)));
    return made;
  };
  const link = (label, href, properties = {}) => element("a", { href, ...properties }, label);
  const row = [
    button("Copy link", async () => {
      await navigator.clipboard.writeText(location.href);
      say(told, "Copied.");
    }),
    button("PNG", async () => download(`${name}.png`, await pngOf(root(), about()))),
    button("SVG", async () => download(`${name}.svg`, new Blob([svgOf(root(), about())], { type: "image/svg+xml" }))),
    ...(html ? [link("HTML", html, { download: `${name}.html` })] : []),
    link("JSON", json, { target: "_blank" }),
    told,
  ];
  return element("div", { className: "tools" }, element("p", { className: "made note" }, about()), ...row);
}
