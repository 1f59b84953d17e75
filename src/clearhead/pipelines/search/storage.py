"""A saved index: index.json, documents.jsonl, words.json and index.safetensors, each checked when it is read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.errors import BadCheckpoint, NotFound, require
from clearhead.hub.atomic import staged
from clearhead.hub.weights import digest, read_json, read_tensors, write_tensors
from clearhead.pipelines.search.bm25 import Bm25
from clearhead.pipelines.search.passages import Document
from clearhead.pipelines.search.vectors import VectorSearch

if TYPE_CHECKING:
    from clearhead.pipelines.search.index import Index

_FORMAT = 1
_FACTS, _DOCUMENTS, _WORDS, _TENSORS = "index.json", "documents.jsonl", "words.json", "index.safetensors"

Parts = tuple[tuple[Document, ...], NDArray[np.int64], Bm25, VectorSearch | None]


def write(index: Index, folder: Path) -> None:
    """Write the four files; a failure on the way leaves what was there."""
    arrays: dict[str, NDArray[Any]] = {
        "spans": index.spans,
        "words.starts": index.words.starts,
        "words.passages": index.words.passages,
        "words.counts": index.words.counts,
        "words.lengths": index.words.lengths,
    }
    if index.vectors is not None:
        arrays |= {"vectors": index.vectors.vectors, "probe": index.vectors.probe}
    # torch takes no array that may not be written to
    tensors = {name: torch.from_numpy(np.require(array, requirements="W")) for name, array in arrays.items()}
    with staged(folder) as stage:
        with (stage / _DOCUMENTS).open("w", encoding="ascii") as lines:
            for document in index.documents:
                lines.write(json.dumps({"id": document.source, "text": document.text}) + "\n")
        (stage / _WORDS).write_text(json.dumps(list(index.words.vocabulary)), encoding="ascii")
        write_tensors(tensors, stage / _TENSORS)
        facts = {"format": _FORMAT, "passages": len(index), "sha256": _digests(stage, digest(tensors))}
        (stage / _FACTS).write_text(json.dumps(facts, indent=2) + "\n", encoding="ascii")


def read(folder: Path) -> Parts:
    """Read the parts of an index, with vectors that wait for their model; refuse files that do not belong together."""
    require((folder / _FACTS).is_file(), f"{folder} holds no index ({_FACTS} is not there); build one first", NotFound)
    facts = read_json(folder / _FACTS)
    require(
        facts.get("format") == _FORMAT,
        f"{folder} was written in format {facts.get('format')}, this version reads {_FORMAT}; build the index again",
        BadCheckpoint,
    )
    tensors = read_tensors(folder / _TENSORS)
    try:
        found = _digests(folder, digest(tensors))
    except FileNotFoundError as error:
        raise NotFound(f"{folder} lacks {Path(error.filename).name}; build the index again") from None
    changed = [name for name, sha in found.items() if facts.get("sha256", {}).get(name) != sha]
    require(not changed, f"{folder / ''.join(changed[:1])} is damaged or changed; build the index again", BadCheckpoint)
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    with (folder / _DOCUMENTS).open(encoding="ascii") as lines:
        held = tuple(Document(one["text"], one["id"]) for one in map(json.loads, lines))
    names = json.loads((folder / _WORDS).read_text(encoding="ascii"))
    parts = (arrays[f"words.{part}"] for part in ("starts", "passages", "counts", "lengths"))
    words = Bm25({word: number for number, word in enumerate(names)}, *parts)
    vectors = VectorSearch(arrays["vectors"], arrays["probe"], None) if "vectors" in arrays else None
    return held, arrays["spans"], words, vectors


def _digests(folder: Path, of_tensors: str) -> dict[str, str]:
    """SHA-256 of each file that the facts speak of; that of the tensors is known to who wrote or read them."""
    found = {_TENSORS: of_tensors}
    for name in (_DOCUMENTS, _WORDS):
        with (folder / name).open("rb") as file:
            found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found
