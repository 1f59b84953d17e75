"""Plain English for the small GPT: paragraphs of sentences out of the corpus, and texts with their summaries.

usage: python make-model/writer_data.py CORPUS DATA OUT [--share 1.0]

OUT/plain/*.jsonl is what is pre-trained on, OUT/held-out.jsonl text of the same kind that is not; OUT/instruct.jsonl
has the rows for `finetune instruct`, OUT/bbc.jsonl and OUT/scitldr.jsonl what summaries are measured on. Headings,
lists and paragraphs with holes are left out. Whatever shares a run of eight words with a text that is measured on
(WikiText-2, SciTLDR, the BBC's part) is left out, too. A third of the articles is cut into passages that end with
"TL;DR:" and a summary: sentences of the passage itself, shortened by rule, since so small a model copies better than it
invents.
"""

import argparse
import hashlib
import json
import lzma
import os
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from multiprocessing import Pool
from pathlib import Path
from typing import Any

from clearhead.pipelines.summarisation import TLDR
from clearhead.text.sentences import split_sentences

Row = dict[str, Any]
HELD_OUT = 0.002  # of the documents
SUMMARISED = 1 / 3  # of the articles
PARTS = 4  # of each file, so that many processors have something to do
RUN = 8  # words; texts that share so many in a row are taken for the same
PASSAGE = (600, 1700)  # characters: with its summary it fits the 512 tokens that the model reads
SECOND = 1400  # from so many characters on, a summary has two sentences
WORDS = (7, 36)  # of a sentence that may be a summary
INSTRUCT = 45_000  # passages with summaries that are learnt once more, and
PLAIN = 25_000  # paragraphs with the one after them, so that nothing is unlearnt
SCITLDR_TIMES = 5
BBC_HELD_OUT = 5  # every fifth article

_END = re.compile(r"[.!?][\"')\]]*$")
_HOLE = re.compile(r" [,.;:)]|\( |\(\)|,,|\.\.(?!\.)|[{}|<>=\\_~^]|http|www\.|\bISBN\b")
_EMPTY = re.compile(r"\s*\(\s*[,;:\s]*\)")
_PARENTHESES = re.compile(r"\s*\([^()]*\)")
_FIRST = re.compile(
    r"^(?:However|Moreover|Furthermore|In addition|For example|For instance|Therefore|Thus|Also|Finally|Then|Indeed|"
    r"In fact|Meanwhile|Additionally|Consequently|Similarly|Nevertheless|Instead|Later|But|And|So), "
)
_LEANS = re.compile(
    r"^(?:He|She|It|They|This|That|These|Those|His|Her|Its|Their|Such|Another|Other|Both|But|And|Or|Here)\b"
)
_WORD = re.compile(r"[a-z0-9]+")
_QUOTES = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "\u00a0": " ", "\u200b": "", "`": "'"})
_COMMON = frozenset(
    _WORD.findall(
        "about after also although among another because been before being between both could did does during each "
        "from had has have having her here him his how into its itself made make many more most much must not of off "
        "one only other our out over same she should since some such than that the their them then there these they "
        "this those through under until upon very was were what when where which while who whom whose will with within "
        "without would you your and are but for its may nor not now own per too two use used via yet"
    )
)


def paragraphs(text: str, *, book: bool) -> list[str]:
    """The lines that are made of sentences."""
    lines = (_EMPTY.sub("", line).strip() for line in text.translate(_QUOTES).split("\n"))
    return [" ".join(line.split()) for line in lines if is_plain(line, fewest=3 if book else 9)]


def is_plain(line: str, *, fewest: int) -> bool:
    """Whether a line is a paragraph of sentences without holes, tables and other alphabets."""
    if len(line.split()) < fewest or not _END.search(line) or _HOLE.search(line):
        return False
    digits = sum(map(str.isdigit, line))
    strange = sum(not character.isascii() and character not in "–—é£" for character in line)
    return digits < 0.08 * len(line) and strange < 0.02 * len(line) and (line[0].isupper() or line[0] in "\"'(")


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower())


class Measured:
    """The runs of eight words of texts that are measured on."""

    def __init__(self, texts: Iterable[str]) -> None:
        split = list(map(words_of, texts))
        self.runs = {tuple(words[i : i + RUN]) for words in split for i in range(len(words) - RUN + 1)}
        self.ends = {(run[0], run[-1]) for run in self.runs}  # a look at two words spares most of the others

    def overlaps(self, text: str) -> bool:
        words = words_of(text)
        pairs = zip(words, words[RUN - 1 :], strict=False)
        return any(pair in self.ends and tuple(words[i : i + RUN]) in self.runs for i, pair in enumerate(pairs))


