"""How well does a small GPT write? Perplexity, samples by its own habits, and summaries beside simple ones.

Perplexity: exp of the loss of all pieces after a text's first, divided by their number or by the number of words (what
stands between white space). Windows overlap by half, so that a piece is guessed from at least half a window before it.
WikiText-2 is written as ordinary text first ("@-@" is "-", no space before a comma), without its empty lines; a word is
one of its tokens, and each line's end counts as one. Samples go on from 20 openings with five seeds: distinct-n is the
share of different n-grams among all, repeated the share of 4-grams of a text that it has had before. Summaries: ROUGE
F1 with stemming against the best of SciTLDR's references, or the BBC's; beside the model's own the first one and three
sentences, and those that the built-in encoder picks.

usage: python benchmarks/writing.py --model DIR [--held-out FILE.jsonl] [--wikitext test.txt] [--scitldr FILE.jsonl]
       [--bbc FILE.jsonl] [--limit N] [--device cuda] [--json FILE]
       the .jsonl files are what make-model/writer_data.py writes
"""

import argparse
import json
import math
import platform
import re
import time
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

import clearhead
from clearhead.data.batch import Batch
from clearhead.evaluation.rouge import mean_rouge
from clearhead.pipelines.model import Model
from clearhead.text.sentences import sentence_spans

OPENINGS = (
    "The old house",
    "In the morning",
    "She opened the door and",
    "The king",
    "It was a cold night, and",
    "The company was founded",
    "My father told me that",
    "During the war,",
    "The river",
    "Scientists have found",
    "Once upon a time",
    "The children",
    "He was born in",
    "The most important thing is",
    "There are many kinds of",
    "The ship",
    "After dinner",
    "The city of",
    "A dog",
    "The first book",
)
SEEDS = 5
TOGETHER = 16  # windows of a batch
_ENDS = re.compile(r"[.!?][\"')\]]*$")


@torch.inference_mode()
def loss_of(model: Model, texts: Iterable[str]) -> tuple[float, int]:
    """Sum of the losses of all pieces but each text's first, and their number."""
    window = model.encoder.max_length
    half = window // 2
    pieces: list[tuple[list[int], np.ndarray[Any, Any]]] = []
    for ids in model.tokenizer.ids_batch(list(texts)):
        for start in range(0, max(len(ids) - 1 - half, 1), half):
            read = ids[start : min(start + window, len(ids) - 1)]
            after = np.array(ids[start + 1 : start + 1 + len(read)], dtype=np.int64)
            after[: half if start else 0] = -100  # guessed in the window before
            if len(read):
                pieces.append((read, after))
    total, count = 0.0, 0
    for some in (pieces[i : i + TOGETHER] for i in range(0, len(pieces), TOGETHER)):
        batch = Batch.of([read for read, _ in some]).to(model.device)
        logits = model.network("causal_lm", batch.ids, batch.layout)
        targets = torch.from_numpy(np.concatenate([after for _, after in some])).to(model.device)
        total += float(torch.nn.functional.cross_entropy(logits.float(), targets, reduction="sum"))
        count += int((targets != -100).sum())
    return total, count


def perplexities(model: Model, texts: Sequence[str], words: int) -> dict[str, float]:
    total, count = loss_of(model, texts)
    return {
        "perplexity of a piece": math.exp(total / count),
        "perplexity of a word": math.exp(total / words),
        "words": words,
        "pieces": count,
    }


def ordinary(line: str) -> str:
    """A line of WikiText as ordinary text."""
    line = re.sub(r" @([-,.])@ ", r"\1", line.strip())
    line = re.sub(r" ([,.;:!?)\]%]|'s\b|n't\b|'t\b|'re\b)", r"\1", line)
    line = re.sub(r"([(\[$]) ", r"\1", line)
    return re.sub(r'" ([^"]*?) "', r'"\1"', line)


def read_wikitext(path: Path) -> tuple[str, int]:
    """The text, and how many tokens it had, line ends counted."""
    lines = [line for line in path.read_text("utf-8").splitlines() if line.strip()]
    return "\n".join(map(ordinary, lines)) + "\n", sum(len(line.split()) + 1 for line in lines)


