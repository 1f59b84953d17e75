"""Documents out of files as people have them: text in any usual encoding, HTML, PDF, tables, JSON lines; packed or not.

What cannot be read is an error if it is all there is; among other files it is told, and left out.
"""

import codecs
import csv
import io
import json
import logging
import math
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from clearhead.data.tables import TEXTS
from clearhead.errors import BadInput, ClearheadError, NotFound, require, valid_text
from clearhead.io import content_suffix, decompressed, optional, text_field

Tell = Callable[[str], object]  # is told a sentence: what was left out, or guessed
Refuse = Callable[[ClearheadError], None]
Item = TypeVar("Item")

_HEAD = 1 << 13  # bytes by which a file is known
_MARKS = {  # UTF-32's begins as UTF-16's does
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8-sig",
}
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_TOLD = 20  # of what cannot be read; then the rest is counted
_NAMED = 3  # kinds of files that are named, where many are left out
_LARGEST = 2**53  # beyond it numbers are not exact everywhere, and are kept as they are written
_HEADER_CELL = 60  # characters that the name of a column has at most


@dataclass(frozen=True, slots=True)
class Document:
    """A text, and where it comes from: a file, or a file and a line; and what else is known of it, to filter by."""

    text: str
    source: str
    metadata: Mapping[str, str | int | float | bool] = field(default_factory=dict, hash=False)


def _warn(sentence: str) -> None:
    warnings.warn(sentence, stacklevel=2)


def read_documents(names: Iterable[str | Path], tell: Tell = _warn) -> Iterator[Document]:
    """The documents of files and folders, in order; a folder's files by name, its folders' too, if their kind is known.

    A line of .jsonl is an object with "text"; its source is its "id" if it has one, else the file and the line; what
    else it says (strings, numbers, true, false) is its metadata. So is a row of .csv and .tsv: its column "text" (or
    "review", "message", …), else all its columns. Of HTML and PDF, what a reader sees. `tell` is told what was left
    out, and which encoding was guessed.

    >>> from clearhead.data.documents import read_documents
    >>> [one.source for one in read_documents(["notes.md"])]
    ['notes.md']
    """
    return (one for _, one in _each(names, _documents, tell))


def read_by_line(names: Iterable[str | Path], tell: Tell = _warn) -> Iterator[tuple[str, int, str]]:
    """Every line of text, or row of a table: its file, the line's number from 1, its text.

    They come as they are read, so that memory does not grow with a file; but for tables, HTML and PDF.

    >>> from clearhead.data.documents import read_by_line
    >>> next(read_by_line(["notes.md"]))
    ('notes.md', 1, '# Notes')
    """
    return ((str(file), *one) for file, one in _each(names, _numbered, tell))


def _each(
    names: Iterable[str | Path], read: Callable[[Path, Tell, Refuse], Iterator[Item]], tell: Tell
) -> Iterator[tuple[Path, Item]]:
    """Read file after file; what cannot be read is told, unless nothing else is there."""
    files = find_files(names, tell)
    wrongs: list[ClearheadError] = []

    def refuse(wrong: ClearheadError) -> None:
        if len(files) == 1:
            raise wrong
        wrongs.append(wrong)
        if len(wrongs) <= _TOLD:
            tell(f"left out: {wrong}")

    read_any = False
    for file in files:
        try:
            for item in read(file, tell, refuse):
                read_any = True
                yield file, item
        except ClearheadError as wrong:
            refuse(wrong)
    if len(wrongs) > _TOLD:
        tell(f"left out {len(wrongs) - _TOLD:,} more that cannot be read, {len(wrongs):,} in all")
    if wrongs and not read_any:
        raise BadInput(f"none of the {len(files):,} files can be read; the first: {wrongs[0]}")


