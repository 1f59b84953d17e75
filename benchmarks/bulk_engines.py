"""Bulk work on one machine: processes of our own, Ray's actors, and the worker inside Ray Data and Daft.

The same texts, model and cores for all; every engine is timed from its start to its last file, model loading included,
in a process of its own. Also: one worker against two, and how long it takes to find that nothing is left to do.

usage: python benchmarks/bulk_engines.py [--rows 4000] [--workers 2] [--json FILE]
"""

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from docstrings import docstring_texts

RAY_DATA = """
import sys, ray
from clearhead import Worker
source, out, workers = sys.argv[1:]
ray.init(num_cpus=int(workers) + 1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
worker = Worker("embed", keep=["id"])
class Embed:
    def __call__(self, batch):
        return worker(batch)
pool = ray.data.ActorPoolStrategy(size=int(workers))
ray.data.read_parquet(source).map_batches(Embed, batch_size=500, compute=pool, num_cpus=1).write_parquet(out)
"""
DAFT = """
import sys, daft
from clearhead import Worker
source, out, workers = sys.argv[1:]
worker = Worker("embed", keep=[])
kind = daft.DataType.fixed_size_list(daft.DataType.float32(), 384)
@daft.udf(return_dtype=kind)
def embed(texts):
    return list(worker({"text": texts.to_pylist()})["vector"])
frame = daft.read_parquet(source).into_batches(500)
frame.select(frame["id"], embed(frame["text"]).alias("vector")).write_parquet(out)
"""


def timed(command: list[object], variables: dict[str, str]) -> float:
    begun = time.perf_counter()
    subprocess.run(list(map(str, command)), env=variables, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    texts = docstring_texts()
    rows = [" ".join(texts[number % len(texts)].split()[:60]) for number in range(asked.rows)]
    variables = {**os.environ, "CLEARHEAD_QUIET": "1", "RAY_AUTH_TOKEN": secrets.token_hex(32), "DO_NOT_TRACK": "true"}
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "texts.parquet"
        pq.write_table(pa.table({"id": list(range(asked.rows)), "text": rows}), source, row_group_size=500)
        ours = [sys.executable, "-m", "clearhead", "bulk", "embed", source, "--shard-rows", 500]
        two, here = ["--workers", asked.workers], [asked.workers]
        found = {
            "one worker": timed([*ours, "--out", f"{scratch}/one", "--workers", 1], variables),
            "local": timed([*ours, "--out", f"{scratch}/local", *two], variables),
            "nothing left to do": timed([*ours, "--out", f"{scratch}/local", *two], variables),
            "bulk --on ray": timed([*ours, "--out", f"{scratch}/ray", *two, "--on", "ray"], variables),
            "Worker in Ray Data": timed([sys.executable, "-c", RAY_DATA, source, f"{scratch}/data", *here], variables),
            "Worker in Daft": timed([sys.executable, "-c", DAFT, source, f"{scratch}/daft", *here], variables),
        }
        names = sorted(path.name for path in Path(scratch, "local").glob("part*"))
        for other in ("one", "ray"):
            pairs = [(Path(scratch, other, one), Path(scratch, "local", one)) for one in names]
            same = all(one.read_bytes() == expected.read_bytes() for one, expected in pairs)
            print(f"{other}: the same bytes as local: {same}")
    for name, seconds in found.items():
        print(f"{name:20} {seconds:7.1f} s   {seconds / found['local']:5.2f} of local")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
