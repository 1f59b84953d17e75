// Which heads link two tokens: all layers are opened, and the heads with the largest weights are listed.

const ends = { from: query("#find-from"), to: query("#find-to") };
const LISTED = 8;

async function find() {
  const { from, to } = state;
  for (const [name, select] of Object.entries(ends)) select.value = state[name] ?? "";
  const missing = from === null || to === null;
  query(".finder .hint").hidden = !missing;
  if (missing) return query("#found").replaceChildren();
  const at = from * T + to;
  const found = [];
  for (let layer = 0; layer < L; layer++) {
    const opened = await openLayer(layer);
    for (let head = 0; head < H; head++) found.push({ layer, head, value: plane(opened, head)[at] });
  }
  if (from !== state.from || to !== state.to) return; // others were chosen meanwhile
  found.sort((a, b) => b.value - a.value);
  query("#found").replaceChildren(...found.slice(0, LISTED).map(({ layer, head, value }) => {
    const button = element("button", { type: "button" }, `block ${layer + 1}, head ${head + 1}`);
    button.addEventListener("click", () => choose({ layer, head, token: from, side: "from" }));
    const row = element("li", {}, button, element("span", {}, written(value)));
    row.style.setProperty("--share", value / scale);
    return row;
  }));
}

for (const [name, select] of Object.entries(ends)) {
  select.append(new Option("…", ""), ...plain.map((text, i) => new Option(`${i + 1} ${text}`, i)));
  select.addEventListener("change", () => {
    choose({ [name]: select.value === "" ? null : Number(select.value) });
    find();
  });
}