def find_files(names: Iterable[str | Path], tell: Tell = _warn) -> list[Path]:
    """The files that are named, and of folders those whose kind is known; hidden ones are passed over."""
    found: list[Path] = []
    for path in map(Path, names):
        if not path.is_dir():
            require(path.exists(), f"There is no file {path}; check the name.", NotFound)
            found.append(path)
            continue
        inside = sorted(one for one in path.rglob("*") if one.is_file() and not _is_hidden(one.relative_to(path)))
        known = [one for one in inside if content_suffix(one).lower() in SUFFIXES]
        endings = ", ".join(sorted(filter(None, SUFFIXES)))
        require(bool(known), f"{path} holds no file that ends in {endings}; name the files themselves", NotFound)
        others = Counter(one.suffix for one in inside if content_suffix(one).lower() not in SUFFIXES)
        if others:
            named = [ending for ending, _ in others.most_common(_NAMED)]
            kinds = ", ".join(named if len(others) <= _NAMED else [*named, "…"])
            tell(f"left out {others.total():,} of the files in {path}, whose kinds are not read: {kinds}")
        found += known
    return found


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _documents(file: Path, tell: Tell, refuse: Refuse) -> Iterator[Document]:
    with decompressed(file) as (_, content):
        records = _RECORDS.get(content_suffix(file).lower())
        if records is None:
            yield Document(_text(file, content, tell), str(file))
            return
        for number, text, name, metadata in records(file, content, tell, refuse):
            yield Document(text, f"{file}:{number}" if name is None else name, metadata)


def _numbered(file: Path, tell: Tell, refuse: Refuse) -> Iterator[tuple[int, str]]:
    with decompressed(file) as (_, content):
        ending = content_suffix(file).lower()
        if ending in _RECORDS:
            for number, text, *_ in _RECORDS[ending](file, content, tell, refuse):
                yield number, text
        elif ending in _EXTRACTED or _is_pdf(head := _peek(content)) or _is_html(head, ending):
            yield from enumerate(_text(file, content, tell).split("\n"), start=1)
        else:
            yield from enumerate(decoded_lines(content, str(file), tell), start=1)


# ---- bytes to text ------------------------------------------------------------------------------------------------


def decoded(content: bytes, name: str, tell: Tell, declared: str | None = None) -> str:
    """Text out of bytes: by their mark, else UTF-8, else as `declared`, else as Windows writes Western Europe."""
    encoding = _marked(content, name)
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as wrong:
        require(encoding == "utf-8", f"{name} says that it is {encoding.upper()}, and is not; convert it", BadInput)
        at = wrong.start
    if declared is not None:
        try:
            return content.decode(declared)
        except (LookupError, UnicodeDecodeError):
            pass
    tell(f"{name} is not UTF-8 (byte {at:,}); it is read as Windows-1252")
    return _western(content)


