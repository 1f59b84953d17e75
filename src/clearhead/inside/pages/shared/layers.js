// One slider chooses the layer; `show` is given its number, at the start as the address has it, or the last.

function chooseLayer(last, show) {
  const slider = query("#layer");
  function change() {
    const layer = Number(slider.value);
    query("#layer-name").textContent = layer === 0 ? "0, the embeddings" : layer === last ? `${layer}, the last` : layer;
    show(layer);
  }
  slider.max = last;
  slider.value = remembered("layer", last + 1) ?? last;
  slider.addEventListener("input", () => {
    remember({ layer: slider.value });
    change();
  });
  change();
}
