"""Make a built-in model of a trained one: matrices in int8, with the heads that it was pre-trained with.

usage: python make-model/pack.py TRAINED OUT
"""

import json
import sys
from pathlib import Path

import clearhead
from clearhead.hub.checkpoint import write_folder

HEADS = ("masked_lm", "next_sentence", "causal_lm")


def main() -> None:
    source, out = map(Path, sys.argv[1:])
    model = clearhead.load(source)
    write_folder(model.checkpoint, out, [name for name in HEADS if name in model.network.heads], int8=True, own=True)
    (out / "vocab.txt").unlink(missing_ok=True)  # tokenizer.json holds it too
    words = out / "tokenizer.json"
    content = json.loads(words.read_text("utf-8"))
    words.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8")
    print(f"{clearhead.load(out)} in {sum(f.stat().st_size for f in out.iterdir() if f.is_file()) / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
