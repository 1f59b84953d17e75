"""Make a built-in model of a trained one: matrices in int8, with the heads that it was pre-trained with.

usage: python make-model/pack.py TRAINED OUT [HABITS]

HABITS is a JSON file that says how it writes: "generation" goes to generation_config.json, "tasks" to the
task_specific_params of config.json.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import clearhead
from clearhead.hub.checkpoint import write_folder

HEADS = ("masked_lm", "next_sentence", "causal_lm")


def main() -> None:
    source, out, *habits = map(Path, sys.argv[1:])
    checkpoint = clearhead.load(source).checkpoint
    for path in habits:
        said = json.loads(path.read_text("utf-8"))
        extra = {**checkpoint.description.extra, "task_specific_params": said["tasks"]}
        described = replace(checkpoint.description, extra=extra)
        checkpoint = replace(checkpoint, generation=said["generation"], description=described)
    write_folder(checkpoint, out, [name for name in HEADS if name in checkpoint.network.heads], int8=True, own=True)
    (out / "vocab.txt").unlink(missing_ok=True)  # tokenizer.json holds it too
    words = out / "tokenizer.json"
    content = json.loads(words.read_text("utf-8"))
    words.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8")
    print(f"{clearhead.load(out)} in {sum(f.stat().st_size for f in out.iterdir() if f.is_file()) / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
