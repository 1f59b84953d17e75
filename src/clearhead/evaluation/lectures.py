"""The headline tables that the lectures print, as data. Nothing here was measured by us."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """A task and the metric it reports, by the names our metric functions give."""

    task: str
    metric: str


@dataclass(frozen=True, slots=True)
class Reported:
    """A line of a table: what was printed for a model on one split, None where nothing was."""

    model: str
    split: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class LectureTable:
    """A table as printed, in percent."""

    name: str
    columns: tuple[Column, ...]
    lines: tuple[Reported, ...]


GLUE = LectureTable(
    "GLUE",
    (
        Column("MNLI-m", "accuracy"),
        Column("MNLI-mm", "accuracy"),
        Column("QQP", "f1"),
        Column("QNLI", "accuracy"),
        Column("SST-2", "accuracy"),
        Column("CoLA", "matthews"),
        Column("STS-B", "spearman"),
        Column("MRPC", "f1"),
        Column("RTE", "accuracy"),
        Column("GLUE", "average"),
    ),
    (
        Reported("Pre-OpenAI SOTA", "test", (80.6, 80.1, 66.1, 82.3, 93.2, 35.0, 81.0, 86.0, 61.7, 74.0)),
        Reported("BiLSTM+ELMo+Attn", "test", (76.4, 76.1, 64.8, 79.9, 90.4, 36.0, 73.3, 84.9, 56.8, 71.0)),
        Reported("OpenAI GPT", "test", (82.1, 81.4, 70.3, 88.1, 91.3, 45.4, 80.0, 82.3, 56.0, 75.2)),
        Reported("BERT-base", "test", (84.6, 83.4, 71.2, 90.1, 93.5, 52.1, 85.8, 88.9, 66.4, 79.6)),
        Reported("BERT-large", "test", (86.7, 85.9, 72.1, 91.1, 94.9, 60.5, 86.5, 89.3, 70.1, 81.9)),
    ),
)

SQUAD1 = LectureTable(
    "SQuAD 1.1",
    (Column("SQuAD 1.1", "exact_match"), Column("SQuAD 1.1", "f1")),
    (
        Reported("Human", "test", (82.3, 91.2)),
        Reported("BiDAF+ELMo", "dev", (None, 85.8)),
        Reported("BERT-base", "dev", (80.8, 88.5)),
        Reported("BERT-large", "dev", (84.1, 90.9)),
    ),
)

SQUAD2 = LectureTable(
    "SQuAD 2.0",
    (Column("SQuAD 2.0", "exact"), Column("SQuAD 2.0", "f1")),
    (
        Reported("Human", "test", (86.8, 89.5)),
        Reported("BERT + DAE + AoA (ensemble)", "test", (87.1, 89.5)),
    ),
)

CONLL = LectureTable(
    "CoNLL-2003",
    (Column("CoNLL-2003", "f1"),),
    (
        Reported("ELMo+BiLSTM+CRF", "dev", (95.7,)),
        Reported("BERT-base", "dev", (96.4,)),
        Reported("BERT-large", "dev", (96.6,)),
        Reported("ELMo+BiLSTM+CRF", "test", (92.2,)),
        Reported("CVT+Multi", "test", (92.6,)),
        Reported("BERT-base", "test", (92.4,)),
        Reported("BERT-large", "test", (92.8,)),
    ),
)

SWAG = LectureTable(
    "SWAG",
    (Column("SWAG", "accuracy"),),
    (
        Reported("ESIM+GloVe", "dev", (51.9,)),
        Reported("ESIM+ELMo", "dev", (59.1,)),
        Reported("BERT-base", "dev", (81.6,)),
        Reported("BERT-large", "dev", (86.6,)),
    ),
)

WMT = LectureTable(
    "WMT14",
    (Column("WMT14 en-de", "bleu"), Column("WMT14 en-fr", "bleu")),
    (
        Reported("Transformer base", "test", (27.3, 38.1)),
        Reported("Transformer big", "test", (28.4, 41.8)),
    ),
)

TABLES = (GLUE, SQUAD1, SQUAD2, CONLL, SWAG, WMT)
