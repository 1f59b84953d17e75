"""What a user meets with PostgreSQL: rights, tables of others, servers that go away."""

from secrets import token_hex

import pytest

from clearhead.data.documents import Document
from clearhead.errors import BadInput, NotFound
from clearhead.pipelines.search.store import Address
from clearhead.pipelines.search.stored import StoredIndex

psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def table(postgres):
    return f"t_{token_hex(4)}"


@pytest.fixture
def url(postgres, table):
    return f"{postgres}&table={table}"


@pytest.fixture
def now(postgres):
    with psycopg.connect(postgres, autocommit=True) as connection:
        yield connection


def test_without_the_right_to_make_the_extension(postgres, now, model):
    name = f"bare_{token_hex(4)}"
    now.execute(f"CREATE ROLE {name} LOGIN")
    now.execute(f"CREATE DATABASE {name}")
    url = postgres.replace("postgres:@/postgres", f"{name}:secret@/{name}")
    assert url != postgres
    with StoredIndex.open(url, model) as index:
        with pytest.raises(
            BadInput, match="this user may not create it; let an administrator run there: CREATE EXT"
        ) as error:
            index.add(["a bank"])
        assert "secret" not in str(error.value)
    with psycopg.connect(postgres.replace("/postgres?", f"/{name}?"), autocommit=True) as there:
        there.execute("CREATE EXTENSION vector")
    with StoredIndex.open(url, model) as index:
        with pytest.raises(BadInput, match="permission denied for schema public; ask for the right"):
            index.add(["a bank"])
        now.execute(f"ALTER DATABASE {name} OWNER TO {name}")
        index.add(["a bank"])
        assert len(index) == 1


def test_a_table_of_somebody_else(now, url, table, model):
    now.execute(f"CREATE TABLE {table} (id integer)")
    with (
        StoredIndex.open(url, model) as index,
        pytest.raises(BadInput, match="was not made by clearhead; name another"),
    ):
        index.add(["a bank"])
    assert now.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_tables_that_go_away(now, url, table, model):
    with StoredIndex.open(url, model) as index:
        index.add(["a bank"])
        now.execute(f"TRUNCATE {table}, {table}_words, {table}_facts")
        assert index.search("bank") == []
        with pytest.raises(NotFound, match="were emptied while they were written to; start again"):
            index.add(["another bank"])
        now.execute(f"DROP TABLE {table}, {table}_words, {table}_facts")
        with pytest.raises(NotFound, match=r"holds no passages \(any more\); fill it first"):
            index.search("bank")
    with StoredIndex.open(url, model) as index:
        index.add(["a bank"])
        assert len(index.search("bank")) == 1


def test_connections_that_the_server_closed_are_made_again(now, url, model):
    with StoredIndex.open(url, model) as index:
        index.add(["a bank"])
        before = index.search("bank")
        now.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        assert index.search("bank") == before


def test_a_schema_and_words_that_are_often_there(now, postgres, model):
    schema = f"s_{token_hex(4)}"
    now.execute(f"CREATE SCHEMA {schema}")
    with StoredIndex.open(f"{postgres}&table={schema}.notes", model) as index:
        many = [Document("bank " * times + "river " * 9, f"{times}") for times in (1, 2, 3, 40, 300)]
        index.add(many, max_characters=100_000)
        assert [hit.source for hit in index.search("bank", method="bm25")] == ["300", "40", "3", "2", "1"]
        assert now.execute(f"SELECT passages FROM {schema}.notes_words WHERE word = 'bank'").fetchone() == (5,)


def test_a_database_of_this_machine_by_its_name(postgres, table, model, monkeypatch):
    """As the page writes it: postgresql:///notes, and the rest in variables of PostgreSQL's library."""
    monkeypatch.setenv("PGHOST", postgres.partition("host=")[2])
    monkeypatch.setenv("PGUSER", "postgres")
    with StoredIndex.open(f"postgresql:///postgres?table={table}", model) as index:
        index.add(["a bank"])
        assert len(index) == 1
        assert repr(index) == f"StoredIndex(postgresql:///postgres?table={table})"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("postgresql://me:secret@host:5/db?table=t&sslpassword=secret", "postgresql://me@host:5/db?table=t"),
        ("postgres:///notes", "postgres:///notes"),
        ("lancedb+s3://bucket/a?aws_secret_access_key=secret", "lancedb+s3://bucket/a"),
        ("lancedb:///folder/a?table=b", "lancedb:///folder/a?table=b"),
    ],
)
def test_what_is_shown_of_an_address(given, shown):
    address = Address.read(given)
    assert str(address) == repr(address) == shown
    assert "secret" not in f"{address}"
