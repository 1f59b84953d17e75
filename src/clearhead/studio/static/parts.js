// Parts of results: <score-bars> (labels with bars), <marked-text> (places in a text), <token-scores> (start and end).

import { Characters, element } from "./dom.js";

const figure = (score) => (Math.abs(score) < 0.0005 && score !== 0 ? score.toExponential(1) : score.toFixed(3));

// { label, score, note }, the bars relative to 1 or, where scores are larger, to the largest
class ScoreBars extends HTMLElement {
  show(items) {
    const most = Math.max(1, ...items.map(({ score }) => Math.abs(score)));
    const rows = items.map(({ label, score, note }) => {
      const bar = element("span", { className: "bar", ariaHidden: "true" });
      bar.style.setProperty("--share", Math.max(0, score / most));
      const about = note ? [element("span", { className: "note" }, element("bdi", {}, note))] : [];
      const name = element("span", { className: "name" }, element("bdi", {}, label), ...about);
      return element("li", {}, bar, name, element("span", { className: "value" }, figure(score)));
    });
    this.replaceChildren(element("ol", { className: "bars" }, ...rows));
    return this;
  }
}

// places { start, end, label } of a text, in Python's characters; one that lies in another is left out
class MarkedText extends HTMLElement {
  show(text, places) {
    const characters = new Characters(text);
    const parts = [];
    let done = 0;
    for (const { start, end, label } of [...places].sort((a, b) => a.start - b.start)) {
      if (start < done) continue;
      const chip = label ? [element("small", {}, label)] : [];
      parts.push(characters.slice(done, start), element("mark", {}, characters.slice(start, end), ...chip));
      done = end;
    }
    this.replaceChildren(element("bdi", {}, ...parts, characters.slice(done)));
    return this;
  }
}

// every token with two bars: how likely the answer starts here, and ends here
class TokenScores extends HTMLElement {
  show({ tokens, start, end }) {
    const items = tokens.map((token, i) => {
      const bars = [start, end].map((scores, kind) => {
        const bar = element("span", { className: kind ? "bar end" : "bar start" });
        bar.style.setProperty("--share", scores[i]);
        return bar;
      });
      const said = `start ${figure(start[i])}, end ${figure(end[i])}`;
      const spoken = element("span", { className: "spoken" }, said);
      const strong = start[i] >= 0.05 || end[i] >= 0.05;
      const item = element("li", { title: said, className: strong ? "strong" : "" });
      item.append(bars[0], element("bdi", {}, token), bars[1], spoken);
      return item;
    });
    this.replaceChildren(element("ol", { className: "token-scores" }, ...items));
    return this;
  }
}

customElements.define("score-bars", ScoreBars);
customElements.define("marked-text", MarkedText);
customElements.define("token-scores", TokenScores);

export const bars = (items) => element("score-bars").show(items);
export const marked = (text, places) => element("marked-text").show(text, places);
export const tokenScores = (scores) => element("token-scores").show(scores);
