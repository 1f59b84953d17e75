"""Files as people have them become documents: encodings, HTML, PDF, tables, and what is left out."""

import gzip
import io
import json
import sys

import pytest

from clearhead.data.documents import Document, decoded, decoded_lines, html_text, read_by_line, read_documents
from clearhead.errors import BadInput, NotFound


@pytest.fixture
def told():
    return []


def test_documents_of_files_and_folders(tmp_path, told):
    (tmp_path / "deep").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "hidden.txt").write_text("hidden")
    (tmp_path / "b.txt").write_bytes(b"one\r\ntwo")
    (tmp_path / "deep" / "a.md").write_text("# three")
    (tmp_path / "c.jsonl").write_text('{"text": "four", "id": 7}\n\n{"text": "five"}\n')
    (tmp_path / "README").write_text("six")
    (tmp_path / "e.txt.gz").write_bytes(gzip.compress(b"seven"))
    (tmp_path / "ignored.py").write_text("print()")
    assert list(read_documents([tmp_path], told.append)) == [
        Document("six", str(tmp_path / "README")),
        Document("one\r\ntwo", str(tmp_path / "b.txt")),
        Document("four", "7"),
        Document("five", f"{tmp_path / 'c.jsonl'}:3"),
        Document("# three", str(tmp_path / "deep" / "a.md")),
        Document("seven", str(tmp_path / "e.txt.gz")),
    ]
    assert told == [f"left out 1 of the files in {tmp_path}, whose kinds are not read: .py"]
    assert next(read_documents([tmp_path / "ignored.py"])).text == "print()"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"text": "a"}\nnonsense', "line 2 is not JSON"),
        ('{"id": 3}', 'no string under "text"'),
        ('{"text": "a", "id": []}', "no string or number"),
    ],
)
def test_bad_lines_are_named(tmp_path, told, content, message):
    file = tmp_path / "lines.jsonl"
    file.write_text(content)
    with pytest.raises(BadInput, match=message):
        list(read_documents([file]))
    # among other files, the line alone is left out
    (tmp_path / "other.txt").write_text("other")
    file.write_text(content + '\n{"text": "last"}')
    found = [one.text for one in read_documents([tmp_path], told.append)]
    assert found[-2:] == ["last", "other"]
    assert len(told) == 1
    assert message in told[0]


def test_missing_files_and_empty_folders(tmp_path):
    with pytest.raises(NotFound, match=r"holds no file that ends in .*\.txt.*; name the files themselves"):
        list(read_documents([tmp_path]))
    with pytest.raises(NotFound, match="There is no file"):
        list(read_documents([tmp_path / "no.txt"]))


def test_what_cannot_be_read_is_left_out_and_told(tmp_path, told):
    (tmp_path / "bytes.txt").write_bytes(bytes(range(256)))
    with pytest.raises(BadInput, match=r"bytes.txt is no text: it holds bytes that no text has"):
        list(read_documents([tmp_path]))
    (tmp_path / "letter.pdf").write_text("no PDF")
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(b"x" * 1000)[:20])
    with pytest.raises(BadInput, match=r"none of the 3 files can be read; the first: .*bytes.txt is no text"):
        list(read_documents([tmp_path], told.append))
    assert [line.partition(": ")[0] for line in told] == ["left out"] * 3
    (tmp_path / "good.txt").write_text("good")
    with pytest.warns(UserWarning, match="left out: ") as warned:
        assert [one.text for one in read_documents([tmp_path])] == ["good"]
    assert len(warned) == 3
    (tmp_path / "a.odt").write_bytes(b"PK\x03\x04\x00")
    with pytest.raises(BadInput, match=r"is no text \(a .docx, .odt or .zip\?\)"):
        list(read_documents([tmp_path / "a.odt"]))


def test_of_many_that_cannot_be_read_the_rest_is_counted(tmp_path, told):
    for number in range(30):
        (tmp_path / f"{number}.txt").write_bytes(b"\0")
    (tmp_path / "good.txt").write_text("good")
    assert [one.text for one in read_documents([tmp_path], told.append)] == ["good"]
    assert len(told) == 21
    assert told[-1] == "left out 10 more that cannot be read, 30 in all"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252", "latin-1"])
def test_encodings(told, encoding):
    text = "Café déjà vu\r\nnaïve\rlast"
    content = text.encode(encoding)
    assert decoded(content, "file", told.append) == text
    assert list(decoded_lines(io.BytesIO(content), "file", told.append)) == text.splitlines()
    guessed = encoding in ("cp1252", "latin-1")
    assert told == guessed * [
        "file is not UTF-8 (byte 3); it is read as Windows-1252",
        "file is not UTF-8 (line 1); what is not is read as Windows-1252",
    ]


def test_no_byte_is_lost(told):
    every = bytes(code for code in range(9, 256) if code not in range(14, 32))
    assert len(decoded(every, "file", told.append)) == len(every)
    assert "“" in decoded(b"\x93caf\xe9\x81", "file", told.append)
    for broken in (b"\xff\xfea", b"\xff\xfe\x00\x00\xff"):
        with pytest.raises(BadInput, match="says that it is UTF-"):
            decoded(broken, "file", told.append)
        with pytest.raises(BadInput, match="says that it is UTF-"):
            list(decoded_lines(io.BytesIO(broken), "file", told.append))


