"""The verbs that use a model: what people see, the keys that programs read, and what is refused."""

import json
import shutil

import pytest

import clearhead as ch
from clearhead.hub.skills import Skill, encoder_digest, write_skill
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


def test_ask_a_folder_or_an_index(run, tmp_path):
    pair = peers("BertForQuestionAnswering", seed=3)
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "ada.txt").write_text("Nothing here.\n\nAda Lovelace lived in London.")
    (notes / "bad.txt").write_bytes(bytes(range(256)))
    call = ["ask", "Who lived in London?", "-m", pair.folder, "--threshold", "inf", "--json"]
    code, out, err = run(*call, "--context", notes)
    assert code == 0
    assert "left out: " in err
    (found,) = rows(out)
    assert list(found) == ["question", "context", "answer", "start", "end", "score", "null_score", "candidates"]
    assert found["context"] == str(notes / "ada.txt")
    assert (notes / "ada.txt").read_text()[found["start"] : found["end"]] == found["answer"]
    assert found["candidates"][0]["source"] == found["context"]
    saved = tmp_path / "index"
    assert run("search", "Ada", "--in", notes / "ada.txt", "--method", "bm25", "--index", saved)[0] == 0
    assert rows(run(*call, "--index", saved)[1])[0]["answer"] == found["answer"]
    assert "not both" in run(*call, "--index", saved, "--context", notes)[2]
    assert f"({found['start']}–{found['end']})  {notes / 'ada.txt'}" in run(*call[:-1], "--context", notes)[1]
    assert "(no answer)" in run(*call[:4], "--threshold", "-inf", "--context", notes)[1]
    (found,) = rows(run("ask", "zebra", *call[2:], "--context", notes)[1])  # a word that is nowhere
    assert (found["answer"], found["null_score"], found["candidates"]) == (None, 0.0, [])


def test_ask_a_text(run):
    pair = peers("BertForQuestionAnswering", seed=3)
    call = ["ask", "Who lived?", SENTENCES[2], "-m", pair.folder, "--threshold", "inf", "--json"]
    (found,) = rows(run(*call)[1])
    assert found["context"] is None
    assert SENTENCES[2][found["start"] : found["end"]] == found["answer"]


def test_ask_the_questions_of_a_file(run, tmp_path):
    pair = peers("BertForQuestionAnswering", seed=3)
    asked = [{"question": "Who lived?", "context": text} for text in SENTENCES[:3]]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in (asked[0] | {"id": "first"}, *asked[1:])))
    call = ["ask", "--in", path, "-m", pair.folder, "--threshold", "inf"]
    found = rows(run(*call, "--json")[1])
    assert [one["id"] for one in found] == ["first", f"{path}, line 2", f"{path}, line 3"]
    alone = [rows(run("ask", "Who lived?", text, *call[3:], "--json")[1])[0] for text in SENTENCES[:3]]
    assert [one["answer"] for one in found] == [one["answer"] for one in alone]
    lines = run(*call)[1].splitlines()
    assert run("answer", *call[1:])[1].splitlines() == lines  # as the use is called elsewhere
    assert lines[0] == "Who lived?"
    assert alone[0]["answer"] in lines[1]
    questions = tmp_path / "alone.csv"
    questions.write_text("question\nWho lived?\n")
    for sentence, name in zip(SENTENCES, "abcde", strict=False):
        (tmp_path / f"{name}.txt").write_text(sentence)
    index = tmp_path / "index"
    assert (
        run(
            "search",
            "lived",
            "--in",
            *(tmp_path / f"{name}.txt" for name in "abc"),
            "--index",
            index,
            "--method",
            "bm25",
        )[0]
        == 0
    )
    (from_index,) = rows(run("ask", "--in", questions, "--index", index, *call[3:], "--json")[1])
    assert from_index["question"] == "Who lived?"


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


def test_compare_pairs_of_a_table(run, tmp_path):
    pair = peers("BertForSequenceClassification", LABELS)
    file = tmp_path / "pairs.tsv"
    file.write_text(f"{TEXTS[0]}\t{TEXTS[1]}\n{TEXTS[1]}\t{TEXTS[0]}\n", encoding="utf-8")
    call = ["compare", "--in", file, "-m", pair.folder]
    found = rows(run(*call, "--json")[1])
    expected = pair.ours.compare(TEXTS, TEXTS[::-1])
    assert [list(row) for row in found] == [["source", "line", "first", "second", "label", "score", "scores"]] * 2
    assert [(row["line"], row["first"]) for row in found] == [(1, TEXTS[0]), (2, TEXTS[1])]
    for row, one in zip(found, expected, strict=True):
        assert row["scores"] == pytest.approx(one.scores, abs=1e-5)
    lines = run(*call)[1].splitlines()
    assert [line.split()[1] for line in lines] == [row["label"] for row in found]
    assert all(" | " in line for line in lines)
    assert run(*call, "--top-k", 2)[1].count("\n") == 4