def passages(document: list[str], draw: random.Random) -> Iterator[str]:
    """Neighbouring paragraphs, put together up to a length that is drawn."""
    held: list[str] = []
    wanted = draw.uniform(*PASSAGE)
    for paragraph in document:
        if held and sum(map(len, held)) + len(paragraph) > wanted:
            yield "\n".join(held)
            held, wanted = [], draw.uniform(*PASSAGE)
        held.append(paragraph)
    if held:
        yield "\n".join(held)


def summary(passage: str) -> str | None:
    """The sentences that share most words with the others, shortened; none where none stands by itself."""
    sentences = [" ".join(one.split()) for one in split_sentences(passage)]
    if len(sentences) < 3:
        return None
    content = [{word for word in words_of(one) if len(word) > 2 and word not in _COMMON} for one in sentences]
    counts = Counter(word for found in content for word in found)
    scores: dict[int, float] = {}
    for i, (sentence, own) in enumerate(zip(sentences, content, strict=True)):
        size, left = (len(one.split()) for one in (sentence, shortened(sentence)))
        if size > WORDS[1] or left < WORDS[0] or _LEANS.match(_FIRST.sub("", sentence)) or not own:
            continue
        shared = sum(counts[word] > 1 for word in own)
        rest = len(counts) - (len(own) - shared)
        found = 2 * shared / (len(own) + rest)  # F1 of the words, as PEGASUS has it (Zhang et al. 2020)
        scores[i] = found * (1.3 if i == 0 else 1.0)  # what a text begins with is mostly what it is about
    if not scores:
        return None
    best = sorted(scores, key=scores.__getitem__, reverse=True)[: 2 if len(passage) >= SECOND else 1]
    return " ".join(shortened(sentences[i]) for i in sorted(best))


def shortened(sentence: str) -> str:
    """Without what stands in brackets, and without the word that ties it to the sentence before."""
    plain = _FIRST.sub("", _PARENTHESES.sub("", sentence))
    return plain[:1].upper() + plain[1:]


def share_of(text: str, salt: str) -> float:
    """A number in [0, 1) that depends on the text alone."""
    return int(hashlib.sha256((salt + text[:2000]).encode()).hexdigest()[:8], 16) / 2**32


MEASURED = Measured(())  # of each process of the pool


def keep_measured(measured: Measured) -> None:
    """Tell a process what is measured on: once, since that takes seconds."""
    vars(MEASURED).update(vars(measured))


