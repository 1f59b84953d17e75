// Vectors as strips of colour: a stripe for each of the first features, blue above 0 and orange below.

const signed = (value, digits) => value.toFixed(digits).replace("-", "−");

// what has the full colour in a row: a few features are so large that the others would have none
function fullColour(values) {
  const sizes = values.flat().map(Math.abs).sort((a, b) => a - b);
  return sizes[Math.floor(0.97 * (sizes.length - 1))] || 1;
}

// one vector as a group: its strip, and its length beside it where there is room
function vectorCell({ x, y, width, height }, values, norm, most) {
  const numbered = width >= 62;
  const strip = numbered ? width - 36 : width - 4;
  const shown = values.slice(0, Math.max(4, Math.min(values.length, Math.floor(strip / 3))));
  const side = strip / shown.length;
  const ground = drawn("rect", { class: "ground", x: x + 2, y: y + 2, width: strip, height: height - 4, rx: 2 });
  const stripes = shown.map((value, i) => drawn("rect", {
    class: value < 0 ? "down" : "up", x: x + 2 + i * side, y: y + 2, width: side, height: height - 4,
    opacity: Math.min(1, Math.abs(value) / most).toFixed(2),
  }));
  const number = numbered && height >= 11
    ? [drawn("text", { class: "number", x: x + width - 4, y: y + height / 2 + 3.5, "text-anchor": "end" },
        norm.toFixed(norm < 100 ? 1 : 0))]
    : [];
  return drawn("g", {}, ground, ...stripes, ...number);
}

// a token without the sign of the blank before it, which would take room from every column
const shortToken = (token) => {
  const { mark, text } = label(token);
  return (mark === "##" ? mark : "") + text || "␣";
};
