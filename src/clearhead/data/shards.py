"""A corpus as token ids on disk, in memory-mapped shards: one flat row of tokens, with the starts of its sentences
and documents. Reading knows nothing of texts; data/tokenising.py writes the folder."""

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.data.source import rng
from clearhead.errors import BadInput, NotFound, require

MANIFEST = "manifest.json"
PARTS = ("tokens", "sentences", "documents")
SPLITS = ("train", "held-out")
_DRAW = 3  # keeps this draw apart from the order of an epoch

Ints = NDArray[np.int64]


class Shards:
    """The shards of a folder seen as one corpus: tokens, sentences and documents are numbered through.

    Sentence s is tokens[sentences[s] : sentences[s + 1]], document d is sentences documents[d] up to documents[d + 1].
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest = read_manifest(self.folder)
        require(
            self.manifest.get("complete") is True,
            f"{folder} holds no complete corpus: tokenising did not end. Start it again, it will go on.",
            NotFound,
        )
        counts: list[dict[str, int]] = self.manifest["shards"]
        self._bases = _running([shard["tokens"] for shard in counts])
        self._parts = [[_opened(self.folder, i, part) for part in PARTS] for i in range(len(counts))]
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
        bases = _running([len(sentences) - 1 for _, sentences, _ in self._parts])
        return _joined([documents for _, _, documents in self._parts], bases)

    @cached_property
    def document_starts(self) -> Ints:
        """Where each document starts among the tokens, and where the last one ends."""
        inner = [sentences[documents] for _, sentences, documents in self._parts]
        return _joined(inner, self._bases)

    def split(self, name: str, share: float) -> Ints:
        """Give the numbers of the documents of "train" or "held-out", whose share of all is the same in every run."""
        require(name in SPLITS, f"There is no split {name!r}; choose {' or '.join(SPLITS)}.", BadInput)
        require(0 <= share < 1, f"The share held out is {share}; it must be from 0 to less than 1.", BadInput)
        count = len(self.document_starts) - 1
        # two at least, where there are enough, because a false pair needs another document
        held = min(max(round(share * count), 2 if count > 3 else 1), count - 1) if share else 0
        order = rng(0, 0, _DRAW).permutation(count)
        found = np.sort(order[:held] if name == "held-out" else order[held:])
        require(
            len(found) > 0,
            f"The split {name!r} of {count} documents is empty; give more documents, or hold out another share.",
            BadInput,
        )
        return found

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
            steps = spread(lengths[runs])
            source = np.repeat(starts[runs] - self._bases[i], lengths[runs]) + steps
            out[np.repeat(ends[runs] - lengths[runs], lengths[runs]) + steps] = self._parts[i][0][source]
        return out


def spread(lengths: Ints) -> Ints:
    """Count 0, 1, 2 … within each run of these lengths."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder of shards."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    except FileNotFoundError:
        raise NotFound(f"{folder} holds no shards ({MANIFEST} is not there); tokenise a corpus into it.") from None
    except ValueError as error:
        raise BadInput(f"{folder / MANIFEST} is not JSON ({error}); delete the folder.") from None
    require(isinstance(manifest, dict), f"{folder / MANIFEST} is no manifest; delete the folder.", BadInput)
    return dict(manifest)


def file_name(shard: int, part: str) -> str:
    """Name the file of one part of a shard."""
    return f"{shard:05d}.{part}.npy"


def _opened(folder: Path, shard: int, part: str) -> NDArray[Any]:
    path = folder / file_name(shard, part)
    try:
        return np.load(path, mmap_mode="r")
    except FileNotFoundError:
        raise NotFound(f"{path} is missing; delete the folder and tokenise again.") from None
    except (ValueError, EOFError) as error:
        raise BadInput(f"{path} is damaged ({error}); delete the folder and tokenise again.") from None


def _running(counts: Sequence[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


def _joined(starts: list[NDArray[Any]], bases: Ints) -> Ints:
    inner = [part[:-1].astype(np.int64) + base for part, base in zip(starts, bases[:-1], strict=True)]
    return np.concatenate([*inner, bases[-1:]])
