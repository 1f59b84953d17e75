// The workspace: a slim bar for the text, the views, a strip of tokens, the picture, and what the model says at its edge.

import { go, linkTo, move, place, untouched } from "./address.js";
import { element } from "./dom.js";
import "./edge.js";
import "./form.js";
import { translated } from "./form.js";
import "./picture.js";
import { carried, chosen as chosenIn, choose, handedOn } from "./selection.js";
import { masked } from "./strip.js";

// what was read: of a model with two stacks, by the first
const tokensOf = (facts) => facts?.tokens ?? facts?.sides?.[0]?.tokens ?? null;

// Compare has the one, Q·K·V has taken the place of the others, whose addresses still work
const NOT_OFFERED = new Set(["/look/difference", "/look/by-hand", "/look/step"]);

export class Workspace {
  constructor(studio, chooser, show) {
    Object.assign(this, { studio, chooser, again: show });
    this.form = element("studio-form");
    this.tabs = element("nav", { className: "views", ariaLabel: "Views" });
    this.title = element("h1");
    this.examples = element("div", { className: "examples", role: "group", ariaLabel: "Examples of the lectures" });
    this.strip = element("token-strip");
    this.picture = element("studio-picture");
    this.edge = element("studio-edge");
    const heading = element("div", { className: "heading" }, this.title, this.examples);
    const desk = element("div", { className: "desk" }, this.picture, this.edge);
    this.box = element("div", { className: "workspace" }, this.form, this.tabs, heading, this.strip, desk);
    this.form.addEventListener("asked", ({ detail }) => this.ask(detail));
    this.strip.addEventListener("picked", ({ detail }) => this.pick(detail));
    this.strip.addEventListener("masked", ({ detail }) => this.mask(detail));
    this.edge.addEventListener("used", ({ detail }) => this.ask(null, { answer: detail }));
    this.picture.addEventListener("moved", () => this.moved());
    // a view may ask for another picture, such as that of a text with a mask in it
    this.picture.addEventListener("clearhead:ask", (event) => {
      event.preventDefault();
      this.ask(null, event.detail);
    });
  }

  // Show what the address says; a chapter brings the view and what it starts with.
  async show(here, entry, { preset = null, heading = null } = {}) {
    const before = this.shown;
    const { view = "", ...given } = here.values;
    const asked = Object.keys(given).length > 0 || !preset;
    const values = asked ? here.values : { ...preset.values, ...(view && { view }) };
    const hash = asked || here.hash ? here.hash : preset.hash ? `#${preset.hash}` : "";
    this.shown = { path: here.path, entry, values, hash, preset };
    this.edge.ariaBusy = "true";
    this.chooser.show(values, entry);
    this.form.show(entry, values);
    this.form.limit(this.chooser.told);
    this.title.textContent = heading ?? entry.question;
    this.showExamples(entry);
    this.showTabs();
    const question = JSON.stringify([entry.path, this.question(entry, values)]);
    if (question === this.question_ && this.picture.view) {
      untouched(); // a view may write the same state in other words
      await this.picture.move(hash);
      this.showStrip();
    } else if (this.form.complete) {
      this.question_ = question;
      await this.draw(entry, values, hash, before);
    } else {
      this.question_ = null;
      this.picture.clear();
      this.picture.told.replaceChildren("Give a text above, or take one of the lectures' examples.");
      this.strip.show(null);
    }
    await this.useEdge(entry, values, before);
    if (this.shown.values === values) this.edge.ariaBusy = null;
  }

  // what goes to the studio: a chapter's values are for any of its views, and the use at the edge is the page's own
  question(entry, values) {
    const asked = [...entry.fields.map(({ name }) => name), "model", "skill"];
    return Object.fromEntries(asked.filter((name) => values[name] !== undefined).map((name) => [name, values[name]]));
  }

  async draw(entry, values, hash, before) {
    const tokens = before?.entry.fields.length ? this.tokens : null;
    const hashOf = (facts) => carried(hash, tokens, tokensOf(facts));
    const { deadline } = this.studio;
    const about = () => this.chooser.caption(entry, values);
    const fields = this.question(entry, values);
    const turn = (this.drawing = {});
    const there = await this.picture.show({ entry, values: fields, hashOf, deadline, about });
    if (turn !== this.drawing) return undefined; // something else is drawn meanwhile
    if (!there) {
      this.question_ = null;
      this.tokens = null;
      return this.strip.show(null);
    }
    this.drawing = null;
    untouched();
    this.tokens = tokensOf(this.picture.view?.facts);
    const { view } = this.picture;
    if (view && view.hash !== place().hash) move(view.hash, { replace: true });
    if (view) this.shown.hash = view.hash;
    this.showStrip();
    return this.showTabs();
  }

