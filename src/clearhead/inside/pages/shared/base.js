// What every page uses: its facts, elements, tokens as people read them, canvases in the colours of the theme.

const facts = JSON.parse(document.getElementById("facts").textContent);
const query = (selector) => document.querySelector(selector);
const dark = matchMedia("(prefers-color-scheme: dark)");
const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// give a canvas this size on the page, sharp on every screen, and return its context, cleared
function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// a colour as [red, green, blue], for pictures that are painted by pixel
function channelsOf(colour) {
  const context = new OffscreenCanvas(1, 1).getContext("2d");
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  return context.getImageData(0, 0, 1, 1).data;
}

const fontOf = (size) => `${size}px ${getComputedStyle(document.body).fontFamily}`;

// an element with these properties and children; a string among the children is text
function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

const plainToken = (token) => {
  const { mark, text } = label(token);
  return mark + text;
};

// what a control chooses is shown at once; a form is never sent
query(".controls")?.addEventListener("submit", (event) => event.preventDefault());

// Tokens as people read them: the marks of tokenizers stay visible but quiet, blanks get a sign.
const SPECIAL = /^(\[[A-Za-z]\w*\]|<[^<>\s]+>)$/;
const MEANING = {
  "[CLS]": "start of the input", "[SEP]": "end of a text", "[MASK]": "hidden word", "[UNK]": "unknown word",
  "[PAD]": "padding", "<s>": "start of the input", "</s>": "end of a text", "<mask>": "hidden word",
  "<unk>": "unknown word", "<pad>": "padding",
};

function label(token) {
  if (SPECIAL.test(token)) return { mark: "", text: token, special: true };
  const [, mark, rest] = token.match(/^(##|[Ġ▁]|)(.*)$/s);
  const text = rest.replace(/\n/g, "⏎").replace(/\s/g, "␣");
  return { mark: mark === "##" || !mark ? mark : "␣", text: text || (mark ? "" : "␣"), special: false };
}

// a token as an element: its text stays text, whatever it is
function wordOf(token) {
  const { mark, text, special } = label(token);
  const quiet = mark ? [element("span", { className: "mark" }, mark)] : [];
  const className = special ? "word special" : "word";
  return element("bdi", { className, title: MEANING[token] ?? "" }, ...quiet, text);
}

// what scrolls and holds nothing that keys can reach is reached itself
new ResizeObserver(() => {
  for (const box of document.querySelectorAll(".wide")) {
    const scrolls = box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight;
    if (scrolls && !box.querySelector("a, button, input, [tabindex]")) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}).observe(document.body);

// What is chosen lives in the address, so that a link reproduces the picture.
const address = new URLSearchParams(location.hash.slice(1));

// what the address says, if it is one of these texts, or a whole number below this one
function remembered(name, known) {
  const value = address.get(name);
  if (Array.isArray(known)) return known.includes(value) ? value : null;
  return /^\d{1,6}$/.test(value ?? "") && Number(value) < known ? Number(value) : null;
}

function remember(change) {
  for (const [name, value] of Object.entries(change)) value === null ? address.delete(name) : address.set(name, value);
  try {
    // where nothing is chosen, no "#" by itself: it means the top, and a browser scrolls the page round a frame to it
    history.replaceState(null, "", String(address) ? `#${address}` : location.href.split("#")[0]);
  } catch {
    // a frame inside a notebook has no address of its own
  }
}

// Ask for another picture with these values. Whoever holds the page may listen and prevent the default: the studio, or a
// notebook round the frame; a file alone cannot compute. Whether somebody took it is returned.
function askFor(values) {
  const wanted = new CustomEvent("clearhead:ask", { detail: values, bubbles: true, composed: true, cancelable: true });
  const taken = !query("header").dispatchEvent(wanted);
  if (!taken && parent !== window) parent.postMessage({ clearhead: "ask", values }, "*");
  return taken;
}
