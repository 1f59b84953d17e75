"""index, search and ask over a store, as a user types them; over databases where their packages are installed."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from conftest import SENTENCES
from pipelines.search.conftest import postgres, store_url

__all__ = ["postgres", "store_url"]  # fixtures


def rows(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def notes(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    for number, text in enumerate(SENTENCES):
        (folder / f"{number}.txt").write_text(text + "\n", encoding="utf-8")
    lines = [{"id": "old", "text": "The old bank of the river.", "year": 1999, "lang": "en"}]
    lines += [{"id": "neu", "text": "Die neue Bank am Fluss.", "year": 2024, "lang": "de", "tags": ["left out"]}]
    (folder / "more.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    (folder / "table.csv").write_text("id,text,year\n007,The bank of the table.,2010\n")
    return folder


def test_from_files_to_a_store_and_back(run, folder, notes, store_url):
    call = ["index", notes, "--store", store_url, "-m", folder]
    code, out, err = run(*call, "--json")
    assert (code, err) == (0, "")
    (done,) = rows(out)
    assert {key: done[key] for key in ("documents", "unchanged", "repeated", "deleted")} == {
        "documents": 7,
        "unchanged": 0,
        "repeated": 0,
        "deleted": 0,
    }
    code, out, _ = run(*call)
    assert code == 0
    assert out.startswith("0 documents stored in 0 passages; 7 were there as they are; ")

    search = ["search", "the bank of the river", "--store", store_url, "-m", folder, "--json", "--top-k", 20]
    (found,) = rows(run(*search)[1])
    assert {hit["source"] for hit in found["results"]} >= {"old", "neu", "007"}
    assert [hit["score"] for hit in found["results"]] == sorted(
        (hit["score"] for hit in found["results"]), reverse=True
    )

    def sources(*more):
        code, out, err = run(*search, *more)
        assert (code, err) == (0, "")
        return {hit["source"] for hit in rows(out)[0]["results"]}

    assert sources("--where", "year>=2000") == {"neu", "007"}
    assert sources("--where", "year>=2000", "--where", "lang=de") == {"neu"}
    assert sources("--where", "year in 1999,2010", "--exact") == {"old", "007"}
    assert sources("--where", "nobody=knows") == set()
    (hit,) = rows(run(*search, "--where", "lang=de")[1])[0]["results"]
    assert hit["metadata"] == {"year": 2024, "lang": "de"}
    assert run("search", "river", "--store", store_url, "--method", "bm25")[0] == 0

    (notes / "more.jsonl").write_text('{"id": "old", "text": "A changed text."}\n')
    (done,) = rows(run(*call, "--delete", "neu", "--json")[1])
    assert (done["documents"], done["deleted"]) == (1, 1)
    assert not sources() & {"neu"}
    code, out, _ = run("index", "--store", store_url, "--delete", "old", "--delete", "nobody")
    assert (code, out) == (0, "1 of 2 documents were there, and are no longer\n")


def test_answers_out_of_a_store(run, built_in, notes, store_url):
    assert run("index", notes, "--store", store_url)[0] == 0
    code, out, err = run("ask", "Who was tired?", "--store", store_url, "--threshold", "inf", "--json")
    assert (code, err) == (0, "")
    (found,) = rows(out)
    assert found["context"] is not None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (["index", "--store", "{there}"], "nothing to do; name files or folders, or a document with --delete"),
        (["index", "{notes}", "--store", "mysql://u:secret@h/db"], "there is no store of the kind mysql:; "),
        (["index", "{notes}", "--store", "postgresql://u:secret@h:port/db"], "the URL of the store cannot be read; "),
        (["index", "postgresql://u:secret@h/db", "--store", "{there}"], "a URL stands where files are named; "),
        (["index", "{notes}", "--store", "postgresql://u:secret@h/db?table=a;drop"], "cannot be the name of a table; "),
        (["index", "{notes}", "--store", "postgresql://u:secret@h/db?table=a.b.c"], "cannot be the name of a table; "),
        (["search", "river"], "nothing to search; name files or folders with --in"),
        (["search", "river", "--store", "{there}", "--in", "{notes}"], "give --store, or --in and --index, not both"),
        (["search", "river", "--store", "{there}"], "holds no index yet; fill it first"),
        (["search", "river", "--store", "{there}", "--where", "year"], "'year' is no filter; write KEY=VALUE"),
        (
            ["search", "river", "--store", "{there}", "--server", "http://x"],
            "--store needs a model that is loaded here",
        ),
        (["ask", "Who?", "--store", "{there}", "--context", "{notes}"], "give --store or what to look in, not both"),
    ],
)
def test_what_is_refused_in_one_sentence(run, built_in, notes, tmp_path, call, message):
    names = {"there": str(tmp_path / "there"), "notes": str(notes)}
    code, out, err = run(*(part.format(**names) for part in call))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert "secret" not in err


def test_a_server_that_is_down_shows_no_password(run, built_in, notes):
    pytest.importorskip("psycopg")
    for url in (
        "postgresql://me:s3cret%20word@127.0.0.1:1/db?connect_timeout=2",
        "postgresql://me@127.0.0.1:1/db?password=s3cret",
        "postgresql://me:s3cret@127.0.0.1/db?sslmode=s3cret",
        "postgresql://me:s3cret%zz@127.0.0.1/db",
    ):
        code, out, err = run("search", "river", "--store", url)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "127.0.0.1" in err
        assert "s3cret" not in err


def test_killed_at_any_moment_and_started_again(folder, store_url, tmp_path, run):
    """SIGKILL while it embeds and writes: nothing is there twice, nothing is lost, nothing half."""
    lines = tmp_path / "many.jsonl"
    with lines.open("w") as file:
        for number in range(600):
            text = f"The bank number {number}.\\n\\nA second passage {number}."
            file.write(f'{{"id": "d{number}", "text": "{text}"}}\n')
    program = (
        "import sys; from clearhead.pipelines.search import {0} as m; m._BATCH = 40; "
        "from clearhead.cli import main; main()"
    )
    kind = "lance" if "lancedb" in store_url else "postgres" if "postgres" in store_url else "folder"
    call = [sys.executable, "-c", program.format(kind), "index", str(lines), "--store", store_url, "-m", str(folder)]
    environment = {**os.environ, "CLEARHEAD_QUIET": "1"}
    first = subprocess.Popen(call, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    from clearhead.pipelines.search.stored import StoredIndex

    with StoredIndex.open(store_url) as index:
        while first.poll() is None:
            try:
                if len(index) >= 100:
                    break
            except LookupError:
                time.sleep(0.01)
        first.send_signal(signal.SIGKILL)
        first.wait()
        there = len(index)
        assert there < 1200
        assert there % 2 == 0
    code, out, _ = run("index", lines, "--store", store_url, "-m", folder, "--json")
    assert code == 0
    (done,) = rows(out)
    assert done["stored"] == 1200
    assert done["unchanged"] >= there // 2
    with StoredIndex.open(store_url) as index:
        assert {hit.source for hit in index.search("number 377", method="bm25", top_k=1)} == {"d377"}
        for word in ("bank", "second"):
            assert index.store.frequencies([word]) == {word: 600}