FOLLOWS = peers("BertForNextSentencePrediction")


def test_follows(run):
    found = FOLLOWS.ours.follows(*TEXTS)
    (row,) = rows(run("follows", *TEXTS, "-m", FOLLOWS.folder, "--json")[1])
    assert row == {"first": TEXTS[0], "second": TEXTS[1], "follows": found.follows, "probability": found.probability}
    line = run("follows", *TEXTS, "-m", FOLLOWS.folder)[1]
    assert line == f"{found.probability:.3f}  follows: {'yes' if found.follows else 'no'}\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pairs.tsv", "a mask\tthe river\nthe bank\ta mask\n"),
        ("pairs.tsv", "Sentence1\tSentence2\na mask\tthe river\nthe bank\ta mask\n"),
        ("pairs.tsv", "id\tsecond\tfirst\n1\tthe river\ta mask\n2\ta mask\tthe bank\n"),
        ("pairs.csv", 'premise,hypothesis\n"a mask",the river\nthe bank,"a mask"\n'),
        ("pairs.jsonl", '{"first": "a mask", "second": "the river"}\n\n{"second": "a mask", "first": "the bank"}\n'),
        ("pairs.jsonl", '{"said": "a mask", "reply": "the river"}\n{"said": "the bank", "reply": "a mask"}\n'),
        ("pairs.json", '[{"text": "a mask", "pair": "the river"}, {"text": "the bank", "pair": "a mask"}]'),
        ("-", "a mask\tthe river\nthe bank\ta mask\n"),
    ],
)
def test_pairs_out_of_tables(run, tmp_path, name, content):
    file = name if name == "-" else tmp_path / name
    if name != "-":
        file.write_text(content, encoding="utf-8")
    found = rows(run("follows", "--in", file, "-m", FOLLOWS.folder, "--json", stdin=content)[1])
    assert [(row["first"], row["second"]) for row in found] == [("a mask", "the river"), ("the bank", "a mask")]
    assert {row["source"] for row in found} == {str(file)}
    begins = 1 + (name[-4:] in (".tsv", ".csv") and not content.startswith("a mask"))
    assert [row["line"] for row in found] == [begins, begins + 1 + ("\n\n" in content)]
    assert list(found[0]) == ["source", "line", "first", "second", "follows", "probability"]


def test_pairs_of_several_files_and_of_a_pipe(run, tmp_path):
    for name in ("one.tsv", "two.tsv"):
        (tmp_path / name).write_text("a mask\ta mask\n")
    call = ["follows", "-m", FOLLOWS.folder]
    lines = run(*call, "--in", tmp_path / "one.tsv", "--in", tmp_path / "two.tsv")[1].splitlines()
    assert len(lines) == 2
    assert all(line.endswith("a mask | a mask") for line in lines)
    assert run(*call, stdin="a mask\tthe river\n")[1].endswith("a mask | the river\n")
    assert run(*call, "-", stdin="a mask\tthe river\n")[1].endswith("a mask | the river\n")


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["a text"], "", "'a text' is one text of a pair; give the other too"),
        (["a text", " "], "", "the text is empty"),
        (["a text", "--in", "{table}"], "", "give two texts or --in FILE, not both"),
        ([], "", "the text is empty"),
        (["-"], "one column\n", "stdin, line 1 has 1 columns, not 2; write two texts with a tab between them"),
        (["--in", "-", "--in", "{table}"], "", "stdin is read alone"),
        (["--in", "{table}.none"], "", "There is no file"),
        (["--in", "{folder}"], "", "is a folder"),
        (["--in", "{table}"], "", "columns are 'a', 'b', 'c'; leave two columns, or name two of them"),
        (["--in", "{missing}"], "", "line 2 has None for"),
        (["a text", "another", "-m", str(peers("BertForMaskedLM").folder)], "", "cannot tell what follows"),
    ],
)
def test_pairs_that_are_none(run, tmp_path, arguments, stdin, message):
    (tmp_path / "three.tsv").write_text("a\tb\tc\n1\t2\t3\n")
    (tmp_path / "missing.jsonl").write_text('{"first": "a", "second": "b"}\n{"first": "a"}\n')
    named = {"table": tmp_path / "three.tsv", "folder": tmp_path, "missing": tmp_path / "missing.jsonl"}
    call = [one.format(**named) for one in arguments]
    code, out, err = run("follows", "-m", FOLLOWS.folder, *call, stdin=stdin)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_compare_points_to_follows(run):
    code, out, err = run("compare", *TEXTS, "-m", FOLLOWS.folder)
    assert (code, out) == (2, "")
    assert "only tells whether one follows the other; ask it with follows" in err


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
    assert list(rows(run("tag", SENTENCES[2], "-m", pair.folder, "--no-words", "--json")[1])[0]) == ["text", "entities"]
    words = run("tag", SENTENCES[2], "-m", pair.folder, "--words")[1]
    assert words.count("\n") == len(pair.ours.tag(SENTENCES[2]).words)


