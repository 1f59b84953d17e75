"""What is written for a shard: one parquet or jsonl file, the same bytes for the same rows."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from clearhead.bulk.inputs import Rows
from clearhead.bulk.uses import Kind, result_columns
from clearhead.bulk.worker import ERROR, Worker
from clearhead.data.corpus import TOKENIZER
from clearhead.errors import BadInput, require, valid_text
from clearhead.io import as_json_line, optional

Format = Literal["parquet", "jsonl"]
FORMATS = ("parquet", "jsonl")
_ROW_GROUP = 1 << 14
_ALIKE = ("source", "label")  # columns whose values come again and again


def check_format(how: str) -> None:
    """Refuse a format that is unknown, or that cannot be written here, before anything is done."""
    require(how in FORMATS, f"format {how!r} is not known; choose {' or '.join(FORMATS)}", BadInput)
    if how == "parquet":
        optional("pyarrow", "writing parquet (unlike --format jsonl)")


def part_bytes(
    how: Format,
    worker: Worker,
    source: str | None,
    kept: Sequence[str],
    as_text: Sequence[str],
    rows: Rows,
    records: Sequence[dict[str, Any] | None],
    errors: Sequence[str | None],
) -> bytes:
    """The file of a shard: the columns kept (after source and line, if these are all that names a row), and results.

    In parquet, the columns of `as_text` are written as text, since not all files have them as the same type.
    """
    places = {} if source is None else {"source": [source] * len(rows.lines), "line": rows.lines}
    given = {name: rows.columns[name] for name in kept}
    if how == "jsonl":
        lines = _lines(worker, {**places, **given}, records, errors)
        return "".join(f"{line}\n" for line in lines).encode()
    arrow = optional("pyarrow", "writing parquet")
    columns = {name: arrow.array(values) for name, values in places.items()}
    columns |= {name: _kept(arrow, values, as_text=name in as_text) for name, values in given.items()}
    for name, kind in result_columns(worker.use, worker.options).items():
        values = [None if one is None else one[name] for one in records]
        columns[worker.result_prefix + name] = _result(arrow, worker, kind, values)
    columns[worker.result_prefix + ERROR] = arrow.array(errors, arrow.string())
    sink = arrow.BufferOutputStream()
    known = {TOKENIZER: worker.digest} if worker.of_tokenizer and not worker.result_prefix else None
    optional("pyarrow.parquet", "writing parquet").write_table(
        arrow.table(columns, metadata=known),
        sink,
        row_group_size=_ROW_GROUP,
        compression="zstd",
        use_dictionary=[name for name in columns if name.removeprefix(worker.result_prefix) in _ALIKE],
        write_statistics=[worker.result_prefix + ERROR],  # how many are null is how `count` knows
    )
    return bytes(sink.getvalue())


def count(path: Path, column: str) -> tuple[int, int]:
    """How many rows a part has, and how many of them no result."""
    if path.suffix == ".parquet":
        metadata = optional("pyarrow.parquet", f"reading {path.name}").read_metadata(path)
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        # the column is the last, and has no parts
        return metadata.num_rows, sum(
            one.num_rows - one.column(one.num_columns - 1).statistics.null_count for one in groups
        )
    named, rows, errors = json.dumps(column).encode() + b": ", 0, 0
    with path.open("rb") as lines:
        for line in lines:
            rows += 1
            errors += named in line and column in json.loads(line)
    return rows, errors


def _lines(
    worker: Worker, given: Mapping[str, Any], records: Sequence[dict[str, Any] | None], errors: Sequence[str | None]
) -> Iterator[str]:
    columns = [values.to_pylist() if hasattr(values, "to_pylist") else values for values in given.values()]
    for place, (record, error) in enumerate(zip(records, errors, strict=True)):
        own = {name: _plain(values[place]) for name, values in zip(given, columns, strict=True)}
        found = {} if record is None else {worker.result_prefix + name: _digits(one) for name, one in record.items()}
        yield as_json_line({**own, **found, **({} if error is None else {worker.result_prefix + ERROR: error})})


def _digits(value: Any) -> Any:
    """A vector with as many digits as single precision has; everything else as it is."""
    if not isinstance(value, np.ndarray):
        return value
    return [float(f"{one:.7g}") if isinstance(one, float) else one for one in value.tolist()]


def _plain(value: Any) -> Any:
    """What JSON has no word for (a date, bytes) as Python writes it."""
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, str):
        return valid_text(value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _kept(arrow: Any, values: Any, *, as_text: bool) -> Any:
    if not as_text:
        return values
    plain = [_plain(one) for one in (values.to_pylist() if hasattr(values, "to_pylist") else values)]
    text = [one if one is None or isinstance(one, str) else as_json_line(one) for one in plain]
    return arrow.array(text, arrow.string())


def _result(arrow: Any, worker: Worker, kind: Kind, values: Sequence[Any]) -> Any:
    if kind == "vector":
        stacked = worker.vectors(values)  # NaN where there is none: Arrow cannot read back a null among such lists
        return arrow.FixedSizeListArray.from_arrays(arrow.array(stacked.reshape(-1)), stacked.shape[1])
    if kind == "scores":
        pairs = [None if one is None else list(one.items()) for one in values]
        return arrow.array(pairs, arrow.map_(arrow.string(), arrow.float64()))
    if kind in ("doubles", "int32s"):
        return arrow.array(values, arrow.list_(arrow.float64() if kind == "doubles" else arrow.int32()))
    if isinstance(kind, dict):
        fields = arrow.struct([(name, _plain_type(arrow, one)) for name, one in kind.items()])
        return arrow.array(values, arrow.list_(fields))
    return arrow.array(values, _plain_type(arrow, kind))


def _plain_type(arrow: Any, kind: str) -> Any:
    return {"string": arrow.string, "double": arrow.float64, "bool": arrow.bool_, "int64": arrow.int64}[kind]()
