// Learn: the chapters of the lectures, each a workspace that is set up, with two sentences and something to try.

import { element } from "./dom.js";

// *words* that are spoken of stand out
const marked = (text) =>
  text.split(/(\*[^*]+\*|`[^`]+`)/).map((part) =>
    /^[*`]/.test(part) ? element(part[0] === "*" ? "em" : "code", {}, part.slice(1, -1)) : part,
  );

export const pathOf = ({ name }) => `/learn/${name}`;

export function viewOf(chapter, entries) {
  const paths = chapter.views.map((name) => `/look/${name}`);
  return paths.map((path) => entries.find((entry) => entry.path === path)).find(Boolean);
}

export function index(chapters) {
  const cards = chapters.map((chapter, i) => {
    const link = element("a", { href: pathOf(chapter) }, element("span", { className: "number" }, i + 1), chapter.title);
    return element("li", { className: "card" }, link, element("p", { className: "note" }, ...marked(chapter.about.split(/(?<=[.]) /)[0])));
  });
  return [
    element("h1", {}, "Twelve chapters, in the order of the lectures"),
    element("p", { className: "note" }, "Each opens a picture with real numbers. In a lecture, ", element("kbd", {}, "P"),
      " hides everything but the picture, and ", element("kbd", {}, "Page ↓"), " goes on to the next chapter."),
    element("ol", { className: "cards" }, ...cards),
  ];
}

export function introduction(chapters, chapter) {
  const at = chapters.indexOf(chapter);
  const step = (to, label, rel) => {
    const other = chapters[to];
    const words = rel === "next" ? `${label} ›` : `‹ ${label}`;
    return other ? [element("a", { href: pathOf(other), rel, title: other.title }, words)] : [];
  };
  const all = element("a", { href: "/learn" }, `Chapter ${at + 1} of ${chapters.length}`);
  const ways = [...step(at - 1, "Previous", "prev"), all, ...step(at + 1, "Next", "next")];
  return element("section", { className: "chapter", ariaLabel: "Chapter" },
    element("nav", { className: "ways", ariaLabel: "Chapters" }, ...ways),
    element("h1", {}, element("span", { className: "number" }, `${at + 1}`), chapter.title),
    element("p", {}, ...marked(chapter.about)),
    element("p", { className: "try" }, element("strong", {}, "Try this "), ...marked(chapter.try)),
  );
}
