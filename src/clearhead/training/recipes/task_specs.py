"""The tasks that a model can be fine-tuned for: how each reads its data, what it learns, and how it is measured."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from clearhead.data import encode, formats, published
from clearhead.data.dataset import TokenizedDataset
from clearhead.data.examples import Labels, PairExample, WordsExample
from clearhead.data.seq2seq import read_parallel
from clearhead.data.tables import Source, Table
from clearhead.data.tags import recognised, scheme_of_labels
from clearhead.errors import BadInput, WrongTask, require
from clearhead.evaluation.rouge import oracle_sentences
from clearhead.evaluation.tasks import EVALUATIONS, Evaluation
from clearhead.hub.checkpoint import read_own_heads
from clearhead.hub.remote import find
from clearhead.models.gpt import Gpt2
from clearhead.nn.heads import SentenceVector
from clearhead.objectives.distillation import TEMPERATURE
from clearhead.pipelines.model import Model, load
from clearhead.pipelines.summarisation import SENTENCE_LABELS, USUAL_SENTENCES
from clearhead.text import Tokenizer
from clearhead.text.sentences import sentence_spans
from clearhead.training.tasks import classification as tasks
from clearhead.training.tasks.distillation import ClassDistillation, VectorDistillation
from clearhead.training.tasks.language import CausalLM
from clearhead.training.tasks.task import Task

_SOFT = 0.5  # of a teacher's labels in the loss, beside the data's
TAG_SCHEME = "tag_scheme"  # in config.json: IOB2 or IOBES, which mark entities, or plain
Columns = Mapping[str, Any]  # of "text", "pair" and "label": the name of the column


def _read_similar(source: Source, columns: Columns) -> list[Any]:
    """Scores of similarity come as 0 to 5 or 0 to 1; a cosine goes from 0 to 1 here."""
    examples = formats.read_pairs(source, **_renamed(columns, "similar", text="first", pair="second", label="score"))
    largest = max((example.score or 0.0 for example in examples), default=0.0)
    if isinstance(source, Table):  # a block of a file, of whose other scores nothing is known
        told = f"{source.name} has scores above 1, which a stream does not scale; divide them by 5"
        require(largest <= 1, told, BadInput)
    scale = 5.0 if largest > 1 else 1.0
    for one in examples:
        if one.score is not None and not -1 <= one.score <= 5:
            raise BadInput(f"{one.where} has the score {one.score:g}; similarity goes from 0 to 1, or from 0 to 5.")
    return [e if e.score is None else replace(e, score=e.score / scale) for e in examples]


def _read_tagged(source: Path | str, columns: Columns) -> list[Any]:
    """CoNLL's columns, or records with lists of words and tags."""
    named = _renamed(columns, "tag", text="words", label="tags")
    if str(source).endswith((".json", ".jsonl", ".parquet")) or str(source).startswith("hub:"):
        return recognised(formats.read_words(source, **named))
    return recognised(published.open_columns(Path(source), columns.get("text"), columns.get("label")))


def _read_questions(source: Path | str, columns: Columns) -> list[Any]:
    """SQuAD's own layout and those of others, or flat records with the same names."""
    _renamed(columns, "answer")
    return published.open_questions(source)


def _read_choices(source: Path | str, columns: Columns) -> list[Any]:
    """The layouts of published sets, or records with a context and choices."""
    named = _renamed(columns, "choose", text="context", pair="choices", label="label")
    return published.open_choices(source, **named)


def _read_search(source: Path | str, columns: Columns) -> list[Any]:
    """Queries with a passage each, and how relevant it is: 0 is not at all."""
    rows = formats.read_texts(source, parse=formats.parse_grade, **columns)
    paired = all(row.pair is not None for row in rows)
    require(paired, f"{source} has no passages beside its queries; name their column with --pair", BadInput)
    return rows


def _renamed(columns: Columns, task: str, **names: str) -> dict[str, Any]:
    """Give the columns under the names of a reader's arguments; refuse one that this task does not have."""
    for role in columns:
        require(role in names, f"the data of {task} has no column for --{role}; leave it out", BadInput)
    return {names[role]: column for role, column in columns.items()}


