"""The card of the built-in model, written from what its making left behind: runs, figures, and the model itself.

usage: python make-model/card.py WORK BUILTIN

What was measured before and not again stands in figures.jsonl beside this file; of pre-training that was not run again,
the card keeps what it said.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import clearhead
from biases import seen
from clearhead.hub.skills import Skill
from clearhead.pipelines.model import Model
from clearhead.training.monitor import curve, read_rows
from figures import read_figures

HERE = Path(__file__).parent
FIGURES = HERE / "figures.jsonl"
MAKING = "## How it was made"
MODEL = "clearhead, built-in"
RUNS = ("short", "more", "more2", "long")  # of pre-training, in order
ASIDE = "aside"  # the folder of runs that were paid for, and that the model does not come from
POINTS = 12  # of the table of the curve
KEPT = (".safetensors", ".json")
# what is meant by the mean of five tasks
GLUE = ("SST-2, accuracy", "CoLA, matthews", "MRPC, f1", "STS-B, spearman", "RTE, accuracy")
# what the lectures' tables have beside these; CoNLL's is of the test set
OTHERS = ("SQuAD-1.1, exact match", "SQuAD-1.1, f1", "CoNLL-2003, f1")
COLUMNS = {
    "masked_lm": "loss of masks",
    "masked_lm/accuracy": "masks filled rightly",
    "replaced/accuracy": "replaced tokens told",
    "next_sentence/accuracy": "next sentences told",
}

Row = dict[str, Any]


def main() -> None:
    work, folder = map(Path, sys.argv[1:])
    model = clearhead.load(folder)
    if not model.skills:
        sys.exit(f"{folder} has no skills; train them before the card is written")
    rows, card = joined(work), folder / "README.md"
    if rows:
        (folder / "curve.svg").write_text(curve([_drawn(row) for row in rows]), "utf-8")
    figures = read_figures(FIGURES) | read_figures(work / FIGURES.name)
    FIGURES.write_text("".join(json.dumps(row) + "\n" for row in figures.values()), "utf-8")
    parts = [
        _head(model, folder),
        (HERE / "data.md").read_text("utf-8").strip(),
        _making(work, folder, rows) if rows else _section(card.read_text("utf-8"), MAKING),
        _skills(model),
        _figures(figures),
        (HERE / "limits.md").read_text("utf-8").strip(),
        f"## How it leans\n\nAsked by `make-model/biases.py`, with the model as it is in this folder.\n\n{seen(model)}",
    ]
    card.write_text("\n\n".join(parts) + "\n", "utf-8")
    (folder / "figures.json").write_text(json.dumps(measured(figures), indent=1) + "\n", "utf-8")
    print(f"wrote {card}")


def _section(card: str, title: str) -> str:
    """One section of a card, with its title."""
    return re.findall(rf"(?ms)^{title}\n.*?(?=\n^## |\Z)", card)[0].strip()


def measured(found: dict[str, Row]) -> list[Row]:
    """The figures that `clearhead evaluate --table` puts beside the lectures', as it reads them."""
    rows = []
    for name in (*GLUE, *OTHERS):
        if name in found:
            task, metric = name.split(", ")
            split = "test" if task.startswith("CoNLL") else "dev"
            value = round(found[name]["value"], 2)
            rows.append(
                {"task": task, "metric": metric.replace(" ", "_"), "value": value, "model": MODEL, "split": split}
            )
    return rows


def joined(work: Path) -> list[Row]:
    """The rows of all runs as if they were one, with steps, tokens and seconds going on."""
    found: list[Row] = []
    for name in RUNS:
        before = found[-1] if found else {}
        add = {key: before.get(key, 0) for key in ("step", "tokens", "elapsed")}
        found += [row | {key: row[key] + add[key] for key in add} for row in read_rows(work / name / "run")]
    return found


def _drawn(row: Row) -> Row:
    """The loss of masks in the place of the sum of all objectives, which means nothing by itself."""
    return {
        "step": row["step"],
        "loss": row.get("masked_lm"),
        "evaluation/loss": row.get("evaluation/masked_lm"),
    }


