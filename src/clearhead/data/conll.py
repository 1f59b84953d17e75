"""CoNLL's column files: a word with its tags on each line, sentences parted by blank lines, documents by -DOCSTART-."""

from collections.abc import Sequence
from pathlib import Path

from clearhead.data.examples import WordsExample
from clearhead.errors import BadInput, require
from clearhead.text.streams import read_lines

_DOCUMENT = "-DOCSTART-"


def read_conll(path: str | Path, *, iob2: bool = False) -> list[WordsExample]:
    """Read sentences: the word is in the first column, the tag in the last; tabs or spaces part them.

    Tags stay as they are, IOB1 or IOB2, unless `iob2` asks for B- at the start of every entity.
    """
    sentences: list[WordsExample] = []
    words: list[str] = []
    tags: list[str] = []
    width: int | None = None
    opens = False

    def finish() -> None:
        nonlocal opens
        if words:
            sentences.append(WordsExample(tuple(words), tuple(to_iob2(tags) if iob2 else tags), opens))
            opens = False
            words.clear()
            tags.clear()

    for number, line in enumerate(read_lines(Path(path)), start=1):
        fields = line.split("\t") if "\t" in line else line.split()
        if not line.strip() or fields[0] == _DOCUMENT:
            finish()
            opens = opens or fields[:1] == [_DOCUMENT]
            continue
        where = f"{path}, line {number}"
        width = width or len(fields)
        require(len(fields) == width, f"{where} has {len(fields)} columns, not {width} as before.", BadInput)
        require(bool(fields[0] and fields[-1]), f"{where} has an empty word or tag.", BadInput)
        words.append(fields[0])
        tags.append(fields[-1])
    finish()
    require(bool(sentences), f"{path} has no sentences.", BadInput)
    return sentences


def join_documents(sentences: Sequence[WordsExample]) -> list[WordsExample]:
    """Make one example of all sentences of a document, so that each word is seen in its context (as BERT's NER did)."""
    require(
        any(sentence.opens for sentence in sentences),
        f"none of these sentences opens a document; {_DOCUMENT} lines of a CoNLL file say where one begins",
        BadInput,
    )
    documents: list[list[WordsExample]] = []
    for sentence in sentences:
        if sentence.opens or not documents:
            documents.append([])
        documents[-1].append(sentence)
    return [_joined(document) for document in documents]


def _joined(document: list[WordsExample]) -> WordsExample:
    return WordsExample(
        words=tuple(word for sentence in document for word in sentence.words),
        tags=tuple(tag for sentence in document for tag in sentence.tags or ()),
        opens=True,
        sentences=tuple(len(sentence.words) for sentence in document),
    )


def to_iob2(tags: list[str]) -> list[str]:
    """Write every first tag of an entity with B-; IOB1 does so only between neighbours of the same type."""
    found: list[str] = []
    before = "O"
    for tag in tags:
        starts = tag.startswith("I-") and (before == "O" or before[2:] != tag[2:])
        found.append(f"B-{tag[2:]}" if starts else tag)
        before = tag
    return found
