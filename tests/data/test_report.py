"""What a report on data sets says."""

import json

import pytest

from clearhead.data.encode import encode_answers, encode_tags
from clearhead.data.examples import ChoiceExample, PairExample, QuestionExample, TextExample, WordsExample
from clearhead.data.report import describe
from clearhead.errors import BadInput, InputTooLong
from data.small import SENTENCES, tokenizer


def test_texts():
    train = [
        TextExample("the cat", None, "yes"),
        TextExample("the cat", None, "no"),
        TextExample("a " * 20, None, "yes"),
    ]
    dev = [TextExample("the cat", None, "maybe"), TextExample(" ", None, None)]
    found = describe({"train": train, "dev": dev}, tokenizer(), length=10)
    first, second = found.sets
    assert (first.rows, first.labels, first.repeated, first.longer, first.windows) == (
        3,
        {"yes": 2, "no": 1},
        1,
        1,
        None,
    )
    assert first.longest == 22
    assert first.mean == pytest.approx(sum(len(tokenizer().encode(e.text)) for e in train) / 3)
    assert (second.unlabelled, second.empty) == (1, 1)
    assert found.shared == {"dev": 1}
    assert found.new_labels == {"dev": ["maybe"]}
    text = str(found)
    for line in [
        "train: 3 rows",
        "  labels    yes 2, no 1",
        "  cut       1 inputs are longer than 10 tokens and will be cut",
        "  note      1 rows there more than once",
        "  note      1 rows also in train",
        "  note      1 rows with an empty text",
        "  note      labels that train has not, which are refused: maybe",
        "  example   the cat → yes",
    ]:
        assert line in text.splitlines()
    assert json.loads(json.dumps(found.to_dict()))["sets"][0]["labels"] == {"yes": 2, "no": 1}


def test_windows_are_counted_as_they_will_be_made():
    words = [WordsExample(tuple(" ".join(SENTENCES).split()) * n, None) for n in (1, 2, 3)]
    questions = [QuestionExample(str(n), "Who sat?", " ".join(SENTENCES) * n, (), True) for n in (1, 2, 3)]
    made = (
        encode_tags(words, tokenizer(), length=60).encoded,
        encode_answers(questions, tokenizer(), length=60, overlap=20),
    )
    for examples, encoded in zip((words, questions), made, strict=True):
        found = describe({"a": examples}, tokenizer(), length=60, overlap=20).sets[0]
        assert found.windows == len(encoded) > 3
    with pytest.raises(InputTooLong, match="no room beside 'Who sat"):
        describe({"a": questions}, tokenizer(), length=6)


def test_the_other_kinds():
    scored = describe({"a": [PairExample("a", "b", 1.0), PairExample("a", "c", 4.0)]}, tokenizer(), length=9)
    assert scored.sets[0].scores == (1.0, 2.5, 4.0)
    assert "  scores    1 to 4, mean 2.500" in str(scored)
    pairs = describe({"a": [PairExample("a prompt", "its answer")]}, tokenizer(), length=9)
    assert pairs.sets[0].unlabelled == 0
    assert "without a label" not in str(pairs)
    half = describe({"a": [PairExample("a", "b", 1.0), PairExample("a", "c")]}, tokenizer(), length=9)
    assert half.sets[0].unlabelled == 1
    choices = describe({"a": [ChoiceExample("He", ("ran", "sat"), 1)]}, tokenizer(), length=99)
    assert choices.sets[0].labels == {"choice 1": 1}
    asked = [
        QuestionExample("1", "?", "the cat", (("cat", 0),)),
        QuestionExample("2", "?", "a", (), True),
        QuestionExample("3", "?", "b"),
    ]
    questions = describe({"a": asked}, tokenizer(), length=99).sets[0]
    assert questions.labels == {"answerable": 1, "impossible": 1}
    assert (questions.misplaced, questions.unlabelled) == (1, 1)
    several = describe(
        {"a": [TextExample("a", None, ("x", "y")), TextExample("b", None, ("x",))]}, tokenizer(), length=9
    )
    assert several.sets[0].labels == {"x": 2, "y": 1}


def test_nothing_to_look_at():
    with pytest.raises(BadInput, match="nothing to look at"):
        describe({"train": []}, tokenizer(), length=9)