def test_lines_of_a_huge_line_and_of_nothing(told):
    assert list(decoded_lines(io.BytesIO(b""), "file", told.append)) == []
    huge = b"word " * 400_000
    assert [len(line) for line in decoded_lines(io.BytesIO(huge + b"\nnext"), "file", told.append)] == [len(huge), 4]


PAGE = """<!DOCTYPE html><html><head><title>My  page</title><style>p {color: red}</style></head><body>
<nav><ul><li>Home<li>Away</ul></nav><header><h1>Dogs
 &amp; cats</h1></header><p>They <b>bark</b>.<br>Loud.</p><ul><li>one<li>two</ul>
<pre>a
  b
</pre><table><tr><td>1</td><td>2</td></tr><tr><td>3</td></tr></table><script>if (x < 1) { nav() }</script>caf&eacute;
<!-- a remark --></body></html>"""


def test_html_is_what_a_reader_sees(tmp_path):
    expected = "My page\n\nDogs & cats\n\nThey bark.\nLoud.\n\none\ntwo\n\na\n  b\n\n1 2\n3\n\ncafé"
    assert html_text(PAGE) == expected
    for name in ("page.html", "page", "page.php"):
        (tmp_path / name).write_text(PAGE)
        assert next(read_documents([tmp_path / name])).text == expected
    (tmp_path / "latin.html").write_bytes('<meta charset="iso-8859-2"><p>łódź</p>'.encode("iso-8859-2"))
    assert next(read_documents([tmp_path / "latin.html"])).text == "łódź"
    assert [text for _, _, text in read_by_line([tmp_path / "latin.html"])] == ["łódź"]


@pytest.mark.parametrize("page", ["<nav>no end<p>text", "<p>text</nav></script>", "<svg/>text", "text", "<p>text<b"])
def test_html_as_people_write_it(page):
    assert "text" in html_text(page)


def test_tables(tmp_path, told):
    (tmp_path / "a.csv").write_text('id;name;price\n7;Oak table;45\n8;"Lamp; red";\n\n')
    (tmp_path / "b.csv").write_text('Review,stars\n"very\ngood",5\nbad,1\n')
    (tmp_path / "c.tsv").write_text('1\ta "quoted\n2\tb\n')
    (tmp_path / "d.csv").write_text("text\n" + "long " * 100_000 + "\n")
    found = list(read_documents([tmp_path], told.append))
    assert found[0] == Document("id: 7\nname: Oak table\nprice: 45", "7")
    assert found[2:4] == [
        Document("very\ngood", f"{tmp_path / 'b.csv'}:2", {"stars": 5}),
        Document("bad", f"{tmp_path / 'b.csv'}:4", {"stars": 1}),
    ]
    assert [one.text for one in found[4:6]] == ['1\na "quoted', "2\nb"]
    assert len(found[6].text) == 500_000
    assert told == []
    assert list(read_by_line([tmp_path / "b.csv"])) == [
        (str(tmp_path / "b.csv"), 2, "very\ngood"),
        (str(tmp_path / "b.csv"), 4, "bad"),
    ]


def pdf(*lines: str) -> bytes:
    """A PDF of one page, as short as one can be."""
    shown = " ".join(f"({line}) Tj T*" for line in lines)
    stream = f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET".encode()
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
    ]
    whole, places = b"%PDF-1.4\n", []
    for number, part in enumerate(parts, start=1):
        places.append(len(whole))
        whole += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return whole + b"xref\n0 5\n0000000000 65535 f \n%strailer << /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (
        table,
        len(whole),
    )


def test_pdf(tmp_path):
    pytest.importorskip("pypdf")
    file = tmp_path / "letter.pdf"
    file.write_bytes(pdf("Dear Ada,", "the engine works."))
    (found,) = read_documents([file])
    assert found.text.split("\n") == ["Dear Ada,", "the engine works."]
    file.write_bytes(pdf())
    with pytest.raises(BadInput, match="holds no text, only pictures of pages"):
        list(read_documents([file]))
    file.write_bytes(pdf("Dear Ada,")[:200])
    with pytest.raises(BadInput, match="cannot be read as PDF"):
        list(read_documents([file]))


def test_pdf_without_the_package(tmp_path, monkeypatch, told):
    monkeypatch.setitem(sys.modules, "pypdf", None)
    (tmp_path / "letter.pdf").write_bytes(pdf("Dear Ada,"))
    with pytest.raises(NotFound, match=r"Reading letter.pdf needs pypdf, .* pip install 'clearhead\[pdf\]'"):
        list(read_documents([tmp_path / "letter.pdf"]))
    (tmp_path / "a.txt").write_text("a")
    assert [one.text for one in read_documents([tmp_path], told.append)] == ["a"]
    assert "needs pypdf" in told[0]


def test_what_else_a_line_says_is_metadata(tmp_path):
    line = {"text": "a", "id": 3, "year": 1999, "ok": True, "x": 0.5, "none": None, "many": [1], "in": {"b": 1}}
    (tmp_path / "a.jsonl").write_text(json.dumps(line) + '\n{"text": "b", "far": 1e999, "nan": NaN}\n')
    (tmp_path / "b.csv").write_text("Text,Year,Code,Note\nc,2020,007,\nd,1e5,99999999999999999999,NaN\n")
    found = [one.metadata for one in read_documents([tmp_path])]
    assert found == [
        {"year": 1999, "ok": True, "x": 0.5},
        {},
        {"year": 2020, "code": "007"},
        {"year": 1e5, "code": "99999999999999999999", "note": "NaN"},
    ]
