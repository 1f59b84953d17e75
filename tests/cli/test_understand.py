"""The verbs that use a model: what people see, the keys that programs read, and what is refused."""

import json

import pytest

from pipelines.peers import LONG, SENTENCES, TAGS, peers

LABELS = ("no", "yes")
TEXTS = SENTENCES[:2]


def rows(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


def test_ask(run, tmp_path):
    pair = peers("BertForQuestionAnswering", seed=3)
    file = tmp_path / "context.txt"
    file.write_text(LONG, encoding="utf-8")
    question = "Who lived in London?"
    code, out, _ = run("ask", question, "--context", file, "--model", pair.folder, "--threshold", "inf", "--json")
    assert code == 0
    (found,) = rows(out)
    assert {"answer", "start", "end", "score"} <= set(found)
    assert found["answer"] == LONG[found["start"] : found["end"]]
    again = run("ask", question, "-m", pair.folder, "--threshold", "inf", "--json", stdin=LONG)[1]
    assert rows(again)[0]["answer"] == found["answer"]
    code, out, _ = run("ask", question, "--context", file, "-m", pair.folder, "--threshold", "inf", "--top-k", 3)
    assert out.count("\n") == 3
    assert f"({found['start']}–{found['end']})" in out
    code, out, _ = run("ask", question, "--context", file, "-m", pair.folder, "--threshold", "-inf", "--json")
    assert rows(out)[0]["answer"] is None
    two = run("ask", question, "--context", file, "--context", file, "-m", pair.folder, "--threshold", "-inf")[1]
    assert two.count("(no answer)") == 2


def test_fill(run):
    pair = peers("BertForMaskedLM")
    code, out, _ = run("fill", "Wear a [MASK]!", "the [MASK]", "--model", pair.folder, "--json", "--top-k", 2)
    assert code == 0
    found = rows(out)
    assert [row["text"] for row in found] == ["Wear a [MASK]!", "the [MASK]"]
    assert {"token", "score", "sequence"} <= set(found[0]["predictions"][0])
    code, out, _ = run("fill", "Wear a [MASK]!", "-m", pair.folder, "--candidates", "mask, bank")
    assert "Wear a mask!" in out
    assert out.count("\n") == 2


def test_classify(run, tmp_path):
    pair = peers("BertForSequenceClassification", LABELS)
    lines = tmp_path / "texts.txt"
    lines.write_text("\n".join(TEXTS), encoding="utf-8")
    code, out, _ = run("classify", "--in", lines, "--model", pair.folder, "--json")
    assert code == 0
    expected = [{"text": text, **pair.ours.classify(text).to_dict()} for text in TEXTS]
    for row, one in zip(rows(out), expected, strict=True):
        assert row["label"] == one["label"]
        assert row["scores"] == pytest.approx(one["scores"], abs=1e-5)
        assert list(row) == ["source", "line", "text", "label", "score", "scores"]
    assert run("classify", "--model", pair.folder, stdin="a mask\nthe bank\n")[1].count("\n") == 2
    assert run("classify", "a mask", "--model", pair.folder, "--top-k", 2)[1].count("\n") == 2


def test_compare(run):
    pair = peers("BertForSequenceClassification", LABELS)
    code, out, _ = run("compare", *TEXTS, "--model", pair.folder, "--json")
    assert code == 0
    assert set(rows(out)[0]) == {"first", "second", "label", "score", "scores"}
    assert {line.split()[-1] for line in run("compare", *TEXTS, "-m", pair.folder)[1].splitlines()} == set(LABELS)


def test_tag(run):
    pair = peers("BertForTokenClassification", TAGS)
    code, out, _ = run("tag", SENTENCES[2], "--model", pair.folder, "--json", "--aggregation-strategy", "simple")
    assert code == 0
    (found,) = rows(out)
    assert set(found) == {"text", "entities", "words"}
    for one in found["entities"]:
        assert set(one) == {"text", "label", "start", "end", "score"}
        assert SENTENCES[2][one["start"] : one["end"]] == one["text"]
    assert run("tag", SENTENCES[2], "-m", pair.folder)[1].count("\n") == len(pair.ours.tag(SENTENCES[2]).entities)
    words = run("tag", SENTENCES[2], "-m", pair.folder, "--words")[1]
    assert words.count("\n") == len(pair.ours.tag(SENTENCES[2]).words)


def test_choose(run):
    pair = peers("BertForMultipleChoice")
    code, out, _ = run("choose", TEXTS[0], "a mask", "the river", "--model", pair.folder, "--json")
    assert code == 0
    (found,) = rows(out)
    assert found["text"] == ["a mask", "the river"][found["index"]]
    first = run("choose", TEXTS[0], "a mask", "the river", "-m", pair.folder)[1].splitlines()[0]
    assert first.endswith(found["text"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fill", "no mask"], "There is no mask in 'no mask'; write [MASK]"),
        (["fill", ""], "the text is empty"),
        (["classify", "text"], "cannot classify or compare: it has no 'classes' head; it can fill, embed"),
        (["compare", "text", " "], "the text is empty"),
        (["compare", "text", "other"], "it can fill, embed"),
        (["tag", "text", "--aggregation-strategy", "simple"], "it can fill, embed"),
        (["choose", "text", "one"], "it can fill, embed"),
        (["ask", "Why?", "--context", "./nothing.txt"], "There is no file nothing.txt"),
        (["ask", "", "--context", "./nothing.txt"], "the text is empty"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(run, arguments, message):
    code, out, err = run(*arguments, "--model", peers("BertForMaskedLM").folder)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_classify_by_labels_of_ones_own(run):
    pair = peers("BertForSequenceClassification", ("contradiction", "neutral", "entailment"), seed=4)
    code, out, _ = run("classify", *TEXTS, "--labels", "animals, money,health", "--model", pair.folder, "--json")
    assert code == 0
    for row, text in zip(rows(out), TEXTS, strict=True):
        assert row["scores"] == pytest.approx(
            pair.ours.zero_shot(text, ["animals", "money", "health"]).scores, abs=1e-5
        )
        assert set(row) == {"text", "label", "score", "scores"}
    code, out, _ = run("classify", *TEXTS, "--labels", "animals,money", "--top-k", 1, "--model", pair.folder)
    assert out.count("\n") == len(TEXTS)
    code, out, error = run(
        "classify", *TEXTS, "--labels", "a,b", "--model", peers("BertForSequenceClassification", LABELS).folder
    )
    assert (code, out) == (2, "")
    assert "no label for entailment: its labels are no, yes" in error
