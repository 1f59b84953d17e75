// A field, and below it the picture that Python drew for it, in a frame that keeps its scripts away from the notebook.

function render({ model, el }) {
  const field = Object.assign(document.createElement("textarea"), { rows: 2, value: model.get("text") });
  const frame = Object.assign(document.createElement("iframe"), { title: "Picture", height: 820 });
  const problem = document.createElement("p");
  field.setAttribute("aria-label", "Text");
  problem.setAttribute("role", "status");
  frame.setAttribute("sandbox", "allow-scripts");
  for (const one of [field, frame]) Object.assign(one.style, { width: "100%", boxSizing: "border-box" });
  frame.style.border = "0";

  let waiting = null; // until the fingers rest
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      model.set("text", field.value);
      model.save_changes();
    }, 400);
  });
  // a picture may ask for another text, such as its own with a word masked
  addEventListener("message", ({ source, data }) => {
    if (source !== frame.contentWindow || data?.clearhead !== "ask" || typeof data.values?.text !== "string") return;
    model.set("text", data.values.text);
    model.save_changes();
    write();
  });
  const show = () => {
    frame.srcdoc = model.get("page");
    frame.hidden = !model.get("page");
  };
  const say = () => (problem.textContent = model.get("problem"));
  const write = () => {
    if (field.value !== model.get("text")) field.value = model.get("text");
  };
  model.on("change:page", show);
  model.on("change:problem", say);
  model.on("change:text", write);
  show();
  say();
  el.append(field, problem, frame);
}

export default { render };
