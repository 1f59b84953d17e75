"""Keep what a benchmark measured in benchmarks/results; `python book/result_tables.py` makes tables of it for docs/.

    record("cpu_decode", {"Engine": "{}", "tokens/s": "{:,.0f}"}, [["clearhead, fp32", 839.2], …], threads=2)

The command, the date, the processor or GPU, and the versions of torch and of peers that are installed are added here.
"""

import json
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")
PEERS = ("torch", "transformers", "sentence-transformers", "ctranslate2", "onnxruntime", "usearch", "lancedb")


def record(
    name: str, columns: Mapping[str, str], rows: Sequence[Sequence[Any]], *, threads: int, load: str = ""
) -> Path:
    """Write `rows`, whose numbers are shown by the formats of `columns`; `load` says what else ran there."""
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"a row of {name} has {len(row)} cells for {len(columns)} columns: {row}")
    content = {
        "command": shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
        "date": date.today().isoformat(),
        "machine": ", ".join(filter(None, (device(threads), load))),
        "software": ", ".join(f"{peer} {version(peer)}" for peer in PEERS if _installed(peer)),
        "columns": [list(column) for column in columns.items()],
        "rows": [list(row) for row in rows],
    }
    path = RESULTS / f"{name}.json"
    path.write_text(dumps(content), encoding="utf-8")
    return path


def device(threads: int) -> str:
    """The GPU that torch would take, or the processor and the threads that were used."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{_processor()}, {threads} threads"


def _processor() -> str:
    named = Path("/proc/cpuinfo")
    lines = named.read_text().splitlines() if named.exists() else []
    models = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _installed(peer: str) -> bool:
    try:
        return bool(version(peer))
    except PackageNotFoundError:
        return False


def dumps(content: Mapping[str, Any]) -> str:
    """JSON with a line for each column and row, so that a change is a line."""
    lines = [f'  "{key}": {json.dumps(content[key], ensure_ascii=False)}' for key in list(content)[:4]]
    for key in ("columns", "rows"):
        inner = ",\n".join(f"    {json.dumps(one, ensure_ascii=False)}" for one in content[key])
        lines.append(f'  "{key}": [\n{inner}\n  ]')
    return "{\n" + ",\n".join(lines) + "\n}\n"
