// <token-strip>: the tokens of the text, one of them chosen for all views. Arrow keys go along; a double click masks.

import { element } from "./dom.js";

const SPECIAL = /^(\[[A-Za-z]\w*\]|<[^<>\s]+>)$/;
const plain = (token) => token.replace(/^(##|[Ġ▁])/, "");

class TokenStrip extends HTMLElement {
  show(tokens, chosen) {
    const same = this.tokens?.length === tokens?.length && this.tokens?.every((token, i) => token === tokens[i]);
    this.hidden = !tokens?.length || tokens.length > 600;
    [this.tokens, this.chosen] = [tokens, chosen];
    if (this.hidden) return;
    if (!same) this.build(tokens);
    [...this.querySelectorAll("button")].forEach((one, i) => {
      one.ariaPressed = String(i === chosen);
      one.tabIndex = i === (chosen ?? 0) ? 0 : -1;
    });
  }

  build(tokens) {
    const items = tokens.map((token, i) => {
      const joined = token.startsWith("##") ? "joined" : "";
      const className = SPECIAL.test(token) ? "special" : joined;
      const name = element("bdi", {}, plain(token) || "␣");
      const button = element("button", { type: "button", className, title: `token ${i + 1}: ${token}` }, name);
      button.dataset.index = i;
      return element("li", {}, button);
    });
    const list = element("ol", { ariaLabel: "Tokens; the chosen one is kept in every view" }, ...items);
    list.addEventListener("click", ({ target, detail }) => {
      if (detail > 1) return; // of a double click, which masks, and leaves chosen what was
      this.before = this.chosen;
      this.tell("picked", target.closest("button"));
    });
    list.addEventListener("dblclick", ({ target }) => this.tell("masked", target.closest("button")));
    list.addEventListener("keydown", (event) => this.walk(event));
    this.replaceChildren(list);
  }

  walk(event) {
    const buttons = [...this.querySelectorAll("button")];
    const at = buttons.indexOf(event.target);
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (!buttons[next]) return;
    buttons[next].focus();
    event.preventDefault();
    event.stopPropagation();
  }

  tell(kind, button) {
    if (!button) return;
    const detail = Number(button.dataset.index);
    this.dispatchEvent(new CustomEvent(kind, { detail }));
  }
}

customElements.define("token-strip", TokenStrip);

// the text with the word of a token hidden: tokens are looked for in it one after another
export function masked(text, tokens, index, mask = "[MASK]") {
  let at = 0;
  for (let i = 0; i <= index; i++) {
    if (SPECIAL.test(tokens[i])) continue;
    const word = plain(tokens[i]);
    const found = text.toLowerCase().indexOf(word.toLowerCase(), at);
    if (found < 0) continue;
    if (i === index) return text.slice(0, found) + mask + text.slice(found + word.length);
    at = found + word.length;
  }
  return null;
}
