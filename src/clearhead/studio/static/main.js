// Puts a page together: which one the address names, what it asks, and what came back.

import { LONGEST, given, remember, written } from "./address.js";
import { ask, element, query } from "./dom.js";
import "./form.js";
import "./picture.js";
import { RESULTS } from "./results.js";
import { tools } from "./tools.js";

const KINDS = { look: "Look inside", use: "Use" };
const studio = await ask("/api/studio");
const entry = studio.entries.find(({ path }) => path === location.pathname);
const model = query("#model");
const skill = query("#skill");
const work = query("#work");
const form = element("studio-form");
const result = element("div", { className: "result" });
const status = element("p", { className: "status", role: "status" });
let current = ""; // the model that answers, whether it was chosen or is the page's own

// the texts go along where the next page asks for some, and the chosen model
function linkTo({ path, title, fields, question, use }) {
  const asked = new Set(fields.map(({ name }) => name));
  const along = ["text", "pair"].filter((name) => entry && asked.has(name)).map((name) => [name, form.values[name]]);
  const { model, skill } = chosen();
  const kept = use && !model ? "" : skill; // such a page has a model of its own, without skills
  const words = written({ ...Object.fromEntries(along), model, skill: kept });
  const ariaCurrent = path === entry?.path ? "page" : null;
  return element("a", { href: path + (words && `?${words}`), title: question, ariaCurrent }, title);
}

const chosen = () => ({ model: model.value, skill: skill.value });

function navigate() {
  const groups = Object.entries(KINDS).map(([kind, title]) => {
    const links = studio.entries.filter((one) => one.kind === kind).map((one) => element("li", {}, linkTo(one)));
    return [element("h2", {}, title), element("ul", {}, ...links)];
  });
  const nav = query("nav");
  const before = nav.scrollLeft;
  nav.replaceChildren(...groups.flat());
  nav.scrollLeft = before;
}

// of a model with skills, each use takes its own unless one is chosen
function offerSkills(names, current = "") {
  skill.replaceChildren(new Option("the one for the use", ""), ...names.map((name) => new Option(name, name)));
  skill.value = current;
  skill.parentElement.hidden = !names.length;
}

async function describe() {
  const about = query("#about");
  try {
    const asked = written({ ...chosen(), page: entry?.path });
    const { name, family, parameters, heads, skills } = await ask(`/api/model?${asked}`);
    offerSkills(skills, skill.value);
    const able = heads.length ? `heads: ${heads.join(", ").replaceAll("_", " ")}` : "no heads";
    current = name;
    const which = model.value ? family : `${name}: ${family}`;
    about.textContent = `${which}, ${(parameters / 1e6).toFixed(1)} M parameters, ${able}`;
    const lacking = entry?.head && !heads.includes(entry.head) && !skills.length && heads.length;
    const head = entry?.head?.replaceAll("_", " ");
    if (lacking) status.textContent = `This model has no head for this (${head}); choose another model.`;
  } catch (error) {
    about.textContent = error.message;
  }
}

function overview() {
  const card = (one) => {
    const link = linkTo(one);
    return element("li", { className: "card" }, link, element("p", { className: "note" }, one.question));
  };
  const groups = Object.entries(KINDS).flatMap(([kind, title]) => [
    element("h2", {}, title),
    element("ul", { className: "cards" }, ...studio.entries.filter((one) => one.kind === kind).map(card)),
  ]);
  work.append(element("h1", {}, "What happens inside, and what comes out"), ...groups);
}

function missing() {
  work.append(
    element("h1", {}, "There is no such page"),
    element("p", {}, "The address ", element("code", {}, location.pathname), " leads nowhere; choose a page above."),
  );
}

async function show(hash = "") {
  const values = { ...form.values, ...chosen() };
  const words = written(values);
  const fits = remember(values, hash);
  navigate();
  status.textContent = fits ? "" : "The text is too long for an address, so the link does not hold it.";
  status.classList.remove("failed");
  result.setAttribute("aria-busy", "true");
  const slow = setTimeout(() => (status.textContent ||= "Computing …"), 400);
  try {
    await (entry.kind === "look" ? picture(words, hash) : answer(values, words));
  } catch (error) {
    result.replaceChildren();
    status.textContent = error.message;
    status.classList.add("failed");
  } finally {
    clearTimeout(slow);
    if (status.textContent === "Computing …") status.textContent = "";
    result.removeAttribute("aria-busy");
  }
}

async function picture(words, hash) {
  if (words.length > LONGEST) throw new Error("The text is too long for a picture; give a part of it.");
  const name = entry.path.split("/").at(-1);
  const frame = element("studio-picture");
  const html = `/picture/${name}?${words}`;
  const row = tools({ name, root: () => frame.page.body, json: `/api${entry.path}?${words}`, html });
  result.replaceChildren(frame, row);
  frame.addEventListener("moved", () => remember({ ...form.values, ...chosen() }, frame.hash));
  row.hidden = !(await frame.show(html, entry.title, hash));
  if (entry.needs === "runs" && !row.hidden) frame.follow(`/api${entry.path}`);
}

async function answer(values, words) {
  const name = entry.path.split("/").at(-1);
  const filled = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""));
  const found = await ask(`/api${entry.path}`, filled);
  const shown = element("div", { className: "shown" }, ...RESULTS[name](found));
  result.replaceChildren(shown, tools({ name, root: () => shown, json: `/api${entry.path}?${words}` }));
}

function page() {
  document.title = `${entry.title} · clearhead studio`;
  work.append(
    element("header", {}, element("h1", {}, entry.question)),
    form, status, result,
  );
  form.show(entry, Object.fromEntries(given));
  form.addEventListener("asked", ({ detail }) => {
    // a model of the user's own answers every example
    if (detail.model !== current && studio.models.includes(detail.model) && current.startsWith("builtin:")) {
      model.value = detail.model;
      offerSkills([]);
      describe();
    }
    if (detail.skill !== skill.value && [...skill.options].some(({ value }) => value === detail.skill)) {
      skill.value = detail.skill;
      describe();
    }
    show();
  });
  if (form.complete && (given.size || !entry.fields.some(({ required }) => required))) show(location.hash);
}

model.append(new Option("the one for the page", ""), ...studio.models.map((name) => new Option(name, name)));
model.value = studio.models.includes(given.get("model")) ? given.get("model") : "";
if (given.get("skill")) offerSkills([given.get("skill")], given.get("skill"));
for (const chooser of [model, skill])
  chooser.addEventListener("change", () => {
    if (chooser === model) offerSkills([]);
    status.textContent = "";
    describe();
    if (entry && form.complete) show();
    else navigate();
  });
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, textarea, select")) return;
  query("studio-form input, studio-form textarea")?.focus();
  event.preventDefault();
});
if (entry) page();
else if (["/", "/studio"].includes(location.pathname)) overview();
else missing();
navigate();
query("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
describe();
