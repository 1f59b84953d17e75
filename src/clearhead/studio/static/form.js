// <studio-form>: the slim bar, in which a text is typed once for all views. It tells its listeners "asked".

import { element } from "./dom.js";

// fields that stand for the one text, or for the second, under the names that a view or a use gives them
const ROLES = {
  text: "text", question: "text", first: "text", query: "text",
  pair: "pair", context: "pair", second: "pair", documents: "pair",
};
const NARROW = new Set(["token", "layer", "head", "word"]);
const COUNTED = new Set(["token", "layer", "head"]); // people count them from 1, addresses and programs from 0
const seen = (name, value) => (COUNTED.has(name) && /^\d+$/.test(value ?? "") ? String(Number(value) + 1) : (value ?? ""));
const meant = (name, value) => (COUNTED.has(name) && /^\d+$/.test(value) && value > 0 ? String(value - 1) : value);

export const roleOf = (name) => ROLES[name] ?? null;

// the values of one page under the names that another has for them
export function translated(values, from, to) {
  const texts = {};
  for (const { name } of from?.fields ?? []) if (ROLES[name]) texts[ROLES[name]] = values[name];
  const found = {};
  for (const { name } of to.fields) found[name] = ROLES[name] ? texts[ROLES[name]] : values[name];
  return found;
}

function control({ name, kind, choices, least, most, default: usual, required }) {
  const common = { id: `field-${name}`, name, required };
  if (choices.length) {
    const none = usual === null ? [new Option("the first the model can", "")] : [];
    const made = element("select", common, ...none, ...choices.map((choice) => new Option(choice, choice)));
    made.value = usual ?? "";
    return made;
  }
  const first = COUNTED.has(name) ? 1 : 0;
  if (kind === "number") return element("input", { ...common, type: "number", min: least + first, max: most + first, value: seen(name, usual) });
  if (kind === "text") return element("textarea", { ...common, rows: 1, spellcheck: false });
  return element("input", { ...common, type: "text", value: seen(name, usual), spellcheck: false, autocomplete: "off" });
}

export class StudioForm extends HTMLElement {
  show(entry, values) {
    if (entry !== this.entry) this.build(entry);
    this.fill(values);
    this.reveal();
  }

  build(entry) {
    this.entry = entry;
    this.caption = null;
    this.controls = entry.fields.map(control);
    const first = entry.fields.find(({ name }) => roleOf(name) === "text");
    const boxes = entry.fields.map(({ name, label, kind, required }, i) => {
      const caption = element("label", { htmlFor: `field-${name}` }, label);
      if (entry.tokens && name === first?.name) this.caption = caption;
      const box = element("div", { className: `field ${kind}` }, caption, this.controls[i]);
      box.dataset.optional = String(!required && roleOf(name) === "pair");
      box.classList.toggle("narrow", NARROW.has(name));
      return box;
    });
    this.more = element("button", { type: "button", className: "more" }, "+ second text");
    this.more.addEventListener("click", () => {
      this.reveal(true);
      this.querySelector("[data-optional=true] textarea").focus();
    });
    const go = element("button", { className: "go", title: "Ctrl+Enter" }, "Run");
    const form = element("form", { className: "asking" }, ...boxes, this.more, go);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask();
    });
    form.addEventListener("keydown", (event) => {
      const enter = event.key === "Enter" && (event.ctrlKey || event.metaKey);
      if (enter) form.requestSubmit();
    });
    this.replaceChildren(...(entry.fields.length ? [form] : []));
  }

  // how long a text the page takes, and its model, of which `told` is the promise
  async limit(told) {
    const { caption, entry } = this;
    if (!caption) return;
    const say = (most) => (caption.dataset.limit = `at most ${most} tokens`);
    say(entry.tokens);
    this.told = told;
    const about = await told;
    if (about && told === this.told) say(Math.min(entry.tokens, about.positions));
  }

  // an optional second text stays folded away until there is one
  reveal(open = false) {
    const box = this.querySelector("[data-optional=true]");
    this.more.hidden = !box || open || Boolean(box.querySelector("textarea").value);
    if (box) box.hidden = !this.more.hidden;
  }

  fill(values) {
    this.entry.fields.forEach(({ name, default: usual }, i) => (this.controls[i].value = seen(name, values[name] ?? usual)));
  }

  get values() {
    return Object.fromEntries(this.controls.map(({ name, value }) => [name, meant(name, value)]));
  }

  get complete() {
    return this.controls.every((one) => !one.required || one.value.trim());
  }

  // an example may say which skill or built-in model it is for
  ask(example = null) {
    this.dispatchEvent(new CustomEvent("asked", { detail: example }));
  }
}

customElements.define("studio-form", StudioForm);
