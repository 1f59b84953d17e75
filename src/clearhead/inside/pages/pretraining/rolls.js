// One roll of the dice: what the model gets, what it costs, and how other objectives put it.

const SENTINELS = ["X", "Y", "Z", "W", "V", "U"];

// the tokens as the model gets them; above a changed one stands what was there
function showSentence({ where, fates, there }) {
  query("#sentence").replaceChildren(...facts.tokens.map((token, i) => {
    const at = where.indexOf(i);
    const made = element("li", {}, wordOf(at < 0 ? token : there[at]));
    if (at >= 0) {
      made.dataset.fate = fates[at];
      if (fates[at] !== "same") made.dataset.was = plainToken(token);
    }
    return made;
  }));
}

function showLosses({ where, fates, there, losses, guesses }) {
  const most = Math.max(8, ...losses);
  query(".losses tbody").replaceChildren(...where.map((place, i) => {
    const cost = element("td", {}, losses[i].toFixed(3));
    cost.style.setProperty("--share", losses[i] / most);
    const said = guesses[i].map(([token, share]) => element("span", {}, wordOf(token), element("small", {}, share.toFixed(2))));
    const now = element("td", {}, fates[i] === "same" ? "as it was" : wordOf(there[i]));
    now.dataset.fate = fates[i];
    return element("tr", {}, element("th", { scope: "row" }, wordOf(facts.tokens[place])), now,
      element("td", {}, Math.exp(-losses[i]).toFixed(3)), cost, element("td", {}, ...said));
  }));
  const mean = losses.reduce((a, b) => a + b, 0) / losses.length;
  query("#average").textContent = `Their mean, ${mean.toFixed(3)}, is the loss of this text: ` +
    `as if it had chosen evenly among ${Math.exp(mean).toFixed(1)} tokens.`;
}

// neighbours that are hidden make one span
function showSpans({ where }) {
  const [source, target] = [[], []];
  let span = -1;
  facts.tokens.forEach((token, i) => {
    if (facts.special[i]) return;
    if (!where.includes(i)) return source.push(plainToken(token));
    if (!where.includes(i - 1)) {
      span += 1;
      const name = element("em", {}, `<${SENTINELS[span] ?? span + 1}>`);
      source.push(name);
      target.push(name.cloneNode(true));
    }
    target.push(plainToken(token));
  });
  const joined = (parts) => parts.flatMap((part, i) => (i && !String(part).startsWith("##") ? [" ", part] : [String(part).startsWith?.("##") ? part.slice(2) : part]));
  query("#corrupted").replaceChildren("source: ", ...joined(source));
  query("#sentinels").replaceChildren("target: ", ...joined(target));
}

function showReplaced({ where, there, replaced, found }) {
  query("#replaced").replaceChildren(...facts.tokens.map((token, i) => {
    const at = where.indexOf(i);
    const made = element("li", {}, wordOf(at < 0 ? token : there[at]));
    if (at >= 0) {
      made.dataset.fate = replaced[at] ? "random" : "same";
      if (replaced[at]) made.dataset.was = plainToken(token);
    }
    if (found) made.title = `replaced with probability ${found[i].toFixed(2)}`;
    return made;
  }));
  const count = replaced.filter(Boolean).length;
  const hits = found ? where.filter((place, i) => replaced[i] && found[place] > 0.5).length : 0;
  query("#replaced-note").textContent =
    `The model itself draws a token for each mask; ${count} of ${replaced.length} are not what stood there. ` +
    (found ? `Its other head finds ${hits} of them.`
      : "ELECTRA learns to tell which; this model has no head for it. Every token is asked, not 15 % of them.");
}

function showPairs(coins) {
  const rows = facts.pairs.flatMap(({ first, options }, i) => options.map(({ second, follows, probability }) => {
    const drawn = options.length === 1 || follows === coins[i];
    const cell = element("td", {}, probability === null ? "" : probability.toFixed(3));
    cell.style.setProperty("--share", probability ?? 0);
    return element("tr", { className: drawn ? "drawn" : "" },
      element("td", { className: `sign ${follows ? "same" : "random"}`, title: follows ? "follows" : "from elsewhere" }, follows ? "✓" : "✗"),
      element("td", {}, first), element("td", {}, second), cell);
  }));
  query(".pairs tbody").replaceChildren(...rows);
  const taught = facts.pairs.some(({ options }) => options[0].probability !== null);
  query("#pairs-note").textContent =
    "✓ the sentence that follows, ✗ one from elsewhere; the coin has chosen what is drawn strong. " +
    (taught ? "The number is the model’s probability that the second follows the first."
      : "This model has no head that tells whether one follows.");
}
