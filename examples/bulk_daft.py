"""Daft: the label of each row, as a column of a data frame.

usage: python examples/bulk_daft.py INPUT.parquet OUT MODEL
"""

import sys

import daft

from clearhead import Worker


def main(source: str, out: str, model: str) -> None:
    """Read, compute, write."""
    worker = Worker("classify", model=model, keep=[])

    @daft.udf(return_dtype=daft.DataType.struct({"label": daft.DataType.string(), "error": daft.DataType.string()}))
    def classify(texts: daft.Series) -> list[dict]:
        found = worker({"text": texts.to_pylist()})
        return [{"label": label, "error": error} for label, error in zip(found["label"], found["error"], strict=True)]

    frame = daft.read_parquet(source).into_batches(256)
    frame = frame.with_column("found", classify(frame["text"]))
    frame.select(frame["id"], frame["found"]["label"], frame["found"]["error"]).write_parquet(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
