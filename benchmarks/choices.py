"""Choosing as the lectures show it: the reply to a dialogue, the answer to a question about it, how a text goes on.

MuTual is read as response selection (Cui et al. 2020), DREAM as reading with three answers (Sun et al. 2019). SWAG's
endings are not at hand; `endings` are made here of BBC's news instead: two sentences, the one that follows, and three
from elsewhere in the same article, which the built-in model has not learnt. Four ways on the same development
questions: by chance, by the cosine of vectors, by the head for next sentences as it was pre-trained, and by a head for
choices that begins as that one and is fine-tuned, with the encoder, on some questions. Figures that are there already
stay, so that a run that was stopped goes on.

usage: python benchmarks/choices.py DATA --out DIR [--only mutual …] [--train 320] [--dev 300] [--epochs 1] [--seed 0]
       DATA: mutual/mutual.{train,dev}.jsonl, dream/{train,dev}.json, bbc_news_summary/all.jsonl
"""

import argparse
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import clearhead
from clearhead.data.dataset import ShuffledBatches
from clearhead.data.encode import encode_choices
from clearhead.data.examples import ChoiceExample
from clearhead.evaluation.retrieval import recall, reciprocal_rank
from clearhead.pipelines.model import Model
from clearhead.text.sentences import sentence_spans
from clearhead.training.loop import train
from clearhead.training.recipes.run import without_attention_dropout
from clearhead.training.recipes.task_specs import TASK_SPECS
from clearhead.training.settings import NEVER, Every, Settings
from clearhead.training.tasks.classification import MultipleChoice
from record import record

Scores = list[Sequence[float]]  # of each question, one for each candidate
LENGTH = 256  # tokens of a context with one candidate
SENTENCE = range(40, 240)  # characters of one that may be an ending
HELD_OUT = 0.2  # of the articles


@dataclass(frozen=True)
class Questions:
    """One set: what is learnt from, and what is asked."""

    name: str
    training: list[ChoiceExample]
    dev: list[ChoiceExample]


def mutual(data: Path) -> Questions:
    return _given("MuTual, the reply", data / "mutual/mutual.train.jsonl", data / "mutual/mutual.dev.jsonl")


def dream(data: Path) -> Questions:
    return _given("DREAM, the answer", data / "dream/train.json", data / "dream/dev.json")


def _given(name: str, training: Path, dev: Path) -> Questions:
    read = TASK_SPECS["choose"].read
    return Questions(name, read(training, {}), read(dev, {}))


def endings(data: Path) -> Questions:
    rows = (data / "bbc_news_summary/all.jsonl").read_text("utf-8").splitlines()
    articles = [json.loads(row)["article"] for row in rows]
    draw = random.Random(0)
    draw.shuffle(articles)  # the file is in order of topics
    held_out = round(HELD_OUT * len(articles))
    made = [
        [one for text in part for one in _endings(text, draw)] for part in (articles[held_out:], articles[:held_out])
    ]
    return Questions("news, the next sentence", *made)


def _endings(text: str, draw: random.Random) -> list[ChoiceExample]:
    """One question of an article, or none of a short one: the title's paragraph is left out."""
    spans = sentence_spans(text.partition("\n\n")[2])
    sentences = [" ".join(text.partition("\n\n")[2][start:end].split()) for start, end in spans]
    fit = [place for place, one in enumerate(sentences) if len(one) in SENTENCE]
    starts = [place for place in range(len(sentences) - 2) if place + 2 in fit]
    if len(fit) < 8 or not starts:
        return []
    start = draw.choice(starts)
    others = [place for place in fit if not start <= place <= start + 2]
    wrong = draw.sample(sorted({sentences[place] for place in others} - {sentences[start + 2]}), 3)
    right = draw.randrange(4)
    choices = (*wrong[:right], sentences[start + 2], *wrong[right:])
    return [ChoiceExample(" ".join(sentences[start : start + 2]), choices, right)]


SETS: dict[str, Callable[[Path], Questions]] = {"mutual": mutual, "dream": dream, "endings": endings}


def by_cosine(model: Model, asked: Sequence[ChoiceExample]) -> Scores:
    texts = [text for one in asked for text in (one.context, *one.choices)]
    vectors, found, start = model.embed(texts, skill="similarity", normalise=True), [], 0
    for one in asked:
        context, *choices = vectors[start : start + 1 + len(one.choices)]
        found.append((np.stack(choices) @ context).tolist())
        start += 1 + len(one.choices)
    return found


