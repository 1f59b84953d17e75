"""What the clients must be told, by the Python API: python tests/clients/expected.py FOLDER.

Writes into the folder a cross-encoder with fresh weights (reranker) and a small GPT (gpt), to be served beside the
built-in models, and expected.json, with the inputs that the clients send and the results that they must get.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

import torch  # noqa: E402

import clearhead  # noqa: E402
from built_in import write_gpt  # noqa: E402

TEXTS = ["A man sleeps.", "Nobody is awake, they said; the house was quiet.", "Stocks fell on Monday."]
ARTICLE = (
    "Dogs bark. Dogs are animals that bark at night. The moon is far away. Cats are animals that sleep all day. "
    "Some animals sleep in winter."
)
QUESTION, CONTEXT = "Where did Ada live?", "Ada Lovelace was born in 1815. She lived in London and wrote on engines."
QUERY, PASSAGES = "Who barks at night?", ["Cats meow.", "Dogs bark at night.", "The moon is far away."]
TEMPLATE = "This news is about {}."
LABELS = ["money", "animals", "weather"]


def rows(vectors: Any) -> list[list[float]]:
    """Vectors as JSON has them."""
    return [[float(number) for number in row] for row in vectors]


def main() -> None:
    """Write the models and the expectations."""
    folder = Path(sys.argv[1])
    model, translator = clearhead.load(), clearhead.load("builtin:translator")
    torch.manual_seed(0)
    model.with_head("classes", 1).save(folder / "reranker")
    write_gpt(folder / "gpt")
    reranker, gpt = clearhead.load(folder / "reranker"), clearhead.load(folder / "gpt")
    ids = [model.tokenizer.encode(text).ids for text in TEXTS]
    again = [model.tokenizer.decode(one) for one in ids]  # which is what token ids stand for
    similar = model.compare(TEXTS[0], TEXTS[1:], skill="similarity")
    masked, prompt = "The capital of France is [MASK].", "I have to go"
    expected = {
        "texts": TEXTS,
        "article": ARTICLE,
        "question": QUESTION,
        "context": CONTEXT,
        "query": QUERY,
        "passages": PASSAGES,
        "labels": LABELS,
        "masked": masked,
        "prompt": prompt,
        "token_ids": ids,
        "tagged": "Ada Lovelace lived in London.",
        "german": "Ein Hund bellt.",
        "vectors": rows(model.embed(TEXTS)),
        "unit_vectors": rows(model.embed(TEXTS, normalise=True)),
        "raw_vectors": rows(model.embed(TEXTS, normalise=False)),
        "vectors_of_ids": rows(model.embed(again)),
        "short_vectors": rows(model.embed(TEXTS, dimensions=64)),
        "search_vectors": rows(model.embed(TEXTS, skill="search")),
        "binary_vectors": model.embed(TEXTS, skill="search", precision="binary").tolist(),
        "similarities": [one.score for one in similar],
        "fill": [one.to_dict() for one in model.fill(masked, top_k=3).predictions],
        "fill_of": [one.to_dict() for one in model.fill(masked, candidates=["paris", "soup"]).predictions],
        "answer": model.answer(QUESTION, CONTEXT).to_dict(),
        "entities": [
            one.to_dict() for one in model.tag("Ada Lovelace lived in London.", aggregation_strategy="simple").entities
        ],
        "sentiment": model.classify(TEXTS[2], skill="sentiment").scores,
        "spam": model.classify(TEXTS[2], skill="spam").scores,
        "template": TEMPLATE,
        "zero_shot": model.zero_shot(TEXTS[2], LABELS, hypothesis_template=TEMPLATE).scores,
        "summary": model.summarise(ARTICLE).text,
        "translation": translator.translate("Ein Hund bellt.").text,
        "ranks": [one.to_dict() for one in reranker.rerank(QUERY, PASSAGES)],
        "generated": gpt.generate(prompt, max_new_tokens=12, num_beams=1).text,
        "sampled": gpt.generate(prompt, max_new_tokens=12, temperature=0.9, seed=3).text,
    }
    (folder / "expected.json").write_text(json.dumps(expected), encoding="utf-8")


if __name__ == "__main__":
    main()
