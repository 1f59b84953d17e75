// What every module uses: elements whose strings are text, whatever is in them, and answers of the studio.

export const query = (selector, root = document) => root.querySelector(selector);

// an element with these properties and children; a string among the children is text
export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export const SILENT = "The studio does not answer; is it still running?";

async function asked(path, options) {
  return fetch(path, options).catch((error) => {
    throw error.name === "AbortError" ? error : new Error(SILENT);
  });
}

// a sentence, and the texts that would do in the place of those that are too long
const refusal = (message, shorter) => Object.assign(new Error(message), { shorter });

// what the studio answers to a program; its sentence is thrown where it refuses
export async function ask(path, given = null, signal = null) {
  const headers = { "Content-Type": "application/json" };
  const posted = given && { method: "POST", headers, body: JSON.stringify(given) };
  const response = await asked(path, { ...posted, signal });
  const found = await response.json();
  if (!response.ok) throw refusal(found.error, found.shorter);
  return found;
}

// the page of a view, as it is saved; the sentence of a page that refuses is thrown
export async function drawing(path, signal = null) {
  const response = await asked(path, { signal });
  const html = await response.text();
  if (response.ok) return html;
  const facts = html.match(/id="facts">(.*?)<\/script>/s);
  const { message, shorter } = facts ? JSON.parse(facts[1]) : { message: html };
  throw refusal(message, shorter);
}

// what scrolls in here can be reached by the keyboard
export function reachable(root) {
  new ResizeObserver(() => {
    for (const box of root.querySelectorAll("marked-text, .token-scores, .wide")) {
      if (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  }).observe(root);
  return root;
}

// Python counts characters, JavaScript counts half of some of them
export class Characters {
  constructor(text) {
    this.all = Array.from(text);
  }
  slice(start, end) {
    return this.all.slice(start, end).join("");
  }
}
