// Opens what the address names: a chapter, a view or a use, or two of them side by side.

import { go, place } from "./address.js";
import { Chooser } from "./chooser.js";
import { Compare } from "./compare.js";
import { ask, element, query } from "./dom.js";
import { index, introduction, openedIn, pathOf } from "./learn.js";
import { Workspace } from "./workspace.js";

const studio = await ask("/api/studio");
const work = query("#work");
const chooser = new Chooser(studio, (chosen) => change(chosen));
const workspace = new Workspace(studio, chooser, show);
const compare = new Compare(studio, show);
const entryAt = (path) => studio.entries.find((one) => one.path === path);
const HOME = {
  name: "",
  values: { text: "The animal didn't cross the street because it was too tired" },
};

function put(...parts) {
  if (parts.length !== work.children.length || parts.some((part, i) => part !== work.children[i])) work.replaceChildren(...parts);
}

function show() {
  const here = place();
  const door = here.path.startsWith("/learn") ? "learn" : here.path === "/compare" ? "compare" : "inspect";
  document.body.dataset.door = door;
  for (const link of document.querySelectorAll(".doors a")) link.ariaCurrent = link.dataset.door === door ? "true" : null;
  for (const box of document.querySelectorAll(".top .field")) box.classList.toggle("away", door === "compare" || here.path === "/learn");
  if (door === "compare") {
    titled("Compare");
    put(compare.box);
    compare.show(here);
  } else if (here.path === "/learn") {
    titled("Learn");
    work.replaceChildren(...index(studio.chapters));
  } else if (door === "learn") openChapter(here);
  else if (["/", "/studio"].includes(here.path)) openWorkspace(here, entryAt("/look/model"), { preset: HOME, home: true });
  else if (entryAt(here.path)) openWorkspace(here, entryAt(here.path));
  else missing(here);
}

function titled(name) {
  document.title = `${name} · clearhead studio`;
}

function openWorkspace(here, entry, { preset = null, home = false } = {}) {
  titled(entry.title);
  put(workspace.box);
  workspace.box.classList.toggle("in-chapter", Boolean(preset) && !home);
  // the home page is the first view with a text: what is done there goes on under its own address
  if (home && !Object.keys(here.values).length) workspace.show({ ...here, path: entry.path, values: preset.values }, entry);
  else workspace.show(home ? { ...here, path: entry.path } : here, entry, { preset: home ? null : preset });
}

function openChapter(here) {
  const chapter = studio.chapters.find((one) => pathOf(one) === here.path);
  if (!chapter) return missing(here);
  const opened = openedIn(chapter, here.values.view);
  titled(chapter.title);
  const name = `${chapter.name} ${opened.view}`;
  if (work.firstElementChild?.dataset.name !== name) {
    const heading = introduction(studio.chapters, chapter, opened, studio.entries);
    heading.dataset.name = name;
    work.replaceChildren(heading, workspace.box);
  }
  workspace.box.classList.add("in-chapter");
  workspace.show(here, entryAt(`/look/${opened.view}`), { preset: opened });
  return undefined;
}

function missing({ path }) {
  titled("Nowhere");
  work.replaceChildren(
    element("h1", {}, "There is no such page"),
    element("p", {}, "The address ", element("code", {}, path), " leads nowhere; choose a page above."),
  );
}

// another model or skill for the same text
function change({ model, skill }) {
  if (!workspace.shown) return;
  const { path, values, hash } = workspace.shown;
  const texts = workspace.form.values;
  go({ path, values: { ...values, ...texts, model, skill }, hash });
  show();
}

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const link = event.composedPath().find((one) => one.localName === "a" && one.href);
  if (!link || link.origin !== location.origin || link.target || link.hasAttribute("download") || link.classList.contains("skip")) return;
  event.preventDefault();
  history.pushState(null, "", link.href);
  show();
  scrollTo(0, 0);
});

const KEYS = {
  p: () => document.documentElement.classList.toggle("presenter"),
  "/": () => query("studio-form input, studio-form textarea")?.focus(),
  PageDown: () => query(".ways [rel=next]")?.click(),
  PageUp: () => query(".ways [rel=prev]")?.click(),
};
document.addEventListener("keydown", (event) => {
  const writing = event.composedPath()[0].closest?.("input, textarea, select");
  if (writing || event.ctrlKey || event.metaKey || event.altKey) return;
  const paging = event.key.startsWith("Page");
  if (paging && !query(".chapter")) return;
  const does = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!does) return;
  does();
  event.preventDefault();
});
query(".present").addEventListener("click", KEYS.p);
addEventListener("popstate", show);
show();
