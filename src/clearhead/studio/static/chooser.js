// Which model, and which of its skills: two lists in the top bar, and what is told of the model.

import { written } from "./address.js";
import { ask, query } from "./dom.js";

const WORK = { masked_lm: "masks", next_sentence: "next sentences", causal_lm: "writing", span: "answers", tags: "tags", classes: "classes" };
const short = (text) => (text.length > 160 ? `${text.slice(0, 159)}…` : text);

export class Chooser {
  constructor(studio, changed) {
    this.studio = studio;
    this.model = query("#model");
    this.skill = query("#skill");
    this.model.append(new Option("the one for the page", ""), ...studio.models.map((name) => new Option(name, name)));
    for (const one of [this.model, this.skill])
      one.addEventListener("change", () => {
        if (one === this.model) this.offer([]);
        changed(this.chosen);
      });
  }

  get chosen() {
    return { model: this.model.value, skill: this.skill.value };
  }

  // an example may be for a skill or a built-in model; a model of the user's own answers every example
  wanted({ skill, model }) {
    const { models } = this.studio;
    const own = this.about && !this.about.name.startsWith("builtin:");
    const there = model && models.includes(model) && !own;
    const known = skill !== null && (skill === "" || this.about?.skills.includes(skill));
    return { ...(there ? { model, skill: "" } : {}), ...(known ? { skill } : {}) };
  }

  show({ model = "", skill = "" }, entry) {
    this.model.value = this.studio.models.includes(model) ? model : "";
    if (skill && ![...this.skill.options].some(({ value }) => value === skill)) this.offer([skill]);
    this.skill.value = skill;
    const asked = written({ ...this.chosen, page: entry.path });
    if (asked === this.asked) return;
    this.asked = asked;
    query("#about").ariaBusy = "true";
    this.told = this.tell(asked, entry);
  }

  // of a model with skills, each use takes its own unless one is chosen
  offer(names) {
    const { value } = this.skill;
    this.skill.replaceChildren(new Option("the one for the use", ""), ...names.map((name) => new Option(name, name)));
    this.skill.value = names.includes(value) ? value : "";
    this.skill.parentElement.hidden = !names.length;
  }

  // the promise gives what is known of the model, or null
  async tell(asked, entry) {
    const told = query("#about");
    try {
      const about = await ask(`/api/model?${asked}`);
      if (asked !== this.asked) return about;
      this.about = about;
      const { value } = this.skill;
      this.offer(about.skills);
      this.skill.value = about.skills.includes(value) ? value : "";
      const able = about.heads.map((head) => WORK[head] ?? head.replaceAll("_", " "));
      const size = `${(about.parameters / 1e6).toFixed(1)} M parameters`;
      told.textContent = [about.name, about.family, size, ...(able.length ? [`trained for ${able.join(", ")}`] : [])].join(" · ");
      const { head } = entry;
      const lacking = head && about.heads.length && !about.heads.includes(head) && !about.skills.length;
      if (lacking) told.textContent += `. It has no head for this (${WORK[head] ?? head}); choose another model.`;
      return about;
    } catch (error) {
      this.about = null;
      this.asked = null;
      told.textContent = error.message;
      return null;
    } finally {
      if ([asked, null].includes(this.asked)) told.ariaBusy = null;
    }
  }

  // what an answer was made with, as pictures have it from the studio
  caption(entry, values) {
    const texts = entry.fields.filter(({ kind, choices }) => kind !== "number" && !choices.length).map(({ name }) => values[name]);
    const which = this.about?.name ?? values.model ?? "";
    const skill = values.skill || this.about?.uses[entry.skilled];
    const model = which + (skill ? `, skill ${skill}` : "");
    const today = new Date().toLocaleDateString("sv");
    return [model, ...texts.filter(Boolean).map((text) => `“${short(text)}”`), today, "clearhead"].filter(Boolean).join(" · ");
  }
}