Reader = Callable[[Any, Columns], list[Any]]  # of a file, or of a block of one where the task streams


@dataclass(frozen=True, kw_only=True)
class ObjectiveOptions:
    """What an objective may be told; a task that does not know an option refuses it."""

    class_weights: bool = False  # rare classes weigh more, in inverse proportion to their number
    label_smoothing: float = 0.0  # share of the target that goes to the other classes
    ranking: bool = False  # similar: learn the order of the scores, not the scores themselves
    soft: float | None = None  # classify with a teacher: the share of its soft labels in the loss, 0.5 unless said
    temperature: float | None = None  # and what both sides are softened by, 2 unless said
    lm_weight: float = 0.0  # classify with GPT-2: how much the next tokens count beside the class, 0.5 as published

    def __post_init__(self) -> None:
        smoothing, weight = self.label_smoothing, self.lm_weight
        require(0 <= smoothing < 1, f"label_smoothing is a share in [0, 1), got {smoothing}")
        require(self.soft is None or 0 <= self.soft <= 1, f"soft is a share in [0, 1], got {self.soft}")
        warm = self.temperature is None or 0 < self.temperature < math.inf
        require(warm, f"temperature must be finite and above 0, got {self.temperature}; 2 to 5 are usual")
        require(0 <= weight < math.inf, f"lm_weight must be finite and not negative, got {weight}")


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """One task: how its data is read and tokenised, what is learnt by which head, and how it is measured.

    A spec of your own is given to `finetune` in the place of a name. `head` is the name of one that the families have,
    or None where the encoder itself is trained, or a name for the `module` that you build.
    """

    name: str
    read: Reader
    labels: Callable[[Iterable[Any]], Labels | None] = lambda examples: None  # those that occur, if it has any
    tokenise: Callable[..., TokenizedDataset]  # of examples, tokenizer, labels if there are any, and length=
    task: Callable[[Model, TokenizedDataset, ObjectiveOptions], Task]
    evaluation: Evaluation
    head: str | None
    module: Callable[[Any, int], nn.Module] | None = None  # of the encoder and `outputs`, where no family has the head
    outputs: int | None = None  # of the head; None is one for each label
    problem: str | None = None
    options: tuple[str, ...] = ()  # those of `ObjectiveOptions` that it knows
    capitals: bool = False  # whether its data can tell them
    streams: bool = False  # whether `read` takes a block of a file, a `Table`, where each row stands for itself
    labelled: bool = True  # whether its examples say what is right beside their texts
    described: Callable[[Iterable[Any], Labels | None], dict[str, Any]] = lambda examples, labels: {}  # in config.json

    @property
    def tags_words(self) -> bool:
        """Whether its examples are words with a tag each, as CoNLL has them."""
        return self.head == "tags" and self.labelled

    def encode(
        self, examples: Sequence[Any], tokenizer: Tokenizer, labels: Labels | None, length: int
    ) -> TokenizedDataset:
        """Tokenise the examples."""
        return self.tokenise(examples, tokenizer, *([] if labels is None else [labels]), length=length)

    def prepare(self, model: Model, labels: Labels | None, examples: Iterable[Any] = ()) -> Model:
        """Put the head of this task on the model's encoder; `examples` are what it will learn from."""
        if self.head is None:
            return model
        made = self._with_head(model, self.head, labels)
        description = made.checkpoint.description
        own = (TAG_SCHEME, USUAL_SENTENCES)
        extra = {name: value for name, value in description.extra.items() if name not in own}
        extra |= self.described(examples, labels)
        return Model(replace(made.checkpoint, description=replace(description, extra=extra)))

    def load(self, folder: str | Path, *, device: str = "cpu") -> Model:
        """Load a model that was trained for this task, with its head, though no family may have that."""
        model = load(folder, device=device, dtype="float32")
        if self.module is None:
            return model
        made = self._with_head(model, str(self.head), None if model.labels is None else Labels(model.labels))
        read_own_heads(find(folder), made.network.heads)
        return made

    def _with_head(self, model: Model, head: str, labels: Labels | None) -> Model:
        names = () if labels is None else labels.names
        outputs = len(names) if self.outputs is None else self.outputs
        module = None if self.module is None else self.module(model.encoder, outputs)
        return model.with_head(head, outputs, labels=names or None, problem=self.problem, module=module)


