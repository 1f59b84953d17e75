"""A job: which shards of which files a use is done on, and how one shard is done. Its manifest says what it is made of.

A shard is done when its file has its name, so that to go on is to do those that have none.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.metadata import distribution
from pathlib import Path
from time import sleep
from typing import Any

from clearhead.bulk.inputs import Rows, Shard, Source, find_sources, plan, read_rows
from clearhead.bulk.outputs import Format, check_format, part_bytes
from clearhead.bulk.uses import text_columns
from clearhead.bulk.worker import Worker
from clearhead.data.corpus import MANIFEST as MANIFEST
from clearhead.errors import BadInput, NotFound, filled, require, short
from clearhead.io import Progress, check_free_folder, read_object, staged_file, write_json

SHARD_ROWS = 1 << 15
_VERSION = 1
_MADE_WITH = ("torch", "tokenizers", "numpy")  # whose other versions may round differently
_PART = re.compile(r"part-(\d{6,})\.(?:parquet|jsonl)")
_LEFT = re.compile(r"\.(?:saving-)?part-\d{6,}\.")  # locks and stages, which `staged_file` makes
_TRIES, _PAUSE = 50, 0.2  # to write where a worker of a driver that was killed is about to end


class Unwritable(BadInput):
    """The folder takes no more files, so that there is no use in going on."""


@dataclass(frozen=True)
class Job:
    """All that a worker must know, on whichever machine."""

    out: str
    worker: dict[str, Any]  # what `Worker` is made with
    weights: str
    sources: list[Source]
    texts: list[tuple[str, ...]]  # the columns with the texts of each file
    shards: list[Shard]
    how: Format
    places: bool  # whether source and line are written, which name a row
    kept: tuple[str, ...]
    as_text: tuple[str, ...]
    made_of: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """As a worker on this machine is told it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, told: str) -> "Job":
        """The job that was told."""
        return filled(cls, json.loads(told), "the job")

    def part(self, number: int) -> Path:
        """The file of a shard."""
        return Path(self.out) / f"part-{number:06d}.{self.how}"

    def finished(self) -> set[int]:
        """The shards that are done."""
        names = (_PART.fullmatch(one.name) for one in Path(self.out).iterdir())
        return {int(found[1]) for found in names if found is not None}

    def forget(self) -> None:
        """Leave no trace of a job of which nothing was done."""
        if not self.finished():
            (Path(self.out) / MANIFEST).unlink(missing_ok=True)
            with suppress(OSError):  # it holds something else
                Path(self.out).rmdir()

    def sweep(self) -> None:
        """Remove what killed workers left, when none is at work."""
        for one in Path(self.out).iterdir():
            if _LEFT.match(one.name):
                one.unlink(missing_ok=True)

    @cached_property
    def tool(self) -> Worker:
        """The worker of this process, with the weights that the job was begun with."""
        made = Worker(**self.worker)
        same = made.digest == self.weights
        told = f"the model {made.source.model} is not the one that this run was begun with, on this machine"
        require(same, f"{told}; copy it there", NotFound)
        made.load()
        return made

    def do(self, number: int, progress: Progress | None = None) -> tuple[int, int]:
        """Do a shard: how many rows it has, and how many of them no result. `Unwritable` where nothing can be written.

        Any other `ClearheadError` is the shard's own, and would come again.
        """
        shard = self.shards[number]
        texts = self.texts[shard.source]
        rows = read_rows(self.sources[shard.source], shard, [*texts, *self.kept])
        columns = [_values(rows, name) for name in texts]
        records, errors = self.tool.run(texts, list(zip(*columns, strict=True)), stream=number, progress=progress)
        for place, wrong in rows.errors.items():
            errors[place] = wrong
        source = self.sources[shard.source].name if self.places else None
        content = part_bytes(self.how, self.tool, source, self.kept, self.as_text, rows, records, errors)
        self._write(self.part(number), content)
        return len(records), sum(one is not None for one in errors)

    def _write(self, path: Path, content: bytes) -> None:
        for last in (*[False] * (_TRIES - 1), True):
            try:
                with staged_file(path) as stage:
                    stage.write_bytes(content)
                return
            except BadInput as wrong:
                if path.exists():  # a worker that outlived its driver has done it: the same bytes
                    return
                if last or "another process" not in str(wrong):
                    raise Unwritable(str(wrong)) from None
                sleep(_PAUSE)


def _values(rows: Rows, name: str) -> list[Any]:
    found = rows.columns[name]
    return list(found.to_pylist()) if hasattr(found, "to_pylist") else list(found)


