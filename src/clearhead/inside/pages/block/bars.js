// Vectors as bars, up and down from 0; and the lengths of every token's vector as bars side by side.

const made = (tag, properties, ...children) => drawn(tag, properties, ...children);

// one bar for each feature; a bar that is larger than `most` is cut there
function vectorBars(box, values, most) {
  const [width, height] = [values.length * 10, 46];
  const bars = values.map((value, i) => {
    const size = Math.min(1, Math.abs(value) / most) * (height / 2 - 1);
    return made("rect", { class: value < 0 ? "down" : "up", x: i * 10 + 1, y: value < 0 ? height / 2 : height / 2 - size, width: 8, height: Math.max(0.4, size) },
      made("title", {}, `feature ${i + 1}: ${value}`));
  });
  box.replaceChildren(made("svg", { viewBox: `0 0 ${width} ${height}`, height, preserveAspectRatio: "none", role: "img", "aria-label": "the first features as bars" },
    made("line", { class: "axis", x1: 0, x2: width, y1: height / 2, y2: height / 2 }), ...bars));
}

// for each token: entering, what is added twice, leaving
function streamBars(box, tokens, block, chosen, choose) {
  const [left, row, width] = [84, 26, 340];
  const last = Object.keys(block).at(-1);
  const most = Math.max(...["before", "attention", "feed-forward", last].flatMap((name) => block[name].norms));
  const long = (value) => Math.max(0.5, (value / most) * (width - left - 52));
  const rows = tokens.map((token, i) => {
    const y = i * row;
    const [enters, attends, feeds, leaves] = ["before", "attention", "feed-forward", last].map((name) => block[name].norms[i]);
    const group = made("g", { tabindex: 0, role: "button" },
      made("title", {}, `${plainToken(token)}: enters ${enters}, attention ${attends}, feed-forward ${feeds}, leaves ${leaves}`),
      made("rect", { class: i === chosen ? "chosen" : "", fill: "transparent", x: 0, y, width, height: row - 1, rx: 3 }),
      made("text", { x: left - 8, y: y + 17, "text-anchor": "end" }, plainToken(token).slice(0, 11)),
      made("rect", { class: "leaves", x: left, y: y + 2, width: long(leaves), height: 9 }),
      made("rect", { class: "enters", x: left, y: y + 2, width: long(enters), height: 9 }),
      made("rect", { class: "attention", x: left, y: y + 12, width: long(attends), height: 5 }),
      made("rect", { class: "forward", x: left, y: y + 18, width: long(feeds), height: 5 }),
      made("text", { class: "soft", x: width - 2, y: y + 14, "text-anchor": "end" }, leaves.toFixed(1)));
    group.addEventListener("click", () => choose(i));
    group.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose(i);
    });
    return group;
  });
  box.replaceChildren(made("svg", { viewBox: `0 0 ${width} ${tokens.length * row}`, role: "group", "aria-label": "lengths of the vectors" }, ...rows));
}
