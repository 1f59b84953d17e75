"""The card of a trained model: how it came about, in numbers and names that the run itself knows."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.data.corpus import Corpus
from clearhead.hub.card import model_card, recurrent_card, write_card
from clearhead.hub.config import read_config
from clearhead.hub.recurrent import RecurrentModel
from clearhead.pipelines.model import Model
from clearhead.training.loop import Result
from clearhead.training.monitor import read_rows
from clearhead.training.settings import as_toml

_SHOWN = 5  # files of a corpus
_MEASURED = "evaluation/"


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a model was trained. `facts` are rows such as "training data"; figures may be none, a command unknown."""

    facts: Mapping[str, str]
    recipe: Any
    result: Result
    figures: Mapping[str, float]
    command: str | None = None


def save_with_card(
    model: Model | RecurrentModel, folder: Path, training: Training, *, base_model: str | None = None
) -> None:
    """Save the model and, where there is none yet, a README.md that says what it is and how it was trained.

    `base_model` is what training started from; a folder is no name for others, so that only the table tells it.
    """
    model.save(folder)
    name = folder.resolve().name
    base_model = None if base_model is None or Path(base_model).exists() else base_model
    if isinstance(model, RecurrentModel):
        card = recurrent_card(model, name=name, base_model=base_model)
    else:
        sentences = model.checkpoint.sentence is not None
        card = model_card(
            read_config(folder), name=name, parameters=model.parameters, sentences=sentences, base_model=base_model
        )
    write_card(f"{card}\n{section(training)}", folder)


def section(training: Training) -> str:
    """Write what a card says of training, in markdown."""
    result = training.result
    length = f"{result.step:,} steps, {result.tokens:,} tokens, {result.elapsed / 60:,.2f} minutes ({result.exit})"
    facts = {**training.facts, "length": length, "seed": str(training.recipe.train.seed)}
    parts = [_table(("training", ""), facts)]
    if training.figures:
        figures = {name: f"{value:,.3f}".rstrip("0").rstrip(".") for name, value in training.figures.items()}
        parts.append(_table(("figure", "value"), figures))
    else:
        parts.append("It was not measured.")
    if training.command is not None:
        parts.append(f"```sh\n{training.command}\n```")
    parts.append(f"The recipe, as `--recipe` reads it:\n\n```toml\n{as_toml(training.recipe)}```")
    return "## How it was trained\n\n" + "\n\n".join(parts) + "\n"


def last_figures(folder: Path, result: Result) -> dict[str, float]:
    """What a run measured on the weights that it ended with."""
    step = result.step if result.best_step is None else result.best_step
    rows = [row for row in read_rows(folder) if row["step"] == step]
    return {
        name.removeprefix(_MEASURED): value
        for row in rows
        for name, value in row.items()
        if name.startswith(_MEASURED) and value is not None
    }


def corpus_fact(corpus: Corpus, tokens: int) -> str:
    """Name the files of a corpus, and how many tokens were made of them."""
    names = [str(source) for source in corpus.sources]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more} ({tokens:,} tokens)"


def _table(head: tuple[str, str], rows: Mapping[str, str]) -> str:
    lines = [head, ("---", "---"), *rows.items()]
    return "\n".join("| " + " | ".join(_cell(text) for text in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
