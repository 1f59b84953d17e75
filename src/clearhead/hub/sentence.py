"""The small files by which sentence-transformers says how token vectors become one vector."""

import json
from pathlib import Path
from typing import Any

from clearhead.errors import BadCheckpoint, BadConfig
from clearhead.hub.weights import read_json
from clearhead.nn.heads import Pooling, SentenceVector

# their switch in 1_Pooling/config.json → our pooling
_POOLING: dict[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "first",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_weightedmean_tokens": "weighted",
}
_MODES: dict[str, Pooling] = {"mean": "mean", "cls": "first", "max": "max", "weightedmean": "weighted"}


def read_sentence_vector(folder: Path) -> SentenceVector | None:
    """Read modules.json, if the folder is one of sentence-transformers'."""
    path = folder / "modules.json"
    if not path.is_file():
        return None
    try:
        kinds = [(module["type"].rsplit(".", 1)[-1], module["path"]) for module in json.loads(path.read_text("utf-8"))]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise BadCheckpoint(f"{path} is not a list of modules with type and path; fetch it again") from None
    unknown = [kind for kind, _ in kinds if kind not in ("Transformer", "Pooling", "Normalize")]
    if unknown:
        raise BadConfig(
            f"{path}: module {unknown[0]} is not supported; clearhead reads Transformer, Pooling, Normalize"
        )
    pooling: Pooling = "mean"
    for kind, where in kinds:
        if kind == "Pooling":
            pooling = _pooling(read_json(folder / Path(where).name / "config.json"), folder)
    return SentenceVector(pooling, normalise=any(kind == "Normalize" for kind, _ in kinds))


def write_sentence_vector(sentence: SentenceVector, width: int, folder: Path) -> None:
    """Write modules.json and the pooling's configuration."""
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds[: 3 if sentence.normalise else 2])
    ]
    (folder / "modules.json").write_text(json.dumps(modules, indent=2) + "\n", encoding="utf-8")
    pooling = {name: sentence.pooling == ours for name, ours in _POOLING.items()}
    (folder / "1_Pooling").mkdir()
    content = json.dumps({"word_embedding_dimension": width, **pooling}, indent=2)
    (folder / "1_Pooling" / "config.json").write_text(content + "\n", encoding="utf-8")


def _pooling(content: dict[str, Any], folder: Path) -> Pooling:
    chosen = [name for name, on in content.items() if name.startswith("pooling_mode_") and on is True]
    if len(chosen) == 1 and chosen[0] in _POOLING:
        return _POOLING[chosen[0]]
    if content.get("pooling_mode") in _MODES:
        return _MODES[content["pooling_mode"]]
    raise BadConfig(
        f"{folder}: pooling {chosen or content} is not supported; clearhead knows mean, cls, max and weightedmean"
    )
