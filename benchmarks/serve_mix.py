"""Requests of every use in clearhead's own dialect, each with the answer that the Python API gives: for serve_*.py.

All read paragraphs of the standard library's docstrings. The built-in models answer, but for rerank, which they have no
head for: there a fresh cross-encoder, whose numbers are those of a seed, is served beside them.
"""

import base64
import json
import random
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RERANKER = "reranker"  # the name under which a server gets the folder


@dataclass(frozen=True, slots=True)
class Ask:
    """A request, and what its answer must say."""

    use: str
    body: bytes
    expected: Any

    @property
    def path(self) -> str:
        return f"/v1/{self.use}"


def make_mix(folder: Path, each: int = 12, seed: int = 0) -> list[Ask]:
    """So many different requests of each use, shuffled; a cross-encoder is saved in the folder, which must be new.

    Loads the models, so call it in a process of its own.
    """
    import torch

    import clearhead
    from docstrings import docstring_texts

    rng = random.Random(seed)
    texts = [text for text in docstring_texts() if len(text) > 40 and text.isascii()]
    rng.shuffle(texts)
    encoder, translator = clearhead.load(), clearhead.load("builtin:translator")
    torch.manual_seed(seed)
    fresh = encoder.with_head("classes", 1)
    fresh.save(folder)
    reranker = clearhead.load(folder)
    supply = iter(texts)

    def some(count: int) -> list[str]:
        return [next(supply) for _ in range(count)]

    made: list[tuple[str, dict[str, Any], Any]] = []
    for _ in range(each):
        (text,) = some(1)
        words = text.split()
        words[rng.randrange(len(words))] = "[MASK]"
        hidden = " ".join(words)
        made.append(("fill", {"text": hidden, "top_k": 3}, encoder.fill(hidden, top_k=3).to_dict()))
        (text,) = some(1)
        made.append(("classify", {"text": text}, encoder.classify(text).to_dict()))
        (text,) = some(1)
        labels = ["files", "numbers", "networks", "time"]
        made.append(("zero-shot", {"text": text, "labels": labels}, encoder.zero_shot(text, labels).to_dict()))
        for use, method in (("compare", encoder.compare), ("follows", encoder.follows)):
            first, second = some(2)
            made.append((use, {"first": first, "second": second}, method(first, second).to_dict()))
        (text,) = some(1)
        made.append(("tag", {"text": text}, encoder.tag(text).to_dict()))
        question, context = "What is returned?", " ".join(some(3))
        found = encoder.answer(question, context).to_dict()
        made.append(("answer", {"question": question, "context": context}, found))
        (text,) = some(1)
        vector = [float(number) for number in encoder.embed(text)]
        made.append(("embed", {"text": text, "encoding_format": "base64"}, {"vector": vector}))
        (query,), documents = some(1), some(8)
        hits = [hit.to_dict() for hit in encoder.search(query, documents, top_k=3)]
        made.append(("search", {"query": query, "documents": documents, "top_k": 3}, {"results": hits}))
        (query,), passages = some(1), some(4)
        ranked = [one.to_dict() for one in reranker.rerank(query, passages)]
        made.append(("rerank", {"query": query, "passages": passages}, {"results": ranked}))
        article = " ".join(text if text.endswith(".") else f"{text}." for text in some(8))
        found = encoder.summarise(article, sentences=2).to_dict()
        made.append(("summarise", {"text": article, "sentences": 2}, found))
        sentence = some(1)[0][:80]
        written = translator.translate(sentence, src_lang="en", tgt_lang="de")
        asked = {"text": sentence, "src_lang": "en", "tgt_lang": "de"}
        made.append(("translate", asked, {"translation": written.text}))
    rng.shuffle(made)
    # named, since what is served beside the built-in models answers all that it can
    models = {"translate": "built-in:translator", "rerank": RERANKER}
    bodies = [{**body, "model": models.get(use, "built-in")} for use, body, _ in made]
    return [Ask(use, json.dumps(body).encode(), said) for (use, _, said), body in zip(made, bodies, strict=True)]


def agrees(ask: Ask, body: bytes) -> bool:
    """Whether an answer says what the Python API said; numbers to three digits, since kernels differ by shapes."""
    try:
        found = json.loads(body)
    except ValueError:
        return False
    if ask.use == "embed" and isinstance(found, dict) and isinstance(found.get("vector"), str):
        raw = base64.b64decode(found["vector"])
        found["vector"] = list(struct.unpack(f"<{len(raw) // 4}f", raw))
    return same(ask.expected, found)


def same(expected: Any, found: Any) -> bool:
    """Equal, with room for rounding; an object may have keys that were not expected."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(key in found and same(expected[key], found[key]) for key in expected)
    if isinstance(expected, list | tuple):
        return (
            isinstance(found, list)
            and len(expected) == len(found)
            and all(same(one, other) for one, other in zip(expected, found, strict=True))
        )
    if isinstance(expected, float):
        close = isinstance(found, int | float) and abs(expected - found) <= 1e-4 + 1e-3 * abs(expected)
        return close or (found is None and not abs(expected) < float("inf"))
    return bool(expected == found)