def samples(model: Model) -> dict[str, Any]:
    """Texts by the model's own habits, but for the seeds."""
    start = time.perf_counter()
    by_seed = [model.generate(list(OPENINGS), seed=seed) for seed in range(SEEDS)]
    spent = time.perf_counter() - start
    written = [one for texts in by_seed for one in texts]
    whole = [opening + one.text for texts in by_seed for opening, one in zip(OPENINGS, texts, strict=True)]
    split = [re.findall(r"[\w']+", text.lower()) for text in whole]
    found: dict[str, Any] = {}
    for n in (1, 2, 3):
        grams = [tuple(words[i : i + n]) for words in split for i in range(len(words) - n + 1)]
        found[f"distinct-{n}, percent"] = 100 * len(set(grams)) / len(grams)
    repeated = []
    for words in split:
        grams = [tuple(words[i : i + 4]) for i in range(len(words) - 3)]
        repeated.append(1 - len(set(grams)) / len(grams) if grams else 0.0)
    found["repeated 4-grams, percent"] = 100 * float(np.mean(repeated))
    found["ends with a sentence, percent"] = 100 * float(np.mean([bool(_ENDS.search(one.text)) for one in written]))
    found["words of a text"] = float(np.mean([len(text.split()) for text in whole]))
    found["seconds for 100 texts"] = spent
    found["texts"] = whole[:10]
    return found


def lead(text: str, count: int) -> str:
    return " ".join(text[start:end] for start, end in sentence_spans(text)[:count])


def rouge_rows(model: Model, texts: list[str], references: list[Any]) -> dict[str, dict[str, float]]:
    """ROUGE-1, 2 and L of each way to summarise, in percent, and how many words its summaries have."""
    encoder = clearhead.load(device=model.device)
    ways = {
        "the first sentence": [lead(text, 1) for text in texts],
        "the first three": [lead(text, 3) for text in texts],
        "one picked sentence": [one.text for one in encoder.summarise(texts, sentences=1)],
        "three picked": [one.text for one in encoder.summarise(texts, sentences=3)],
    }
    start = time.perf_counter()
    ways["the model's own words"] = [one.text for one in model.summarise(texts, abstractive=True)]
    spent = time.perf_counter() - start
    found: dict[str, dict[str, float]] = {}
    for way, said in ways.items():
        scores = mean_rouge(references, said, stem=True)
        row = {kind: 100 * scores[kind].f1 for kind in ("rouge1", "rouge2", "rougeL")}
        found[way] = {**row, "words": float(np.mean([len(text.split()) for text in said]))}
    found["the model's own words"]["seconds"] = spent
    found["the model's own words"]["copied"] = copied(texts, ways["the model's own words"])
    found["examples"] = dict(list(zip(texts, ways["the model's own words"], strict=True))[:3])  # type: ignore[assignment]
    return found


def copied(texts: Sequence[str], summaries: Sequence[str]) -> float:
    """How many of the summaries' 4-grams stand in their texts, in percent."""
    own = total = 0
    for text, said in zip(texts, summaries, strict=True):
        grams = [{tuple(words[i : i + 4]) for i in range(len(words) - 3)} for words in map(str.split, (text, said))]
        own, total = own + len(grams[0] & grams[1]), total + len(grams[1])
    return 100 * own / max(total, 1)


def rows(path: Path, limit: int | None) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()][:limit]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    for name in ("held-out", "wikitext", "scitldr", "bbc", "json"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--limit", type=int, help="so many texts of each file, for a rehearsal")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    model = clearhead.load(given.model, device=given.device)
    device = torch.cuda.get_device_name() if given.device == "cuda" else platform.machine()
    found: dict[str, Any] = {"date": date.today().isoformat(), "device": device, "torch": torch.__version__}
    if given.held_out:
        texts = [row["text"] for row in rows(given.held_out, given.limit)]
        found["held-out text"] = perplexities(model, texts, sum(len(text.split()) for text in texts))
    if given.wikitext:
        text, words = read_wikitext(given.wikitext)
        if given.limit:
            text, words = text[:20_000], len(text[:20_000].split())
        found["WikiText-2 test"] = perplexities(model, [text], words)
    if model.generator.habits.samples:
        found["samples"] = samples(model)
    if given.scitldr:
        tests = rows(given.scitldr, given.limit)
        found["SciTLDR test"] = rouge_rows(model, [row["text"] for row in tests], [row["summaries"] for row in tests])
    if given.bbc:
        tests = rows(given.bbc, given.limit)
        found["BBC, held out"] = rouge_rows(model, [row["text"] for row in tests], [row["summary"] for row in tests])
    told = json.dumps(found, indent=1, ensure_ascii=False)
    print(told)
    if given.json:
        given.json.write_text(told + "\n", "utf-8")


if __name__ == "__main__":
    main()
