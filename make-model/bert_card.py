"""The card of the classic BERT, filled with what its making left behind and what the model itself says.

usage: python make-model/bert_card.py RUN FOLDER
"""

import sys
from pathlib import Path

import clearhead
from translator_card import fill_in, table

MASKED = (
    "Paris is the capital of [MASK].",
    "If you don't want to inhale virus, you should wear a [MASK]",
    "BERT, lift your [MASK]",
    "The king and the [MASK] lived in the castle.",
    "She opened the [MASK] and went into the room.",
)
FOLLOWED = (
    ("The old man went to the market.", "He bought some bread and a bottle of milk."),
    ("The old man went to the market.", "Penguins are flightless birds of the southern hemisphere."),
)


def main() -> None:
    run, folder = map(Path, sys.argv[1:])
    model = clearhead.load(folder)
    config = model.config
    size = sum(path.stat().st_size for path in folder.iterdir() if path.suffix in (".json", ".safetensors"))
    sizes = [
        ("layers", str(config.num_hidden_layers)),
        ("width", f"{config.hidden_size}, {config.intermediate_size} in the feed-forward"),
        ("heads of attention in a layer", str(config.num_attention_heads)),
        ("tokens at a time", str(config.max_position_embeddings)),
        ("vocabulary", f"{model.tokenizer.vocabulary:,} pieces of words, lower case"),
        ("parameters", f"{model.parameters / 1e6:.1f} million"),
        ("heads", ", ".join(model.network.heads)),
        ("size", f"{size / 2**20:.1f} MiB, matrices in int8"),
    ]
    filled = [(text, ", ".join(one.token for one in model.fill(text, top_k=4).predictions)) for text in MASKED]
    followed = [(*pair, f"{model.follows(*pair).probability:.2f}") for pair in FOLLOWED]
    gaps = {
        "SIZES": table(("what", ""), sizes),
        "FILLED": table(("asked", "the likeliest first"), filled),
        "FOLLOWED": table(("first", "second", "follows"), followed),
    }
    fill_in("bert.md", gaps, run, folder)


if __name__ == "__main__":
    main()