def _classes(examples: Iterable[Any]) -> Labels:
    found = Labels.of(example.label for example in examples)
    require(len(found) > 1, f"all examples have the label {found.names[0]!r}; give data with two or more", BadInput)
    return found


def _tags(examples: Iterable[Any]) -> Labels:
    found = Labels.of(tag for example in examples for tag in example.tags)
    require(len(found) > 1, f"all words have the tag {found.names[0]!r}; give data with two or more", BadInput)
    return found


def _class_options(model: Model, encoded: TokenizedDataset, target: str, options: ObjectiveOptions) -> dict[str, Any]:
    """What a choice of classes is told; weights are in inverse proportion to the counts, 1 on average over examples."""
    weights = None
    if options.class_weights:
        classes = {**encoded.targets, **encoded.token_targets}[target]
        counts = np.bincount(classes[classes >= 0], minlength=len(model.labels or ()))
        weights = torch.from_numpy(counts.sum() / (len(counts) * np.maximum(counts, 1))).float()
    return {"class_weights": weights, "label_smoothing": options.label_smoothing}


def _classify(model: Model, encoded: TokenizedDataset, options: ObjectiveOptions) -> Task:
    given = _class_options(model, encoded, "classes", options)
    taught = "teacher" in encoded.targets
    alone = taught or (options.soft is None and options.temperature is None)
    require(alone, "soft and temperature are of a teacher's labels; name one with --teacher, or leave them out")
    if taught:
        require(not options.lm_weight, "lm_weight and a teacher do not go together; leave one out")
        soft, warmth = (_SOFT if options.soft is None else options.soft), options.temperature or TEMPERATURE
        return ClassDistillation(model.network, soft=soft, temperature=warmth, **given)
    if not options.lm_weight:
        return tasks.Classify(model.network, **given)
    hint = f"lm_weight is for gpt2, which reads forwards; this is {model.checkpoint.description.family}"
    require(isinstance(model.encoder, Gpt2), hint, WrongTask)
    return tasks.ClassifyWithLM(model.network, weight=options.lm_weight, **given)


def _tag(model: Model, encoded: TokenizedDataset, options: ObjectiveOptions) -> Task:
    return tasks.TagTokens(model.network, **_class_options(model, encoded, "tags", options))


def _similar(model: Model, encoded: TokenizedDataset, options: ObjectiveOptions) -> Task:
    vector = model.checkpoint.sentence or SentenceVector("mean")
    if "similarity" in encoded.targets:
        return (tasks.SimilarityRanking if options.ranking else tasks.CosineRegression)(model.network, vector)
    require(not options.ranking, "ranking=true needs pairs with scores; these have none", BadInput)
    made = VectorDistillation if "teacher" in encoded.targets else tasks.Contrastive
    return made(model.network, vector, texts=encoded.members.shape[1])


def _usual_sentences(examples: Iterable[PairExample]) -> int:
    """How many sentences a summary has, as a rule."""
    return max(1, round(statistics.median(len(sentence_spans(one.second)) for one in examples)))


def _encode_extracts(
    examples: Sequence[PairExample], tokenizer: Tokenizer, labels: Labels, *, length: int
) -> TokenizedDataset:
    """Each document as a row of sentences, of which those that best make the summary are kept.

    A sentence is read at its first piece, as BERTSUM reads it at a [CLS] of its own.
    """
    most, (leave, keep) = _usual_sentences(examples), SENTENCE_LABELS
    rows = []
    for one in examples:
        sentences = tuple(one.first[start:end] for start, end in sentence_spans(one.first))
        chosen = oracle_sentences(sentences, one.second, most=most)
        tags = tuple(keep if place in chosen else leave for place in range(len(sentences)))
        rows.append(WordsExample(sentences, tags, where=one.where))
    return encode.encode_tags(rows, tokenizer, labels, length=length).encoded


