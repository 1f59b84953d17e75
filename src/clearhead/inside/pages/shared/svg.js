// Drawings made of elements, in colours that follow the theme.

const svg = query("svg");

function drawn(tag, properties, ...children) {
  const made = document.createElementNS(svg.namespaceURI, tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const ruler = new OffscreenCanvas(1, 1).getContext("2d");

// a text in a drawing, smaller or cut where there is no room for it
function fittedText(text, room, { size = 12, weight = 550, ...properties }) {
  const width = (shown, at) => {
    ruler.font = `${weight} ${fontOf(at)}`;
    return ruler.measureText(shown).width;
  };
  const fits = [size, size - 1, size - 2].find((at) => width(text, at) <= room);
  let end = text.length;
  while (!fits && end > 1 && width(`${text.slice(0, end)}…`, size - 2) > room) end--;
  const made = drawn("text", { "text-anchor": "middle", ...properties }, fits ? text : `${text.slice(0, end)}…`);
  made.style.fontSize = `${fits ?? size - 2}px`;
  return made;
}

// as many colours as there are names, equally light; an element refers to one by `tint(index)`
const tint = (index) => `var(--own-${index})`;

function mixColours(count) {
  for (let i = 0; i < count; i++) {
    const hue = Math.round(262 + (360 * i) / count) % 360;
    document.documentElement.style.setProperty(`--own-${i}`, `oklch(${dark.matches ? 0.77 : 0.57} 0.15 ${hue})`);
  }
}
