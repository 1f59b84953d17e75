"""Spark: the label of each row by mapInArrow, in the Python processes of the executors.

usage: python examples/bulk_spark.py INPUT.parquet OUT MODEL
"""

import os
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from clearhead import Worker

SCHEMA = "id string, label string, score double, error string"


def main(source: str, out: str, model: str) -> None:
    """Read, compute, write."""
    worker = Worker("classify", model=model, keep=["id"])

    def classify(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = worker(batch.to_pydict())
            yield pa.RecordBatch.from_pydict({name: found[name] for name in ("id", "label", "score", "error")})

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # on a cluster, what every machine has
    spark = SparkSession.builder.appName("clearhead").getOrCreate()
    try:
        spark.read.parquet(source).mapInArrow(classify, SCHEMA).write.parquet(out)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