def prepare(
    worker: Mapping[str, Any],
    inputs: Sequence[str | Path],
    out: str | Path,
    *,
    ids: str | None = None,
    keep: Sequence[str] = (),
    how: Format = "parquet",
    shard_rows: int = SHARD_ROWS,
    restart: bool = False,
) -> Job:
    """Cut the files into shards, or go on with those of the folder; another job's folder is refused, or emptied.

    `worker` is what `Worker` is made with. Whoever calls this has claimed the folder.
    """
    made, folder = Worker(**worker), Path(out).absolute()
    check_format(how)
    require(shard_rows > 0, f"shards of {shard_rows} rows hold nothing; give 1 or more", BadInput)
    require(len(inputs) > 0, "there is nothing to read; name files, folders or patterns", BadInput)
    sources = find_sources(inputs, folder)
    texts = [text_columns(made.use, one.columns, made.text, made.pair, one.name) for one in sources if one.columns]
    sources = [one for one in sources if one.columns]
    named = ids or ("id" if sources and all("id" in one.columns for one in sources) else None)
    kept = tuple(dict.fromkeys([*([] if named is None else [named]), *keep]))
    for one in sources:
        missing = [name for name in kept if name not in one.columns]
        there = ", ".join(repr(name[:40]) for name in one.columns)
        require(not missing, f"{one.name} has no column {''.join(missing[:1])!r} to keep; it has {there}", BadInput)
    made.check_names([*kept, *([] if named else ["source", "line"])])
    weights = made.digest
    made_of = {
        "version": _VERSION,
        "use": made.use,
        "options": made.options,
        "weights": weights,
        "skill": made.source.skill,
        "numbers": {"dtype": made.source.dtype, "device": made.source.device, "threads": made.threads},
        "columns": {"text": made.text, "pair": made.pair, "id": named, "keep": list(keep)},
        "result_prefix": made.result_prefix,
        "format": how,
        "shard_rows": shard_rows,
        "inputs": [{"name": one.name, "size": one.size, "digest": one.digest} for one in sources],
    }
    if restart:
        _empty(folder)
    shards = _earlier(folder, made_of)
    fresh = shards is None
    if shards is None:
        shards = plan(sources, texts, shard_rows)
        require(bool(shards), "there are no rows in what was named; name other files", BadInput)
    alike = {name: {_type(one, name) for one in sources} for name in kept}
    job = Job(
        out=str(folder),
        worker={**worker, **{name: getattr(made.source, name) for name in ("model", "skill", "device")}},
        weights=weights,
        sources=sources,
        texts=texts,
        shards=shards,
        how=how,
        places=named is None,
        kept=kept,
        as_text=tuple(name for name, types in alike.items() if len(types) > 1 or "" in types),
        made_of=made_of,
    )
    if fresh:
        folder.mkdir(parents=True, exist_ok=True)
        _begin(folder, made_of, shards)
    return job


def _type(source: Source, name: str) -> str:
    return source.types[source.columns.index(name)] if source.types else ""


# ---- the manifest -------------------------------------------------------------------------------------------------


def _begin(folder: Path, made_of: dict[str, Any], shards: Sequence[Shard]) -> None:
    """Write the manifest; where ranks begin together, one of them does, and the others find it to be the same."""
    content = {
        "made_of": made_of,
        "made_with": {one.name: one.version for one in map(distribution, _MADE_WITH)},
        "rows": sum(one.rows for one in shards),
        "shards": [list(asdict(one).values()) for one in shards],
    }
    for last in (*[False] * (_TRIES - 1), True):
        try:
            with staged_file(folder / MANIFEST) as stage:
                write_json(content, stage, indent=None)
            return
        except BadInput:
            if _earlier(folder, made_of) is not None:
                return
            if last:
                raise
            sleep(_PAUSE)


def _earlier(folder: Path, made_of: dict[str, Any]) -> list[Shard] | None:
    """The shards of the manifest in a folder, if there is one; of another job it is refused."""
    path = folder / MANIFEST
    if not path.exists():
        check_free_folder(folder)
        left = [one.name for one in folder.iterdir() if _PART.fullmatch(one.name)] if folder.is_dir() else []
        told = f"{folder} holds {''.join(left[:1])} and no {MANIFEST}, so nobody knows what it was made of"
        require(not left, f"{told}; choose another folder, or begin anew with --restart (restart=True)", BadInput)
        return None
    found = read_object(path, BadInput)
    ours = isinstance(found.get("made_of"), dict) and "use" in found["made_of"] and isinstance(found["shards"], list)
    require(ours, f"{path} is not that of a bulk run; choose another folder", BadInput)
    before, now = found["made_of"], json.loads(json.dumps(made_of))
    differs = list(_differences(before, now))
    told = f"{folder} holds another run: {'; '.join(differs[:3])}"
    require(not differs, f"{told}; choose another folder, or begin anew with --restart (restart=True)", BadInput)
    try:
        return [Shard(*one) for one in found["shards"]]
    except TypeError:
        raise BadInput(f"{path} is damaged; begin anew with --restart (restart=True)") from None


def _differences(before: Mapping[str, Any], now: Mapping[str, Any], within: str = "") -> "list[str]":
    """What one has and the other has not, in words."""
    found = []
    if before.get("use") != now.get("use"):  # of which the options are others, too
        return [f"it is for {before.get('use')}, not {now.get('use')}"]
    for name in dict.fromkeys([*before, *now]):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differences(old, new, f"{name} ")
        elif name == "inputs" and isinstance(old, list) and isinstance(new, list):
            found.append(_other_inputs(old, new))
        elif name == "weights":
            found.append("the model has other weights")
        else:
            found.append(f"{within}{name} was {short(old)} and is {short(new)}")
    return found


def _other_inputs(old: list[Any], new: list[Any]) -> str:
    names = [{one["name"]: one for one in side} for side in (old, new)]
    gone, come = ([name for name in one if name not in other] for one, other in (names, names[::-1]))
    changed = [name for name in names[0] if name in names[1] and names[0][name] != names[1][name]]
    for what, which in (
        ("is no longer among the inputs", gone),
        ("was not among them", come),
        ("has changed", changed),
    ):
        if which:
            more = f" and {len(which) - 1:,} more" if len(which) > 1 else ""
            return f"the file {which[0]}{more} {what}"
    return "the files come in another order"


def _empty(folder: Path) -> None:
    """Remove a bulk run, the manifest first, so that a kill leaves nothing that looks whole."""
    if not folder.is_dir():
        return
    path = folder / MANIFEST
    if path.exists():
        made = read_object(path, BadInput).get("made_of")
        told = f"{path} is not that of a bulk run; choose another folder"
        require(isinstance(made, dict) and "use" in made, told, BadInput)
        path.unlink()
    for one in folder.iterdir():
        if _PART.fullmatch(one.name):
            one.unlink()
