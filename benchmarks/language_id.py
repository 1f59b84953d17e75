"""Is the language of a text told right? German, French and English sentences of Tatoeba and captions of Multi30k.

The word lists and patterns of text/language_id.py were chosen by other sentences of Tatoeba than these: a pair is in
this part by a hash of its English side. Beside the share that is right: how many were taken for another language, and
how many for none, for which `translate` asks.

usage: python benchmarks/language_id.py DATA [--lines 2000]
"""

import argparse
import hashlib
import random
import time
from pathlib import Path

from clearhead.text.language_id import identify_language

SHARE = 4  # every fourth English sentence is measured on


def is_measured(english: str) -> bool:
    return int(hashlib.sha256(english.encode()).hexdigest()[:4], 16) % SHARE == 0


def sentences(data: Path, lines: int) -> dict[tuple[str, str], list[str]]:
    """What is read, by set and language."""
    rng, found = random.Random(3), {}
    for code, name in (("de", "deu"), ("fr", "fra")):
        rows = [row.split("\t")[:2] for row in (data / f"tatoeba/{name}.txt").read_text("utf-8").splitlines()]
        some = rng.sample([row for row in rows if is_measured(row[0])], lines)
        found[f"Tatoeba {name}", code] = [other for _, other in some]
        found[f"Tatoeba {name}", "en"] = [english for english, _ in some]
    for code in ("de", "fr", "en"):
        found["Multi30k val", code] = (data / f"multi30k/val.{code}").read_text("utf-8").splitlines()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--lines", type=int, default=2000)
    given = parser.parse_args()
    start, total = time.process_time(), 0
    print("| set | language | sentences | right | another | none |\n|---|---|---|---|---|---|")
    for (name, code), texts in sentences(given.data, given.lines).items():
        told = [identify_language(text) for text in texts]
        right, none = told.count(code), told.count(None)
        total += len(texts)
        share = f"{100 * right / len(texts):.2f} %"
        print(f"| {name} | {code} | {len(texts):,} | {share} | {len(texts) - right - none} | {none} |")
    print(f"\n{1e6 * (time.process_time() - start) / total:.0f} µs a sentence, reading included")


if __name__ == "__main__":
    main()
