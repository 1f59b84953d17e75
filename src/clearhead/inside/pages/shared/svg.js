// Drawings made of elements, in colours that follow the theme.

const svg = query("svg");

function drawn(tag, properties, ...children) {
  const made = document.createElementNS(svg.namespaceURI, tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, value);
  made.append(...children);
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
