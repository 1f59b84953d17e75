// Another model with the same text, and the quality of both by the length of what they translate.

function showBeside() {
  const { beside, quality } = facts;
  query("#beside-pane").hidden = !beside;
  if (beside) {
    query("#beside-title").textContent = `Beside it: ${beside.family}`;
    query("#beside-text").textContent = beside.ended ? beside.text : `${beside.text} …`;
    const score = `Written greedily, log-probability ${beside.log_prob.toFixed(2).replace("-", "−")}. `;
    const rows = beside.written.map(plainToken);
    if (beside.attention.length) {
      query("#beside-note").textContent = `${score}Each row is the attention of a written token to the source.`;
      heatmap(query("#beside-matrix"), {
        name: "written × read", rows: rows.slice(0, beside.attention.length), columns: beside.read.map(plainToken),
        values: beside.attention, tall: 34,
      });
    } else if (beside.bottleneck.length) {
      query("#beside-note").textContent = `${score}It has no attention: all that it knows of the ${beside.read.length} ` +
        `tokens it has read is this one vector of ${beside.bottleneck.length} numbers, the bottleneck.`;
      heatmap(query("#beside-matrix"), {
        name: "", rows: [" "], columns: beside.bottleneck.map((_, i) => String(i + 1)), values: [beside.bottleneck],
        most: largest([beside.bottleneck]), digits: 3,
      });
    } else query("#beside-note").textContent = score;
  }
  query("#quality-pane").hidden = !quality;
  if (!quality) return;
  query("#quality-note").textContent = `chrF of greedy translations of ${quality.pairs} pairs, by the words of the source.`;
  const spans = quality.words.map(([low, high]) => element("th", { scope: "col" }, low === high ? `${low}` : `${low}–${high}`));
  const lines = quality.scores.map(({ family, chrf }) => element("tr", {}, element("th", { scope: "row" }, family),
    ...chrf.map((score) => {
      const cell = element("td", {}, score.toFixed(1));
      cell.style.setProperty("--share", score / 100);
      return cell;
    })));
  query(".quality").append(element("thead", {}, element("tr", {}, element("td"), ...spans)), element("tbody", {}, ...lines));
}
