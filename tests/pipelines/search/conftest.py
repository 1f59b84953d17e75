from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from pipelines.search.stores import KINDS, running_postgres, url_of


@pytest.fixture(scope="session")
def postgres():
    # not in pytest's own folder, which every run of it closes to others: as root, the server is another user
    with TemporaryDirectory(prefix="clearhead-") as folder, running_postgres(Path(folder) / "pg") as url:
        yield url


@pytest.fixture(params=KINDS)
def store_url(request, tmp_path):
    kind = request.param
    if kind == "lancedb":
        pytest.importorskip("lancedb")
    server = request.getfixturevalue("postgres") if kind == "postgres" else None
    return url_of(kind, tmp_path, server)
