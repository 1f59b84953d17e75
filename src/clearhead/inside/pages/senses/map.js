// The occurrences as points of a plane, coloured by sense.

const senses = [...new Set(facts.occurrences.map(({ sense }) => sense))];
const colourOf = (sense) => tint(senses.indexOf(sense));
mixColours(senses.length);
dark.addEventListener("change", () => mixColours(senses.length));

const points = facts.occurrences.map(({ sense, text }, i) => {
  const circle = drawn("circle", { r: 9, tabindex: 0, role: "img", "aria-label": `${i + 1}: ${text}` });
  circle.style.fill = colourOf(sense);
  circle.addEventListener("pointerenter", () => point(i));
  circle.addEventListener("pointerleave", () => point(null));
  circle.addEventListener("focus", () => point(i));
  circle.addEventListener("blur", () => point(null));
  const number = drawn("text", {}, String(i + 1));
  svg.append(circle, number);
  return { circle, number };
});

// the same scale in both directions, so that distances are true
function place(places) {
  const [xs, ys] = [0, 1].map((axis) => places.map((place) => place[axis]));
  const middle = (values) => (Math.min(...values) + Math.max(...values)) / 2;
  const reach = (values) => Math.max(...values) - Math.min(...values) || 1e-9;
  const scale = Math.min(400 / reach(xs), 280 / reach(ys));
  const at = places.map((_, i) => [240 + (xs[i] - middle(xs)) * scale, 180 - (ys[i] - middle(ys)) * scale]);
  const here = ([x, y]) => at.flatMap(([a, b], j) => (Math.hypot(a - x, b - y) < 4 ? [j] : []));
  points.forEach(({ circle, number }, i) => {
    const [x, y] = at[i];
    const all = here(at[i]);
    number.textContent = all[0] === i ? spans(all.map((j) => j + 1)) : ""; // points that coincide have one label
    circle.setAttribute("cx", x);
    circle.setAttribute("cy", y);
    number.setAttribute("x", x);
    number.setAttribute("y", y - 13);
  });
}

// numbers as people write them: 1–7, 9, 10
function spans(numbers) {
  const runs = [];
  for (const one of numbers) (runs.at(-1)?.at(-1) === one - 1 ? runs.at(-1) : (runs.push([]), runs.at(-1))).push(one);
  return runs.map((run) => (run.length > 2 ? `${run[0]}–${run.at(-1)}` : run.join(", "))).join(", ");
}
