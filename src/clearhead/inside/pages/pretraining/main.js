// The button moves to the next roll; how tokens are chosen is another set of rolls.

const CHOICES = ["pieces", "words", "spans"];
const count = facts.rolls.pieces.length;
const state = { roll: remembered("roll", count) ?? 0, choice: remembered("choice", CHOICES) ?? "pieces" };
const words = facts.special.filter((special) => !special).length;

query("#lead").textContent =
  `${facts.family} reads your text with some of it hidden and is asked for what stood there: ` +
  `${Math.round(100 * facts.rate)} % of the tokens, here of ${words}.`;

// over all rolls, how often each fate came
function tally() {
  const all = facts.rolls[state.choice].flatMap(({ fates }) => fates);
  const share = (fate) => `${Math.round((100 * all.filter((one) => one === fate).length) / all.length)} %`;
  query("#tally").textContent =
    `in all ${count} rolls: ${share("mask")}, ${share("random")}, ${share("same")} of ${all.length}`;
}

function show() {
  const roll = facts.rolls[state.choice][state.roll];
  query(`[name=choice][value=${state.choice}]`).checked = true;
  showSentence(roll);
  showLosses(roll);
  showSpans(roll);
  showReplaced(facts.replaced[state.roll]);
  showPairs(facts.coins[state.roll]);
  tally();
  query("#spans-pane").hidden = state.choice !== "spans";
  query("#replaced-pane").hidden = state.choice === "spans";
  const hidden = roll.where.map((place) => plainToken(facts.tokens[place])).join(", ");
  query("#rolled").textContent = `Roll ${state.roll + 1} of ${count}: ${roll.where.length} of ${words} tokens are asked for.`;
  query(".spoken").textContent = `Asked for: ${hidden}.`;
  remember({ roll: state.roll || null, choice: state.choice === "pieces" ? null : state.choice });
}

function roll() {
  state.roll = (state.roll + 1) % count;
  show();
}

query("#roll").addEventListener("click", roll);
query("#choice").addEventListener("change", ({ target }) => {
  state.choice = target.value;
  show();
});
addEventListener("keydown", (event) => {
  if (event.key !== "r" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (!event.target.closest?.("input[type=text], textarea, select")) roll();
});
show();
