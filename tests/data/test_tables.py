"""Tables out of files and of the hub."""

import csv
import json
import sys
from types import SimpleNamespace

import pyarrow
import pyarrow.parquet
import pytest

from clearhead.data.formats import read_texts, read_words
from clearhead.data.tables import open_pairs, open_table, read_hub
from clearhead.errors import BadInput, NotFound

# ---- files


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_csv_keeps_quotes_commas_and_line_breaks_inside_fields(tmp_path):
    path = write(tmp_path, "a.csv", '\ufefftext,label\r\n"a, ""b""\nc",1\r\nd,0\r\n')
    table = open_table(path)
    assert table.columns == ("text", "label")
    assert table.rows == [['a, "b"\nc', "1"], ["d", "0"]]
    assert table.where(1) == f"{path}, line 4"


def test_tsv_has_no_quotes_and_only_line_feeds_end_a_line(tmp_path):
    table = open_table(write(tmp_path, "a.tsv", 'text\tlabel\n"open\t1\na\u2028b\rc\t0\r\n\n'))
    assert table.rows == [['"open', "1"], ["a\u2028b\rc", "0"]]


def test_header_can_be_given(tmp_path):
    assert open_table(write(tmp_path, "a.csv", "a,1\nb,0\n"), ["text", "label"]).column("text") == ["a", "b"]


def test_json_jsonl_and_parquet_give_the_same_table(tmp_path):
    records = [{"text": "a", "label": 1}, {"text": "b"}]
    tables = [
        open_table(write(tmp_path, "a.json", json.dumps(records))),
        open_table(write(tmp_path, "b.json", json.dumps({"data": records}))),
        open_table(write(tmp_path, "a.jsonl", "\n\n".join(map(json.dumps, records)))),
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), tmp_path / "a.parquet")
    tables.append(open_table(tmp_path / "a.parquet"))
    for table in tables:
        assert table.columns == ("text", "label")
        assert [list(row) for row in table.rows] == [["a", 1], ["b", None]]
    assert tables[2].where(1).endswith("a.jsonl, line 3")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "text,label\na\n", r"a\.csv, line 2 has 1 columns, not 2 \(text, label\)"),
        ("a.tsv", "text\tlabel\na\t1\nb\t1\t2\n", r"a\.tsv, line 3 has 3 columns"),
        ("a.csv", 'text,label\na,1\n"b,1\n', r"a\.csv, line 3 is not csv \(unexpected end of data\)"),
        ("a.tsv", "text\tlabel\n\na\t1\n", r"a\.tsv, line 2 is empty"),
        ("a.tsv", "text\tlabel\n", r"a\.tsv has no rows"),
        ("a.csv", "text,text\na,b\n", r"two columns named 'text'"),
        ("a.jsonl", '{"a": 1}\n{"a"\n', r"a\.jsonl, line 2 is not JSON"),
        ("a.jsonl", '{"a": 1}\n[2]\n', r"a\.jsonl, line 2 is not a record"),
        ("a.json", '{"rows": []}', "neither a list of records"),
        ("a.json", "[]", "has no rows"),
        ("a.json", "[1]", "record 1 is not a record"),
        ("a.tsv", b"text\tlabel\n\xff\t1\n", r"is not UTF-8 text \(byte 11\)"),
        ("a.parquet", "no", "is not parquet"),
    ],
)
def test_malformed_files_say_where(tmp_path, name, text, message):
    with pytest.raises(BadInput, match=message):
        open_table(write(tmp_path, name, text))


@pytest.mark.parametrize("name", ["no.csv", "no.parquet"])
def test_a_missing_file_is_said_to_be_missing(tmp_path, name):
    with pytest.raises(NotFound, match=rf"no file .*{name}"):
        open_table(tmp_path / name)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(BadInput, match="is a folder; name the files in it"):
        open_table(tmp_path)


def test_long_fields_are_read_and_the_process_keeps_its_limit(tmp_path):
    before = csv.field_size_limit()
    assert open_table(write(tmp_path, "a.csv", "text\n" + "a" * 200_000)).rows == [["a" * 200_000]]
    assert csv.field_size_limit() == before


