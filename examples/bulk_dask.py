"""Dask: the label of each row, partition by partition, in processes.

usage: python examples/bulk_dask.py INPUT.parquet OUT MODEL
"""

import sys

import dask.bag
import pyarrow as pa
import pyarrow.parquet as pq

from clearhead import Worker


def rows(source: str, group: int) -> dict:
    """A row group, as columns."""
    return pq.ParquetFile(source).read_row_group(group).to_pydict()


def main(source: str, out: str, model: str) -> None:
    """Read, compute, write."""
    worker = Worker("classify", model=model, keep=["id"])
    groups = range(pq.ParquetFile(source).num_row_groups)
    # a partition is a row group; the process that does the next one has the model already
    found = dask.bag.from_sequence([(source, group) for group in groups], partition_size=1).starmap(rows).map(worker)
    columns = ("id", "label", "score", "error")
    tables = [pa.table({name: batch[name] for name in columns}) for batch in found.compute(scheduler="processes")]
    pq.write_table(pa.concat_tables(tables), out)


if __name__ == "__main__":
    main(*sys.argv[1:])
