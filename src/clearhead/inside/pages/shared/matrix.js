// A matrix as a table, with names for its rows and columns; its numbers can be changed where `changed` is given.

const figure = (value) => String(Number(value.toFixed(Math.abs(value) >= 100 ? 2 : 3))).replace("-", "−");

// "W^Q" and "d_k" as people write them
const written = (name) =>
  name.split(/([\^_]\w)/).map((part) =>
    /^[\^_]\w$/.test(part) ? element(part[0] === "^" ? "sup" : "sub", {}, part[1]) : part,
  );

function matrix({ name, rows = [], columns = [], values, changed = null, weights = false }) {
  const head = element("tr", {}, element("td"), ...columns.map((text) => element("th", { scope: "col" }, text)));
  const cells = values.map((line) => line.map(() => element("td")));
  const body = cells.map((line, i) => element("tr", {}, rows[i] ? element("th", { scope: "row" }, rows[i]) : element("td"), ...line));
  const top = [element("caption", {}, ...written(name)), ...(columns.length ? [head] : [])];
  const table = element("table", {}, ...top, ...body);
  table.className = changed ? "matrix editable" : "matrix";

  function show(next) {
    next.forEach((line, i) =>
      line.forEach((value, j) => {
        const cell = cells[i][j];
        if (changed) fill(field(cell, i, j), value);
        else cell.textContent = figure(value);
        if (weights) cell.style.setProperty("--share", value);
      }),
    );
  }

  function field(cell, i, j) {
    if (cell.firstChild) return cell.firstChild;
    const label = `${name}, ${rows[i] ?? `row ${i + 1}`}, ${columns[j] ?? `column ${j + 1}`}`;
    const input = element("input", { type: "number", step: "any", ariaLabel: label });
    input.addEventListener("input", () => {
      if (Number.isFinite(input.valueAsNumber)) changed(i, j, input.valueAsNumber);
    });
    cell.append(input);
    return input;
  }

  // half a number, such as "1.", must not be rewritten while it is typed
  function fill(input, value) {
    if (input !== document.activeElement) input.value = value;
  }

  if (weights) table.classList.add("weights");
  show(values);
  return { table, show };
}

// tables with signs between them, read as one line of a calculation
const formula = (...parts) =>
  element("div", { className: "formula" }, ...parts.map((part) =>
    typeof part === "string" ? element("span", { className: "sign" }, part) : part,
  ));
