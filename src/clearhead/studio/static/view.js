// <studio-view>: a view drawn in this page, in a shadow root. What its scripts may rely on, inside/page.py says.

import { element, query } from "./dom.js";
import { RecordedPath, record } from "./vector.js";

// a page has one main element, and widths are those of the view
const MAIN = /(?<![\w.#-])main(?![\w-])/g;
const renamed = (selector) => selector.replace(MAIN, ".main");
const styled = (css) =>
  css.replace(/(?<![\w.#-])main(?![\w-])(?=[^{};]*\{)/g, ".main").replaceAll("@media (max-width:", "@container view (max-width:");
const GUEST = `
  :host { display: block; container: view / inline-size; }
  header > .brand, header > h1, .made { display: none; }
  header { display: block; }
  .lead { max-width: 130ch; padding: 0; }
  .controls { margin-top: 0.5rem; margin-bottom: 0.75rem; }
  header + .main { margin-top: 0.5rem; }
`;
const sheets = new Map();

function sheetOf(css) {
  if (!sheets.has(css)) {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(css);
    sheets.set(css, sheet);
  }
  return sheets.get(css);
}

export class StudioView extends HTMLElement {
  // Draw the page that this HTML is; the promise is kept when its scripts have run. Choices are told as "moved".
  async show(html, hashOf = () => "") {
    this.end();
    // the style is taken out before anything is parsed: this page's policy has no place for one that stands in a text
    const [start, end] = [html.indexOf("<style>"), html.indexOf("</style>")];
    const apart = new DOMParser().parseFromString(html.slice(0, start) + html.slice(end), "text/html");
    const code = apart.querySelector("script[type=module]");
    const { view, files } = code.dataset;
    const facts = JSON.parse(apart.getElementById("facts").textContent);
    const { draw } = await import(`/module/${view}?files=${encodeURIComponent(files)}`);
    code.remove();
    for (const one of apart.querySelectorAll("main")) {
      const box = apart.createElement("div");
      for (const { name, value } of one.attributes) box.setAttribute(name, value);
      box.classList.add("main");
      box.append(...one.childNodes);
      one.replaceWith(box);
    }
    const root = this.shadowRoot ?? this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [sheetOf(styled(html.slice(start + 7, end))), sheetOf(GUEST)];
    this.box = element("div", { className: "whole-view" });
    this.box.append(...document.adoptNode(apart.body).childNodes);
    root.replaceChildren(this.box);
    // of two views in one page, each has names of its own for its parts
    const { label } = this.dataset;
    if (label) for (const one of this.box.querySelectorAll("[aria-label]")) one.ariaLabel += `, ${label}`;
    for (const canvas of this.box.querySelectorAll("canvas")) record(canvas);
    [this.facts, this.hash, this.name] = [facts, hashOf(facts), view];
    this.made = this.box.querySelector(".made").textContent;
    this.life = new AbortController();
    this.heard = new Map();
    await draw(this.surroundings());
  }

  // show another state of the same picture; false if it must be drawn anew, as one that was away from the page
  move(hash) {
    if (this.life.signal.aborted) return false;
    if (hash === this.hash) return true;
    this.hash = hash;
    const listeners = this.heard.get("hashchange") ?? [];
    for (const listener of listeners) listener(new Event("hashchange"));
    return listeners.length > 0;
  }

  // hand new facts to a view that follows them
  tell(data) {
    for (const listener of this.heard?.get("message") ?? [])
      listener({ source: this.given.parent, origin: location.origin, data });
  }

  end() {
    this.life?.abort();
  }

  disconnectedCallback() {
    this.end();
  }

  surroundings() {
    const { shadowRoot: root, box, life: { signal } } = this;
    const self = this;
    const place = {
      get hash() {
        return self.hash;
      },
      set hash(value) {
        moved(`#${value.replace(/^#/, "")}`);
      },
      origin: location.origin,
      href: location.href,
    };
    const moved = (hash) => {
      if (hash === self.hash) return;
      self.hash = hash;
      self.dispatchEvent(new CustomEvent("moved", { bubbles: true }));
    };
    const wrote = (_, __, address) => moved(String(address).replace(/^[^#]*/, ""));
    const past = { replaceState: wrote, pushState: wrote, get state() { return null; } };
    const listen = (target) => (kind, listener, options = {}) =>
      target.addEventListener(kind, listener, { ...(typeof options === "object" ? options : { capture: options }), signal });
    const keys = (kind, listener, options) => {
      listen(box)(kind, listener, options);
      // with nothing in focus, keys are for the view that was used last
      if (kind.startsWith("key"))
        listen(document)(kind, (event) => [document.body, query("#work")].includes(event.target) && self.used && listener(event));
    };
    document.addEventListener("pointerdown", (event) => (self.used = event.composedPath().includes(self)), { signal });
    const own = {
      documentElement: box,
      body: box,
      getElementById: (id) => root.getElementById(id),
      querySelector: (selector) => root.querySelector(renamed(selector)),
      querySelectorAll: (selector) => root.querySelectorAll(renamed(selector)),
      createElement: (tag) => (tag === "canvas" ? record(document.createElement(tag)) : document.createElement(tag)),
      addEventListener: keys,
      get activeElement() {
        return root.activeElement;
      },
    };
    const asked = (words) => {
      const found = matchMedia(words);
      return {
        get matches() {
          return found.matches;
        },
        addEventListener: listen(found),
      };
    };
    const hear = (kind, listener, options) => {
      if (kind !== "hashchange" && kind !== "message") return keysOrWindow(kind, listener, options);
      self.heard.set(kind, [...(self.heard.get(kind) ?? []), listener]);
    };
    const keysOrWindow = (kind, ...rest) => (kind.startsWith("key") ? keys : listen(window))(kind, ...rest);
    const given = { location: place, history: past, matchMedia: asked, addEventListener: hear, Path2D: RecordedPath };
    const over = (real, mine) =>
      new Proxy(real, {
        get(target, name) {
          if (name in mine) return mine[name];
          const value = Reflect.get(target, name);
          // a method of the page wants the page; a class is left as it is
          return typeof value === "function" && !value.prototype ? value.bind(target) : value;
        },
        set: (target, name, value) => Reflect.set(target, name, value),
      });
    given.document = over(document, own);
    given.window = given.parent = over(window, given);
    return (this.given = given);
  }
}

customElements.define("studio-view", StudioView);