def _head(model: Model, folder: Path) -> str:
    config = model.config
    held = [folder, *model.skills.values()]
    size = sum(path.stat().st_size for place in held for path in place.iterdir() if path.suffix in KEPT) / 2**20
    facts = {
        "layers": config.num_hidden_layers,
        "width": config.hidden_size,
        "heads of attention in a layer": config.num_attention_heads,
        "tokens at a time": model.encoder.max_length,
        "vocabulary": f"{model.tokenizer.vocabulary:,} pieces of words, lower case",
        "parameters": f"{model.parameters / 1e6:.1f} million",
        "heads": ", ".join(model.network.heads),
        "size with its skills": f"{size:.1f} MiB, matrices in int8",
    }
    return (
        "---\nlibrary_name: clearhead\nlanguage: en\npipeline_tag: fill-mask\n---\n\n"
        "# The built-in model of clearhead\n\n"
        f"An English encoder that fills masks, and {len(model.skills)} skills beside it, made from random numbers and "
        "raw text by [make-model](../../../../make-model/README.md). `clearhead.load()` reads it; `clearhead export` "
        "writes it for transformers.\n\n"
        + _table([("what", ""), *((name, str(value)) for name, value in facts.items())])
    )


def _making(work: Path, folder: Path, rows: list[Row]) -> str:
    last = rows[-1]
    spent = sum(_minutes(path) for path in sorted((folder / "skills").glob("*/README.md")))
    skills = f", and {spent:.1f} for the skills" if spent else ""
    step = max(len(rows) // POINTS, 1)
    shown = [row for place, row in enumerate(rows) if place % step == step - 1 or row is last]
    names = [name for name in COLUMNS if any(row.get(name) is not None for row in shown)]
    table = [("step", "million tokens", "minutes", *(COLUMNS[name] for name in names))]
    for row in shown:
        figures = (_number(row.get(name), percent=name.endswith("accuracy")) for name in names)
        table.append((f"{row['step']:,}", f"{row['tokens'] / 1e6:,.1f}", f"{row['elapsed'] / 60:.1f}", *figures))
    recipes = "\n\n".join(
        f"`{path.name}`:\n\n```toml\n{path.read_text('utf-8').strip()}\n```"
        for path in (HERE / "recipes" / f"{name}.toml" for name in RUNS)
    )
    return (
        f"{MAKING}\n\n{last['step']:,} steps and {last['tokens'] / 1e6:,.0f} million tokens in "
        f"{last['elapsed'] / 60:.1f} minutes of one GPU for pre-training{skills}.{_aside(work)} `make model` makes it "
        f"again.\n\n"
        f"![Loss of the masked tokens by step](curve.svg)\n\n{_table(table)}\n\n{recipes}"
    )


def _aside(work: Path) -> str:
    """What runs have cost that the model does not come from."""
    ends = [rows[-1] for path in sorted((work / ASIDE).glob("*/run")) if (rows := read_rows(path))]
    if not ends:
        return ""
    return f" Another {sum(row['elapsed'] for row in ends) / 60:.1f} minutes went into runs that it does not come from."


def _minutes(card: Path) -> float:
    """What a skill's own card says of its time."""
    found = re.search(r"([\d.,]+) minutes", card.read_text("utf-8"))
    return float(found[1].replace(",", "")) if found else 0.0


def _skills(model: Model) -> str:
    table: list[tuple[str, ...]] = [("skill", "labels", "uses that take it unasked", "looks at capitals")]
    for name, path in model.skills.items():
        skill = Skill.read(path)
        what = ", ".join(skill.labels or ()) or ("a vector of a text" if skill.head is None else "start and end")
        looks = "yes" if model.skill(name).tokenizer.tells_capitals else "no"
        table.append((f"`{name}`", what, ", ".join(skill.uses) or "none", looks))
    return f"## Skills\n\n{_table(table)}"


def _figures(found: dict[str, Row]) -> str:
    table: list[tuple[str, ...]] = [("figure", "value", "seeds", "command")]
    commands = list(dict.fromkeys(row["command"] for row in found.values()))
    for name, row in found.items():
        spread = f" ± {row['deviation']:.2f}" if row.get("deviation") is not None else ""
        table.append((name, f"{row['value']:.2f}{spread}", str(row["seeds"]), str(commands.index(row["command"]) + 1)))
    if set(found) >= set(GLUE):
        mean = sum(found[name]["value"] for name in GLUE) / len(GLUE)
        table.append((f"mean of {'; '.join(GLUE)}", f"{mean:.2f}", str(found[GLUE[0]]["seeds"]), ""))
    listed = "\n".join(f"{number}. `{command}`" for number, command in enumerate(commands, 1))
    note = "Seeds count from 0. DATA is the folder of the public sets, WORK that of the making."
    return f"## Figures\n\n{_table(table)}\n\n{note}\n\n{listed}"


def _number(value: float | None, *, percent: bool) -> str:
    return "" if value is None else f"{value:.1%}" if percent else f"{value:.3f}"


def _table(rows: list[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [rows[0], ("---",) * len(rows[0]), *rows[1:]])


if __name__ == "__main__":
    main()
