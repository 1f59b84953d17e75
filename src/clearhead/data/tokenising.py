"""A corpus tokenised once, shard by shard: a killed run goes on after its last shard, an unchanged corpus is reused.

A folder holds for each shard its tokens (uint16 or uint32), sentence starts and document starts as .npy files, and
manifest.json with all that decides the content: the files with size and time, the tokenizer's digest, the counts.
"""

import itertools
import json
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from clearhead.data.chunks import chunks
from clearhead.data.corpus import Corpus
from clearhead.data.sentences import split_sentences
from clearhead.data.shards import MANIFEST, PARTS, Shards, file_name, read_manifest
from clearhead.errors import BadInput, ClearheadError, require
from clearhead.hub.atomic import staged
from clearhead.text.corpus import Progress
from clearhead.text.tokenizer import Tokenizer

_VERSION = 1  # of the folder and of the sentence rules
_SHARD_TOKENS = 1 << 24
_CHARACTERS = 2_000_000  # given to the tokenizer at once

Item = TypeVar("Item")
# the tokens of a document and the lengths of its sentences
Document = tuple[NDArray[Any], NDArray[np.int64]]


def tokenise(
    corpus: Corpus,
    tokenizer: Tokenizer,
    folder: str | Path,
    *,
    shard_tokens: int = _SHARD_TOKENS,
    progress: Progress | None = None,
) -> Shards:
    """Tokenise a corpus into a folder, or go on with it, or find it done; `progress` gets the bytes read so far.

    What the folder held of another corpus or tokenizer is replaced. A hub data set is known by its name alone.
    """
    folder = Path(folder)
    made_of = _made_of(corpus, tokenizer, shard_tokens)
    manifest = _earlier(folder, made_of)
    if manifest is None:
        _clear(folder)
        manifest = {"made_of": made_of, "complete": False, "shards": []}
    if not manifest["complete"]:
        for left_by_a_kill in folder.glob(".saving-*"):
            shutil.rmtree(left_by_a_kill)
        read = sum(shard["read"] for shard in manifest["shards"])
        texts = itertools.islice(corpus.documents(progress), read, None)
        # up to the document that fills a shard: which ones does not depend on where a run began
        for documents in chunks(_documents(texts, tokenizer), shard_tokens, lambda document: len(document[0])):
            _write(folder, manifest, documents)
        require(bool(manifest["shards"]), "The corpus holds no words; give files with text in them.", BadInput)
        manifest["complete"] = True
        with staged(folder) as stage:
            _write_manifest(stage, manifest)
    return Shards(folder)


def find_shards(corpus: Corpus, tokenizer: Tokenizer, folder: str | Path) -> Shards | None:
    """The shards of this corpus and tokenizer, if a folder holds them complete."""
    manifest = _earlier(Path(folder), _made_of(corpus, tokenizer, _SHARD_TOKENS))
    return Shards(folder) if manifest is not None and manifest["complete"] else None


def _made_of(corpus: Corpus, tokenizer: Tokenizer, shard_tokens: int) -> dict[str, Any]:
    return {"version": _VERSION, "tokenizer": tokenizer.digest, "shard_tokens": shard_tokens, **corpus.facts()}


def _earlier(folder: Path, made_of: dict[str, Any]) -> dict[str, Any] | None:
    """The manifest of an earlier run of the same corpus and tokenizer, if there is one."""
    try:
        manifest = read_manifest(folder)
    except ClearheadError:
        return None
    files = [folder / file_name(i, part) for i in range(len(manifest.get("shards", []))) for part in PARTS]
    return manifest if manifest.get("made_of") == made_of and all(file.exists() for file in files) else None


def _clear(folder: Path) -> None:
    (folder / MANIFEST).unlink(missing_ok=True)  # first, so that a kill leaves nothing that looks whole
    for part in PARTS:
        for path in folder.glob(f"[0-9]*.{part}.npy"):
            path.unlink()


def _documents(texts: Iterable[str], tokenizer: Tokenizer) -> Iterator[Document]:
    dtype = np.uint16 if tokenizer.vocabulary <= 1 << 16 else np.uint32
    for split in _ahead([split_sentences(text) for text in group] for group in chunks(texts, _CHARACTERS, len)):
        ids = tokenizer.ids_batch([sentence for sentences in split for sentence in sentences])
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        tokens = np.fromiter(itertools.chain.from_iterable(ids), dtype, int(lengths.sum()))
        sentences = np.cumsum([0, *map(len, split)])
        starts = np.concatenate([[0], np.cumsum(lengths)])[sentences]
        for i in range(len(split)):
            yield tokens[starts[i] : starts[i + 1]], lengths[sentences[i] : sentences[i + 1]]


def _ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Make the next item in a thread meanwhile: the tokenizer works outside Python's lock."""
    with ThreadPoolExecutor(1) as worker:
        coming = worker.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = worker.submit(next, items, None)
            yield item


def _write(folder: Path, manifest: dict[str, Any], documents: list[Document]) -> None:
    filled = [(tokens, lengths[lengths > 0]) for tokens, lengths in documents if len(tokens)]
    if not filled:
        return
    parts = {
        "tokens": np.concatenate([tokens for tokens, _ in filled]),
        "sentences": np.cumsum(np.concatenate([[0], *(lengths for _, lengths in filled)])).astype(np.uint32),
        "documents": np.cumsum([0, *(len(lengths) for _, lengths in filled)]).astype(np.uint32),
    }
    shard = len(manifest["shards"])
    counts = {
        "tokens": len(parts["tokens"]),
        "sentences": len(parts["sentences"]) - 1,
        "documents": len(parts["documents"]) - 1,
        "read": len(documents),  # with those that hold no token
    }
    manifest["shards"].append(counts)
    with staged(folder) as stage:
        for part, content in parts.items():
            np.save(stage / file_name(shard, part), content)
        _write_manifest(stage, manifest)


def _write_manifest(stage: Path, manifest: dict[str, Any]) -> None:
    # its name sorts behind the shards', so that it is moved into place last
    (stage / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
