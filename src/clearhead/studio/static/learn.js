// Learn: the chapters of the lectures, each a workspace that is set up, with two sentences and something to try.

import { element } from "./dom.js";

// *words* that are spoken of stand out
const marked = (text) =>
  text.split(/(\*[^*]+\*|`[^`]+`)/).map((part) =>
    /^[*`]/.test(part) ? element(part[0] === "*" ? "em" : "code", {}, part.slice(1, -1)) : part,
  );

export const pathOf = ({ name }) => `/learn/${name}`;

// a chapter has one view or several: the first opens, the others say in the address which they are
export function openedIn(chapter, name) {
  return chapter.views.find(({ view }) => view === name) ?? chapter.views[0];
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

export function introduction(chapters, chapter, opened, entries) {
  const stops = chapters.flatMap((one) => one.views.map((view, i) => ({
    chapter: one, view, title: entries.find(({ path }) => path === `/look/${view.view}`).title,
    href: pathOf(one) + (i ? `?view=${view.view}` : ""),
  })));
  const at = stops.findIndex(({ view }) => view === opened);
  const step = (to, label, rel) => {
    const other = stops[to];
    if (!other) return [];
    const title = other.chapter === chapter ? other.title : other.chapter.title;
    return [element("a", { href: other.href, rel, title }, rel === "next" ? `${label} ›` : `‹ ${label}`)];
  };
  const all = element("a", { href: "/learn" }, `Chapter ${chapters.indexOf(chapter) + 1} of ${chapters.length}`);
  const ways = [...step(at - 1, "Previous", "prev"), all, ...step(at + 1, "Next", "next")];
  const own = stops.filter((one) => one.chapter === chapter);
  const tabs = own.map(({ href, title, view }) => element("a", { href, ariaCurrent: view === opened ? "page" : null }, title));
  return element("section", { className: "chapter", ariaLabel: "Chapter" },
    element("nav", { className: "ways", ariaLabel: "Chapters" }, ...ways),
    element("h1", {}, element("span", { className: "number" }, `${chapters.indexOf(chapter) + 1}`), chapter.title),
    element("p", {}, ...marked(chapter.about)),
    element("p", { className: "try" }, element("strong", {}, "Try this "), ...marked(opened.try)),
    ...(own.length > 1 ? [element("nav", { className: "views", ariaLabel: "Views of this chapter" }, ...tabs)] : []),
  );
}
