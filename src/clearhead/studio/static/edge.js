// <studio-edge>: the right edge of a picture, where the same text is used: answer → why → attention.

import { linkTo, written } from "./address.js";
import { ask, element, reachable } from "./dom.js";
import { roleOf, translated } from "./form.js";
import { RESULTS, verdict } from "./results.js";

const nameOf = ({ path }) => path.split("/").at(-1);
const EXPLAINED = { fill: "fill", ask: "answer", classify: "classify", compare: "classify", follows: "follows" };
const LEFT_OUT = new Set(["senses", "search"]); // they want more than the text of a picture

// what is asked of a text unless somebody chooses: masks are filled, questions answered
function usual(text, pair) {
  if (/\[MASK\]|<mask>/.test(text)) return "fill";
  if (!pair) return "classify";
  return text.trim().endsWith("?") ? "ask" : "compare";
}

class StudioEdge extends HTMLElement {
  // `entry` and `values` are the page's, `about` its model; `use` is the chosen one, if any
  async show({ entries, entry, values, chosen, use, about }) {
    this.running?.abort();
    const running = (this.running = new AbortController());
    const can = ({ head, use: own }) => (own ? own === about.writes : !head || about.skills.length || about.heads.includes(head));
    const uses = entries.filter((one) => one.kind === "use" && !LEFT_OUT.has(nameOf(one)) && can(one));
    this.hidden = !uses.some(({ head }) => head);
    if (this.hidden) return undefined;
    const able = (one) => one.fields.every(({ name, required }) => !required || filled(one)[name]);
    const filled = (one) => translated(values, entry, one);
    const [text, pair] = ["text", "pair"].map((role) => values[entry.fields.find(({ name }) => roleOf(name) === role)?.name]);
    if (!text) return (this.hidden = true); // the picture has an example of its own
    const name = use || about.writes || usual(text ?? "", pair);
    const masks = (one) => nameOf(one) !== "fill" || /\[MASK\]|<mask>/.test(text ?? "");
    const current = uses.find((one) => nameOf(one) === name) ?? uses.find((one) => one.head && able(one) && masks(one));
    if (!current) return (this.hidden = true);
    this.chooser(uses, current, (one) => able(one) && masks(one), about);
    this.body.replaceChildren(element("p", { className: "note" }, "…"));
    const asked = { ...Object.fromEntries(Object.entries(filled(current)).filter(([, value]) => value)), ...chosen };
    const words = Object.fromEntries(Object.entries(asked).filter(([, value]) => value));
    if (!able(current)) return this.body.replaceChildren(element("p", { className: "note" }, "It wants a second text: give one above."));
    try {
      const found = await ask(`/api${current.path}`, words, running.signal);
      const [first] = RESULTS[nameOf(current)](found);
      this.body.replaceChildren(...verdict(nameOf(current), found, current, words), first, this.onward(current, entries, words, values));
    } catch (error) {
      if (error.name === "AbortError") return undefined;
      this.body.replaceChildren(element("p", { className: "note" }, error.message));
    }
    return undefined;
  }

  chooser(uses, current, able, about) {
    const options = uses.map((one) => {
      const taken = about.uses[one.skilled]; // the skill, where none is chosen
      const option = new Option(taken ? `${one.title} (${taken})` : one.title, nameOf(one), false, one === current);
      option.disabled = !able(one) && one !== current;
      return option;
    });
    const select = element("select", { id: "use" }, ...options);
    select.addEventListener("change", () => this.dispatchEvent(new CustomEvent("used", { detail: select.value })));
    const label = element("label", { htmlFor: "use" }, "What the model says");
    const focused = document.activeElement?.id === "use";
    this.body ??= reachable(element("div", { className: "said" }));
    this.replaceChildren(element("div", { className: "field" }, label, select), this.body);
    if (focused) select.focus();
  }

  onward(current, entries, words, values) {
    const link = (label, href) => element("li", {}, element("a", { href }, label));
    const list = element("ol", { className: "onward" });
    const why = entries.find(({ path }) => path === "/look/why");
    const { model = "", skill = "" } = words;
    const kind = EXPLAINED[nameOf(current)];
    const others = { model, skill };
    if (kind && why) list.append(link("Why this answer?", linkTo({ path: why.path, values: { ...translated(words, current, why), use: kind, ...others } })));
    const attention = entries.find(({ path }) => path === "/look/attention");
    list.append(link("Where does it look?", linkTo({ path: attention.path, values: { ...translated(words, current, attention), ...others } })));
    list.append(link("All of the answer", `${current.path}?${written(words)}`));
    return list;
  }
}

customElements.define("studio-edge", StudioEdge);
