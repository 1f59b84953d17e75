"""The lectures' two open questions, measured: a better task than MLM + NSP, a better extractor than BERT's blocks?

Small models with the same vocabulary, text and number of floating-point operations, which differ in their objective or
their blocks; then each is fine-tuned on six tasks by the same recipe. Two steps, so that the second can be repeated:

usage: python benchmarks/objectives.py pretrain --corpus FILES… --tokenizer DIR --out DIR [--variants …]
       python benchmarks/objectives.py downstream --models DIR --tokenizer DIR --data DIR --out FILE [--tasks …]
       python benchmarks/objectives.py table FILES…
"""

import argparse
import json
import random
import re
import statistics
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from clearhead.data.corpus import Corpus
from clearhead.data.dataset import ShuffledBatches
from clearhead.data.masking import MaskedBatches, Masking, Vocabulary
from clearhead.data.pretraining import PackedText, SentencePairs
from clearhead.data.shards import tokenise
from clearhead.evaluation.tasks import EVALUATIONS
from clearhead.hub.checkpoint import write_folder
from clearhead.models.bert import BertConfig
from clearhead.models.modernbert import ModernBertConfig
from clearhead.nn.heads import Network, Pooler, SequenceHead
from clearhead.pipelines.model import Model, load
from clearhead.text import Tokenizer
from clearhead.training.loop import train
from clearhead.training.monitor import Report
from clearhead.training.recipes.pretrain import build as networks
from clearhead.training.recipes.run import without_attention_dropout
from clearhead.training.recipes.task_specs import TASK_SPECS, ObjectiveOptions
from clearhead.training.settings import Every, Settings
from clearhead.training.tasks.language import MaskedLMWithPairs, ReplacedAndMasked
from finetune_systems import TASKS

LAYERS, WIDTH, HEADS, LENGTH = 12, 256, 4, 128
TOKENS = 32_768  # of a step


@dataclass(frozen=True)
class Variant:
    """One row of the table."""

    objective: Literal["masked", "masked+next", "masked+order", "replaced", "replaced+masked", "replaced+masked+next"]
    rate: float = 0.15
    pairs: bool = False  # whether texts are pairs of segments although nobody judges them
    modern: bool = True
    learning_rate: float = 3e-3
    optimiser: Literal["adamw", "muon"] = "muon"


# learning rates are the best of short trials for the blocks in question
VARIANTS = {
    "BERT, MLM+NSP 15 %": Variant("masked+next", modern=False, learning_rate=1e-3),
    "BERT, MLM 15 %": Variant("masked", modern=False, learning_rate=1e-3),
    "modern, MLM+NSP 15 %": Variant("masked+next"),
    "modern, MLM 15 %": Variant("masked"),
    "modern, MLM 15 % on pairs": Variant("masked", pairs=True),
    "modern, MLM 30 %": Variant("masked", 0.30),
    "modern, MLM 40 %": Variant("masked", 0.40),
    "modern, MLM+SOP 15 %": Variant("masked+order"),
    "modern, replaced 15 %": Variant("replaced"),
    "modern, replaced+MLM 15 %": Variant("replaced+masked"),
    "modern, replaced+MLM+NSP 15 %": Variant("replaced+masked+next"),
}


# the tasks of the table, with the epochs that a small model gets on each, and the rows where not all are used
EPOCHS = {"SST-2": 1, "MRPC": 5, "RTE": 5, "STS-B": 5, "CoNLL-2003": 3, "SQuAD 1.1": 1}
ROWS = {"SST-2": 20_000, "SQuAD 1.1": 30_000}
FINETUNING_RATE = 2e-4
SEEDS = 3


