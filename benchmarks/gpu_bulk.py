"""Bulk work from strings to results on a GPU: ours beside sentence-transformers and the pipelines of transformers.

All-MiniLM-L6-v2's shape with random weights, made here in the files that all engines read, and a tokenizer trained
here, so that nothing is needed but torch, transformers, sentence-transformers and tokenizers. Texts are paragraphs of
the standard library's docstrings, at their natural length (embed) or no longer than 20 words (classify), and 150 words
of them (tag, answer). All engines compute in the same precision; of sentence-transformers and the pipelines the best of
several batch sizes counts. The engines take turns; the best of the rounds counts, since the first is for warming up.

usage: python benchmarks/gpu_bulk.py [--device cuda] [--dtype float16] [--count 40000|small] [--rounds 3]
       [--record NAME]
"""

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
# else the pipelines of transformers switch the tokenizers' threads off, for all that runs after them
os.environ["TOKENIZERS_PARALLELISM"] = "true"

import numpy as np
import torch
import transformers
from sentence_transformers import SentenceTransformer, models

import clearhead
from docstrings import docstring_texts
from record import record

WORDS, SHORT = 150, 20  # of a passage, and at most of a short text
LONGEST = 256  # tokens of a text to be embedded: what is longer sentence-transformers cuts off
BATCHES = (32, 128, 512, 1024)
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-MISC", "I-MISC"]
TARGETS = {"embed": 2_500_000, "classify": 30_000, "tag": 8_000, "answer": 8_000}  # tokens/s, and texts/s, on an H200
SMALL = 64
# the others get a part of the texts: what they do in a second does not depend on how many there are
SHARES = {"embed": 4, "classify": 4, "tag": 16, "answer": 16}
COLUMNS = {
    "Use": "{}",
    "a second": "{}",
    "clearhead": "{:,.0f}",
    "the best peer": "{}",
    "its": "{:,.0f}",
    "ratio": "{:.1f}",
    "target": "{:,.0f}",
}
Engine = Callable[[Any], Any]


def make_folders(root: Path, texts: list[str]) -> None:
    """A checkpoint for each head, and one that sentence-transformers reads."""
    torch.manual_seed(0)
    clearhead.train_tokenizer(texts=texts, kind="wordpiece", vocabulary=20_000).save(root / "words")
    tokenizer = transformers.AutoTokenizer.from_pretrained(root / "words")
    config = {
        "vocab_size": 30_522,
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
        "max_position_embeddings": 512,
    }
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "classify": (transformers.BertForSequenceClassification, {"id2label": {0: "no", 1: "yes"}}),
        "tag": (transformers.BertForTokenClassification, {"id2label": dict(enumerate(TAGS))}),
        "answer": (transformers.BertForQuestionAnswering, {}),
        "embed": (transformers.BertModel, {}),
    }
    for name, (kind, labels) in kinds.items():
        model = kind(transformers.BertConfig(**config, **labels))
        if name == "tag":  # about as much is an entity as in CoNLL-2003: 27 of a passage, 13 % of the words
            with torch.no_grad():
                model.classifier.weight[1:] *= 20
                model.classifier.bias[0] = 18
        model.save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    word = models.Transformer(str(root / "embed"), max_seq_length=LONGEST)
    SentenceTransformer(modules=[word, models.Pooling(384), models.Normalize()]).save(str(root / "sentences"))


