// What the division is for: scores of vectors with more features are larger, and their softmax sees one key alone.

const STEPS_OF_WIDTH = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

function divisionSection(box) {
  const { q, k } = facts.drawn;
  const slider = element("input", {
    type: "range", min: 0, max: STEPS_OF_WIDTH.length - 1, value: 6, id: "drawn-width", ariaLabel: "Width of the vectors, d_k",
  });
  const told = element("p", { className: "note", ariaLive: "polite" });
  const lists = ["q · k, not divided", "q · k ÷ √d_k"].map((name) => {
    const bars = k.map(() => element("div", { className: "share" }));
    const box = element("div", {}, element("h2", {}, ...written(name)), element("div", { className: "shares" }, ...bars));
    return { box, bars };
  });
  box.append(
    element("h2", {}, "Vectors of random numbers: a query and eight keys, all of variance 1"),
    slider, told, element("div", { className: "two" }, ...lists.map(({ box }) => box)),
    element("p", { className: "note" },
      "A product of d numbers of variance 1 has variance d: its scores are √d times as large, and the softmax of large " +
      "scores is all or nothing, so that there is no gradient left. Divided by √d, it stays as it is for one feature."),
  );
  function show() {
    const width = STEPS_OF_WIDTH[Number(slider.value)];
    const scores = k.map((row) => dot(q.slice(0, width), row.slice(0, width)));
    const both = [scores, scores.map((score) => score / Math.sqrt(width))];
    const shares = both.map(softmax);
    lists.forEach(({ bars }, which) => bars.forEach((bar, i) => {
      bar.textContent = `${figure(both[which][i])}  →  ${shares[which][i].toFixed(3)}`;
      bar.style.setProperty("--share", shares[which][i]);
    }));
    told.textContent = `d = ${width}: the largest weight is ${Math.max(...shares[0]).toFixed(3)} without the division, ` +
      `${Math.max(...shares[1]).toFixed(3)} with it.`;
    remember({ wide: slider.value === "6" ? null : slider.value });
  }
  slider.value = remembered("wide", STEPS_OF_WIDTH.length) ?? 6;
  slider.addEventListener("input", show);
  show();
  return () => {};
}
