"""Files cut into shards: every row once, in order, whatever the kind of file; bad rows are told, bad files refused."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bulk.rows import records, write_jsonl, write_parquet, write_table
from clearhead.bulk.inputs import find_sources, plan, read_rows
from clearhead.errors import BadInput, NotFound


def read(path, rows, wanted=("id", "text"), out=None):
    """All rows of a file, shard by shard; with their lines, and what is wrong."""
    (source,) = find_sources([path], out or path.parent / "out")
    found, lines, errors = [], [], {}
    for shard in plan([source], [wanted[1:]], rows):
        part = read_rows(source, shard, wanted)
        assert len(part.lines) <= shard.rows <= rows
        errors |= {part.lines[place]: wrong for place, wrong in part.errors.items()}
        columns = [part.columns[name] for name in wanted]
        columns = [one.to_pylist() if hasattr(one, "to_pylist") else one for one in columns]
        found += zip(*columns, strict=True)
        lines += part.lines
    return found, lines, errors


@pytest.mark.parametrize("rows", [1, 7, 50, 1000])
@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.csv", "a.tsv"])
def test_every_row_once_and_in_order(tmp_path, name, rows):
    given = records(60)
    if "parquet" in name:
        path = write_parquet(tmp_path / name, given, groups=25)
    elif "jsonl" in name:
        path = write_jsonl(tmp_path / name, given)
    else:
        # a line of tsv holds no line end and no tab
        for row in given:
            text = row["text"] or ""
            row["text"] = text if name == "a.csv" else " ".join(text.split())
        path = write_table(tmp_path / name, given)
    found, lines, errors = read(path, rows)
    assert found == [(row["id"], row["text"]) for row in given]
    assert errors == {}
    assert lines == sorted(set(lines))
    assert lines[0] == (2 if name in ("a.csv", "a.tsv") else 1)


def test_records_of_csv_may_hold_lines_and_quotes(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfid,text\r\n1,"a\nb, ""c"""\r\n\r\n2,d"e\r\n3\r\n4,\xff\r\n5,"f"')
    for rows in (1, 2, 100):
        found, lines, errors = read(path, rows)
        assert found == [("1", 'a\nb, "c"'), ("2", 'd"e'), (None, None), (None, None), ("5", "f")]
        assert lines == [2, 5, 6, 7, 8]
        assert errors == {6: "a.csv, line 6 has 1 columns, not 2", 7: "a.csv, line 7 is not UTF-8 text"}


def test_bad_lines_are_told_and_the_others_read(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"id": 1, "text": "a"}\n\nno\n[1]\n{"id": 2}\n{"id": 3, "text": "\xff"}\n{"id": 4, "text": "b"}')
    for rows in (1, 3, 100):
        found, lines, errors = read(path, rows)
        assert found == [(1, "a"), (None, None), (None, None), (2, None), (None, None), (4, "b")]
        assert lines == [1, 3, 4, 5, 6, 7]
        assert errors[3].startswith("a.jsonl, line 3 is not JSON (")
        assert errors[4] == "a.jsonl, line 4 is no JSON object"
        assert errors[6] == "a.jsonl, line 6 is not UTF-8 text"


def test_text_has_a_row_for_each_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\r\nthr\xffee\nfour")
    (source,) = find_sources([path], tmp_path / "out")
    (shard,) = plan([source], [["text"]], 100)
    found = read_rows(source, shard, ["text"])
    assert (found.columns, found.lines) == ({"text": ["one", "", None, "four"]}, [1, 2, 3, 4])
    assert found.errors == {2: "a.txt, line 3 is not UTF-8 text"}


def test_long_rows_make_small_shards(tmp_path, monkeypatch):
    monkeypatch.setattr("clearhead.bulk.inputs._SHARD_BYTES", 5000)
    given = [{"id": str(number), "text": "long " * 500} for number in range(9)]
    for path in (write_parquet(tmp_path / "a.parquet", given, groups=4), write_jsonl(tmp_path / "b.jsonl", given)):
        (source,) = find_sources([path], tmp_path / "out")
        assert len(plan([source], [["text"]], 1000)) >= 3
        assert read(path, 1000)[0] == [(row["id"], row["text"]) for row in given]


def test_folders_and_patterns_are_found_and_results_are_not(tmp_path):
    (tmp_path / "in" / "more").mkdir(parents=True)
    for name in ("b.jsonl", "a.jsonl", "more/c.jsonl", "out.jsonl"):
        write_jsonl(tmp_path / "in" / name, records(2))
    (tmp_path / "in" / "note.pdf").touch()
    (tmp_path / "in" / "done").mkdir()
    write_jsonl(tmp_path / "in" / "done" / "part-000000.jsonl", records(2))
    found = find_sources([tmp_path / "in"], tmp_path / "in" / "done")
    assert [one.name for one in found] == ["a.jsonl", "b.jsonl", "more/c.jsonl", "out.jsonl"]
    found = find_sources([str(tmp_path / "in" / "?.jsonl"), tmp_path / "in" / "a.jsonl"], tmp_path / "out")
    assert [one.name for one in found] == ["a.jsonl", "b.jsonl"]
    with pytest.raises(BadInput, match="holds nothing but what is written to"):
        find_sources([tmp_path / "in" / "done"], tmp_path / "in" / "done")
    with pytest.raises(NotFound, match="There is no file"):
        find_sources([tmp_path / "none.csv"], tmp_path / "out")
    with pytest.raises(BadInput, match="ends in none of"):
        find_sources([tmp_path / "in" / "note.pdf"], tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.parquet", b"not parquet at all", "is not parquet, or damaged"),
        ("a.parquet.gz", gzip.compress(b"x", mtime=0), "is packed, and parquet is read from its end; unpack it"),
        ("a.jsonl", b"\x00\x01\x02\n", "hold no JSON object; is it of another kind?"),
        ("a.csv", b"a,a\n1,2\n", "has two columns named 'a'"),
        ("a.csv", b"a,b\r1,2\r", r"line 1 is not csv \(new-line character seen in unquoted field\); mend that line"),
        ("a.jsonl.gz", b"not packed", "cannot be read"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=message):
        find_sources([tmp_path / name], tmp_path / "out")


def test_a_file_that_ends_early_is_refused_when_it_is_cut(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl.gz", records(3000))
    path.write_bytes(path.read_bytes()[:-40])
    sources = find_sources([path], tmp_path / "out")
    with pytest.raises(BadInput, match="cannot be read"):
        plan(sources, [["text"]], 1000)


def test_row_groups_that_are_small_are_joined_and_large_ones_cut(tmp_path):
    table = pa.table({"text": ["a"] * 100})
    for groups, rows, expected in ((10, 30, [30, 30, 30, 10]), (100, 30, [30, 30, 30, 10]), (40, 50, [40, 40, 20])):
        pq.write_table(table, tmp_path / "a.parquet", row_group_size=groups)
        sources = find_sources([tmp_path / "a.parquet"], tmp_path / "out")
        assert [one.rows for one in plan(sources, [["text"]], rows)] == expected
