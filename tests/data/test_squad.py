import json

import pytest

from clearhead.data.examples import QuestionExample
from clearhead.data.formats import misplaced, read_questions, read_squad
from clearhead.errors import BadInput, NotFound


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


def test_the_same_question_twice_is_kept_but_two_with_one_id_are_refused(tmp_path):
    assert len(read_squad(write(tmp_path, question(), question()))) == 2
    with pytest.raises(BadInput, match="two different questions with the id '1'"):
        read_squad(write(tmp_path, question(), question(question="Who?")))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (question(answers=[{"text": "London"}]), "article 1, paragraph 1, question 1 has no int under 'answer_start'"),
        (question(answers="London"), 'question 1 has no list under "answers"'),
        (question(question=None), "question 1 has no str under 'question'"),
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
    with pytest.raises(BadInput, match="no str under 'context'"):
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
    path.write_text(json.dumps({"id": "1", "question": "Who?"}))
    with pytest.raises(BadInput, match="no column 'context'"):
        read_questions(path)