def clean(task: tuple[Path, int, Path, float]) -> Counter[str]:
    """Write one part of one file of the corpus; count what was kept."""
    path, part, out, share = task
    told: Counter[str] = Counter()
    stem = f"{path.name.split('.')[0]}-{part}"
    names = {kind: out / kind / f"{stem}.jsonl" for kind in ("plain", "held-out", "summaries", "following")}
    files = {kind: name.with_suffix(".tmp").open("w", encoding="utf-8") for kind, name in names.items()}

    def write(kind: str, row: Row) -> None:
        files[kind].write(json.dumps(row, ensure_ascii=False) + "\n")
        told[kind] += 1

    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number % PARTS != part or (number // PARTS) % 1000 >= 1000 * share:
                continue
            row = json.loads(line)
            book = row["source"] == "classic-books"
            told["documents"] += 1
            document = paragraphs(row["text"], book=book)
            free = [one for one in document if not MEASURED.overlaps(one)]
            told["paragraphs that are measured on"] += len(document) - len(free)
            text = "\n".join(free)
            if len(document) - len(free) > 2 or len(text) < 200:
                told["documents left out"] += 1  # an article of the measured ones, or hardly any text
                continue
            told["characters"] += len(text)
            draw = random.Random(share_of(text, "passages"))
            if share_of(text, "held-out") < HELD_OUT / share:  # a rehearsal holds out as much
                write("held-out", {"text": text})
            elif not book and draw.random() < SUMMARISED:
                for passage in passages(free, draw):
                    short = summary(passage) if len(passage) >= PASSAGE[0] // 2 else None
                    asked = f"{passage}{TLDR}"
                    write("plain", {"text": passage if short is None else f"{asked}\n{short}"})
                    if short is not None and len(passage) <= PASSAGE[1]:
                        write("summaries", {"prompt": asked, "answer": short})
            else:
                write("plain", {"text": text})
                if len(free) > 1:
                    at = draw.randrange(len(free) - 1)
                    first, second = free[at], free[at + 1]
                    if len(first) + len(second) < PASSAGE[1]:
                        write("following", {"prompt": first, "answer": second})
    for kind, file in files.items():
        file.close()
        names[kind].with_suffix(".tmp").replace(names[kind])
    return told


def bbc(data: Path) -> tuple[list[Row], list[Row]]:
    """Articles without their headlines, with their summaries: to learn from, and held out."""
    path = data / "bbc_news_summary/all.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    rows = [{"text": row["article"].split("\n", 1)[1].strip(), "summary": row["summary"]} for row in rows]
    return (
        [row for i, row in enumerate(rows) if i % BBC_HELD_OUT],
        [row for i, row in enumerate(rows) if not i % BBC_HELD_OUT],
    )


def scitldr(data: Path, name: str) -> list[Row]:
    rows = map(json.loads, (data / f"scitldr/{name}.jsonl").read_text("utf-8").splitlines())
    return [{"text": " ".join(row["source"]), "summaries": row["target"]} for row in rows]


def learnt_summaries(data: Path, measured: Measured, draw: random.Random) -> Iterator[Row]:
    """Rows of SciTLDR's and the BBC's training parts, as far as they share nothing with what is measured."""
    for row in scitldr(data, "train"):
        if not measured.overlaps(row["text"]):
            for _ in range(SCITLDR_TIMES):
                yield {"prompt": row["text"][: PASSAGE[1]] + TLDR, "answer": draw.choice(row["summaries"]).strip()}
    for row in bbc(data)[0]:
        if measured.overlaps(row["text"]):
            continue
        lines = [" ".join(line.split()) for line in row["text"].split("\n") if line.strip()]
        for passage in passages(lines, draw):
            said = [" ".join(one.split()) for one in split_sentences(passage)]
            chosen = [one for one in said if one in row["summary"] and len(shortened(one).split()) >= WORDS[0]]
            if chosen and len(passage) <= PASSAGE[1]:
                answer = " ".join(shortened(one) for one in chosen[: 2 if len(passage) >= SECOND else 1])
                yield {"prompt": passage + TLDR, "answer": answer}


def read(folder: Path) -> list[Row]:
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.open(encoding="utf-8")]


def write_rows(rows: Iterable[Row], path: Path) -> int:
    listed = list(rows)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in listed), "utf-8")
    return len(listed)


def main() -> None:
    asked = argparse.ArgumentParser()
    for name in ("corpus", "data", "out"):
        asked.add_argument(name, type=Path)
    asked.add_argument("--share", type=float, default=1.0, help="of the corpus, for a rehearsal")
    given = asked.parse_args()
    out, draw = given.out, random.Random(0)
    for kind in ("plain", "held-out", "summaries", "following"):
        (out / kind).mkdir(parents=True, exist_ok=True)
    tests, held_out = scitldr(given.data, "test"), bbc(given.data)[1]
    texts = [(given.data / f"wikitext-2/{name}.txt").read_text("utf-8") for name in ("valid", "test")]
    texts += [row["text"] for row in [*tests, *scitldr(given.data, "dev"), *held_out]]
    measured = Measured(line for text in texts for line in text.split("\n"))
    files = sorted(given.corpus.glob("part-*.jsonl.xz"))
    tasks = [(path, part, out, given.share) for path in files for part in range(PARTS)]
    with Pool(min(len(tasks), os.cpu_count() or 1), keep_measured, (measured,)) as pool:
        told = sum(pool.imap_unordered(clean, tasks, chunksize=1), Counter())
    told["held-out documents"] = write_rows(read(out / "held-out"), out / "held-out.jsonl")
    summaries, following = read(out / "summaries"), read(out / "following")
    draw.shuffle(summaries)
    draw.shuffle(following)
    ratio = min(len(summaries) / INSTRUCT, 1.0)  # a rehearsal has fewer, and keeps the mixture
    public = list(learnt_summaries(given.data, measured, draw))
    draw.shuffle(public)
    rows = [*summaries[:INSTRUCT], *following[: int(ratio * PLAIN)], *public[: int(ratio * len(public))]]
    draw.shuffle(rows)
    told["rows of instruct"], told["of them SciTLDR's and the BBC's"] = (
        write_rows(rows, out / "instruct.jsonl"),
        len(public),
    )
    write_rows(held_out, out / "bbc.jsonl")
    write_rows(tests, out / "scitldr.jsonl")
    for name, count in told.items():
        print(f"{name:<32} {count:,}")


if __name__ == "__main__":
    main()
