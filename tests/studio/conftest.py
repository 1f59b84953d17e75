import pytest
from starlette.testclient import TestClient

from inside.models import small
from pipelines.writers import translator
from studio.in_process import create_app
from studio.runs import write_run

# the heads that the uses need, each in a small model
HEADS = {
    "words": {"head": "masked_lm"},
    "answers": {"head": "span", "outputs": 2},
    "tags": {"head": "tags", "outputs": 3, "labels": ("O", "B-PER", "I-PER")},
    "pairs": {"head": "next_sentence", "outputs": 2},
    "classes": {"head": "classes", "outputs": 2, "labels": ("no", "yes")},
    "writes": {"family": "gpt2", "head": "causal_lm"},
}


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """A folder for each of the small models."""
    home = tmp_path_factory.mktemp("studio")
    for name, options in HEADS.items():
        small(**options).save(home / name)
    translator().save(home / "translates")
    return [str(home / name) for name in (*HEADS, "translates")]


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("studio-runs") / "first")


@pytest.fixture
def client(folders, run_folder):
    return TestClient(create_app(folders, [run_folder]), base_url="http://127.0.0.1:8642")
