import pytest

from clearhead.data.examples import WordsExample
from clearhead.data.formats import join_documents, read_conll, to_iob2
from clearhead.errors import BadInput, NotFound

FILE = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

-DOCSTART- -X- -X- O


Peter NNP I-NP I-PER
Paul NNP I-NP B-PER"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "eng.train"
    path.write_text(FILE)
    return path


def test_sentences(file):
    assert read_conll(file) == [
        WordsExample(("EU", "rejects"), ("I-ORG", "O"), opens=True),
        WordsExample(("Peter", "Paul"), ("I-PER", "B-PER"), opens=True),
    ]


def test_documents(tmp_path):
    path = tmp_path / "a"
    path.write_text("-DOCSTART- O\n\na B-X\n\nb O\nc O\n\n-DOCSTART- O\n\nd O\n")
    assert join_documents(read_conll(path)) == [
        WordsExample(("a", "b", "c"), ("B-X", "O", "O"), opens=True, sentences=(1, 2)),
        WordsExample(("d",), ("O",), opens=True, sentences=(1,)),
    ]
    path.write_text("a B-X\n\nb O\n")
    with pytest.raises(BadInput, match="none of these sentences opens a document; -DOCSTART- lines"):
        join_documents(read_conll(path))


def test_iob2(file):
    assert [example.tags for example in read_conll(file, iob2=True)] == [("B-ORG", "O"), ("B-PER", "B-PER")]


@pytest.mark.parametrize(
    ("iob1", "iob2"),
    [
        ("I-A I-A O I-A", "B-A I-A O B-A"),
        ("I-A I-B B-B I-B", "B-A B-B B-B I-B"),
        ("B-A I-A I-B", "B-A I-A B-B"),
    ],
)
def test_to_iob2(iob1, iob2):
    assert to_iob2(iob1.split()) == iob2.split()
    assert to_iob2(iob2.split()) == iob2.split()


def test_tabs_keep_spaces_inside_words(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("10 000\tNUM\r\nde\u2028x\tX\r\n\r\n".encode())
    assert read_conll(path) == [WordsExample(("10 000", "de\u2028x"), ("NUM", "X"))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a O\nb\n", "line 2 has 1 columns, not 2 as before"),
        ("a\t\n", "line 1 has an empty word or tag"),
        ("-DOCSTART- O\n\n", "has no sentences"),
    ],
)
def test_malformed_files_say_where(tmp_path, text, message):
    path = tmp_path / "a.txt"
    path.write_text(text)
    with pytest.raises(BadInput, match=message):
        read_conll(path)


def test_missing_or_not_text(tmp_path):
    with pytest.raises(NotFound, match="There is no file"):
        read_conll(tmp_path / "no")
    (tmp_path / "a").write_bytes(b"\xff")
    with pytest.raises(BadInput, match="is not UTF-8"):
        read_conll(tmp_path / "a")
