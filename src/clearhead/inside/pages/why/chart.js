// The deletion curves as lines, one colour for each method; chance is dashed.

const methods = Object.keys(facts.methods);
const colourOf = (name) => (name === "chance" ? "var(--soft)" : tint(methods.indexOf(name)));
mixColours(methods.length);
dark.addEventListener("change", () => mixColours(methods.length));

const [LEFT, TOP, WIDE, HIGH] = [74, 12, 556, 260];
// small probabilities need more digits
const digits = facts.probability < 0.1 ? 4 : 3;

function drawChart() {
  const x = (share) => LEFT + share * WIDE;
  const y = (value) => TOP + (1 - value / most) * HIGH;
  const lines = { ...facts.methods, chance: facts.random };
  const highest = Math.max(...Object.values(lines).flatMap(({ curve }) => curve));
  const most = highest > 0.4 ? 1 : highest * 1.1 || 1;
  const scale = [0, 0.25, 0.5, 0.75, 1].map((part) => part * most);
  svg.replaceChildren(
    ...scale.flatMap((value) => [
      drawn("line", { class: "grid-line", x1: LEFT, x2: LEFT + WIDE, y1: y(value), y2: y(value) }),
      drawn("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, value.toFixed(most < 0.1 ? 4 : 2)),
    ]),
    ...[0, 0.25, 0.5, 0.75, 1].map((share) => {
      const anchor = share === 1 ? "end" : "middle";
      return drawn("text", { x: x(share), y: TOP + HIGH + 20, "text-anchor": anchor }, `${100 * share} %`);
    }),
    drawn("text", { x: LEFT + WIDE, y: TOP + HIGH + 42, "text-anchor": "end" }, "tokens hidden, most important first"),
    ...Object.entries(lines).map(([name, { shares, curve }]) => {
      const points = shares.map((share, i) => `${x(share)},${y(curve[i])}`).join(" ");
      const dashes = name === "chance" ? "5 5" : "none";
      const line = drawn("polyline", { points, "stroke-dasharray": dashes }, drawn("title", {}, name));
      line.style.stroke = colourOf(name);
      return line;
    }),
  );
}