def build(variant: Variant, tokenizer: Tokenizer) -> tuple[Any, Model]:
    """Make the task of a variant, and the model that is saved; all have the same encoder but for the blocks."""
    torch.manual_seed(0)
    size = -(-tokenizer.vocabulary // 64) * 64
    shape: dict[str, Any] = {
        "vocab_size": size,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "max_position_embeddings": 512,
        "pad_token_id": tokenizer.pad_id,
    }
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    if variant.modern:
        # three matrices in a gated feed-forward: two thirds as wide, it costs the same
        config: Any = ModernBertConfig(**shape, intermediate_size=WIDTH * 8 // 3 // 64 * 64)
    else:
        config = BertConfig(**shape, **still, intermediate_size=4 * WIDTH)
    if variant.objective != "masked+order":
        task, model, _ = networks(variant.objective, config, tokenizer, seed=0)
        return task, model
    # which only ALBERT has a head for
    model = Model.create(config, tokenizer, heads={"masked_lm": size})
    heads = {"masked_lm": model.network.heads["masked_lm"]}
    judge = SequenceHead(Pooler(WIDTH, act="tanh"), WIDTH, 2)
    return MaskedLMWithPairs(Network(model.encoder, {**heads, "sentence_order": judge}), "sentence_order"), model


def flops_per_token(variant: Variant, vocabulary: int) -> float:
    """Forward and backward, matrix products alone: six for each weight, and attention's."""
    blocks = 6 * LAYERS * 12 * WIDTH**2 + 12 * LAYERS * LENGTH * WIDTH
    guess = 6 * vocabulary * WIDTH  # of a masked token
    if variant.objective.startswith("masked"):
        return blocks + variant.rate * guess
    generator = blocks / 4 + variant.rate * guess
    own = 0 if variant.objective == "replaced" else variant.rate / ReplacedAndMasked.EVERY * guess
    return blocks + generator + own


def pretrain(name: str, options: argparse.Namespace) -> None:
    variant, folder = VARIANTS[name], options.out / slug(name)
    variant = replace(variant, **json.loads(options.change)) if options.change else variant
    tokenizer = Tokenizer.from_folder(options.tokenizer)
    shards = tokenise(Corpus(options.corpus), tokenizer, options.out / "corpus")
    sizes: dict[str, Any] = {"tokens": TOKENS, "length": LENGTH, "seed": 0}
    plain: Any = PackedText(shards, tokenizer, **sizes)
    if variant.pairs or variant.objective.endswith(("+next", "+order")):
        kind: Literal["next", "order"] = "order" if variant.objective.endswith("+order") else "next"
        plain = SentencePairs(shards, tokenizer, kind=kind, **sizes)
    source = MaskedBatches(plain, Vocabulary.of(tokenizer), Masking(rate=variant.rate, multiple=64))
    task, model = build(variant, tokenizer)
    steps = options.steps or int(options.petaflops * 1e15 / flops_per_token(variant, tokenizer.vocabulary) / TOKENS)
    settings = Settings(
        steps=steps,
        learning_rate=variant.learning_rate,
        optimiser=variant.optimiser,
        betas=(0.9, 0.98),
        schedule="linear",
        warmup=0.1,
        compile=options.device == "cuda",
        every=Every(log=max(steps // 60, 1), save=10**9, evaluate=10**9),
    )
    result = train(task, source, settings, folder / "run", device=options.device, report=Report(folder / "run"))
    model.network.eval()
    heads = [name for name in model.network.heads if name != "replaced"]
    write_folder(model.to("cpu").checkpoint, folder, heads, own=True)  # beside its run
    print(json.dumps({"variant": name, "steps": steps, "tokens": result.tokens, "seconds": result.elapsed}), flush=True)


def downstream(name: str, options: argparse.Namespace) -> None:
    """Fine-tune all variants on one task: its data is read and encoded once."""
    what, given = TASKS[name], options.data
    kind = TASK_SPECS[what.kind]
    examples = kind.read(given / what.train, {})
    if name in ROWS:  # a fair sample: the files are in order of their sources
        examples = random.Random(0).sample(examples, min(ROWS[name], len(examples)))
    labels = kind.labels(examples)
    (test,) = list(what.tests.values())[:1]
    held_out = kind.read(given / test, {})
    length = min(what.length, LENGTH * 3)
    encoded = kind.encode(examples, Tokenizer.from_folder(options.tokenizer), labels, length)
    for seed in options.seeds:
        for variant in options.variants:
            torch.manual_seed(seed)
            model = kind.prepare(load(options.models / slug(variant), device=options.device), labels)
            without_attention_dropout(model.network)
            settings = Settings(
                epochs=EPOCHS[name], learning_rate=FINETUNING_RATE, seed=seed, every=Every(save=10**9, evaluate=10**9)
            )
            with tempfile.TemporaryDirectory() as scratch:
                source = ShuffledBatches(encoded, seed=seed, items=what.items)
                run = train(
                    kind.task(model, encoded, ObjectiveOptions()),
                    source,
                    settings,
                    Path(scratch),
                    device=options.device,
                )
            model.network.eval()
            figures = EVALUATIONS[what.kind](model, held_out).metrics
            row = {"task": name, "variant": variant, "seed": seed, "seconds": run.elapsed, "tokens": run.tokens}
            with options.out.open("a") as file:
                file.write(json.dumps({**row, "figure": figures[what.metrics[-1]]}) + "\n")


def table(files: list[Path]) -> str:
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    tasks = [task for task in EPOCHS if any(row["task"] == task for row in rows)]
    lines = ["| Variant | " + " | ".join(tasks) + " | mean |", "|---" * (len(tasks) + 2) + "|"]
    for variant in VARIANTS:
        cells, means = [], []
        for task in tasks:
            found = [row["figure"] for row in rows if (row["task"], row["variant"]) == (task, variant)]
            means += [statistics.fmean(found)] if found else []
            cells.append(cell(found))
        if means:
            mean = f"{statistics.fmean(means):.1f}" if len(means) == len(tasks) else "–"
            lines.append(f"| {variant} | {' | '.join(cells)} | {mean} |")
    return "\n".join(lines)


def cell(found: list[float]) -> str:
    """Mean and deviation; where not all seeds are there, how many are."""
    if not found:
        return "–"
    spread = f" ± {statistics.stdev(found):.1f}" if len(found) > 1 else ""
    return f"{statistics.fmean(found):.1f}{spread}" + (f" ({len(found)})" if len(found) != SEEDS else "")


def slug(name: str) -> str:
    return "-".join(re.findall(r"\w+", name.lower()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["pretrain", "downstream", "table"])
    parser.add_argument("files", nargs="*", type=Path, help="results, for the table")
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS), metavar="VARIANT")
    parser.add_argument("--tasks", nargs="+", choices=list(EPOCHS), default=list(EPOCHS), metavar="TASK")
    parser.add_argument("--corpus", nargs="+", type=Path)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(SEEDS)))
    parser.add_argument("--petaflops", type=float, default=5.0, help="10^15 operations of each pre-training")
    parser.add_argument("--steps", type=int, help="so many instead")
    parser.add_argument("--change", help="fields of the variant, as JSON, to look for a better learning rate, say")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.step == "table":
        print(table(options.files))
        return
    for name in options.variants if options.step == "pretrain" else options.tasks:
        (pretrain if options.step == "pretrain" else downstream)(name, options)


if __name__ == "__main__":
    main()