def test_a_missing_column_is_named_with_those_there(tmp_path):
    with pytest.raises(BadInput, match=r"no column 'c'; it has 'a', 'b'"):
        open_table(write(tmp_path, "a.csv", "a,b\n1,2\n")).column("c")


# ---- the hub


class StandIn:
    """What load_dataset gives back, as far as we use it."""

    def __init__(self, features, records):
        self.features = features
        self._records = records

    def __len__(self):
        return len(self._records)

    def to_list(self):
        return self._records


def classes(*names):
    return SimpleNamespace(names=list(names))


@pytest.fixture
def asked(monkeypatch):
    calls = []
    text = SimpleNamespace()
    texts = StandIn(
        {"sentence": text, "label": classes("bad", "good")},
        [{"sentence": "a", "label": 1}, {"sentence": "b", "label": 0}],
    )
    unlabelled = StandIn(texts.features, [{"sentence": "a", "label": -1}])
    words = StandIn(
        {"tokens": SimpleNamespace(feature=text), "ner_tags": SimpleNamespace(feature=classes("O", "B-PER"))},
        [{"tokens": ["Ada", "ran"], "ner_tags": [1, 0]}],
    )

    def load_dataset(name, config, *, split):
        calls.append((name, config, split))
        if name == "owner/nothing":
            raise ValueError("Unknown split\nand much more")
        return {"words": words, "owner/empty": StandIn({}, [])}.get(name, unlabelled if split == "test" else texts)

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return calls


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("hub:glue", ("glue", None, "train")),
        ("hub:owner/name:sst2", ("owner/name", "sst2", "train")),
        ("hub:owner/name:validation", ("owner/name", None, "validation")),
        ("hub:owner/name:train[:100]", ("owner/name", None, "train[:100]")),
        ("hub:owner/name:sst2:dev", ("owner/name", "sst2", "dev")),
    ],
)
def test_config_and_split(asked, name, call):
    read_hub(name)
    assert asked == [call]


@pytest.mark.parametrize("name", ["hub:", "hub:a:b:c:d", "hub:a::train"])
def test_names_that_are_none(name):
    with pytest.raises(BadInput, match="write hub:owner/name"):
        read_hub(name)


def test_classes_come_by_name(asked):
    assert [example.label for example in read_texts("hub:owner/name")] == ["good", "bad"]
    assert read_words("hub:words")[0].tags == ("B-PER", "O")


def test_no_label_is_none(asked):
    assert read_texts("hub:owner/name:test")[0].label is None


def test_what_cannot_be_had_is_one_line(asked):
    with pytest.raises(NotFound, match=r"'hub:owner/nothing' cannot be had \(Unknown split\); check"):
        read_hub("hub:owner/nothing")
    with pytest.raises(BadInput, match="has no rows"):
        read_hub("hub:owner/empty")


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("one.tsv", "a\tb\n", [("a", "b")]),  # a single pair is no header
        ("same.tsv", "a\ta\n", [("a", "a")]),
        ("quoted.csv", '"a, and b",c\n', [("a, and b", "c")]),
        ("glue.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t1\n", [("a", "b")]),
        ("turned.tsv", "hypothesis\tPremise\nb\ta\n", [("a", "b")]),
    ],
)
def test_pairs_need_no_header_where_there_are_two_columns(tmp_path, name, content, rows):
    (tmp_path / name).write_text(content)
    table = open_pairs(tmp_path / name)
    assert (table.columns, [tuple(row) for row in table.rows]) == (("first", "second"), rows)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\tc\nd\te\tf\n", "has no two texts a row: its columns are 'a', 'b', 'c'; leave two columns"),
        ("a\nb\n", "has no two texts a row: its columns are 'a'"),
        ("a\tb\nc\n", "line 2 has 1 columns, not 2"),
        ("first\tsecond\n", "has no rows"),
        ("", "has no rows"),
    ],
)
def test_tables_without_pairs(tmp_path, content, message):
    (tmp_path / "pairs.tsv").write_text(content)
    with pytest.raises(BadInput, match=message):
        open_pairs(tmp_path / "pairs.tsv")
