"""Questions answered on a CPU: ours, fp32 and int8, beside the transformers model called with padded batches.

One checkpoint with a span head for all; without --model, the real all-MiniLM-L6-v2 with a random one, which is enough
for speed. transformers gets windows of 384 tokens with 128 in common, 32 a batch, padded to the longest, and its best
span is searched without a loop over tokens. The engines take turns; medians over the rounds.

usage: python benchmarks/cpu_answers.py SQUAD.json [--model DIR] [--count 200] [--threads 2] [--rounds 3] [--json FILE]
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers

import clearhead
from clearhead.data.examples import QuestionExample
from clearhead.data.formats import read_squad
from clearhead.evaluation.squad import golds_of, squad1
from real_weights import minilm

Engine = Callable[[list[QuestionExample]], list[str]]
BATCH, WINDOW, OVERLAP, LONGEST = 32, 384, 128, 30


def with_random_head(folder: Path) -> Path:
    torch.manual_seed(0)
    model = transformers.BertForQuestionAnswering.from_pretrained(minilm())
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(minilm()).save_pretrained(folder)
    return folder


def ours(model: clearhead.Model) -> Engine:
    def run(asked: list[QuestionExample]) -> list[str]:
        found = model.answer(
            [one.question for one in asked], [one.context for one in asked], threshold=float("inf"), whole_words=False
        )
        return [one.text or "" for one in found]

    return run


def padded(folder: Path) -> Engine:
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    @torch.inference_mode()
    def run(asked: list[QuestionExample]) -> list[str]:
        best = [(-float("inf"), "")] * len(asked)
        for first in range(0, len(asked), BATCH):
            some = asked[first : first + BATCH]
            encoded = tokenizer(
                [one.question for one in some],
                [one.context for one in some],
                truncation="only_second",
                max_length=WINDOW,
                stride=OVERLAP,
                return_overflowing_tokens=True,
                return_offsets_mapping=True,
                padding=True,
                return_tensors="pt",
            )
            owners, offsets = encoded.pop("overflow_to_sample_mapping").tolist(), encoded.pop("offset_mapping")
            out = model(**encoded)
            inside = torch.tensor([[part == 1 for part in encoded.sequence_ids(row)] for row in range(len(owners))])
            start, end = (logits.masked_fill(~inside, -torch.inf) for logits in (out.start_logits, out.end_logits))
            spans = start[:, :, None] + end[:, None, :]
            spans = spans.masked_fill(~torch.ones_like(spans[0], dtype=torch.bool).triu().tril(LONGEST - 1), -torch.inf)
            scores, places = spans.flatten(1).max(1)
            for row, (score, place) in enumerate(zip(scores.tolist(), places.tolist(), strict=True)):
                left, right = divmod(place, spans.shape[2])
                if score > best[first + owners[row]][0]:
                    text = some[owners[row]].context[offsets[row, left, 0] : offsets[row, right, 1]]
                    best[first + owners[row]] = (score, text)
        return [text for _, text in best]

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("squad", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    transformers.utils.logging.disable_progress_bar()
    every = read_squad(options.squad)
    # evenly spaced, so that passages of all lengths are there as in the whole set
    asked = every[:: max(1, len(every) // options.count)][: options.count]
    others = [(one.question, one.context) for one in every[1 :: max(1, len(every) // 100)][:100]]
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.model or with_random_head(Path(scratch))
        model = clearhead.load(folder)
        # the loss is not limited here: what int8 changes is in the figures
        engines = {
            "transformers, padded": padded(folder),
            "clearhead": ours(model),
            "clearhead int8": ours(model.quantise(others, loss=1.0)),
        }
        answers = {name: run(asked) for name, run in engines.items()}
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in engines}
        for _ in range(options.rounds):
            for name, run in engines.items():
                start, spent = time.perf_counter(), time.process_time()
                run(asked)
                times[name].append((time.perf_counter() - start, time.process_time() - spent))
    base = [statistics.median(column) for column in zip(*times["transformers, padded"], strict=True)]
    rows = []
    for name, found in answers.items():
        clock, spent = (statistics.median(column) for column in zip(*times[name], strict=True))
        figures = squad1(golds_of(asked), {one.id: text for one, text in zip(asked, found, strict=True)})
        same = sum(one == other for one, other in zip(found, answers["transformers, padded"], strict=True))
        rows.append(
            {
                "engine": name,
                "questions_per_s": round(len(asked) / clock, 1),
                "ratio": round(base[0] / clock, 2),
                "questions_per_cpu_s": round(len(asked) / spent, 1),
                "cpu_ratio": round(base[1] / spent, 2),
                **{key: round(value, 2) for key, value in figures.items()},
                "same_answers": f"{same}/{len(asked)}",
            }
        )
        print(rows[-1], flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
