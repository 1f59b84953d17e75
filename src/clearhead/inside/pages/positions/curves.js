// Sines first, then cosines, with frequencies from 1 down to 1/base: the slide's layout, for any width, base and length.

const WIDTHS = [4, 8, 16, 32, 64, 128];
const choice = { wide: 4, base: 4, long: 48 };
const widthOf = () => WIDTHS[choice.wide - 1] ?? 128;

// the same as Python's `sinusoidal_split`, with another base
function sinusoidal(length, width, base) {
  const half = width / 2;
  const frequencies = Array.from({ length: half }, (_, i) => base ** (half > 1 ? -i / (half - 1) : 0));
  return Array.from({ length }, (_, position) => [
    ...frequencies.map((one) => Math.sin(position * one)), ...frequencies.map((one) => Math.cos(position * one)),
  ]);
}

function drawCurves(rows) {
  const [width, height, left] = [480, 210, 26];
  const shown = rows[0].length <= 8 ? rows[0].map((_, j) => j) : [0, 1, 2, 3].map((part) => Math.floor((part * rows[0].length) / 8));
  const x = (i) => left + (i * (width - left - 4)) / Math.max(1, rows.length - 1);
  const y = (value) => height / 2 - value * (height / 2 - 14);
  mixColours(shown.length);
  const paths = shown.map((feature, k) => {
    const made = drawn("path", { d: rows.map((row, i) => `${i ? "L" : "M"} ${x(i).toFixed(1)} ${y(row[feature]).toFixed(1)}`).join(" ") },
      drawn("title", {}, `feature ${feature + 1}`));
    made.style.stroke = tint(k);
    return made;
  });
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(
    ...[-1, 0, 1].flatMap((value) => [
      drawn("line", { class: "axis", x1: left, x2: width, y1: y(value), y2: y(value) }),
      drawn("text", { x: 2, y: y(value) + 4 }, String(value)),
    ]),
    drawn("text", { x: width - 4, y: height - 1, "text-anchor": "end" }, `position ${rows.length - 1}`),
    ...paths,
  );
  query("#curves-note").textContent = `Features ${shown.map((feature) => feature + 1).join(", ")} of ${rows[0].length}: ` +
    "the first turns once in six positions, the last hardly at all.";
}
