"""One run of the translation ladder: train on Multi30k, translate test_2016_flickr, say how well and how fast.

The argument is a `Run` as JSON; the last line of the output is its result.
"""

import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import torch

from clearhead.data.examples import PairExample
from clearhead.data.seq2seq import ParallelBatches, encode_parallel, read_parallel
from clearhead.evaluation.translation import bleu, chrf
from clearhead.models.seq2seq import Seq2SeqConfig
from clearhead.models.transformer import TransformerConfig
from clearhead.pipelines.model import Model
from clearhead.pipelines.translation import translate_texts
from clearhead.training.loop import train
from clearhead.training.recipes.translate import Translate, prepare
from clearhead.training.settings import Every, Settings, override
from clearhead.training.tasks.language import Translation

NEVER = 10**9
BEAMS = 5
TEST = "test_2016_flickr"
# edges between groups of sources by their number of words
GROUPS = (8, 11, 14, 17, 21)

# what tutorials use for Multi30k (512 wide, dropout 0.5); the best weights by BLEU on the development set
RECURRENT = Translate(
    model=Seq2SeqConfig(embedding_size=256, hidden_size=512, dropout=0.5),
    vocabulary=10_000,
    tokens=4096,
    train=Settings(
        epochs=25.0,
        learning_rate=1e-3,
        warmup=0.05,
        weight_decay=0.0,
        betas=(0.9, 0.98),
        metric="bleu",
        every=Every(log=50, save=NEVER, evaluate=400, keep=1),
    ),
)
# the small Transformer of Wu et al. 2021, "Good for Misconceived Reasons", table 2: 4 layers of 128
TRANSFORMER = Translate(
    model=TransformerConfig(
        d_model=128,
        encoder_layers=4,
        decoder_layers=4,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=256,
        decoder_ffn_dim=256,
        activation_function="relu",
        dropout=0.3,
        max_position_embeddings=256,
        scale_embedding=True,
    ),
    vocabulary=10_000,
    tokens=8192,
    train=Settings(
        steps=8000,
        learning_rate=5e-3,
        warmup=0.25,
        schedule="noam",
        weight_decay=0.0,
        betas=(0.9, 0.98),
        every=Every(log=50, save=100, evaluate=400, keep=1, average=10),
    ),
)
# the same, twice as wide, its rate lower by the root of two, every pair read twice: chosen by the development set
AGREEING = override(
    TRANSFORMER,
    {
        "model.d_model": 256,
        "model.encoder_ffn_dim": 512,
        "model.decoder_ffn_dim": 512,
        "agreement": 5,
        "train.learning_rate": 3.5e-3,
    },
)
ROWS: dict[str, tuple[str, Translate]] = {
    "LSTM": ("seq2seq-lstm", RECURRENT),
    "GRU": ("seq2seq-gru", RECURRENT),
    "GRU + dot": ("seq2seq-gru-dot", RECURRENT),
    "GRU + general": ("seq2seq-gru-general", RECURRENT),
    "GRU + additive": ("seq2seq-gru-additive", RECURRENT),
    "Transformer": ("transformer-tiny", TRANSFORMER),
    "Transformer + agreement": ("transformer-tiny", AGREEING),
}


@dataclass(frozen=True)
class Run:
    """With `timed`, so many steps are timed after `warm` others and nothing is translated."""

    row: str
    source: str
    target: str
    seed: int
    data: str
    device: str
    timed: int | None = None
    warm: int = 50
    limit: int | None = None  # pairs of every file; None reads all
    changes: dict[str, Any] = field(default_factory=dict)  # of the recipe, by dotted names


def pairs_of(run: Run, part: str) -> list[PairExample]:
    files = [Path(run.data) / f"{part}.{language}" for language in (run.source, run.target)]
    return read_parallel(files)[: run.limit]


def recipe_of(run: Run) -> Translate:
    """The row's recipe under the run's seed; a timed run is short and never looks up from its work."""
    changes = {"train.seed": run.seed, **run.changes}
    if run.timed is not None:
        steps = {"train.steps": run.warm + run.timed, "train.epochs": None, "train.metric": None}
        every = {"train.every.evaluate": NEVER, "train.every.save": NEVER, "train.every.log": run.warm}
        changes |= steps | every | {"train.every.average": 1}
    return override(ROWS[run.row][1], changes)