def _instruct(model: Model, *_: Any) -> Task:
    family = model.checkpoint.description.family
    hint = f"{family} reads a source; train it with: finetune translation --text prompt --pair answer"
    require(isinstance(model.encoder, Gpt2), hint, WrongTask)
    return CausalLM(model.network)


TASK_SPECS: dict[str, TaskSpec] = {
    "classify": TaskSpec(
        name="classify",
        streams=True,
        evaluation=EVALUATIONS["classify"],
        read=lambda source, columns: formats.read_texts(source, **columns),
        labels=_classes,
        tokenise=encode.encode_texts,
        task=_classify,
        head="classes",
        problem="single_label_classification",
        options=("class_weights", "label_smoothing", "soft", "temperature", "lm_weight"),
        capitals=True,
    ),
    "label": TaskSpec(
        name="label",
        streams=True,
        evaluation=EVALUATIONS["label"],
        read=lambda source, columns: formats.read_texts(source, parse=formats.parse_classes, **columns),
        labels=lambda examples: Labels.of(label for example in examples for label in example.label),
        tokenise=encode.encode_texts,
        task=lambda model, *_: tasks.MultiLabel(model.network),
        head="classes",
        problem="multi_label_classification",
        capitals=True,
    ),
    "regress": TaskSpec(
        name="regress",
        streams=True,
        evaluation=EVALUATIONS["regress"],
        read=lambda source, columns: formats.read_texts(source, parse=formats.parse_score, **columns),
        tokenise=encode.encode_texts,
        task=lambda model, *_: tasks.Regress(model.network),
        head="classes",
        outputs=1,
        problem="regression",
        capitals=True,
    ),
    "tag": TaskSpec(
        name="tag",
        evaluation=EVALUATIONS["tag"],
        read=_read_tagged,
        labels=_tags,
        tokenise=lambda *given, length: encode.encode_tags(*given, length=length).encoded,
        task=_tag,
        head="tags",
        options=("class_weights", "label_smoothing"),
        capitals=True,
        described=lambda examples, labels: {TAG_SCHEME: scheme_of_labels(labels.names if labels else ())},
    ),
    "summarise": TaskSpec(
        name="summarise",
        evaluation=EVALUATIONS["summaries"],
        read=lambda source, columns: read_parallel([source], first=columns.get("text"), second=columns.get("pair")),
        labels=lambda examples: Labels(SENTENCE_LABELS),
        tokenise=_encode_extracts,
        task=_tag,
        head="tags",
        options=("class_weights", "label_smoothing"),
        capitals=True,
        labelled=False,
        described=lambda examples, labels: {USUAL_SENTENCES: _usual_sentences(examples)},
    ),
    "answer": TaskSpec(
        name="answer",
        evaluation=EVALUATIONS["answer"],
        read=_read_questions,
        tokenise=encode.encode_answers,
        task=lambda model, *_: tasks.FindSpans(model.network),
        head="span",
        outputs=2,
        capitals=True,
    ),
    "choose": TaskSpec(
        name="choose",
        evaluation=EVALUATIONS["choose"],
        read=_read_choices,
        tokenise=encode.encode_choices,
        task=lambda model, *_: tasks.MultipleChoice(model.network),
        head="choice",
        outputs=1,
    ),
    "similar": TaskSpec(
        name="similar",
        streams=True,
        evaluation=EVALUATIONS["similar"],
        read=_read_similar,
        tokenise=encode.encode_pairs,
        task=_similar,
        head=None,
        options=("ranking",),
        labelled=False,
    ),
    "instruct": TaskSpec(
        name="instruct",
        streams=True,
        evaluation=EVALUATIONS["instruct"],
        read=lambda source, columns: formats.read_instructions(
            source, text=columns.get("text"), pair=columns.get("pair")
        ),
        tokenise=encode.encode_instructions,
        task=_instruct,
        head="causal_lm",
        outputs=0,
        labelled=False,
    ),
}

# what can be measured: all that can be learnt, and search, which needs no training of its own
READERS: dict[str, Reader] = {**{name: spec.read for name, spec in TASK_SPECS.items()}, "search": _read_search}
