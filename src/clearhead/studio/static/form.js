// <studio-form>: the fields of a page, its examples, and a button. It tells its listeners "asked".

import { element } from "./dom.js";

function control({ name, kind, choices, least, most, default: usual, required }) {
  const common = { id: `field-${name}`, name, required };
  if (choices.length) {
    const none = usual === null ? [new Option("the first the model can", "")] : [];
    const made = element("select", common, ...none, ...choices.map((choice) => new Option(choice, choice)));
    made.value = usual ?? "";
    return made;
  }
  if (kind === "number") return element("input", { ...common, type: "number", min: least, max: most, value: usual });
  if (kind === "text") return element("textarea", { ...common, rows: 3, spellcheck: false });
  return element("input", { ...common, type: "text", value: usual ?? "", spellcheck: false, autocomplete: "off" });
}

export class StudioForm extends HTMLElement {
  show(entry, values) {
    this.controls = entry.fields.map(control);
    const boxes = entry.fields.map(({ name, label, kind }, i) => {
      const caption = element("label", { htmlFor: `field-${name}` }, label);
      return element("div", { className: `field ${kind}` }, caption, this.controls[i]);
    });
    const form = element("form", { className: "asking" }, ...boxes, element("button", { className: "go" }, "Go"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask();
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    });
    this.replaceChildren(...this.examples(entry), ...(entry.fields.length ? [form] : []));
    this.fill(values);
  }

  examples({ examples }) {
    if (!examples.length) return [];
    const buttons = examples.map(({ label, values, skill, model }) => {
      const button = element("button", { type: "button", title: label }, label);
      button.addEventListener("click", () => {
        this.clear();
        this.fill(values);
        this.ask(skill, model);
      });
      return button;
    });
    const name = element("span", { className: "note", id: "examples-name" }, "From the lectures");
    const box = element("div", { className: "examples" }, name, ...buttons);
    box.setAttribute("role", "group");
    box.setAttribute("aria-labelledby", "examples-name");
    return [box];
  }

  // texts go back to nothing, the rest stays as it was chosen
  clear() {
    for (const one of this.controls) if (one.localName === "textarea") one.value = "";
  }

  fill(values) {
    for (const one of this.controls) {
      const value = values[one.name];
      if (value !== undefined && value !== null) one.value = value;
    }
  }

  get values() {
    return Object.fromEntries(this.controls.map((one) => [one.name, one.value]));
  }

  get complete() {
    return this.controls.every((one) => !one.required || one.value.trim());
  }

  // an example may say which skill or built-in model it is for
  ask(skill = null, model = null) {
    this.dispatchEvent(new CustomEvent("asked", { detail: { skill, model } }));
  }
}

customElements.define("studio-form", StudioForm);