def carry_out(run: Run) -> dict[str, Any]:
    recipe = recipe_of(run)
    training, held_out = pairs_of(run, "train"), pairs_of(run, "val")
    torch.manual_seed(run.seed)
    translator = prepare(ROWS[run.row][0], training, recipe)
    encoded = encode_parallel(training, translator.tokenizer, length=recipe.length)
    with tempfile.TemporaryDirectory() as scratch:
        result = train(
            Translation(translator.network, label_smoothing=recipe.label_smoothing, agreement=recipe.agreement),
            ParallelBatches(encoded, seed=run.seed, tokens=recipe.tokens),
            recipe.train,
            Path(scratch),
            device=run.device,
            evaluate=None if run.timed else lambda: {"bleu": score(translator, held_out)},
        )
        rows = [json.loads(line) for line in (Path(scratch) / "metrics.jsonl").read_text().splitlines()]
    translator.network.eval()
    sides = 1 + sum(len(ids) for ids in sources_of(encoded)) / sum(len(ids) for ids in targets_of(encoded))
    found = {
        "steps": result.step,
        "parameters": sum(weight.numel() for weight in translator.network.parameters()),
        "tokens_per_second": round(sides * pace(rows, run), 1),  # of both sides
        "curve": [
            [row["step"], round(sides * row["tokens"]), round(row["evaluation/bleu"], 2)]
            for row in rows
            if "evaluation/bleu" in row
        ],
    }
    if run.timed:
        return found
    chosen_by = score(translator, held_out, num_beams=BEAMS)  # of the weights as they end, which the curve's are not
    return found | {"development_bleu": chosen_by, **measured(translator, pairs_of(run, TEST))}


def sources_of(encoded: Any) -> list[Any]:
    return [encoded.ids[encoded.offsets[i] : encoded.offsets[i + 1]] for i in encoded.members[:, 0]]


def targets_of(encoded: Any) -> list[Any]:
    return [encoded.ids[encoded.offsets[i] : encoded.offsets[i + 1]] for i in encoded.members[:, 1]]


def pace(rows: list[dict[str, float]], run: Run) -> float:
    """Target tokens a second, without evaluation and saving; of a timed run, without the warm-up."""
    kept = [row for row in rows if "tokens_per_second" in row and (run.timed is None or row["step"] > run.warm)]
    before = [0.0, *(row["tokens"] for row in rows)]
    seconds = sum((row["tokens"] - before[rows.index(row)]) / row["tokens_per_second"] for row in kept)
    return sum(row["tokens"] - before[rows.index(row)] for row in kept) / max(seconds, 1e-9)


def score(translator: Model, pairs: list[PairExample], num_beams: int = 1) -> float:
    written = translate_texts(
        translator.network, translator.tokenizer, [pair.first for pair in pairs], num_beams=num_beams
    )
    return bleu([pair.second for pair in pairs], written).score


def measured(translator: Model, pairs: list[PairExample]) -> dict[str, Any]:
    import sacrebleu.metrics

    sources, references = [pair.first for pair in pairs], [pair.second for pair in pairs]
    start = time.perf_counter()
    written = translate_texts(translator.network, translator.tokenizer, sources, num_beams=BEAMS)
    seconds = time.perf_counter() - start
    cased, letters = bleu(references, written), chrf(references, written)
    lower = sacrebleu.metrics.BLEU(lowercase=True)
    groups: dict[str, list[int]] = {}
    for place, source in enumerate(sources):
        groups.setdefault(group_of(len(source.split())), []).append(place)
    return {
        "bleu": cased.score,
        "signature": cased.signature,
        "chrf": letters.score,
        "lowercase_bleu": lower.corpus_score(written, [references]).score,
        "lowercase_signature": str(lower.get_signature()),
        "by_length": {
            name: bleu([references[i] for i in places], [written[i] for i in places]).score
            for name, places in sorted(groups.items())
        },
        "seconds": round(seconds, 1),
        "examples": [[sources[i], written[i]] for i in range(min(3, len(pairs)))],
    }


def group_of(words: int) -> str:
    """Name a group so that names sort by length."""
    place = sum(words > edge for edge in GROUPS)
    low = GROUPS[place - 1] + 1 if place else 1
    return f"{low:02}–{GROUPS[place]:02}" if place < len(GROUPS) else f"{low:02} and more"


def main() -> None:
    run = Run(**json.loads(sys.argv[1]))
    start = time.perf_counter()
    found = carry_out(run)
    device = torch.cuda.get_device_name() if run.device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    place = f"{date.today()}, {device}, torch {torch.__version__}"
    print(json.dumps({"run": asdict(run), **found, "place": place, "wall": round(time.perf_counter() - start, 1)}))


if __name__ == "__main__":
    main()
