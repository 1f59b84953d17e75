"""Files of every kind become examples, or a sentence says what is wrong with them."""

import json
import logging

import pytest

from clearhead.data.examples import ChoiceExample, PairExample, QuestionExample, TextExample, WordsExample
from clearhead.data.formats import (
    is_dream,
    join_documents,
    misplaced,
    parse_classes,
    parse_score,
    read_choices,
    read_conll,
    read_dream,
    read_pairs,
    read_questions,
    read_squad,
    read_texts,
    read_words,
)
from clearhead.errors import BadInput, NotFound

# ---- tables

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


# ---- SQuAD


def write(tmp_path, *questions, context="Ada lived in London."):
    path = tmp_path / "squad.json"
    path.write_text(
        json.dumps({"data": [{"title": "A", "paragraphs": [{"context": context, "qas": list(questions)}]}]})
    )
    return path


def question(name="1", **fields):
    return {"id": name, "question": "Where?", "answers": [{"text": "London", "answer_start": 13}], **fields}


def test_both_versions(tmp_path):
    path = write(
        tmp_path,
        question(),
        question("2", answers=[], is_impossible=True, plausible_answers=[{"text": "Ada", "answer_start": 0}]),
    )
    assert read_squad(path) == [
        QuestionExample("1", "Where?", "Ada lived in London.", (("London", 13),)),
        QuestionExample("2", "Where?", "Ada lived in London.", (), True),
    ]


def test_misplaced_answers_are_found():
    answers = (("London", 13), ("London", 12), ("", 3), ("Ada", -3), ("London.", 99))
    found = misplaced(QuestionExample("1", "?", "Ada lived in London.", answers))
    assert found == [("London", 12, " Londo"), ("", 3, ""), ("Ada", -3, "Ada"), ("London.", 99, "")]


def test_two_questions_with_one_id_are_refused(tmp_path):
    for second in (question(), question(question="Who?")):
        message = (
            r"article 1, paragraph 1, question 2 has the id '1' of a question before it; give each question its own"
        )
        with pytest.raises(BadInput, match=message):
            read_squad(write(tmp_path, question(), second))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (
            question(answers=[{"text": "London"}]),
            "article 1, paragraph 1, question 1 has no whole number under 'answer_start'",
        ),
        (question(answers="London"), 'question 1 has no list under "answers"'),
        (question(question=None), "question 1 has no text under 'question'"),
        ({"question": "?"}, 'question 1 has no "id"'),
    ],
)
def test_malformed_questions_say_where(tmp_path, broken, message):
    with pytest.raises(BadInput, match=message):
        read_squad(write(tmp_path, broken))


def test_malformed_files(tmp_path):
    path = tmp_path / "a.json"
    with pytest.raises(NotFound):
        read_squad(path)
    for text, message in [("{", "is not JSON"), ("[]", "it has no list under"), ('{"data": []}', "has no questions")]:
        path.write_text(text)
        with pytest.raises(BadInput, match=message):
            read_squad(path)
    with pytest.raises(BadInput, match="no text under 'context'"):
        read_squad(write(tmp_path, context=None))


def test_flat_records_as_the_hub_has_them(tmp_path):
    path = tmp_path / "squad.jsonl"
    records = [
        {"id": "1", "question": "Who?", "context": "Ada.", "answers": {"text": ["Ada"], "answer_start": [0]}},
        {"id": "2", "question": "Who?", "context": "Ada.", "answers": {"text": [], "answer_start": []}},
        {"id": "3", "question": "Who?", "context": "Ada."},
    ]
    path.write_text("\n".join(map(json.dumps, records)))
    assert read_questions(path) == [
        QuestionExample("1", "Who?", "Ada.", (("Ada", 0),)),
        QuestionExample("2", "Who?", "Ada.", (), True),
        QuestionExample("3", "Who?", "Ada."),
    ]
    path.write_text(json.dumps(records[0] | {"answers": {"text": ["Ada"], "answer_start": []}}))
    with pytest.raises(BadInput, match="line 1 has 1 answers and 0 starts"):
        read_questions(path)
    path.write_text("\n".join(json.dumps(record | {"id": "1"}) for record in records))
    with pytest.raises(BadInput, match="line 2 has the id '1' of a question before it"):
        read_questions(path)
    path.write_text(json.dumps({"id": "1", "question": "Who?"}))
    with pytest.raises(BadInput, match="no column 'context'"):
        read_questions(path)


# ---- CoNLL

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


def test_other_columns_by_their_numbers(file):
    assert read_conll(file, tag=2)[0] == WordsExample(("EU", "rejects"), ("NNP", "VBZ"), opens=True)
    assert read_conll(file, word=2, tag=3)[0] == WordsExample(("NNP", "VBZ"), ("I-NP", "I-VP"), opens=True)
    assert [sentence.where for sentence in read_conll(file)] == [f"{file}, line 3", f"{file}, line 9"]
    with pytest.raises(BadInput, match="line 3 has 4 columns, not 5; a word and a tag are needed"):
        read_conll(file, tag=5)


def test_tabs_keep_spaces_inside_words(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("10 000\tNUM\r\nde\u2028x\tX\r\n\r\n".encode())
    assert read_conll(path) == [WordsExample(("10 000", "de\u2028x"), ("NUM", "X"))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a O\nb\n", "line 2 has 1 columns, not 2 as before"),
        ("a\t\n", "line 1 has an empty word or tag"),
        ("a\nb\n", "line 1 has 1 columns, not 2; a word and a tag are needed"),
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


# ---- DREAM


def test_dream(tmp_path):
    path = tmp_path / "dream.json"
    asked = {"question": "Who?", "choice": ["Ada", "Bob"], "answer": "Bob"}
    path.write_text(json.dumps([[["M: Hi.", "W: Hi."], [asked], "1"]]))
    assert read_dream(path) == [ChoiceExample("M: Hi.\nW: Hi.", ("Who? Ada", "Who? Bob"), 1)]
    path.write_text(json.dumps([[["M: Hi."], [{"question": "Who?"}], "1"]]))
    with pytest.raises(BadInput, match="dialogue 1 is not"):
        read_dream(path)
    path.write_text(json.dumps([[["M: Hi."], [asked | {"answer": "Eve"}], "1"]]))
    with pytest.raises(BadInput, match="dialogue 1 has the label 'Eve'"):
        read_dream(path)


def test_dream_is_told_from_records(tmp_path):
    path = tmp_path / "choices.json"
    for content, dream in (([[["M: Hi."], [], "1"]], True), ([{"context": "M: Hi."}], False), ([], False)):
        path.write_text(json.dumps(content))
        assert is_dream(path) is dream
    assert not is_dream(tmp_path / "nothing.json")
    assert not is_dream("hub:owner/name")