def decoded_lines(content: Any, name: str, tell: Tell) -> Iterator[str]:
    """The lines of a stream of bytes, decoded one by one: \\n, \\r\\n or \\r ends one, as an editor has it."""
    content = content if hasattr(content, "peek") else io.BufferedReader(content)
    encoding = _marked(_peek(content), name)
    if encoding.startswith(("utf-16", "utf-32")):
        stream = io.TextIOWrapper(content, encoding=encoding)
        try:
            yield from (line.removesuffix("\n") for line in stream)
        except UnicodeError:
            raise BadInput(f"{name} says that it is {encoding.upper()}, and is not; convert it") from None
        finally:
            stream.detach()
        return
    told = False
    for number, raw in enumerate(content, start=1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            if not told:
                tell(f"{name} is not UTF-8 (line {number:,}); what is not is read as Windows-1252")
            told, line = True, _western(raw)
        line = line.removesuffix("\n").removesuffix("\r")
        yield from line.split("\r") if "\r" in line else (line,)


def _peek(content: Any) -> bytes:
    """The first bytes of a stream, which stay in it."""
    return bytes(content.peek(_HEAD)[:_HEAD])


def _marked(head: bytes, name: str) -> str:
    """The encoding that the first bytes say; refuse what is no text."""
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    found = _NO_TEXT.search(head[:_HEAD])
    zipped = " (a .docx, .odt or .zip?)" if head.startswith(b"PK\x03\x04") else ""
    require(found is None, f"{name} is no text{zipped}: it holds bytes that no text has; convert it first", BadInput)
    return "utf-8"


def _western(content: bytes) -> str:
    """Windows-1252, whose five free places are those of latin-1."""
    try:
        return content.decode("cp1252")
    except UnicodeDecodeError:
        return content.decode("latin-1").translate(_WINDOWS)


_WINDOWS = {code: bytes([code]).decode("cp1252", "ignore") or chr(code) for code in range(128, 160)}

# ---- what a reader of HTML and PDF sees ---------------------------------------------------------------------------


def _text(file: Path, content: BinaryIO, tell: Tell) -> str:
    ending, held = content_suffix(file).lower(), content.read()
    if _is_pdf(held):
        return _pdf_text(file, held)
    require(ending != ".pdf", f"{file} is no PDF; it does not begin as one", BadInput)
    if not _is_html(held, ending):
        return decoded(held, str(file), tell)
    declared = _CHARSET.search(held, 0, _HEAD)
    return html_text(decoded(held, str(file), tell, declared and declared[1].decode("ascii", "replace")))


_CHARSET = re.compile(rb"""<meta[^>]*?charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)
_HTML = re.compile(rb"\s*(?:<!--.*?-->\s*)?(?:<!doctype\s+html|<html)", re.IGNORECASE | re.DOTALL)


def _is_html(head: bytes, ending: str) -> bool:
    """By the ending, or of an ending that says nothing by how it begins."""
    unknown = not ending or ending not in SUFFIXES
    return ending in _EXTRACTED or (unknown and _HTML.match(head, 0, _HEAD) is not None)


def _is_pdf(head: bytes) -> bool:
    return head.startswith(b"%PDF-")


def html_text(page: str) -> str:
    """What a reader sees of a page: paragraphs apart by blank lines, without scripts, styles and menus.

    >>> from clearhead.data.documents import html_text
    >>> html_text("<nav>Home</nav><h1>Dogs</h1><script>bark()</script><p>They <b>bark</b> &amp; run.</p>")
    'Dogs\\n\\nThey bark & run.'
    """
    for left_out in (_UNSEEN | _MENUS, _UNSEEN):  # a menu that never ends would take the page with it
        parser = _Page(left_out)
        parser.feed(page)
        parser.close()
        if parser.parts:
            break
    return valid_text("".join(parser.parts).strip())


_UNSEEN = frozenset({"script", "style", "template", "noscript", "svg", "iframe", "object", "select", "button"})
_MENUS = frozenset({"nav"})
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6", "header", "summary", "title"})
_APART = _HEADINGS | {"address", "article", "aside", "blockquote", "body", "details", "div", "dl", "fieldset", "figure"}
_APART |= {"footer", "form", "hr", "main", "ol", "p", "pre", "section", "table", "ul"}
_LINES = frozenset({"br", "caption", "dd", "dt", "figcaption", "legend", "li", "option", "tr"})
_CELLS = frozenset({"td", "th"})


class _Page(HTMLParser):
    """Collects the text of a page; what is between two texts is decided when the second comes."""

    def __init__(self, left_out: frozenset[str]) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._left_out = left_out
        self._within: list[str] = []  # elements that are left out and still open
        self._gap = ""
        self._kept = 0  # depth of <pre>

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag in self._left_out:
            self._within.append(tag)
        self._kept += tag == "pre"
        self._part(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._within:
            while self._within.pop() != tag:
                pass
        self._kept -= tag == "pre" and self._kept > 0
        self._part(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self._part(tag)  # <script/> holds nothing

    def _part(self, tag: str) -> None:
        gap = "\n\n" if tag in _APART else "\n" if tag in _LINES else " " if tag in _CELLS else ""
        self._gap = max(self._gap, gap, key=_WIDTHS.__getitem__)

    def handle_data(self, data: str) -> None:
        if self._within:
            return
        text = data if self._kept else _SPACE.sub(" ", data)
        if not text.strip():
            self._gap = self._gap or (" " if text else "")
            return
        if not self._kept:
            if text[0] == " ":
                self._gap = self._gap or " "
            self.parts += (self._gap if self.parts else "", text.strip(" "))
            self._gap = " " if text[-1] == " " else ""
        else:
            self.parts += (self._gap if self.parts else "", text.rstrip())
            self._gap = "\n" if text[-1:].isspace() else ""


_WIDTHS = {"": 0, " ": 1, "\n": 2, "\n\n": 3}
_SPACE = re.compile(r"[ \t\n\r\f]+")


def _pdf_text(file: Path, held: bytes) -> str:
    library = optional("pypdf", f"reading {file.name}", "pdf")
    log = logging.getLogger("pypdf")  # which speaks of every flaw that it mends
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        pages = [page.extract_text() for page in library.PdfReader(io.BytesIO(held)).pages]
    except Exception as wrong:  # of a damaged file it raises whatever comes
        raise BadInput(f"{file} cannot be read as PDF ({type(wrong).__name__}: {wrong}).") from None
    finally:
        log.setLevel(before)
    text = valid_text("\n\n".join(map(str.strip, pages)).strip())
    require(bool(text), f"{file} holds no text, only pictures of pages; recognise its text (OCR) first", BadInput)
    return text


# ---- a document a line --------------------------------------------------------------------------------------------

Metadata = dict[str, str | int | float | bool]
# the line's number, the text, its own name if it has one, and what else it says
Record = tuple[int, str, str | None, Metadata]


def _json_lines(file: Path, content: BinaryIO, tell: Tell, refuse: Refuse) -> Iterator[Record]:
    for number, line in enumerate(decoded_lines(content, str(file), tell), start=1):
        if line.strip():
            where = f"{file}, line {number}"
            try:
                text, held = text_field(line, "text", where), json.loads(line)
                name = held.get("id")
                fits = name is None or isinstance(name, str | int)
                require(fits, f'{where} has an "id" that is no string or number.', BadInput)
            except BadInput as wrong:
                refuse(wrong)
                continue
            known = {key: one for key, one in held.items() if key not in ("text", "id") and _is_scalar(one)}
            yield number, text, None if name is None else str(name), known


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def _rows(file: Path, content: BinaryIO, tell: Tell, refuse: Refuse) -> Iterator[Record]:
    text = decoded(content.read(), str(file), tell)
    first = text[: text.find("\n")]
    tabs = content_suffix(file).lower() == ".tsv"
    parted = "\t" if tabs else max(",;\t|", key=first.count)
    before = csv.field_size_limit(sys.maxsize)  # the limit belongs to the whole process: it is put back
    try:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=parted, quoting=csv.QUOTE_NONE if tabs else 0)
        columns: list[str] | None = None
        line = 1
        for row in rows:
            number, line = line, rows.line_num + 1
            if columns is None:
                columns = row if all(map(_is_name, row)) else []
                if columns:
                    continue
            record = _row(row, columns)
            if record is not None:
                yield number, *record
    except csv.Error as wrong:
        raise BadInput(f"{file}, line {rows.line_num} is not csv ({wrong}).") from None
    finally:
        csv.field_size_limit(before)


def _is_name(cell: str) -> bool:
    """Whether a cell may be the name of a column."""
    return 0 < len(cell.strip()) <= _HEADER_CELL and not cell.strip()[0].isdigit()


def _row(cells: list[str], columns: list[str]) -> tuple[str, str | None, Metadata] | None:
    """The text and the name of a row, and its other columns; none of an empty one."""
    named = dict(zip((column.strip().lower() for column in columns), cells, strict=False))
    column = next((name for name in TEXTS if name in named), None)
    known: Metadata = {}
    if column is not None:
        text = named[column]
        others = {name: cell.strip() for name, cell in named.items() if name not in (column, "id") and cell.strip()}
        known = {name: _value(valid_text(cell)) for name, cell in others.items()}
    elif columns:
        text = "\n".join(f"{name.strip()}: {cell}" for name, cell in zip(columns, cells, strict=False) if cell.strip())
    else:
        text = "\n".join(filter(str.strip, cells))
    return (valid_text(text), named.get("id") or None, known) if text.strip() else None


def _value(cell: str) -> str | int | float:
    """A number, where it is written as JSON writes it, so that 007 is none."""
    try:
        found = json.loads(cell, parse_constant=str)
    except (ValueError, RecursionError):
        return cell
    return found if type(found) in (int, float) and abs(found) < _LARGEST else cell


_RECORDS: dict[str, Callable[[Path, BinaryIO, Tell, Refuse], Iterator[Record]]] = {
    ".jsonl": _json_lines,
    ".csv": _rows,
    ".tsv": _rows,
}
_EXTRACTED = (".html", ".htm", ".xhtml", ".pdf")
SUFFIXES = frozenset({"", ".txt", ".text", ".md", ".markdown", ".rst", ".log", *_RECORDS, *_EXTRACTED})
