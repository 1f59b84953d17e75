// Compare: two texts, two models, two skills, or before and after fine-tuning, side by side, with the difference drawn.

import { go, isTouched, linkTo, move, untouched } from "./address.js";
import { ask, element } from "./dom.js";
import "./picture.js";
import { choose, chosen } from "./selection.js";

const SIDES = ["", "_b"]; // what the names of a side's values end with
const NAMES = ["A", "B"];
const VIEWS = ["attention", "model", "layers", "why", "block", "qkv", "heads", "input"];
const ANIMAL = "The animal didn't cross the street because it was too tired";
const PRESETS = {
  "tired, wide": { text: ANIMAL, text_b: ANIMAL.replace("tired", "wide") },
  "before and after fine-tuning": { text: "The film was not good, but I loved every minute of it.", skill_b: "sentiment" },
  "two skills": { text: "You have won a free prize, and I love it.", skill: "spam", skill_b: "sentiment" },
  "bank, bank": { text: "He sat on the bank of the river", text_b: "He sat in the bank of the city" },
};

function side(studio, end, name) {
  const model = element("select", { id: `model${end}` }, new Option("the first model", ""), ...studio.models.map((one) => new Option(one, one)));
  const skill = element("select", { id: `skill${end}` }, new Option("no skill: as pre-trained", ""));
  const text = element("textarea", { id: `text${end}`, rows: 1, spellcheck: false });
  const field = (label, control, kind = "") =>
    element("div", { className: `field ${kind}` }, element("label", { htmlFor: control.id }, label), control);
  const box = element("div", { className: "asking" }, field(`Text of ${name}`, text, "text"), field("Model", model), field("Skill", skill));
  return { box, model, skill, text };
}

export class Compare {
  constructor(studio, again) {
    Object.assign(this, { studio, again });
    this.sides = SIDES.map((end, i) => side(studio, end, NAMES[i]));
    this.views = VIEWS.map((name) => studio.entries.find(({ path }) => path === `/look/${name}`)).filter(Boolean);
    this.view = element("select", { id: "compared" }, ...this.views.map(({ path, title }) => new Option(title, path.slice(6))));
    const shown = element("div", { className: "field" }, element("label", { htmlFor: "compared" }, "Side by side"), this.view);
    const run = element("button", { className: "go" }, "Run");
    const form = element("form", { className: "both" }, this.sides[0].box, this.sides[1].box, element("div", { className: "asking" }, shown, run));
    const examples = Object.entries(PRESETS).map(([label, values]) => {
      const button = element("button", { type: "button" }, label);
      button.addEventListener("click", () => this.ask(values));
      return button;
    });
    const chips = element("div", { className: "examples", role: "group", ariaLabel: "Examples" }, ...examples);
    const heading = element("div", { className: "heading" }, element("h1", {}, "What is different?"), chips);
    this.difference = element("studio-picture");
    this.pictures = NAMES.map((name) => {
      const picture = element("studio-picture");
      picture.dataset.label = name;
      return picture;
    });
    const panes = this.pictures.map((picture, i) => element("section", { ariaLabel: NAMES[i] }, element("h2", {}, NAMES[i]), picture));
    this.box = element("div", { className: "compare" }, heading, form, this.difference, element("div", { className: "panes" }, ...panes));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask(this.given);
    });
    form.addEventListener("change", ({ target }) => target.localName === "select" && this.ask(this.given));
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    });
    for (const picture of [this.difference, ...this.pictures]) picture.addEventListener("moved", () => this.moved(picture));
  }

  get given() {
    const found = { view: this.view.value };
    this.sides.forEach((one, i) => {
      for (const name of ["text", "model", "skill"]) found[name + SIDES[i]] = one[name].value;
    });
    if (found.text_b === found.text) found.text_b = "";
    return found;
  }

  ask(values) {
    const hash = values.text === this.values?.text ? this.hash : "";
    go({ path: "/compare", values: { view: this.view.value, ...values }, hash });
    this.again();
  }

  async show(here) {
    const values = Object.keys(here.values).length ? here.values : { view: "attention", ...PRESETS["tired, wide"] };
    this.hash = here.hash;
    this.fill(values);
    const asked = JSON.stringify(values);
    if (asked === this.asked) return this.follow(null);
    [this.asked, this.values] = [asked, values];
    this.quiet = true;
    const { deadline, entries } = this.studio;
    const about = () => "";
    const hashOf = () => choose(this.hash, {});
    const base = { text: values.text, model: values.model, skill: values.skill, model_b: values.model_b || values.model, skill_b: values.skill_b };
    const difference = entries.find(({ path }) => path === "/look/difference");
    const entry = this.views.find(({ path }) => path === `/look/${values.view}`) ?? this.views[0];
    const drawn = [this.difference.show({ entry: difference, values: { ...base, other: values.text_b }, hashOf: () => pick(this.hash), deadline, about })];
    const sides = [
      { text: values.text, model: values.model, skill: values.skill },
      { text: values.text_b || values.text, model: values.model_b || values.model, skill: values.skill_b },
    ];
    this.pictures.forEach((picture, i) => drawn.push(picture.show({ entry, values: sides[i], hashOf, deadline, about })));
    await Promise.all(drawn);
    if (asked !== this.asked) return undefined;
    // both panes open at the head that differs most, unless the address names one
    const { view } = this.difference;
    if (view && chosen(this.hash, "layer") === null) {
      this.hash = choose(this.hash, { layer: view.facts.layer, head: view.facts.head });
      move(this.hash, { replace: true });
      await this.follow(this.difference);
      if (asked !== this.asked) return undefined;
    }
    this.quiet = false;
    untouched();
    return undefined;
  }

  fill(values) {
    this.view.value = this.views.some(({ path }) => path === `/look/${values.view}`) ? values.view : this.views[0].path.slice(6);
    this.sides.forEach((one, i) => {
      const [model, skill] = ["model", "skill"].map((name) => values[name + SIDES[i]] ?? "");
      one.text.value = values[`text${SIDES[i]}`] ?? (i ? (values.text ?? "") : "");
      one.model.value = model;
      this.offer(one, model || (i ? (values.model ?? "") : ""), skill);
    });
  }

  async offer(one, model, skill) {
    const options = (names) => one.skill.replaceChildren(new Option("no skill: as pre-trained", ""), ...names.map((name) => new Option(name, name)));
    if (skill && ![...one.skill.options].some(({ value }) => value === skill)) options([skill]);
    one.skill.value = skill;
    one.box.ariaBusy = "true";
    const asked = (one.asked = {});
    const about = await ask(linkTo({ path: "/api/model", values: { model } })).catch(() => null);
    if (asked !== one.asked) return;
    one.box.ariaBusy = null;
    if (!about) return;
    options(about.skills);
    one.skill.value = skill;
  }

  moved(picture) {
    if (this.quiet || !isTouched()) return;
    const { hash } = picture.view;
    this.hash = picture === this.difference ? choose(this.hash, numbers(pick(hash))) : hash;
    move(this.hash);
    this.follow(picture);
  }

  // the other pictures show what was chosen in one
  async follow(source) {
    const before = this.quiet;
    this.quiet = true;
    for (const picture of this.pictures) if (picture !== source && picture.view) await picture.move(this.hash);
    if (source !== this.difference && this.difference.view) await this.difference.move(pick(this.hash));
    this.quiet = before;
  }
}

// a head is all that a difference has to choose
const pick = (hash) => choose("", numbers(hash));
const numbers = (hash) => ({ layer: chosen(hash, "layer"), head: chosen(hash, "head") });

