import json
import logging

import pytest

from clearhead.data.examples import ChoiceExample, PairExample, TextExample, WordsExample
from clearhead.data.formats import parse_classes, parse_score, read_choices, read_pairs, read_texts, read_words
from clearhead.errors import BadInput

GLUE = {
    "CoLA": ("gj04\t1\t\tThey sailed.\ngj04\t0\t*\tSailed they.\n", ("They sailed.", None, "1")),
    "SST-2": ("sentence\tlabel\na fine film \t1\n", ("a fine film ", None, "1")),
    "MRPC": (
        '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t2\t3\tHe said " no .\tNo .\n',
        ('He said " no .', "No .", "1"),
    ),
    "RTE": ("index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n", ("a", "b", "entailment")),
    "QNLI": ("index\tquestion\tsentence\tlabel\n0\ta?\tb\tnot_entailment\n", ("a?", "b", "not_entailment")),
    "QQP": ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\ta\tb\t0\n", ("a", "b", "0")),
    "MNLI": (
        "index\tsentence1\tsentence2\tlabel1\tgold_label\n0\ta\tb\tneutral\tentailment\n",
        ("a", "b", "entailment"),
    ),
    "SICK": (
        "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n1\ta\tb\t4.5\tNEUTRAL\n",
        ("a", "b", "NEUTRAL"),
    ),
    "ours": ("text\tpair\tlabel\na\tb\tyes\n", ("a", "b", "yes")),
    "SMS": ("ham\tGo until jurong\nspam\tWIN\n", ("Go until jurong", None, "ham")),
}


@pytest.mark.parametrize("name", GLUE)
def test_published_files(tmp_path, name, caplog):
    caplog.set_level(logging.INFO)
    text, expected = GLUE[name]
    path = tmp_path / ("SMSSpamCollection" if name == "SMS" else "train.tsv")
    path.write_text(text, "utf-8")
    assert read_texts(path)[0] == TextExample(*expected)
    assert caplog.messages
    assert all(str(path) in line for line in caplog.messages)


def test_regression(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("index\tsentence1\tsentence2\tscore\n0\ta\tb\t4.750\n")
    assert read_texts(path, parse=parse_score) == [TextExample("a", "b", 4.75)]
    assert read_pairs(path) == [PairExample("a", "b", 4.75)]


def test_given_names_win_and_nothing_is_guessed_then(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    path = tmp_path / "a.csv"
    path.write_text("text,label,body,stars\na,1,b,5\n")
    assert read_texts(path, text="body", label="stars") == [TextExample("b", None, "5")]
    assert not caplog.messages


def test_a_file_without_a_header(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('"Oil prices, again",3\nRain,1\n')
    with pytest.raises(BadInput, match=r"no column with a usual name for the text; its columns are 'Oil prices, ag"):
        read_texts(path)


def test_labels_of_all_types(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"text": "a", "label": label}) for label in (1, 2.0, True, "x")))
    assert [example.label for example in read_texts(path)] == ["1", "2", "true", "x"]


def test_several_labels(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text,labels\na,"x, y"\nb,\n')
    assert [example.label for example in read_texts(path, parse=parse_classes)] == [("x", "y"), ()]


def test_without_a_label_column_nothing_is_known(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text\na\n")
    assert read_texts(path) == [TextExample("a")]


@pytest.mark.parametrize(
    ("records", "options", "message"),
    [
        ([{"text": "a", "label": 1}, {"text": None, "label": 1}], {}, "line 2 has None for 'text', which is no text"),
        ([{"text": "a", "label": 1}, {"text": "b"}], {}, "line 2 has None for a label in column 'label'"),
        ([{"text": "a", "label": ""}], {}, "line 1 has '' for a label"),
        (
            [{"text": "a", "score": "high"}],
            {"parse": parse_score},
            "line 1 has 'high' for a score, which is not a number",
        ),
        ([{"text": "a", "score": float("nan")}], {"parse": parse_score}, "has nan for a score"),
        ([{"text": "a", "label": 1}], {"parse": parse_classes}, "line 1 has 1 for labels; write a list"),
        ([{"text": "a", "label": 1}], {"text": "body"}, "no column 'body' for the text; its columns are 'text'"),
        ([{"text": "a", "label": 1}], {"pair": "text"}, "Give the column of the first text too"),
    ],
)
def test_rows_that_do_not_fit(tmp_path, records, options, message):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    with pytest.raises(BadInput, match=message):
        read_texts(path, **options)


def test_pairs_need_two_texts(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,1\n")
    with pytest.raises(BadInput, match="for the two texts"):
        read_pairs(path)
    path.write_text("anchor,positive\na,b\n")
    assert read_pairs(path) == [PairExample("a", "b")]


def test_words(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": ["Ada", "ran"], "ner_tags": ["B-PER", "O"]}\n')
    assert read_words(path) == [WordsExample(("Ada", "ran"), ("B-PER", "O"))]
    path.write_text('{"tokens": ["Ada", "ran"], "ner_tags": ["B-PER"]}\n')
    with pytest.raises(BadInput, match="line 1 has 2 words and 1 tags"):
        read_words(path)
    path.write_text('{"tokens": "Ada ran", "ner_tags": ["B-PER"]}\n')
    with pytest.raises(BadInput, match="'Ada ran' for 'tokens', which is no list"):
        read_words(path)


def test_choices(tmp_path):
    path = tmp_path / "swag.csv"
    path.write_text("sent1,ending0,ending1,label\nHe,runs.,eats.,1\n")
    assert read_choices(path) == [ChoiceExample("He", ("runs.", "eats."), 1)]
    path = tmp_path / "a.jsonl"
    path.write_text('{"question": "He", "choices": ["runs.", "eats."], "answer": "runs."}\n')
    assert read_choices(path) == [ChoiceExample("He", ("runs.", "eats."), 0)]
    path.write_text('{"article": "He ran.", "question": "What?", "options": ["To run.", "To eat."], "answer": "B"}\n')
    assert read_choices(path) == [ChoiceExample("He ran.", ("What? To run.", "What? To eat."), 1)]
    path.write_text('{"question": "He", "choices": ["runs.", "eats."], "answer": "2"}\n')
    with pytest.raises(BadInput, match="line 1 has the label '2', which is none of its choices"):
        read_choices(path)
    path.write_text('{"question": "He", "choices": ["runs."], "answer": 0}\n')
    with pytest.raises(BadInput, match="1 choices; there must be 2 or more"):
        read_choices(path)