def inputs(count: int, tokenizer: clearhead.Tokenizer) -> dict[str, list[Any]]:
    texts = docstring_texts()
    words = list(chain.from_iterable(text.split() for text in texts))
    starts = islice(cycle(range(0, len(words) - WORDS, 37)), count // 4)
    long = [" ".join(words[start : start + WORDS]) for start in starts]
    lengths = map(len, tokenizer.ids_batch(texts))
    natural = [text for text, length in zip(texts, lengths, strict=True) if length + 2 <= LONGEST]
    short = [" ".join(text.split()[:SHORT]) for text in texts]
    return {
        "embed": list(islice(cycle(natural), count)),
        "classify": list(islice(cycle(short), count)),
        "tag": long,
        "answer": [(f"What is number {i} said to be?", text) for i, text in enumerate(long)],
    }


def ours(root: Path, use: str, device: str, dtype: str) -> Engine:
    model = clearhead.load(root / ("sentences" if use == "embed" else use), device=device, dtype=dtype)
    match use:
        case "embed":
            return lambda texts: model.embed(texts, normalise=True)
        case "classify":
            return model.classify
        case "tag":
            return model.tag
    return lambda pairs: model.answer([one for one, _ in pairs], [one for _, one in pairs])


def peers(root: Path, use: str, device: str, dtype: str, batches: tuple[int, ...]) -> dict[str, Engine]:
    """Engines by name, one for each batch size."""
    if use == "embed":
        model = SentenceTransformer(
            str(root / "sentences"), device=device, model_kwargs={"dtype": getattr(torch, dtype)}
        )
        return {
            f"sentence-transformers, batch {size}": lambda texts, size=size: model.encode(
                texts, batch_size=size, show_progress_bar=False, normalize_embeddings=True
            )
            for size in batches
        }
    if use == "answer":  # transformers 5 has no pipeline for questions
        return {f"transformers, padded, batch {size}": padded(root / use, device, dtype, size) for size in batches}
    task = {"classify": "text-classification", "tag": "token-classification"}[use]
    options = {"aggregation_strategy": "first"} if use == "tag" else {}
    run = transformers.pipeline(task, model=str(root / use), device=device, dtype=getattr(torch, dtype), **options)
    return {
        f"transformers pipeline, batch {size}": lambda texts, size=size: run(texts, batch_size=size) for size in batches
    }


def padded(folder: Path, device: str, dtype: str, size: int) -> Engine:
    """The best span of each passage by the model itself, searched on the device without a loop over tokens."""
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder, dtype=getattr(torch, dtype))
    model, tokenizer = model.to(device).eval(), transformers.AutoTokenizer.from_pretrained(folder)

    @torch.inference_mode()
    def run(pairs: list[tuple[str, str]]) -> list[str]:
        found = []
        for first in range(0, len(pairs), size):
            some = pairs[first : first + size]
            encoded = tokenizer(
                [question for question, _ in some],
                [context for _, context in some],
                truncation="only_second",
                max_length=384,
                padding=True,
                return_offsets_mapping=True,
                return_tensors="pt",
            )
            offsets = encoded.pop("offset_mapping")
            inside = torch.tensor([[part == 1 for part in encoded.sequence_ids(row)] for row in range(len(some))])
            out, inside = model(**encoded.to(device)), inside.to(device)
            start, end = (logits.masked_fill(~inside, -torch.inf) for logits in (out.start_logits, out.end_logits))
            spans = start[:, :, None] + end[:, None, :]
            near = torch.ones_like(spans[0], dtype=torch.bool).triu().tril(29)
            places = spans.masked_fill(~near, -torch.inf).flatten(1).argmax(1).tolist()
            for row, (place, (_, context)) in enumerate(zip(places, some, strict=True)):
                left, right = divmod(place, spans.shape[2])
                found.append(context[offsets[row, left, 0] : offsets[row, right, 1]])
        return found

    return run


def seconds(run: Engine, given: Any, device: str) -> tuple[float, Any]:
    start = time.perf_counter()
    found = run(given)
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - start, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--count", default="40000", help="texts (a quarter of them for tag and answer), or small")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument("--record", metavar="NAME", help="keep the figures in benchmarks/results/NAME.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    small = options.count == "small"
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        make_folders(Path(scratch), docstring_texts())
        tokenizer = clearhead.Tokenizer.from_folder(Path(scratch, "words"))
        given = inputs(SMALL if small else int(options.count), tokenizer)
        for use in options.only:
            engines = {"clearhead": ours(Path(scratch), use, options.device, options.dtype)}
            engines |= peers(Path(scratch), use, options.device, options.dtype, (8,) if small else BATCHES)
            times: dict[str, list[float]] = {name: [] for name in engines}
            found: dict[str, Any] = {}
            for _ in range(options.rounds):
                for name, run in engines.items():
                    asked = given[use][: len(given[use]) // (1 if name == "clearhead" else SHARES[use])]
                    spent, found[name] = seconds(run, asked, options.device)
                    times[name].append(spent / len(asked))
            # special tokens counted with the others, as the network reads them
            read = (
                sum(len(ids) + 2 for ids in tokenizer.ids_batch(given[use])) / len(given[use]) if use == "embed" else 1
            )
            rates = {name: read / min(column) for name, column in times.items()}
            best = max((name for name in rates if name != "clearhead"), key=rates.__getitem__)
            ratio = rates["clearhead"] / rates[best]
            unit = "tokens" if use == "embed" else "texts"
            rows.append([use, unit, rates["clearhead"], best, rates[best], ratio, TARGETS[use]])
            spread = max(times["clearhead"]) / min(times["clearhead"])
            print(
                use, {name: round(rate) for name, rate in rates.items()}, round(ratio, 2), f"{spread=:.2f}", flush=True
            )
            if use == "embed":
                theirs = found[best]
                alike = (found["clearhead"][: len(theirs)] * np.asarray(theirs)).sum(1)
                print(f"cosines with the peer's vectors: mean {alike.mean():.6f}, least {alike.min():.6f}", flush=True)
    if options.record is not None:
        record(options.record, COLUMNS, rows, threads=torch.get_num_threads())


if __name__ == "__main__":
    main()
