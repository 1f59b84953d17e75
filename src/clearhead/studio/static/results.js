// What a use answers, as people read it: one function for each use, from the JSON that programs get.

import { element } from "./dom.js";
import { bars, marked, tokenScores } from "./parts.js";

const card = (title, ...children) =>
  element("section", { className: "card pane" }, element("h2", {}, title), ...children);
const note = (text) => element("p", { className: "note" }, text);
const text = (title, words, ...more) =>
  card(title, element("p", { className: "answer" }, element("bdi", {}, words)), ...more);
const scored = (scores) => bars(Object.entries(scores).map(([label, score]) => ({ label, score })));

function fill({ predictions }) {
  const masks = [...new Set(predictions.map(({ mask }) => mask))];
  const item = ({ token, score, sequence }) => ({ label: token, score, note: sequence });
  return masks.map((mask) => {
    const title = masks.length > 1 ? `Mask ${mask + 1}` : "The word behind the mask";
    return card(title, bars(predictions.filter((one) => one.mask === mask).map(item)));
  });
}

function askFor({ answer, start, end, score, context, candidates, tokens }) {
  const places = answer === null ? [] : [{ start, end }];
  const said = answer === null
    ? note(`The text has no answer, says the model (probability ${score.toFixed(3)}).`)
    : element("p", { className: "answer" }, element("bdi", {}, answer));
  const found = candidates.map(({ text, start, end, score }) => (
    { label: text, score, note: `characters ${start} to ${end}` }
  ));
  const ends = tokens
    ? [note("How likely the answer starts at a token (above, blue) and ends (below, orange)."), tokenScores(tokens)]
    : [note("The text is read in several windows; starts and ends are shown for texts that fit into one.")];
  const texts = card("Answer", said, marked(context, places));
  return [texts, card("Candidates", bars(found)), card("Starts and ends", ...ends)];
}

function tag({ text, entities, words }) {
  const found = entities.length ? [] : [note("No entity, says the model.")];
  const one = ({ text, label, score }) => ({ label: text, score, note: label });
  // where no word is outside, as with parts of speech, there are no entities to be found
  const plain = !entities.length && words.length && words.every(({ label }) => label !== "O");
  if (plain) return [card("Words", marked(text, words)), card("One by one", bars(words.map(one)))];
  return [
    card("Entities", marked(text, entities), ...found),
    ...(entities.length ? [card("One by one", bars(entities.map(one)))] : []),
    card("Every word", bars(words.map(one))),
  ];
}

const classify = ({ scores }) => [card("Classes", scored(scores))];

function follows({ probability }) {
  const both = { "It follows": probability, "It does not": 1 - probability };
  return [card("Does the second text follow the first?", scored(both))];
}

function search({ results }) {
  const items = results.map(({ text, source, score }) => ({ label: text, score, note: source }));
  return [card("Passages, the best first", items.length ? bars(items) : note("Nothing fits."))];
}

function summarise({ text: whole, summary, sentences }) {
  const central = bars(sentences.map(({ text, score }) => ({ label: text, score })));
  return [
    text("Summary", summary),
    card("Where it stands", marked(whole, sentences)),
    card("How central each sentence is", note("1 is the average."), central),
  ];
}

function senses({ texts, occurrences, cosines }) {
  const order = occurrences.map((one, place) => ({ ...one, place })).sort((a, b) => a.sense - b.sense);
  const groups = Map.groupBy(order, ({ sense }) => sense);
  const lists = [...groups].map(([sense, group]) =>
    element("section", {}, element("h3", {}, `Sense ${sense + 1}`), element("ul", { className: "texts" }, ...group.map(
      ({ index, start, end, place }) => element("li", {}, `${place + 1}  `, marked(texts[index], [{ start, end }])),
    ))),
  );
  const names = order.map(({ place }) => element("th", { scope: "col" }, `${place + 1}`));
  const rows = order.map(({ place }) =>
    element("tr", {}, element("th", { scope: "row" }, `${place + 1}`), ...order.map((other) => {
      const cosine = cosines[place][other.place];
      const cell = element("td", {}, cosine.toFixed(2));
      cell.style.setProperty("--share", Math.max(0, cosine));
      return cell;
    })),
  );
  const table = element("table", { className: "cosines" }, element("tr", {}, element("td"), ...names), ...rows);
  const near = element("div", { className: "wide" }, table);
  return [card("Places by sense", ...lists), card("How near they are (cosine)", near)];
}

function generate({ prompt, generated, score, ended }) {
  const end = ended ? "It has come to an end." : "It was cut off at the limit.";
  return [text("What goes on", generated, note(`After “${prompt}”. ${end} Log probability ${score.toFixed(2)}.`))];
}

function translate({ translation, parts }) {
  const both = (part) => [element("bdi", {}, part.source), " → ", element("bdi", {}, part.text)];
  const rows = parts.map((part) => element("li", {}, ...both(part)));
  return [text("Translation", translation), card("Part by part", element("ul", { className: "texts" }, ...rows))];
}

export const RESULTS = {
  fill, ask: askFor, tag, classify, compare: classify, follows, search, summarise, senses, generate, translate,
};

const likeliest = ({ scores }) => Object.entries(scores).sort(([, a], [, b]) => b - a)[0][0];
const SAID = {
  fill: ({ predictions }) => predictions[0].token,
  ask: ({ answer }) => answer ?? "no answer",
  tag: ({ entities }) => entities.map(({ text, label }) => `${text} ${label}`).join(", ") || "no name",
  classify: likeliest,
  compare: likeliest,
  follows: ({ probability }) => (probability < 0.5 ? "it does not" : "it follows"),
};

// where a model does not say of an example what the lectures do, the page says that it errs
export function verdict(name, found, { examples }, values) {
  const same = (example) => Object.entries(example.values).every(([key, value]) => (values[key] ?? "") === String(value));
  const expected = examples.find((example) => example.expects && same(example))?.expects;
  if (!expected || !SAID[name]) return [];
  const said = SAID[name](found);
  if (expected.includes(said)) return [];
  return [element("p", { className: "errs" }, `The model errs here: it says “${said}”; the lectures have “${expected[0]}”.`)];
}
