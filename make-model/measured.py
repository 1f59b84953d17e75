"""Everything that the encoder or a skill is measured on: what no text that is learnt may share eight words with."""

import csv
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from overlaps import read, shown_to_all
from skill_data import held_out, imdb, lines, parts_of_speech

QUORA_MEASURED = 3000
MEASURED = (
    *(f"glue/{name}/dev.tsv" for name in ("SST-2", "CoLA", "MRPC", "RTE", "STS-B", "QNLI")),
    *(
        "conll2003/eng.testa",
        "conll2003/eng.testb",
        "squad/dev-v1.1.json",
        "squad2/dev-part.json",
        "mail_spam/dev.jsonl",
    ),
    *("mutual/mutual.dev.jsonl", "dream/dev.json", "scitldr/test.jsonl", "scitldr/dev.jsonl"),
)


def measured(data: Path) -> Iterator[str]:
    """Everything that the encoder or a skill is measured on."""
    yield from shown_to_all()
    yield from chain.from_iterable(read(data / name) for name in MEASURED if (data / name).is_file())
    yield from (cell for row in lines(data / "wikiqa/dev.txt") for cell in row[:2])
    yield from (cell for row in list(lines(data / "quora/train-part.txt"))[-QUORA_MEASURED:] for cell in row[:2])
    yield from (text for label, text in lines(data / "sms_spam/SMSSpamCollection") if held_out(text, 0.1))
    yield from (row["text"] for row in imdb(data, "test"))
    yield from (" ".join(line.split("\t")[0] for line in one.split("\n")) for one in parts_of_speech(data, "dev"))
    with (data / "ag_news/test.csv").open(encoding="utf-8", newline="") as rows:
        yield from (row[0] for row in csv.reader(rows))
