// The focused token in words and numbers: to whom it attends, who attends to it.

const SHOWN = 8;
const headName = (head) => (head === AVERAGE ? "average of all heads" : `head ${head + 1}`);

function strongest(values) {
  const order = [...values.keys()].filter((i) => values[i] > 0);
  return order.sort((a, b) => values[b] - values[a]).slice(0, SHOWN);
}

function fillList(list, values, most) {
  const rows = strongest(values).map((index) => {
    const row = document.createElement("li");
    const value = document.createElement("span");
    value.textContent = written(values[index]);
    row.append(wordElement(index), value);
    row.title = `token ${index + 1}`;
    row.style.setProperty("--share", values[index] / most);
    return row;
  });
  list.replaceChildren(...rows);
}

function showDetails(weights) {
  const focus = focused();
  query(".details .hint").hidden = Boolean(focus);
  query(".lists").hidden = !focus;
  if (!focus) {
    query("#chosen").replaceChildren("No token chosen");
    query(".spoken").textContent = "";
    return;
  }
  const { token } = focus;
  const [out, into] = ["from", "to"].map((side) => weightsOf(weights, { token, side }));
  const most = Math.max(1, ...out, ...into);
  const where = document.createElement("span");
  where.className = "mark";
  where.textContent = `  token ${token + 1}${isPair ? ", text " + "AB"[segments[token]] : ""}`;
  query("#chosen").replaceChildren(wordElement(token), where);
  fillList(query("#out"), out, most);
  fillList(query("#in"), into, most);
  speak(token, out, into);
}

let later = 0;

function speak(token, out, into) {
  const top = (values) => strongest(values).slice(0, 3).map((i) => `${plain[i]} ${written(values[i])}`).join(", ");
  const text = `Block ${state.layer + 1}, ${headName(state.head)}. ${plain[token]} attends most to ${top(out) || "nothing"};
    it is attended most by ${top(into) || "nothing"}.`;
  // wait until the pointer rests, or a screen reader would never get to the end of a sentence
  clearTimeout(later);
  later = setTimeout(() => (query(".spoken").textContent = text), 250);
}
