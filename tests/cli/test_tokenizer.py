"""`clearhead tokenize` and `clearhead tokenizer train`."""

import json

from inside.models import telling


def test_tokenize_a_pair(run, folder):
    code, out, _ = run("tokenize", "Be alert!", "BERT will hurt!", "--model", folder)
    assert code == 0
    rows = [line.split() for line in out.splitlines()[1:]]
    assert rows[0][:2] == ["1", "1"]
    assert rows[0][-1] == "[CLS]"
    assert rows[-1][1] == "2"
    code, out, _ = run("tokenize", "Be alert!", "BERT will hurt!", "--model", folder, "--json")
    shown = json.loads(out)
    assert set(shown) == {"tokens", "ids", "segments", "offsets", "words"}
    assert len(shown["ids"]) == len(rows)


def test_tokenize_tells_capitals_where_the_model_is_told(run, tmp_path):
    telling().save(tmp_path)
    words = ("The bank", "BERT", "--model", tmp_path)
    code, out, _ = run("tokenize", *words)
    assert code == 0
    assert out.splitlines()[0].split() == ["position", "sentence", "capitals", "id", "from–to", "token"]
    rows = [line.split() for line in out.splitlines()[1:]]
    shown = json.loads(run("tokenize", *words, "--json")[1])
    assert [row[2] for row in rows] == shown["capitals"]
    assert [int(row[1]) - 1 for row in rows] == shown["segments"]
    kinds = dict(zip(shown["tokens"], shown["capitals"], strict=True))
    assert [kinds[token] for token in ("[CLS]", "the", "bank", "bert")] == ["none", "some", "none", "all"]
    assert shown["segments"][0] == 0
    assert shown["segments"][-1] == 1


def test_tokenize_lines_from_stdin(run, folder):
    code, out, _ = run("tokenize", "--model", folder, "--json", stdin="a mask\nthe street\n")
    assert code == 0
    assert len([json.loads(line) for line in out.splitlines()]) == 2


def test_tokenize_with_a_vocabulary_alone(run, folder):
    for file in ("vocab.txt", "tokenizer.json"):
        code, out, _ = run("tokenize", "the street", "--model", folder / file, "--json")
        assert code == 0
        assert json.loads(out)["tokens"][1] == "the"


def test_train_a_tokenizer(run, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the street is wide and the animal is tired\n" * 5, encoding="utf-8")
    code, out, _ = run("tokenizer", "train", corpus, "--out", tmp_path / "new", "--vocabulary", 60, "--json")
    assert code == 0
    assert json.loads(out)["kind"] == "wordpiece"
    assert run("tokenize", "the animal", "--model", tmp_path / "new")[0] == 0
