// Four cards; a switch shows the same texts with a fresh head on the encoder as it was, or with what was learnt.

const TITLES = {
  sentence: "One sentence → a class", pair: "Two sentences → a class", tags: "Each token → a tag", span: "Question and passage → start and end",
};
const both = facts.diagrams.some(({ before }) => before);
const state = { when: both ? remembered("when", ["before", "after"]) ?? "after" : "after" };

query("#lead").textContent =
  `The same ${facts.blocks} blocks of ${facts.family} under four heads: fine-tuning adds one layer on top, and changes the ` +
  "encoder a little. What each says of its text is real.";
query("#when").hidden = !both;
query("#legend").textContent = both ? "Orange: how far a vector has moved in fine-tuning." : "";

const cards = facts.diagrams.map((one) => {
  const [answers, box] = [element("ul", { className: "answers" }), element("div")];
  query("#diagrams").append(element("section", { className: "card pane" },
    element("h2", {}, TITLES[one.kind]), element("p", { className: "note", title: one.texts.join(" | ") }, one.texts.join("  |  ")), box, answers));
  return { one, answers, show: makeDiagram(box) };
});

// what the head says, the best first; of tags those that name something
function itemsOf({ kind }, { answer, said, tokens }) {
  if (kind !== "tags") return answer.items.slice(0, 3);
  const named = said.map((one, i) => one && one[0] !== "O" && [`${plainToken(tokens[i])} ${one[0]}`, one[1]]).filter(Boolean);
  return named.length ? named.slice(0, 6) : [["nothing is named", 0]];
}

function show() {
  query(`[name=when][value=${state.when}]`).checked = true;
  cards.forEach(({ one, answers, show }) => {
    const stage = one[state.when] ?? one.after;
    show({ ...one, stage, label: `encoder, ${facts.blocks} blocks${one.skill && state.when === "after" ? `, with the skill “${one.skill}”` : ""}` });
    answers.replaceChildren(...itemsOf(one, stage).map(([name, share]) => {
      const row = element("li", {}, element("bdi", {}, name), element("span", {}, share.toFixed(3)));
      row.style.setProperty("--share", Math.max(0, Math.min(1, share)));
      return row;
    }));
  });
  query("#when-note").textContent = !both ? ""
    : state.when === "before" ? "A fresh head on the encoder as it was pre-trained: it guesses."
      : "The head, and the few numbers of the encoder that were adapted, have learnt the task.";
  remember({ when: state.when === "after" ? null : state.when });
  query(".spoken").textContent = cards.map(({ one }) => `${TITLES[one.kind]}: ${itemsOf(one, one[state.when] ?? one.after)[0]?.[0] ?? ""}`).join(". ");
}

query("#when").addEventListener("change", ({ target }) => {
  state.when = target.value;
  show();
});
show();
