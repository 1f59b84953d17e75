"""What int8 costs a translator: BLEU of the built-in one in fp32 and in int8, of the same lines by the same beams.

usage: python benchmarks/int8_translation.py SOURCE TARGET --to en [--model builtin:translator] [--beams 4]
       such as Multi30k's test_2016_flickr.de and test_2016_flickr.en; the sample for the gate is the first 64 sources
"""

import argparse
import json
import time
from pathlib import Path

import clearhead
from clearhead.evaluation.translation import bleu, chrf

SAMPLE = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--to", required=True, help="the language of the target")
    parser.add_argument("--model", default="builtin:translator")
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sources, targets = (file.read_text().splitlines() for file in (options.source, options.target))
    model = clearhead.load(options.model)
    rows = []
    for name, one in {"fp32": model, "int8": model.quantise(sources[:SAMPLE])}.items():
        start = time.process_time()
        written = one.translate(sources, tgt_lang=options.to, num_beams=options.beams)
        spent = time.process_time() - start
        texts = [found.text for found in written]
        scores = {metric.__name__: round(metric(targets, texts).score, 2) for metric in (bleu, chrf)}
        rows.append({"weights": name, **scores, "cpu_s": round(spent)})
        print(rows[-1], flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