  moved() {
    const { hash } = this.picture.view;
    move(hash, this.drawing ? { replace: true } : {});
    this.shown.hash = hash;
    this.showStrip();
    this.showTabs();
  }

  showStrip() {
    const { view } = this.picture;
    this.strip.show(view ? this.tokens : null, view ? chosenIn(view.hash, "token") : null);
  }

  pick(index) {
    const hash = this.picture.view?.hash ?? "";
    const token = chosenIn(hash, "token") === index ? null : index;
    go({ ...place(), hash: choose(hash, { token }) });
    this.again();
  }

  mask(index) {
    const field = this.form.controls.find(({ name }) => name === "text");
    const text = field && masked(field.value, this.tokens, index);
    if (!text) return;
    field.value = text;
    this.shown.hash = choose(this.shown.hash, { token: this.strip.before });
    this.ask();
  }

  // Ask what the bar says; an example brings its own values, and nothing that was chosen before.
  ask(example = null, more = {}) {
    const { path, entry, values, hash } = this.shown;
    const chosen = { ...this.chooser.chosen, ...(example && this.chooser.wanted(example)) };
    const fields = example ? { ...example.values } : this.form.values;
    const next = { ...(values.view && { view: values.view }), ...fields, ...(values.answer && !example ? { answer: values.answer } : {}), ...chosen, ...more };
    go({ path, values: next, hash: example ? "" : hash });
    this.again();
    if (!this.form.complete) this.form.querySelector("form").reportValidity();
    return entry;
  }

  showExamples({ examples }) {
    const there = examples.filter(({ model }) => !model || this.studio.models.includes(model));
    const buttons = there.map((example) => {
      const button = element("button", { type: "button", title: example.label }, example.label);
      button.addEventListener("click", () => this.ask(example));
      return button;
    });
    this.examples.replaceChildren(...buttons);
    this.examples.hidden = !buttons.length || Boolean(this.shown.preset);
  }

  // where the text goes along, and what is chosen
  linkTo(other) {
    const { entry, values, hash } = this.shown;
    const { model = "", skill = "" } = values;
    const along = translated(values, entry, other);
    const own = other.use && other.use !== entry.use ? {} : { model, skill };
    const rest = Object.fromEntries(Object.entries({ ...along, ...own }).filter(([, value]) => value));
    return linkTo({ path: other.path, values: rest, hash: handedOn(hash, entry.path, other.path) });
  }

  showTabs() {
    const { preset, entry } = this.shown;
    this.tabs.hidden = Boolean(preset);
    if (preset) return;
    const offered = (one) => one === entry || !NOT_OFFERED.has(one.path);
    const views = this.studio.entries.filter((one) => one.kind === "look" && offered(one));
    const links = views.map((one) => {
      const ariaCurrent = one === entry ? "page" : null;
      return element("a", { href: this.linkTo(one), title: one.question, ariaCurrent }, one.title);
    });
    const { scrollLeft } = this.tabs;
    this.tabs.replaceChildren(...links);
    this.tabs.scrollLeft = scrollLeft;
  }

  async useEdge(entry, values, before) {
    const texts = entry.fields.some(({ name }) => name === "text");
    const wanted = entry.kind === "look" && entry.needs !== "nothing" && texts && this.form.complete && Boolean(this.picture.view);
    const about = wanted ? await this.chooser.told : null;
    if (this.shown.values !== values || this.shown.entry !== entry) return;
    if (!about) return void (this.edge.hidden = true);
    const { answer = "", model = "", skill = "" } = values;
    const key = JSON.stringify([this.question_, answer]);
    if (key === this.edged && before) return void (await this.said);
    this.edged = key;
    const use = answer || (this.shown.preset?.use ?? "");
    this.said = this.edge.show({ entries: this.studio.entries, entry, values, chosen: { model, skill }, use, about });
    await this.said;
  }
}