def test_plain_tags_are_shown_word_by_word(run):
    folder = peers("BertForTokenClassification", ("DET", "NOUN", "VERB")).folder
    lines = run("tag", "The animal was tired", "-m", folder)[1].splitlines()
    assert [line.split()[2] for line in lines] == ["The", "animal", "was", "tired"]
    assert json.loads(run("tag", "The animal", "-m", folder, "--json")[1])["entities"] == []
    assert "words" not in json.loads(run("tag", "The animal", "-m", folder, "--json", "--no-words")[1])


def test_a_skill_for_parts_of_speech_is_named_and_shows_words(run, stand_in, tmp_path):
    folder = tmp_path / "encoder"
    shutil.copytree(stand_in, folder)
    model = ch.load(folder)
    labels = ("DET", "NOUN", "VERB")
    skill = Skill(encoder=encoder_digest(model.encoder), head="tags", outputs=3, labels=labels, whole_words=True)
    write_skill(skill, model.with_head("tags", 3, labels=labels).network, folder / "skills" / "part-of-speech")
    call = ["tag", "The animal didn't cross.", "-m", folder, "--skill", "part-of-speech"]
    lines = [line.split() for line in run(*call)[1].splitlines()]
    assert [line[2] for line in lines] == ["The", "animal", "did", "n't", "cross", "."]
    assert {line[1] for line in lines} <= set(labels)
    (row,) = rows(run(*call, "--json")[1])
    assert row["entities"] == []
    found = ch.load(folder).tag("The animal didn't cross.", skill="part-of-speech").words
    assert [(one["text"], one["label"]) for one in row["words"]] == [(one.text, one.label) for one in found]
    names = run("tag", "The animal didn't cross.", "-m", folder, "--json")[1]  # unasked, it is not taken
    assert {one["label"] for one in rows(names)[0]["words"]}.isdisjoint(labels)


def test_tag_says_the_line_or_reads_the_whole_document(run, tmp_path):
    pair = peers("BertForTokenClassification", TAGS)
    file = tmp_path / "art.txt"
    file.write_text("\n\n".join(SENTENCES), encoding="utf-8")
    call = ["tag", "--in", file, "-m", pair.folder]
    lines = run(*call)[1].splitlines()
    assert {line.rsplit(":", 1)[-1] for line in lines} <= {"1", "3", "5", "7", "9"}
    assert [row["line"] for row in rows(run(*call, "--json")[1])] == list(range(1, 2 * len(SENTENCES)))
    (row,) = rows(run(*call, "--document", "--json")[1])
    assert list(row) == ["source", "entities", "words"]
    text = file.read_text(encoding="utf-8")
    assert all(text[one["start"] : one["end"]] == one["text"] for one in row["words"])
    assert row["words"][-1]["end"] > len(text) - 5
    assert " line 1" in run("tag", "-", "-m", pair.folder, stdin=SENTENCES[2])[1]


def test_choose(run):
    pair = peers("BertForMultipleChoice")
    code, out, _ = run("choose", TEXTS[0], "a mask", "the river", "--model", pair.folder, "--json")
    assert code == 0
    (found,) = rows(out)
    assert found["text"] == ["a mask", "the river"][found["index"]]
    first = run("choose", TEXTS[0], "a mask", "the river", "-m", pair.folder)[1].splitlines()[0]
    assert first.endswith(found["text"])


def test_choose_by_the_rows_of_a_table(run, tmp_path):
    pair = peers("BertForMultipleChoice")
    path = tmp_path / "choices.csv"
    path.write_text(f'context,choice0,choice1\n"{TEXTS[0]}",a mask,the river\n"{TEXTS[1]}",the river,a mask\n')
    found = rows(run("choose", "--in", path, "-m", pair.folder, "--json")[1])
    assert [one["id"] for one in found] == [f"{path}, line 2", f"{path}, line 3"]
    alone = rows(run("choose", TEXTS[0], "a mask", "the river", "-m", pair.folder, "--json")[1])[0]
    assert (found[0]["index"], found[0]["choices"]) == (alone["index"], ["a mask", "the river"])
    assert found[0]["score"] == pytest.approx(alone["score"], abs=1e-5)
    assert run("choose", "--in", path, "-m", pair.folder)[1].splitlines()[0].endswith(f"| {alone['text']}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["choose", "text", "--in", "a.csv"], "give a context or --in FILE, not both ('text')"),
        (["choose"], "give a context and its candidates, or name a table of both with --in"),
        (["ask"], "no question given; write one, or name a file of questions with --in"),
        (["ask", "--in", "./nothing.csv"], "There is no file nothing.csv"),
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
