// The picture with two columns: tokens are elements, weights are lines on one canvas as large as what is in sight.

const linesBox = query("#lines");
const columns = { from: query(".tokens.from"), to: query(".tokens.to") };
const between = query(".between");
const linesCanvas = query(".between canvas");
const ROW = T <= 24 ? 30 : 25;
const LEVELS = 24; // lines of about the same weight are drawn in one stroke

function makeColumn(side) {
  columns[side].append(
    ...tokens.map((token, index) => {
      const row = document.createElement("li");
      const [bar, value] = [document.createElement("span"), document.createElement("span")];
      bar.className = "bar";
      value.className = "value";
      row.append(bar, wordElement(index), value);
      row.role = "option";
      row.tabIndex = index === 0 ? 0 : -1;
      row.dataset.index = index;
      if (isPair && segments[index] !== segments[index - 1]) row.dataset.text = "AB"[segments[index]];
      return row;
    }),
  );
}

makeColumn("from");
makeColumn("to");
document.documentElement.style.setProperty("--row", `${ROW}px`);

// bars and numbers beside the tokens that the focused token looks at, or that look at it
function fillColumns(weights) {
  const focus = focused();
  for (const side of ["from", "to"]) {
    const rows = columns[side].children;
    columns[side].classList.toggle("busy", Boolean(focus));
    const answers = focus && focus.side !== side; // this column shows the focused token's weights
    const values = rows.length && answers ? weightsOf(weights, focus) : null;
    const most = values ? Math.max(0.2 * scale, ...values) : 1;
    for (let i = 0; i < T; i++) {
      const value = values ? values[i] : 0;
      const chosen = Boolean(focus) && !answers && focus.token === i;
      rows[i].children[0].style.transform = `scaleX(${value / most})`;
      rows[i].children[2].textContent = value ? written(value) : "";
      rows[i].classList.toggle("chosen", chosen);
      rows[i].classList.toggle("dim", Boolean(focus) && (answers ? !value : !chosen));
      rows[i].ariaSelected = String(chosen);
    }
  }
}

// the weights of one token with all others, those that the filter hides set to 0
function weightsOf(weights, { token, side }) {
  const values = new Array(T);
  for (let i = 0; i < T; i++) {
    const [from, to] = side === "from" ? [token, i] : [i, token];
    values[i] = shownWeight(weights, from, to);
  }
  return values;
}

// the chosen head, and those drawn beside it, each in its own colour
function drawLines(weights, others) {
  const room = linesBox.clientHeight - between.offsetTop; // without the sticky heading
  const height = Math.max(1, Math.min(room, T * ROW));
  const context = prepare(linesCanvas, between.clientWidth, height);
  context.lineCap = "round";
  for (const { head, plane } of others) strokeHead(context, plane, colour(head), height);
  strokeHead(context, weights, colour(state.head), height);
}

function strokeHead(context, weights, ink, height) {
  const width = between.clientWidth;
  const top = linesBox.scrollTop;
  const focus = focused();
  const first = Math.max(0, Math.floor(top / ROW));
  const last = Math.min(T - 1, Math.ceil((top + height) / ROW));
  const least = T <= 64 ? 0.004 * scale : 0.01 * scale;
  const paths = Array.from({ length: LEVELS }, () => null);
  context.strokeStyle = ink;

  function line(from, to) {
    const value = shownWeight(weights, from, to);
    if (value < least) return;
    const level = Math.min(LEVELS - 1, Math.floor(LEVELS * Math.sqrt(value / scale)));
    paths[level] ??= new Path2D();
    const [y0, y1] = [(from + 0.5) * ROW - top, (to + 0.5) * ROW - top];
    paths[level].moveTo(2, y0);
    paths[level].bezierCurveTo(width * 0.42, y0, width * 0.58, y1, width - 2, y1);
  }

  if (focus) {
    for (let i = 0; i < T; i++) focus.side === "from" ? line(focus.token, i) : line(i, focus.token);
  } else {
    // lines from tokens out of sight would hide those that are meant
    for (let i = first; i <= last; i++) for (let j = 0; j < T; j++) line(i, j);
  }
  paths.forEach((path, level) => {
    if (!path) return;
    const strength = ((level + 0.5) / LEVELS) ** 2; // the weight again
    context.globalAlpha = focus ? 0.2 + 0.8 * Math.sqrt(strength) : Math.min(1, 0.04 + 0.95 * strength ** 0.8);
    context.lineWidth = 0.75 + (focus ? 5 : 3.25) * strength;
    context.stroke(path);
  });
  context.globalAlpha = 1;
}

const rowUnder = (event) => event.target.closest?.(".tokens li");

function watchColumn(side) {
  const column = columns[side];
  const found = (event) => ({ token: Number(rowUnder(event).dataset.index), side });
  column.addEventListener("pointerover", (event) => {
    if (event.pointerType === "mouse" && rowUnder(event)) point(found(event));
  });
  column.addEventListener("pointerleave", () => point(null));
  // a click keeps the token without taking the focus, so that the arrow keys go on changing layer and head
  column.addEventListener("mousedown", (event) => event.preventDefault());
  column.addEventListener("click", (event) => rowUnder(event) && keepOnce(event, found(event)));
  column.addEventListener("dblclick", (event) => rowUnder(event) && maskInstead(found(event)));
  column.addEventListener("focusin", (event) => rowUnder(event) && point(found(event)));
  column.addEventListener("focusout", () => point(null));
  column.addEventListener("keydown", (event) => {
    const { token } = found(event);
    const step = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10, Home: -T, End: T }[event.key];
    if (step) focusRow(side, token + step);
    else if (event.key === "ArrowLeft") focusRow("from", token);
    else if (event.key === "ArrowRight") focusRow("to", token);
    else if (event.key === "Enter" || event.key === " ") keep({ token, side });
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}

function focusRow(side, wanted) {
  const rows = columns[side].children;
  const index = Math.max(0, Math.min(T - 1, wanted));
  columns[side].querySelector("[tabindex='0']").tabIndex = -1;
  rows[index].tabIndex = 0;
  rows[index].focus();
}
