"""The bottleneck page: three small translators, of which one has a single vector for a whole sentence.

They have learnt German numbers, whose digits change places in English: "drei und vierzig" is "forty three". That takes
seconds on one core, so that whoever doubts them trains them anew, as `make-model/bottleneck.py` has.
"""

import random
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from clearhead.errors import BadInput, keywords, require, short
from clearhead.inside.decoding import by_length, written_by
from clearhead.inside.page import View
from clearhead.models.seq2seq import Seq2SeqConfig
from clearhead.models.transformer import TransformerConfig
from clearhead.pipelines.model import Model, load

SCRIPTS = ("shared/svg.js", "shared/heatmap.js", "main.js")
GERMAN = ("eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun")
ENGLISH = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
GERMAN_TENS = ("zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig")
ENGLISH_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
FOLDER = Path(__file__).with_name("networks")
LONGEST = 8  # numbers of a text
LEARNT = 4  # numbers of a training pair, at most: longer texts are longer than all that was read
EXAMPLES = 12_000
STEPS = 500
WIDTH = 48  # of every vector, so that all three have the same room
NETWORKS: dict[str, tuple[str, Any, float]] = {
    "GRU": ("seq2seq-gru", Seq2SeqConfig(embedding_size=WIDTH, hidden_size=WIDTH, dropout=0.0), 5e-3),
    "GRU with attention": (
        "seq2seq-gru-dot",
        Seq2SeqConfig(embedding_size=WIDTH, hidden_size=WIDTH, dropout=0.0),
        5e-3,
    ),
    "Transformer": (
        "transformer-tiny",
        TransformerConfig(
            d_model=WIDTH,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=2 * WIDTH,
            decoder_ffn_dim=2 * WIDTH,
            activation_function="relu",
            dropout=0.0,
            scale_embedding=True,
        ),
        3e-3,
    ),
}


@keywords
def bottleneck(text: str = "43 27 81 96", *, steps: int | None = None) -> View:
    """Show how a recurrent network translates numbers without and with attention, and how a Transformer does.

    With `steps` all three are trained here and now, for so many; else they are those that come with the package.
    `text` are numbers from 21 to 99 as digits, without those that end in 0: the more there are, the more one vector has
    to hold.
    """
    numbers = _numbers(text)
    models = shipped() if steps is None else train_networks(steps)
    source, target = _pair(numbers)
    shown = [{"name": name, **written_by(model, source, 2 * LONGEST + 2)} for name, model in models.items()]
    rng = random.Random(1)  # noqa: S311
    tests = [_pair(_drawn(rng, count)) for count in range(1, LONGEST + 1) for _ in range(20)]
    quality = by_length(list(models.values()), tests)
    for name, score in zip(models, quality["scores"], strict=True):
        score["family"] = name
    data = {
        "source": source.split(),
        "target": target.split(),
        "models": shown,
        "quality": quality,
        "width": WIDTH,
        "learnt": LEARNT,
        "pairs": EXAMPLES,
        "steps": STEPS if steps is None else steps,
        "here": steps is not None,
    }
    return View.of("bottleneck", "Bottleneck", SCRIPTS, data)


@cache
def shipped() -> dict[str, Model]:
    """The three networks that `train_networks` has made for the package."""
    return {name: load(FOLDER / folder_of(name)) for name in NETWORKS}


def folder_of(name: str) -> str:
    """Where a network lies, below `FOLDER`."""
    return name.lower().replace(" ", "-")


@cache
def train_networks(steps: int = STEPS) -> dict[str, Model]:
    """The three networks, each trained on the same pairs by the recipe for translation."""
    # all other views do without what trains, which takes long to import
    from clearhead.training.recipes.translate import Translate, translate
    from clearhead.training.settings import NEVER, Every, Settings

    rng = random.Random(0)  # noqa: S311
    pairs = [_pair(_drawn(rng, rng.randint(1, LEARNT))) for _ in range(EXAMPLES)]
    found = {}
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        table = Path(folder) / "numbers.tsv"
        table.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
        for name, (kind, sizes, rate) in NETWORKS.items():
            settings = Settings(
                steps=steps, learning_rate=rate, betas=(0.9, 0.98), every=Every(save=NEVER, evaluate=NEVER)
            )
            recipe = Translate(
                model=sizes, tokenizer="word", vocabulary=64, tokens=512, label_smoothing=0.0, train=settings
            )
            found[name] = translate(kind, [table], Path(folder) / kind, recipe=recipe).model
    return found


def _drawn(rng: random.Random, count: int) -> list[tuple[int, int]]:
    return [(rng.randrange(len(GERMAN_TENS)), rng.randrange(len(GERMAN))) for _ in range(count)]


def _pair(numbers: Sequence[tuple[int, int]]) -> tuple[str, str]:
    german = [f"{GERMAN[one]} und {GERMAN_TENS[ten]}" for ten, one in numbers]
    english = [f"{ENGLISH_TENS[ten]} {ENGLISH[one]}" for ten, one in numbers]
    return " ".join(german), " ".join(english)


def _numbers(text: str) -> list[tuple[int, int]]:
    """Tens and ones of each number, counted from the first that there is a word for."""
    words = text.replace(",", " ").split()
    known = [word for word in words if len(word) == 2 and "2" <= word[0] <= "9" and "1" <= word[1] <= "9"]
    wrong = next((word for word in words if word not in known), None)
    told = f"{short(wrong)} is no number from 21 to 99 that ends in 1 to 9; give 1 to {LONGEST} such as 43 27 81"
    require(wrong is None, told, BadInput)
    fits = f"{len(words)} numbers cannot be shown; give 1 to {LONGEST} such as 43 27 81"
    require(1 <= len(words) <= LONGEST, fits, BadInput)
    return [(int(word[0]) - 2, int(word[1]) - 1) for word in words]