def by_head(model: Model, asked: Sequence[ChoiceExample]) -> Scores:
    return [one.scores for one in model.choose([(one.context, list(one.choices)) for one in asked])]


def for_choices(model: Model) -> Model:
    """The model under a head for choices that says what its head for next sentences does: it follows, or not."""
    following = model.network.heads["next_sentence"]
    made = model.with_head("choice", 1)
    head = made.network.heads["choice"]
    state = dict(following.state_dict())
    for name in ("classifier.weight", "classifier.bias"):
        state[name] = state[name][:1] - state[name][1:]
    head.load_state_dict(state)
    return made


def fine_tuned(training: Sequence[ChoiceExample], folder: Path, options: argparse.Namespace) -> Model:
    torch.manual_seed(options.seed)
    model = for_choices(clearhead.load(options.model))
    without_attention_dropout(model.network)
    encoded = encode_choices(training, model.tokenizer, length=LENGTH)
    settings = Settings(
        epochs=options.epochs,
        learning_rate=options.rate,
        seed=options.seed,
        every=Every(log=5, save=NEVER, minutes=3.0, evaluate=NEVER),
    )
    source = ShuffledBatches(encoded, seed=options.seed, items=8)
    if train(MultipleChoice(model.network), source, settings, folder).exit == "interrupted":
        raise KeyboardInterrupt  # run it again to go on
    model.network.eval()
    return model


def figures(asked: Sequence[ChoiceExample], scores: Scores) -> dict[str, float]:
    """R@1, R@2 and MRR in percent, as response selection has them; R@1 is the accuracy."""
    judged = {str(number): {str(one.label): 1} for number, one in enumerate(asked)}
    run = {str(number): {str(i): float(one) for i, one in enumerate(row)} for number, row in enumerate(scores)}
    found = {"r1": recall(judged, run, 1), "r2": recall(judged, run, 2), "mrr": reciprocal_rank(judged, run)}
    return {name: 100 * value for name, value in found.items()}


def chance(asked: Sequence[ChoiceExample]) -> dict[str, float]:
    """What is expected of an order drawn at random."""
    counts = [len(one.choices) for one in asked]
    expected = {
        "r1": [1 / n for n in counts],
        "r2": [min(2 / n, 1) for n in counts],
        "mrr": [sum(1 / rank for rank in range(1, n + 1)) / n for n in counts],
    }
    return {name: 100 * sum(values) / len(values) for name, values in expected.items()}


def measure(name: str, options: argparse.Namespace, done: list[dict[str, Any]]) -> None:
    questions = SETS[name](options.data)
    draw = random.Random(options.seed)
    training = draw.sample(questions.training, min(options.train, len(questions.training)))
    asked = draw.sample(questions.dev, min(options.dev, len(questions.dev)))
    plain = clearhead.load(options.model)
    ways: Mapping[str, Callable[[], dict[str, float]]] = {
        "chance": lambda: chance(asked),
        "cosine of vectors": lambda: figures(asked, by_cosine(plain, asked)),
        "head for next sentences": lambda: figures(asked, by_head(plain, asked)),
        f"fine-tuned on {len(training)} questions": lambda: figures(
            asked, by_head(fine_tuned(training, options.out / f"{name}-{options.seed}", options), asked)
        ),
    }
    for way, of in ways.items():
        facts = {"set": questions.name, "way": way, "asked": len(asked), "seed": options.seed}
        if any(facts.items() <= row.items() for row in done):
            continue
        row = facts | of()
        print(json.dumps(row), flush=True)
        with (options.out / "rows.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        done.append(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=list(SETS), default=list(SETS), metavar="SET")
    parser.add_argument("--model", default="builtin:encoder")
    parser.add_argument("--train", type=int, default=320, help="questions to learn from")
    parser.add_argument("--dev", type=int, default=300, help="questions to ask")
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.out.mkdir(parents=True, exist_ok=True)
    log = options.out / "rows.jsonl"
    done = [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.is_file() else []
    for name in options.only:
        measure(name, options, done)
    columns = {"": "{}", "by": "{}", "questions": "{:,}", "R@1, %": "{:.1f}", "R@2, %": "{:.1f}", "MRR, %": "{:.1f}"}
    rows = [[row["set"], row["way"], row["asked"], row["r1"], row["r2"], row["mrr"]] for row in done]
    print(record("choices", columns, rows, threads=options.threads))


if __name__ == "__main__":
    main()
