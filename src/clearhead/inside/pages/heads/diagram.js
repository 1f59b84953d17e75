// One diagram: tokens at the bottom, the encoder over them, a vector for each on top, and the head over those it reads.

const [E_ROW, T_ROW] = [16, 16];

function makeDiagram(box) {
  const picture = drawn("svg", { role: "img" });
  box.append(picture);
  let now = null;

  function draw() {
    const width = box.clientWidth;
    if (!width || !now) return;
    const { kind, stage, label } = now;
    const { tokens, sides, said, answer, kept } = stage;
    const column = width / tokens.length;
    const x = (i) => (i + 0.5) * column;
    const named = column >= 30;
    const height = 172;
    const rows = { head: 14, vector: 50, encoder: 78, embedding: 124, token: 158 };
    const side = Math.min(column - 2, 30);
    const parts = [];
    const chip = (i, y, className, h) =>
      drawn("rect", { class: className, x: x(i) - side / 2, y, width: side, height: h, rx: 3 });
    for (const i of answer.reads) parts.push(drawn("path", { class: "wire", d: `M ${x(i)} ${rows.vector} V ${rows.head + 20}` }));
    tokens.forEach((token, i) => {
      parts.push(drawn("path", { class: "wire", d: `M ${x(i)} ${rows.embedding} V ${rows.encoder + 34}`, opacity: 0.5 }));
      parts.push(drawn("path", { class: "wire", d: `M ${x(i)} ${rows.encoder} V ${rows.vector + T_ROW}`, opacity: 0.5 }));
      const moved = chip(i, rows.vector, "moved", T_ROW);
      moved.setAttribute("opacity", kept ? Math.min(1, (1 - kept[i]) * 1.2).toFixed(2) : 0);
      moved.append(drawn("title", {}, kept ? `${token}: cosine with what it was before, ${kept[i]}` : token));
      parts.push(chip(i, rows.embedding, sides[i] ? "vector second" : "vector", E_ROW), chip(i, rows.vector, "vector", T_ROW), moved);
      if (named) {
        parts.push(drawn("text", { x: x(i), y: rows.vector + 12, class: "quiet" }, i ? `T${i}` : "C"));
        parts.push(drawn("text", { x: x(i), y: rows.embedding + 12, class: "quiet" }, i ? `E${i}` : "E"));
        parts.push(fittedText(plainToken(token), column - 3, { x: x(i), y: rows.token, size: 11 }));
      }
    });
    parts.push(
      drawn("rect", { class: "encoder", x: 2, y: rows.encoder, width: width - 4, height: 34, rx: 6 }),
      drawn("text", { x: width / 2, y: rows.encoder + 21 }, label),
    );
    if (!named) parts.push(drawn("text", { x: width / 2, y: rows.token, class: "quiet" }, now.texts.join("  ·  ").slice(0, Math.floor(width / 6))));
    const heads = kind === "tags" || kind === "span" ? answer.reads : null;
    if (heads) {
      [...new Set(heads)].forEach((i, at, all) => {
        const [name, share] = said[i] ?? ["", 0];
        const wide = kind === "tags" ? Math.max(side, column - 3) : Math.max(56, 6.5 * name.length + 10);
        // a start stands to the left of its place and an end to the right, so that neighbours do not hide one another
        const wanted = all.length === 2 && kind === "span" ? (at ? x(i) - 8 : x(i) - wide + 8) : x(i) - wide / 2;
        const left = Math.max(0, Math.min(width - wide, wanted));
        const made = fittedText(name, wide - 2, {
          x: left + wide / 2, y: rows.head + 12, size: 11, weight: 650, class: name === "O" ? "quiet" : "strong",
        });
        made.append(drawn("title", {}, `${name} ${share}`));
        parts.push(drawn("rect", { class: "class", x: left, y: rows.head - 4, width: wide, height: 24, rx: 4 }), made);
      });
    } else {
      const middle = answer.reads.length === 1 ? Math.min(Math.max(x(answer.reads[0]), 60), width - 60) : width / 2;
      parts.push(
        drawn("rect", { class: "class", x: middle - 58, y: rows.head - 4, width: 116, height: 24, rx: 4 }),
        drawn("text", { x: middle, y: rows.head + 12, class: "strong" }, "classifier"),
      );
    }
    for (const [name, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, height })) picture.setAttribute(name, value);
    picture.setAttribute("aria-label", `${label}, ${tokens.length} tokens; the head reads ${answer.reads.length} of them`);
    picture.replaceChildren(...parts);
  }

  new ResizeObserver(draw).observe(box);
  return (next) => {
    now = next;
    draw();
  };
}
