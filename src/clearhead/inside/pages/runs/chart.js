// One measurement of all runs as lines; the pointer or the arrow keys read the runs at one place.

const [LEFT, TOP, RIGHT, HIGH] = [52, 8, 472, 180];
const large = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const figure = (value) => (Math.abs(value) >= 10000 ? large.format(value) : String(Number(value.toPrecision(4))));

function clock(seconds) {
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min` : `${Math.round(seconds)} s`;
}
const ACROSS = { step: ["steps", figure], tokens: ["tokens", figure], elapsed: ["", clock] };

// round numbers between two values, about five of them
function marks(low, high) {
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const by = power * [1, 2, 5, 10].find((step) => step * power >= rough);
  const first = Math.ceil(low / by);
  return Array.from({ length: Math.floor(high / by) - first + 1 }, (_, i) => Number(((first + i) * by).toPrecision(12)));
}

// the points (x, y) of a run that have both, in order
const pointsOf = ({ columns }, across, name) =>
  (columns[name] ?? []).map((y, i) => [columns[across]?.[i], y]).filter(([x, y]) => x != null && y != null);

function chart(pane) {
  const { name } = pane.dataset;
  const [picture, reading] = [pane.querySelector("svg"), pane.querySelector(".reading")];
  const cursor = drawn("line", { class: "cursor", y1: TOP, y2: TOP + HIGH });
  let lines = []; // { index, points } of runs that measured it
  let at = null; // the x that is read
  let [edge, wide] = [LEFT, RIGHT - LEFT]; // room for the longest number beside the lines
  let place = null;
  picture.setAttribute("viewBox", "0 0 480 212");

  function draw(runs, across) {
    lines = runs.map((run, index) => ({ index, name: run.name, points: pointsOf(run, across, name) }));
    lines = lines.filter(({ points }) => points.length);
    pane.hidden = !lines.length;
    if (pane.hidden) return;
    const [xs, ys] = [0, 1].map((axis) => lines.flatMap(({ points }) => points.map((point) => point[axis])));
    const ends = (values) => {
      const [low, high] = [Math.min(...values), Math.max(...values)];
      return high > low ? [low, high] : [low - Math.abs(low || 1) / 2, high + Math.abs(high || 1) / 2];
    };
    const [[left, right], [low, high]] = [ends([0, ...xs]), ends(ys)];
    const numbers = marks(low, high).map((value) => [value, figure(value)]);
    ruler.font = fontOf(15);
    edge = Math.max(LEFT, ...numbers.map(([, number]) => ruler.measureText(number).width + 12));
    wide = RIGHT - edge;
    const x = (value) => edge + ((value - left) / (right - left)) * wide;
    const y = (value) => TOP + (1 - (value - low) / (high - low)) * HIGH;
    const [unit, shown] = ACROSS[across];
    place = { x, back: (px) => left + ((px - edge) / wide) * (right - left), shown, unit };
    picture.replaceChildren(
      ...numbers.flatMap(([value, number]) => [
        drawn("line", { class: "grid-line", x1: edge, x2: RIGHT, y1: y(value), y2: y(value) }),
        drawn("text", { x: edge - 6, y: y(value) + 4, "text-anchor": "end" }, number),
      ]),
      drawn("text", { x: edge, y: TOP + HIGH + 18 }, shown(Math.max(0, left))),
      drawn("text", { x: RIGHT, y: TOP + HIGH + 18, "text-anchor": "end" }, `${shown(right)} ${unit}`),
      ...lines.flatMap(({ index, name, points }) => {
        const line = drawn("polyline", { points: points.map(([a, b]) => `${x(a)},${y(b)}`).join(" ") });
        line.append(drawn("title", {}, name));
        line.style.stroke = tint(index);
        const [a, b] = points.at(-1);
        const end = drawn("circle", { cx: x(a), cy: y(b), r: 3 });
        end.style.fill = tint(index);
        return [line, end];
      }),
      cursor,
    );
    read(at);
  }

  function read(value) {
    at = value;
    cursor.style.display = at === null ? "none" : "";
    if (at === null) return (reading.textContent = "\u00a0");
    const nearest = (points) => points.reduce((a, b) => (Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a));
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, place.x(at));
    const said = lines.map(({ name, points }) => `${name} ${figure(nearest(points)[1])}`);
    reading.textContent = `${place.shown(at)} ${place.unit}: ${said.join(" · ")}`;
  }

  picture.addEventListener("pointermove", ({ clientX }) => {
    const { left, width } = picture.getBoundingClientRect();
    const across = ((clientX - left) / width) * 480;
    read(across < edge || across > RIGHT ? null : Math.max(0, place.back(across)));
  });
  picture.addEventListener("pointerleave", () => read(null));
  picture.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    const places = [...new Set(lines.flatMap(({ points }) => points.map(([x]) => x)))].sort((a, b) => a - b);
    const next = by > 0 ? places.find((x) => at === null || x > at) : places.findLast((x) => at === null || x < at);
    if (next !== undefined) read(next);
    event.preventDefault();
  });
  return draw;
}
