"""Rows as people have them, as files of every kind."""

import csv
import gzip
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

SENTENCE = "the street is wide and the animal was too tired to cross so it sat on the bank of the river"
WORDS = SENTENCE.split()


def texts(count: int, seed: int = 0) -> list[str | None]:
    """Short and long ones, with nothing in them, with what is no ASCII, and none at all."""
    draw = random.Random(seed)
    found: list[str | None] = []
    for number in range(count):
        words = [draw.choice(WORDS) for _ in range(draw.choice((1, 3, 8, 20, 200)))]
        kinds = {3: None, 7: "", 11: "😀 " + " ".join(words), 13: "中文 é \u2028 " + " ".join(words), 17: " \n\t"}
        found.append(kinds.get(number % 29, " ".join(words)))
    return found


def records(count: int) -> list[dict[str, Any]]:
    return [{"id": f"r{number}", "text": text, "stars": number % 5} for number, text in enumerate(texts(count))]


def write_parquet(path: Path, rows: list[dict[str, Any]], groups: int = 50) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=groups)
    return path


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    packed = {".gz": gzip.compress, ".zst": zstandard.compress}.get(path.suffix, bytes)
    path.write_bytes(packed(content))
    return path


def write_table(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        if path.suffix == ".csv":
            table = csv.writer(file)
            table.writerow(rows[0])
            table.writerows(row.values() for row in rows)
        else:
            lines = [rows[0].keys(), *(row.values() for row in rows)]
            file.write("".join("\t".join(map(str, line)) + "\n" for line in lines))
    return path


def parts(folder: Path) -> dict[str, bytes]:
    """All that a run wrote, byte for byte."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def written(path: Path) -> tuple[int, int]:
    """Which file it is, and when it was written; it may have been read since."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns
