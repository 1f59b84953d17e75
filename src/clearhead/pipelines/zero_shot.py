"""Which of any given labels fits a text, through inference: does the text entail "This text is about …"?"""

# L labels of the checkpoint · C labels asked for

from collections.abc import Iterable, Iterator, Sequence

import torch

from clearhead.errors import BadInput, WrongTask, require
from clearhead.nn.network import Network
from clearhead.pipelines.classify import Classes, class_logits
from clearhead.pipelines.engine import Progress, check_head
from clearhead.text import Tokenizer

TEMPLATE = "This text is about {}."


def zero_shot(
    network: Network,
    tokenizer: Tokenizer,
    texts: Iterable[str],
    labels: Sequence[str],
    *,
    known: Sequence[str] | None,
    template: str = TEMPLATE,
    multi: bool = False,
    top: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Classes]:
    """Rank the labels for each text, in order; `known` are those of the checkpoint, with entailment among them.

    Every label is put into the template and read beside the text, which may be of any length. Scores sum to 1; with
    `multi` (or a single label) each is a probability by itself: entailment against contradiction.
    """
    check_head(network, "classes")
    require(top is None or top > 0, f"top={top} labels cannot be given; choose 1 or more", BadInput)
    entailment, contradiction = _relation(known)
    names = _names(labels)
    hypotheses = [_written(template, name) for name in names]
    pairs = ((text, hypothesis) for text in texts for hypothesis in hypotheses)
    told = None if progress is None else _texts_done(len(names), progress)
    logits = class_logits(network, tokenizer, pairs, progress=told)

    def result(rows: tuple[torch.Tensor, ...]) -> Classes:
        table = torch.stack(rows)  # (C, L)
        if multi or len(names) == 1:
            scores = table[:, [contradiction, entailment]].softmax(-1)[:, 1]
        else:
            scores = table[:, entailment].softmax(-1)
        ranked = sorted(zip(names, scores.tolist(), strict=True), key=lambda pair: -pair[1])
        return Classes(*ranked[0], dict(ranked[:top]))

    return map(result, zip(*[logits] * len(names), strict=True))


def _relation(known: Sequence[str] | None) -> tuple[int, int]:
    """Where the checkpoint has "entailment", and what stands against it."""
    names = [label.lower() for label in known or ()]
    entailment = next((i for i, name in enumerate(names) if name.startswith("entail")), None)
    if entailment is None:
        there = f"its labels are {', '.join(known)}" if known else "its labels have no names"
        raise WrongTask(
            f"this model has no label for entailment: {there}; to classify by labels of your own, "
            "load a checkpoint that was trained on inference (such as MNLI)"
        )
    # in checkpoints of two labels the other one is called "not_entailment", and stands first or last
    other = -1 if entailment == 0 else 0
    return entailment, next((i for i, name in enumerate(names) if name.startswith("contra")), other)


def _names(labels: Sequence[str]) -> list[str]:
    several = not isinstance(labels, str) and len(labels) > 0
    require(several, f"labels must be a list of at least one text, not {labels!r}", BadInput)
    return list(dict.fromkeys(labels))


def _written(template: str, name: str) -> str:
    try:
        written = template.format(name)
    except (IndexError, KeyError, ValueError):
        written = template
    require(written != template, f"template={template!r} has no place for a label; write {{}} there", BadInput)
    return written


def _texts_done(pairs_each: int, progress: Progress) -> Progress:
    """Turn pairs that are done into texts that are done."""
    left = 0

    def report(pairs: int) -> None:
        nonlocal left
        texts, left = divmod(left + pairs, pairs_each)
        if texts:
            progress(texts)

    return report
