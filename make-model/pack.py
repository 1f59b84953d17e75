"""Make the built-in model of a pre-trained one: matrices in int8, the heads that fill masks and judge pairs.

usage: python make-model/pack.py PRETRAINED OUT
"""

import json
import sys
from pathlib import Path

import clearhead
from clearhead.hub.checkpoint import write_folder


def main() -> None:
    source, out = map(Path, sys.argv[1:])
    model = clearhead.load(source)
    write_folder(model.checkpoint, out, heads=["masked_lm", "next_sentence"], int8=True, own=True)
    (out / "vocab.txt").unlink(missing_ok=True)  # tokenizer.json holds it too
    words = out / "tokenizer.json"
    content = json.loads(words.read_text("utf-8"))
    words.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8")
    print(f"{clearhead.load(out)} in {sum(f.stat().st_size for f in out.iterdir() if f.is_file()) / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
