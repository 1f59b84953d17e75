"""The card of the small GPT, written from what its making left behind: the run, the figures, and the model itself.

usage: python make-model/gpt_card.py WORK FOLDER
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch

import clearhead
from clearhead.pipelines.model import Model
from clearhead.training.monitor import read_rows

HERE = Path(__file__).parent
POINTS = 10  # of the table of the curve
SHOWN = ("The old house", "In the morning", "She opened the door and", "The city of")
PEOPLE = ("doctor", "nurse", "teacher", "engineer", "soldier", "servant")

Row = dict[str, Any]


def main() -> None:
    work, folder = map(Path, sys.argv[1:])
    model = clearhead.load(folder)
    found = json.loads((work / "gpt-figures.json").read_text("utf-8"))
    before = json.loads((work / "gpt-plain-figures.json").read_text("utf-8"))
    parts = [_head(model, folder), _data(work), _making(work), _figures(found, before), _samples(model), _limits(model)]
    (folder / "README.md").write_text("\n\n".join(parts) + "\n", "utf-8")
    print(f"wrote {folder / 'README.md'}")


def _head(model: Model, folder: Path) -> str:
    config = model.config
    size = sum(path.stat().st_size for path in folder.iterdir() if path.suffix in (".safetensors", ".json")) / 2**20
    facts = {
        "layers": config.n_layer,
        "width": config.n_embd,
        "heads of attention in a layer": config.n_head,
        "tokens at a time": config.n_positions,
        "vocabulary": f"{model.tokenizer.vocabulary:,} byte pairs, case kept",
        "parameters": f"{model.parameters / 1e6:.1f} million, the output matrix is the token table",
        "size": f"{size:.1f} MiB, matrices in int8",
    }
    return (
        "---\nlibrary_name: clearhead\nlanguage: en\npipeline_tag: text-generation\n---\n\n"
        "# The small GPT of clearhead\n\n"
        "A GPT-2 that writes plain English sentences, and short summaries after `TL;DR:`, made from random numbers and "
        'raw text by [make-model/gpt.sh](../../../../make-model/gpt.sh). `clearhead.load("builtin:gpt")` reads it; '
        "`clearhead generate` and `clearhead summarise --abstractive` take it unasked; `clearhead export` writes it "
        "for transformers.\n\n" + _table([("what", ""), *((name, str(value)) for name, value in facts.items())])
    )


def _data(work: Path) -> str:
    parts = len(list((work / "gpt-data" / "plain").glob("part-*-0.jsonl")))
    return (
        f"## Data\n\n{parts} parts of the corpus that the built-in encoder was made from: English Wikipedia of 2014 "
        "and 2015 (CC BY-SA) and public-domain books. `make-model/writer_data.py` keeps paragraphs of sentences and "
        "leaves out headings, lists, tables and paragraphs with holes. A third of the articles is cut into passages "
        "that end with `TL;DR:` and one or two of their own sentences: those that share most words with the rest, "
        "without brackets. "
        "Then SciTLDR's training part (abstract and one sentence) and four fifths of the BBC's news summaries. What "
        "shares a run of eight words with WikiText-2's valid and test files, SciTLDR's development and test parts or "
        "the fifth of the BBC's that is measured on, was left out."
    )


def _making(work: Path) -> str:
    rows = read_rows(work / "gpt-plain" / "run")
    taught = read_rows(work / "gpt" / "run")
    step = max(len(rows) // POINTS, 1)
    shown = [row for place, row in enumerate(rows) if place % step == step - 1 or row is rows[-1]]
    table: list[tuple[str, ...]] = [("step", "million tokens", "minutes", "loss", "loss of held-out text")]
    for row in shown:
        cells = (f"{row['step']:,}", f"{row['tokens'] / 1e6:,.1f}", f"{row['elapsed'] / 60:.1f}")
        table.append((*cells, _number(row.get("next")), _number(row.get("evaluation/next"))))
    recipe = (HERE / "recipes" / "gpt.toml").read_text("utf-8").strip()
    last = rows[-1]
    return (
        f"## How it was made\n\n{last['step']:,} steps and {last['tokens'] / 1e6:,.0f} million tokens in "
        f"{last['elapsed'] / 60:.1f} minutes of one GPU that others used at the same time, then "
        f"{taught[-1]['elapsed'] / 60:.1f} minutes with passages and their summaries, and paragraphs and the next ones "
        f"(`finetune instruct`).\n\n{_table(table)}\n\n```toml\n{recipe}\n```"
    )


def _figures(found: Row, before: Row) -> str:
    table: list[tuple[str, ...]] = [("text", "words", "perplexity of a word", "perplexity of a piece")]
    shown = {name: found[name] for name in ("held-out text", "WikiText-2 test") if name in found}
    if "held-out text" in before:
        shown["held-out text, before int8 and summaries"] = before["held-out text"]
    for name, row in shown.items():
        figures = (row["perplexity of a word"], row["perplexity of a piece"])
        table.append((name, f"{row['words']:,}", *(f"{value:.1f}" for value in figures)))
    parts = [
        f"## Figures\n\nMeasured on {found['date']} ({found['device']}, torch {found['torch']}) by "
        f"`python benchmarks/writing.py --model builtin:gpt --held-out … --wikitext … --scitldr … --bbc …`; it says "
        f"how. The files are what `make-model/writer_data.py` writes.\n\n{_table(table)}"
    ]
    samples = {name: value for name, value in found.get("samples", {}).items() if isinstance(value, float)}
    rows = [("100 samples by its own habits", ""), *((name, f"{value:.1f}") for name, value in samples.items())]
    parts.append(_table(rows))
    for name in ("SciTLDR test", "BBC, held out"):
        if name not in found:
            continue
        lines: list[tuple[str, ...]] = [(name, "ROUGE-1", "ROUGE-2", "ROUGE-L", "words")]
        for way, row in found[name].items():
            if way != "examples":
                lines.append((way, *(f"{row[key]:.1f}" for key in ("rouge1", "rouge2", "rougeL", "words"))))
        copied = found[name]["the model's own words"]["copied"]
        parts.append(_table(lines) + f"\n\nOf the model's own 4-grams {copied:.0f} % stand in the text.")
    return "\n\n".join(parts)


def _samples(model: Model) -> str:
    """What it writes by its own habits; anybody gets the same."""
    lines = []
    for prompt in SHOWN:
        for more in ("", " --seed 1"):
            options: Row = {"seed": 1} if more else {}
            lines.append(f'`clearhead generate "{prompt}"{more}`\n\n> {prompt}{model.generate(prompt, **options).text}')
    return "## Samples\n\nNot chosen: the first two seeds of four openings.\n\n" + "\n\n".join(lines)


@torch.inference_mode()
def _limits(model: Model) -> str:
    he, she = (model.tokenizer.ids_batch([word])[0] for word in (" he", " she"))
    rows: list[tuple[str, ...]] = [("after", "he", "she")]
    for person in PEOPLE:
        prompt = f"The {person} said that"
        ids = torch.tensor(model.tokenizer.ids_batch([prompt]))
        share = model.network("causal_lm", ids)[0, -1].softmax(-1)
        rows.append((f"{prompt} …", *(f"{float(share[token[0]]):.1%}" for token in (he, she))))
    return (
        "## Limits\n\nIt writes sentences, not facts: names, dates and figures are invented, and a text loses its "
        "thread after a few sentences. It knows English alone, as an encyclopedia and old books have it, with their "
        "views of people and places. Summaries are mostly sentences of the text itself; of a text longer than it reads "
        "at once (512 tokens), each part is summarised by itself. For a summary that says nothing wrong, "
        "`clearhead summarise` picks sentences.\n\n"
        f"How it leans, by the probability of the next word:\n\n{_table(rows)}"
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _table(rows: list[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [rows[0], ("---",) * len(rows[0]), *rows[1:]])


if __name__ == "__main__":
    main()
