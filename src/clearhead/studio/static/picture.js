// <studio-picture>: what a page shows, a view or an answer, with its files below. Slow work is told, and can be cancelled.

import { LONGEST, written } from "./address.js";
import { ask, drawing, element, reachable } from "./dom.js";
import { RESULTS, verdict } from "./results.js";
import { tools } from "./tools.js";
import "./view.js";

const LIVE = 3000; // milliseconds between two looks at runs that still train
const KEPT = 6; // pages, so that Back need not ask again
const pages = new Map(); // address -> page, the one used last at the end

async function pageOf(address, signal) {
  const html = pages.get(address) ?? (await drawing(address, signal));
  pages.delete(address);
  pages.set(address, html);
  if (pages.size > KEPT) pages.delete(pages.keys().next().value);
  return html;
}

export class StudioPicture extends HTMLElement {
  connectedCallback() {
    if (this.stage) return;
    this.told = element("p", { className: "status", role: "status" });
    this.stage = element("div", { className: "stage" });
    this.below = element("div");
    this.append(this.told, this.stage, this.below);
  }

  // `hashOf(facts)` is what is chosen in it; the promise says whether there is a picture now
  async show({ entry, values, hashOf, deadline, about }) {
    this.end();
    const running = (this.running = new AbortController());
    const bar = this.progress(running, deadline);
    this.told.className = "status";
    this.told.replaceChildren();
    this.setAttribute("aria-busy", "true");
    try {
      await (entry.kind === "look" ? this.draw : this.answer).call(this, entry, values, hashOf, running.signal, about);
      return true;
    } catch (error) {
      if (running !== this.running) return false; // something else was asked meanwhile
      this.clear();
      this.say(error.name === "AbortError" ? "Cancelled." : error.message, error.shorter);
      return false;
    } finally {
      bar.end();
      if (running === this.running) this.removeAttribute("aria-busy");
    }
  }

  // what is too long may be shown in part
  say(words, shorter = null) {
    this.told.replaceChildren(element("span", {}, words));
    this.told.className = "status failed";
    if (!shorter) return;
    const button = element("button", { type: "button" }, "Show the beginning");
    const asked = new CustomEvent("clearhead:ask", { detail: shorter, bubbles: true, cancelable: true });
    button.addEventListener("click", () => this.dispatchEvent(asked));
    this.told.append(button);
  }

  clear() {
    this.view = null;
    this.stage.replaceChildren();
    this.below.replaceChildren();
  }

  // what is slow says how long it takes, and can be cancelled
  progress(running, deadline) {
    const started = Date.now();
    const words = element("span", {}, "Computing …");
    const meter = element("progress", { max: deadline, value: 0, ariaLabel: "Time used, of what a page may take" });
    const cancel = element("button", { type: "button" }, "Cancel");
    cancel.addEventListener("click", () => running.abort());
    const slow = setTimeout(() => this.told.replaceChildren(words, meter, cancel), 400);
    const timer = setInterval(() => {
      meter.value = (Date.now() - started) / 1000;
      words.textContent = `Computing … ${Math.round(meter.value)} s of at most ${Math.round(deadline)} s`;
    }, 1000);
    return {
      end: () => {
        clearTimeout(slow);
        clearInterval(timer);
        if (words.isConnected) this.told.replaceChildren();
      },
    };
  }

  async draw(entry, values, hashOf, signal) {
    const words = written(values);
    if (words.length > LONGEST) throw new Error("The text is too long for a picture; give a part of it.");
    const name = entry.path.split("/").at(-1);
    const address = `/picture/${name}?${words}`;
    const live = entry.needs === "runs";
    if (live) pages.delete(address);
    const html = await pageOf(address, signal);
    this.redraw = async (hash) => {
      this.view = element("studio-view");
      if (this.dataset.label) this.view.dataset.label = this.dataset.label;
      this.stage.replaceChildren(this.view);
      await this.view.show(html, typeof hash === "string" ? () => hash : hash);
    };
    await this.redraw(hashOf);
    const files = { name, root: () => this.view.box, json: `/api${entry.path}?${words}`, html: address };
    this.below.replaceChildren(tools({ ...files, about: () => this.view.made }));
    if (live) this.follow(`/api${entry.path}`);
  }

  async answer(entry, values, _, signal, about) {
    const name = entry.path.split("/").at(-1);
    const filled = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""));
    const found = await ask(`/api${entry.path}`, filled, signal);
    this.clear();
    const shown = element("div", { className: "shown" }, ...verdict(name, found, entry, values), ...RESULTS[name](found));
    this.stage.replaceChildren(reachable(shown));
    this.below.replaceChildren(tools({ name, root: () => shown, json: `/api${entry.path}?${written(values)}`, about }));
    if (written(values).length > LONGEST) this.told.textContent = "The text is too long for an address, so the link does not hold it.";
  }

  // show another state of the same picture
  async move(hash) {
    if (this.view && !this.view.move(hash)) await this.redraw(hash);
  }

  follow(path) {
    const { view } = this;
    const timer = setInterval(async () => {
      if (!view.isConnected) return clearInterval(timer);
      const data = document.hidden ? null : await ask(path).catch(() => null); // the next look may find it
      if (data) view.tell(data);
    }, LIVE);
  }

  // what is still on its way is not wanted any more: the studio ends it
  end() {
    const { running } = this;
    this.running = null;
    running?.abort();
  }

  disconnectedCallback() {
    this.end();
  }
}

customElements.define("studio-picture", StudioPicture);
