"""A corpus as token ids on disk: memory-mapped shards, written once, resumed after a kill."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from clearhead.data.batch import Ints, Item, chunks
from clearhead.data.corpus import Corpus
from clearhead.data.rng import Stream, rng
from clearhead.errors import BadConfig, BadInput, ClearheadError, NotFound, require, typed
from clearhead.io import Progress, naming, read_object, staged, write_json
from clearhead.text.encoding import Special, TemplateItems
from clearhead.text.sentences import split_sentences
from clearhead.text.tokenizer import Tokenizer

MANIFEST = "manifest.json"
PARTS = ("tokens", "sentences", "documents")
SPLITS = ("train", "validation")
_FEW, _PARTS, _SENTENCES = 3, 100, 8  # so few documents are cut into so many parts, if they have as many sentences


class Shards:
    """The shards of a folder seen as one corpus: tokens, sentences and documents are numbered through.

    Sentence s is tokens[sentences[s] : sentences[s + 1]], document d is sentences documents[d] up to documents[d + 1].
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest = read_manifest(self.folder)
        complete = self.manifest.get("complete") is True
        todo = "Start it again, it will go on"
        require(complete, f"{folder} holds no complete corpus: tokenising did not end. {todo}.", NotFound)
        counts: list[dict[str, int]] = self.manifest["shards"]
        self._bases = _cumulative([shard["tokens"] for shard in counts])
        self._parts = [[_open_array(self.folder, i, part) for part in PARTS] for i in range(len(counts))]
        for shard, parts in zip(counts, self._parts, strict=True):
            fits = [shard["tokens"], shard["sentences"] + 1, shard["documents"] + 1] == [len(part) for part in parts]
            require(fits, f"The shards in {folder} do not fit their manifest; delete the folder.", BadInput)

    @property
    def tokens(self) -> int:
        """How many tokens there are, without special tokens."""
        return int(self._bases[-1])

    @cached_property
    def sentences(self) -> Ints:
        """Where each sentence starts among the tokens, and where the last one ends."""
        return _joined([sentences for _, sentences, _ in self._parts], self._bases)

    @cached_property
    def documents(self) -> Ints:
        """With which sentence each document starts, and with which the last one ends."""
        bases = _cumulative([len(sentences) - 1 for _, sentences, _ in self._parts])
        return _joined([documents for _, _, documents in self._parts], bases)

    @cached_property
    def document_starts(self) -> Ints:
        """Where each document starts among the tokens, and where the last one ends."""
        return _joined([sentences[documents] for _, sentences, documents in self._parts], self._bases)

    def split(self, name: str, share: float) -> Ints:
        """Give the numbers of the documents of "train" or "validation", whose share of all is the same in every run."""
        require(name in SPLITS, f"There is no split {name!r}; choose {' or '.join(SPLITS)}.", BadInput)
        require(0 <= share < 1, f"The validation share is {share}; it must be from 0 to less than 1.", BadInput)
        count = len(self.document_starts) - 1
        # two at least, where there are enough, because a false pair needs another document
        size = min(max(round(share * count), 2 if count > 3 else 1), count - 1) if share else 0
        order = rng(Stream.VALIDATION_SPLIT).permutation(count)
        found = np.sort(order[:size] if name == "validation" else order[size:])
        todo = "give more documents, or another validation share"
        require(len(found) > 0, f"The split {name!r} of {count} documents is empty; {todo}.", BadInput)
        return found

    def in_parts(self) -> Self:
        """The same corpus; where it has very few documents, their parts are the documents.

        Some text can be held out then, and another document found for a false pair. Parts are of sentences; a document
        that has hardly any, such as a list or a program, is cut anywhere.
        """
        documents, sentences = self.documents, self.sentences
        if len(documents) - 1 > _FEW:
            return self
        if len(documents) == 2 and len(sentences) - 1 < _SENTENCES:
            sentences = np.unique(np.linspace(0, self.tokens, 2 * _PARTS + 1).astype(np.int64))
            documents = np.array([0, len(sentences) - 1])
        parts = min(_PARTS, (len(sentences) - 1) // 2)
        cut = copy(self)
        cut.sentences = sentences
        cut.documents = np.union1d(documents, np.linspace(0, len(sentences) - 1, parts + 1).astype(np.int64))
        cut.document_starts = sentences[cut.documents]
        return cut

    def gather(self, starts: Ints, lengths: Ints) -> Ints:
        """Read runs of tokens, each within one document, and put them end to end."""
        ends = np.cumsum(lengths)
        out = np.empty(ends[-1] if len(ends) else 0, dtype=np.int64)
        # an empty run may lie at the very end, behind the last shard
        shard = np.searchsorted(self._bases[1:-1], starts, side="right")
        by_shard = np.argsort(shard, kind="stable")
        borders = np.searchsorted(shard[by_shard], np.arange(len(self._parts) + 1))
        for i in np.unique(shard):
            runs = by_shard[borders[i] : borders[i + 1]]
            steps = positions_within(lengths[runs])
            source = np.repeat(starts[runs] - self._bases[i], lengths[runs]) + steps
            out[np.repeat(ends[runs] - lengths[runs], lengths[runs]) + steps] = self._parts[i][0][source]
        return out


def positions_within(lengths: Ints) -> Ints:
    """Count 0, 1, 2 … within each run of these lengths."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder of shards."""
    there = (folder / MANIFEST).exists()
    require(there, f"{folder} holds no shards ({MANIFEST} is not there); tokenise a corpus into it.", NotFound)
    manifest = read_object(folder / MANIFEST, BadInput)
    wanted = {"made_of": dict[str, Any], "complete": bool, "shards": list[dict[str, int]]}
    try:
        for name, hint in wanted.items():
            typed(manifest.get(name), hint, f"{folder / MANIFEST}: {name}")
    except BadConfig as error:
        raise BadInput(f"{error}; delete the folder and tokenise again.") from None
    whole = all({"tokens", "sentences", "documents", "read"} <= shard.keys() for shard in manifest["shards"])
    require(whole, f"{folder / MANIFEST} does not say what a shard holds; delete the folder.", BadInput)
    return manifest


def file_name(shard: int, part: str) -> str:
    """Name the file of one part of a shard."""
    return f"{shard:05d}.{part}.npy"


def _open_array(folder: Path, shard: int, part: str) -> NDArray[Any]:
    path = folder / file_name(shard, part)
    try:
        return np.load(path, mmap_mode="r")
    except FileNotFoundError:
        raise NotFound(f"{path} is missing; delete the folder and tokenise again.") from None
    except (ValueError, EOFError) as error:
        raise BadInput(f"{path} is damaged ({error}); delete the folder and tokenise again.") from None


def _cumulative(counts: Sequence[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


def _joined(starts: list[NDArray[Any]], bases: Ints) -> Ints:
    inner = [part[:-1].astype(np.int64) + base for part, base in zip(starts, bases[:-1], strict=True)]
    return np.concatenate([*inner, bases[-1:]])


_VERSION = 1  # of the folder and of the sentence rules
_SHARD_TOKENS = 1 << 24
_CHARACTERS = 2_000_000  # given to the tokenizer at once

# the tokens of a document and the lengths of its sentences
Document = tuple[NDArray[Any], NDArray[Any]]


def tokenise(
    corpus: Corpus,
    tokenizer: Tokenizer,
    folder: str | Path,
    *,
    shard_tokens: int = _SHARD_TOKENS,
    progress: Progress | None = None,
) -> Shards:
    """Tokenise a corpus into a folder, or go on with it, or find it done; `progress` is told of bytes read.

    One that `clearhead bulk tokenize` has tokenised already is only put together, to the same bytes.
    What the folder held of another corpus or tokenizer is replaced. A hub data set is known by its name alone.
    """
    folder = Path(folder)
    fingerprint = _fingerprint(corpus, tokenizer, shard_tokens)
    manifest = _earlier_manifest(folder, fingerprint)
    if manifest is None:
        _clear(folder)
        manifest = {"made_of": fingerprint, "complete": False, "shards": []}
    if not manifest["complete"]:
        read = sum(shard["read"] for shard in manifest["shards"])
        if (made_of := corpus.tokenised) is None:
            found = tokenised(itertools.islice(corpus.documents(progress), read, None), tokenizer)
        else:
            told = (
                "the corpus was tokenised with another tokenizer; name the one it was made with, or tokenise it again"
            )
            require(made_of == tokenizer.digest, told, BadInput)
            found = itertools.islice(corpus.tokens(progress), read, None)
        # up to the document that fills a shard: which ones does not depend on where a run began
        for documents in chunks(found, shard_tokens, lambda document: len(document[0])):
            _write(folder, manifest, documents, _dtype(tokenizer))
        require(bool(manifest["shards"]), "The corpus holds no words; give files with text in them.", BadInput)
        manifest["complete"] = True
        with staged(folder, own=True) as stage:
            _write_manifest(stage, manifest)
    elif progress is not None:
        progress(corpus.size)
    return Shards(folder)


def find_shards(corpus: Corpus, tokenizer: Tokenizer, folder: str | Path) -> Shards | None:
    """The shards of this corpus and tokenizer, if a folder holds them complete."""
    manifest = _earlier_manifest(Path(folder), _fingerprint(corpus, tokenizer, _SHARD_TOKENS))
    return Shards(folder) if manifest is not None and manifest["complete"] else None


def _fingerprint(corpus: Corpus, tokenizer: Tokenizer, shard_tokens: int) -> dict[str, Any]:
    made = {"version": _VERSION, "tokenizer": tokenizer.digest, "shard_tokens": shard_tokens}
    return {**made, "field": corpus.field, "sources": corpus.digests}


def _earlier_manifest(folder: Path, fingerprint: dict[str, Any]) -> dict[str, Any] | None:
    """The manifest of an earlier run of the same corpus and tokenizer, if there is one."""
    try:
        manifest = read_manifest(folder)
    except ClearheadError:
        return None
    files = [folder / file_name(i, part) for i in range(len(manifest.get("shards", []))) for part in PARTS]
    return manifest if manifest.get("made_of") == fingerprint and all(file.exists() for file in files) else None


def _clear(folder: Path) -> None:
    (folder / MANIFEST).unlink(missing_ok=True)  # first, so that a kill leaves nothing that looks whole
    for part in PARTS:
        for path in folder.glob(f"[0-9]*.{part}.npy"):
            path.unlink()


def _dtype(tokenizer: Tokenizer) -> type[np.generic]:
    return np.uint16 if tokenizer.vocabulary <= 1 << 16 else np.uint32


def tokenised(texts: Iterable[str], tokenizer: Tokenizer) -> Iterator[Document]:
    """The tokens of each text, and the lengths of its sentences."""
    dtype = _dtype(tokenizer)
    for split in _prefetched([split_sentences(text) for text in group] for group in chunks(texts, _CHARACTERS, len)):
        ids = tokenizer.ids_batch([sentence for sentences in split for sentence in sentences])
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        tokens = np.fromiter(itertools.chain.from_iterable(ids), dtype, int(lengths.sum()))
        sentences = np.cumsum([0, *map(len, split)])
        starts = np.concatenate([[0], np.cumsum(lengths)])[sentences]
        for i in range(len(split)):
            yield tokens[starts[i] : starts[i + 1]], lengths[sentences[i] : sentences[i + 1]]


def _prefetched(items: Iterator[Item]) -> Iterator[Item]:
    """Make the next item in a thread meanwhile: the tokenizer works outside Python's lock."""
    with ThreadPoolExecutor(1) as worker:
        coming = worker.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = worker.submit(next, items, None)
            yield item


def _write(folder: Path, manifest: dict[str, Any], documents: list[Document], dtype: type[np.generic]) -> None:
    filled = [(tokens, lengths[lengths > 0]) for tokens, lengths in documents if len(tokens)]
    if not filled:
        return
    parts = {
        "tokens": np.concatenate([tokens for tokens, _ in filled]).astype(dtype, copy=False),
        "sentences": np.cumsum(np.concatenate([[0], *(lengths for _, lengths in filled)])).astype(np.uint32),
        "documents": np.cumsum([0, *(len(lengths) for _, lengths in filled)]).astype(np.uint32),
    }
    counts = {part: len(content) - (part != "tokens") for part, content in parts.items()}
    manifest["shards"].append({**counts, "read": len(documents)})  # with those that hold no token
    with staged(folder, own=True) as stage:
        for part, content in parts.items():
            path = stage / file_name(len(manifest["shards"]) - 1, part)
            with naming(path):
                np.save(path, content)
        _write_manifest(stage, manifest)


def _write_manifest(stage: Path, manifest: dict[str, Any]) -> None:
    write_json(manifest, stage / MANIFEST, indent=1)


Runs = tuple[Ints, Ints]  # where each run starts among the tokens, and how long it is


def wrap(shards: Shards, layout: TemplateItems, texts: Sequence[Runs]) -> tuple[Ints, Ints, Ints]:
    """Lay out many sequences; texts[p] are the runs of part p. Gives ids (N,), segments (N,) and lengths (B,)."""
    count = len(texts[0][0])
    one = np.ones(count, dtype=np.int64)
    # (B, items): how long each item of the layout is in each sequence
    lengths = np.stack([one if isinstance(item, Special) else texts[item.part][1] for item in layout], axis=1)
    starts = (np.cumsum(lengths) - lengths.ravel()).reshape(lengths.shape)
    ids = np.empty(lengths.sum(), dtype=np.int64)
    for i, item in enumerate(layout):
        if isinstance(item, Special):
            ids[starts[:, i]] = item.id
    slots = [i for i, item in enumerate(layout) if not isinstance(item, Special)]
    parts = [texts[item.part] for item in layout if not isinstance(item, Special)]
    content = np.ones(len(ids), dtype=bool)
    content[np.delete(starts, slots, axis=1)] = False
    # row by row, so that the runs lie in the order of the sequences
    ids[content] = shards.gather(*(np.stack(runs, axis=1).ravel() for runs in zip(*parts, strict=True)))
    segments = np.repeat(np.tile([item.segment for item in layout], count), lengths.ravel())
    return ids, segments, lengths.sum(axis=1)


def check_tokenizer(shards: Shards, tokenizer: Tokenizer) -> None:
    """Refuse ids that mean something else to this tokenizer."""
    same = shards.manifest["made_of"]["tokenizer"] == tokenizer.digest
    todo = "tokenise the corpus again"
    require(same, f"The shards in {shards.folder} were made with another tokenizer; {todo}.", BadInput)
