// Mask the word of a token and ask for the picture again: of the studio or a notebook, which can compute it.

// the texts with the word of this token hidden, or null where there is none; offsets count characters as Python does
function maskedTexts(token) {
  const span = facts.spans[token];
  if (!span || facts.mask === null) return null;
  const texts = facts.texts.map((text) => Array.from(text));
  const letters = texts[span[0]];
  let [, start, end] = span;
  const inWord = (letter) => letter !== undefined && /[\p{L}\p{N}]/u.test(letter);
  if (inWord(letters[start])) {
    while (inWord(letters[start - 1])) start--;
    while (inWord(letters[end])) end++;
  }
  if (letters.slice(start, end).join("") === facts.mask) return null;
  letters.splice(start, end - start, facts.mask);
  return texts.map((text) => text.join(""));
}

function maskToken(token) {
  const texts = maskedTexts(token);
  const told = query("#masked");
  if (!texts) {
    told.textContent = facts.mask === null ? "This model has no mask token." : "This token is no word that could be masked.";
    return;
  }
  const [text, pair = ""] = texts;
  const taken = askFor({ text, pair });
  const quoted = texts.map((one) => `'${one.replaceAll("'", "'\\''")}'`).join(" ");
  told.textContent = taken ? "" : `To run it again with the word masked: clearhead look attention ${quoted}`;
}
