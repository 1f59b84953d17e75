"""`clearhead evaluate`: a model's answers into files, files scored alone, search, and tables."""

import importlib
import json
from contextlib import contextmanager

import pytest

from clearhead import load
from clearhead.evaluation.perplexity import evaluate_texts
from pipelines.peers import SENTENCES, TAGS, peers
from pipelines.writers import TEXTS, recurrent_folder, translator

cli = importlib.import_module("clearhead.cli.evaluate")


def squad(path, *, impossible: bool):
    asked = [
        {"id": f"q{n}", "question": "Who?", "answers": [{"text": text.split()[0], "answer_start": 0}]}
        for n, text in enumerate(SENTENCES)
    ]
    if impossible:
        asked[1] |= {"answers": [], "is_impossible": True}
    paragraphs = [{"context": text, "qas": [one]} for text, one in zip(SENTENCES, asked, strict=True)]
    path.write_text(json.dumps({"version": "x", "data": [{"title": "t", "paragraphs": paragraphs}]}))
    return path


@pytest.mark.parametrize("impossible", [False, True])
def test_files_of_a_model_score_as_the_model(run, tmp_path, impossible):
    data = squad(tmp_path / "dev.json", impossible=impossible)
    common = ["evaluate", "answer", "--data", data, "--json"]
    model = ["--model", peers("BertForQuestionAnswering", seed=3).folder, "--device", "cpu"]
    texts, lists = tmp_path / "predictions.json", tmp_path / "nbest.json"
    plain = json.loads(run(*common, *model)[1])
    written = json.loads(run(*common, *model, "--predictions", texts, "--nbest", lists)[1])
    assert written == plain
    assert set(json.loads(texts.read_text())) == {f"q{n}" for n in range(5)}
    scored = json.loads(run(*common, "--predictions", texts)[1])
    assert scored == {name: plain[name] for name in scored}
    exact = "exact" if impossible else "exact_match"
    assert exact in scored
    again = json.loads(run(*common, "--nbest", lists)[1])
    assert plain == {name: again[name] for name in plain}
    assert again["oracle_exact"] >= plain[exact]


def test_null_odds_of_a_model_go_into_a_file(run, tmp_path):
    data = squad(tmp_path / "dev.json", impossible=True)
    model = ["--model", peers("BertForQuestionAnswering", seed=3).folder, "--device", "cpu"]
    texts, odds, lists = (tmp_path / name for name in ("predictions.json", "null_odds.json", "nbest.json"))
    files = ["--predictions", texts, "--no-answer", odds, "--nbest", lists]
    assert run("evaluate", "answer", "--data", data, *model, *files)[0] == 0
    candidates, found = json.loads(lists.read_text()), json.loads(odds.read_text())
    for name, one in candidates.items():
        best = max(each["score"] for each in one if each["text"])
        (nothing,) = (each["score"] for each in one if not each["text"])
        assert found[name] == pytest.approx(nothing - best)
    scored = json.loads(run("evaluate", "answer", "--data", data, *files[:4], "--json")[1])
    assert "best_exact_thresh" in scored


def test_a_test_set_has_predictions_and_no_metrics(run, tmp_path):
    whole = json.loads(squad(tmp_path / "dev.json", impossible=False).read_text())
    for paragraph in whole["data"][0]["paragraphs"]:
        del paragraph["qas"][0]["answers"]
    data, texts = tmp_path / "test.json", tmp_path / "predictions.json"
    data.write_text(json.dumps(whole))
    model = ["--model", peers("BertForQuestionAnswering", seed=3).folder, "--device", "cpu"]
    found = json.loads(run("evaluate", "answer", "--data", data, *model, "--predictions", texts, "--json")[1])
    assert found == {"task": "answer", "data": str(data), "examples": 5}
    assert len(json.loads(texts.read_text())) == 5
    glue, said = tmp_path / "test.tsv", tmp_path / "MNLI-m.tsv"
    glue.write_text("".join(f"{line}\n" for line in ("index\tsentence1\tsentence2", *(f"{n}\ta\tb" for n in range(3)))))
    pair = ["--model", peers("BertForSequenceClassification", LABELS, seed=1).folder, "--device", "cpu"]
    code, out, _ = run("evaluate", "classify", "--data", glue, *pair, "--predictions", said)
    assert (code, out.count("\n")) == (0, 1)
    assert "the data has no right answers to compare with" in out
    rows = [line.split("\t") for line in said.read_text().splitlines()]
    assert rows[0] == ["index", "prediction"]
    assert [row[0] for row in rows[1:]] == ["0", "1", "2"]
    assert {row[1] for row in rows[1:]} <= set(LABELS)
    code, _, err = run("evaluate", "classify", "--data", glue, *pair)  # there is nothing to write
    assert code == 2
    assert "no right answer to compare with" in err


def test_several_files_are_measured_one_by_one(run, tmp_path):
    files = [labelled(tmp_path / f"dev_{name}.jsonl", ("no", "perhaps", "yes", "no")) for name in ("m", "mm")]
    model = ["--model", peers("BertForSequenceClassification", LABELS, seed=1).folder, "--device", "cpu"]
    rows = [
        json.loads(line) for line in run("evaluate", "classify", "--data", *files, *model, "--json")[1].splitlines()
    ]
    assert [row["data"] for row in rows] == list(map(str, files))
    assert rows[0]["accuracy"] == rows[1]["accuracy"]
    assert f"{files[1]}:" in run("evaluate", "classify", "--data", *files, *model)[1].splitlines()


def test_no_answer_probabilities_find_the_best_threshold(run, tmp_path):
    data = squad(tmp_path / "dev.json", impossible=True)
    (tmp_path / "p.json").write_text(json.dumps({f"q{n}": text.split()[0] for n, text in enumerate(SENTENCES)}))
    (tmp_path / "n.json").write_text(json.dumps({f"q{n}": float(n == 1) for n in range(5)}))
    files = ["--predictions", tmp_path / "p.json", "--no-answer", tmp_path / "n.json"]
    code, out, _ = run("evaluate", "answer", "--data", data, *files)
    assert code == 0
    figures = dict(line.split() for line in out.splitlines())
    assert (figures["exact"], figures["best_exact"], figures["total"]) == ("80.00", "100.00", "5")


def test_search_ranks_passages_by_vectors(run, folder, tmp_path):
    rows = [("the street", "the street", 1), ("the street", "a mask", 0), ("nothing", "a mask", 0)]
    path = tmp_path / "wikiqa.txt"
    path.write_text("".join(f"{query}\t{passage}\t{grade}\n" for query, passage, grade in rows))
    code, out, _ = run("evaluate", "search", "--data", path, "--model", folder, "--device", "cpu", "--json")
    assert code == 0
    figures = json.loads(out)
    # the same text has the same vector; a query without a relevant passage is not counted
    assert (figures["mrr"], figures["map"], figures["queries"], figures["examples"]) == (100, 100, 1, 3)
    named = tmp_path / "named.tsv"
    named.write_text(f"query\tpassage\trelevance\n{path.read_text()}")
    code, out, _ = run("evaluate", "search", "--data", named, "--model", folder, "--device", "cpu", "--json")
    assert json.loads(out) == figures | {"data": str(named)}


@pytest.mark.parametrize("task", ["classify", "label"])
def test_labels_of_another_name_are_no_bad_model(run, built_in, tmp_path, task):
    path = tmp_path / "films.jsonl"
    wrong, right = ("pos", "positive") if task == "classify" else (["pos"], ["positive"])
    path.write_text(json.dumps({"text": "a film", "label": wrong}) + "\n", encoding="utf-8")
    code, _, err = run("evaluate", task, "--data", path, "--device", "cpu")
    assert code == 2
    assert "error: the data has labels that the model does not know: 'pos' (1 example, the first: " in err
    assert (
        "films.jsonl, line 1); it knows 'negative', 'positive'. Rename them, take these examples out, or count" in err
    )
    path.write_text(json.dumps({"text": "a film", "label": right}) + "\n", encoding="utf-8")
    assert run("evaluate", task, "--data", path, "--device", "cpu")[0] == 0


LABELS = ("no", "perhaps", "yes")


def labelled(path, labels):
    path.write_text(
        "".join(f"{json.dumps({'text': t, 'label': n})}\n" for t, n in zip(SENTENCES, labels, strict=False))
    )
    return path


def test_classes_and_confusion_are_there_and_predictions_score_alike(run, tmp_path):
    data = labelled(tmp_path / "dev.jsonl", ("no", "perhaps", "yes", "no"))
    model = ["--model", peers("BertForSequenceClassification", LABELS, seed=1).folder, "--device", "cpu"]
    for name in ("said.jsonl", "said.tsv"):
        written = tmp_path / name
        found = json.loads(run("evaluate", "classify", "--data", data, *model, "--predictions", written, "--json")[1])
        assert found["average"] == "macro"
        assert found["confusion"]["labels"] == list(LABELS)
        assert {label: score["support"] for label, score in found["classes"].items()} == {
            "no": 2,
            "perhaps": 1,
            "yes": 1,
        }
        alone = json.loads(run("evaluate", "classify", "--data", data, "--predictions", written, "--json")[1])
        same = ("accuracy", "f1", "matthews", "average", "classes", "confusion")
        assert [alone[name] for name in same] == [found[name] for name in same]
    rows = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert [row.keys() for row in rows] == [{"text", "gold", "predicted", "score"}] * 4
    out = run("evaluate", "classify", "--data", data, *model)[1]
    assert "f1 (macro)" in out
    assert "class    precision  recall" in out
    assert "is ↓  said →  no  perhaps  yes" in out


def test_unknown_labels_are_refused_or_counted_and_said(run, tmp_path):
    data = labelled(tmp_path / "dev.jsonl", ("no", "maybe", "yes", "maybe"))
    model = ["--model", peers("BertForSequenceClassification", LABELS, seed=1).folder, "--device", "cpu"]
    code, out, err = run("evaluate", "classify", "--data", data, *model)
    assert (code, out) == (2, "")
    assert f"does not know: 'maybe' (2 examples, the first: {data}, line 2); it knows 'no', 'perhaps', 'yes'" in err
    options = ["evaluate", "classify", "--data", data, *model, "--allow-unknown-labels"]
    assert json.loads(run(*options, "--json")[1])["unknown_labels"] == {"maybe": 2}
    assert "labels that the model does not know count as wrong: maybe (2 examples)" in run(*options)[1]


def test_several_models_are_measured_together(run, tmp_path):
    one = peers("BertForSequenceClassification", LABELS, seed=1).folder
    data = labelled(tmp_path / "dev.jsonl", ("no", "perhaps", "yes", "no"))
    alone, twice = (
        json.loads(run("evaluate", "classify", "--data", data, *several, "--bootstrap", "100", "--json")[1])
        for several in (["-m", one], ["-m", one, "-m", one])
    )
    assert alone == twice
    low, high = twice["intervals"]["calibration_error"]
    assert low < twice["calibration_error"] < high
    for task, said in (("tag", "which tag has none of"), ("perplexity", "which perplexity has none of")):
        code, _, err = run("evaluate", task, "--data", data, "-m", one, "-m", one)
        assert (code, said in err) == (2, True)


def test_tags_in_the_columns_of_conlleval(run, tmp_path):
    data, written = tmp_path / "dev.conll", tmp_path / "said.txt"
    data.write_text("Ada NNP B-PER\nlived VBD O\n\nin IN O\nRome NNP B-LOC\n", encoding="utf-8")
    model = ["--model", peers("BertForTokenClassification", TAGS).folder, "--device", "cpu"]
    found = json.loads(run("evaluate", "tag", "--data", data, *model, "--predictions", written, "--json")[1])
    assert (found["average"], found["task"]) == ("micro", "tag")
    assert [line.split()[:2] for line in written.read_text().split("\n") if line] == [
        ["Ada", "B-PER"],
        ["lived", "O"],
        ["in", "O"],
        ["Rome", "B-LOC"],
    ]
    assert json.loads(run("evaluate", "tag", "--data", data, "--predictions", written, "--json")[1]) == found
    code, _, err = run("evaluate", "tag", "--data", data, "--label", "2", *model)
    assert (code, "does not know: 'NNP' (2 examples, the first: " in err) == (2, True)


def test_what_is_not_defined_is_null(run, tmp_path):
    data = tmp_path / "dev.jsonl"
    data.write_text("".join(json.dumps({"text": text, "score": 1.0}) + "\n" for text in SENTENCES[:2]))
    folder = peers("BertForSequenceClassification", ("score",), "regression").folder
    options = ["evaluate", "regress", "--data", data, "--model", folder, "--device", "cpu"]
    assert json.loads(run(*options, "--json")[1])["pearson"] is None
    assert "pearson           –  (one side is constant)" in run(*options)[1]


def test_translations_go_into_a_file(run, tmp_path):
    pairs, written = tmp_path / "pairs.tsv", tmp_path / "said.txt"
    pairs.write_text("".join(f"{text}\t{text}\n" for text in TEXTS), encoding="utf-8")
    options = ["evaluate", "translation", "--data", pairs, "--json"]
    model = ["--model", translator_folder(tmp_path), "--device", "cpu"]
    made = run(*options, *model, "--predictions", written)[1]
    assert run(*options, "--predictions", written)[1] == made
    assert json.loads(made).keys() == {"task", "data", "examples", "bleu", "chrf", "bleu_signature", "chrf_signature"}


def test_perplexity_of_lines(run, folder, tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("The animal was too tired.\nShe went to the bank.\n", encoding="utf-8")
    code, out, _ = run("evaluate", "perplexity", "--data", path, "--model", folder, "--device", "cpu", "--json")
    assert code == 0
    assert json.loads(out).keys() == {"task", "data", "examples", "perplexity", "accuracy", "tokens"}
    assert json.loads(out)["examples"] == 2


def test_perplexity_of_a_recurrent_model(run, tmp_path):
    path, model = tmp_path / "lines.txt", recurrent_folder("rnnlm-lstm", tmp_path / "model")
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    code, out, _ = run("evaluate", "perplexity", "--data", path, "--model", model, "--device", "cpu", "--json")
    assert code == 0
    assert json.loads(out)["perplexity"] == pytest.approx(evaluate_texts(load(model), TEXTS)["perplexity"], rel=1e-4)


def test_summaries_in_files_are_scored_by_rouge(run, tmp_path):
    references, summaries = tmp_path / "references.txt", tmp_path / "summaries.txt"
    references.write_text("police killed the gunman\nthe cat sat\n")
    summaries.write_text("the gunman kill police\nthe cat sat\n")
    code, out, _ = run("evaluate", "summaries", "--data", references, "--predictions", summaries, "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["task"], found["examples"], found["rouge1"]) == ("summaries", 2, 100)
    assert found["rouge2"] < found["rougeL"] < 100
    # the same out of a table, and of texts beside their references
    table = tmp_path / "references.jsonl"
    table.write_text("".join(json.dumps({"best": line}) + "\n" for line in references.read_text().splitlines()))
    given = [["--data", table, "--pair", "best"], ["--data", summaries, references]]
    for data in given:
        _, out, _ = run("evaluate", "summaries", *data, "--predictions", summaries, "--json")
        assert json.loads(out) | {"data": ""} == found | {"data": ""}
    summaries.write_text("one alone\n")
    code, _, err = run("evaluate", "summaries", "--data", references, "--predictions", summaries)
    assert (code, err) == (2, "error: There are 2 gold items and 1 summaries; give one for each, in the same order.\n")


def test_summaries_of_a_model_score_as_their_file(run, folder, tmp_path):
    texts = tmp_path / "texts.tsv"
    texts.write_text("".join(f"{' '.join(SENTENCES[n:] + SENTENCES[:n])}\t{SENTENCES[n]}\n" for n in range(3)))
    for model in (folder, translator_folder(tmp_path)):
        common, written = ["evaluate", "summaries", "--data", texts, "--json"], tmp_path / f"{model.name}.jsonl"
        made = run(*common, "--model", model, "--device", "cpu", "--predictions", written)[1]
        assert run(*common, "--predictions", written)[1] == made
        assert len(written.read_text().splitlines()) == 3
    code, _, err = run(*common, "--model", model, "--device", "cpu", "--predictions", tmp_path / "written.txt")
    assert (code, "name a .jsonl file" in err) == (2, True)


def translator_folder(tmp_path):
    translator().save(tmp_path / "translator")
    return tmp_path / "translator"


def test_progress_is_of_all_examples_and_leaves_stdout_alone(run, folder, tmp_path, monkeypatch):
    shown = []

    @contextmanager
    def bar(label, total):
        done = []
        yield done.append
        shown.append((label, total, sum(done)))

    monkeypatch.setattr(cli, "progress", bar)
    pairs, lines = tmp_path / "pairs.tsv", tmp_path / "lines.txt"
    pairs.write_text("".join(f"{text}\t{SENTENCES[0]}\t{n}\n" for n, text in enumerate(SENTENCES)))
    lines.write_text("\n".join(SENTENCES))
    for task, data in (("search", pairs), ("perplexity", lines)):
        code, out, err = run("evaluate", task, "--data", data, "--model", folder, "--device", "cpu", "--json")
        assert (code, json.loads(out)["examples"], err) == (0, 5, "")
    assert shown == [("measuring", 5, 5)] * 2


def test_tables_of_the_built_in_model(run):
    _, out, _ = run("evaluate", "--table")
    assert "clearhead, built-in  measured  dev" in out


def test_tables(run, tmp_path):
    path = tmp_path / "figures.json"
    row = {"task": "SST-2", "metric": "accuracy", "value": 91.5, "model": "ours", "split": "dev", "seed": 0}
    path.write_text(json.dumps([row]))
    assert "| ours | measured | dev |" in run("evaluate", "--table", "--figures", path, "--markdown")[1]
    assert "ours" in run("evaluate", "--table", "--figures", path)[1]
    assert json.loads(run("evaluate", "--table", "--figures", path, "--json")[1])[0]["name"] == "GLUE"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a task and its --data, or a --table"),
        (["translation", "--data", "x"], "the built-in model does not translate; name a --model that does"),
        (
            ["perplexity", "--data", "x", "--predictions", "p"],
            "perplexity is of texts as they are, without --predictions",
        ),
        (["answer", "--data", "{data}", "--predictions", "p.jsonl"], "There is no file p.jsonl to score; to write one"),
        (["summaries", "--data", "x", "--nbest", "n"], "--nbest belongs to the task answer, not to summaries"),
        (["summaries", "--data", "x", "--skill", "spam"], "leave --skill and --label out"),
        (["summaries", "--data", "{data}", "--predictions", "p"], "has no column with a usual name for the summary"),
        (["summaries", "--data", "x.txt", "--predictions", "p"], "There is no file x.txt"),
        (["summaries", "--data", "a", "b", "c", "--predictions", "p"], "3 files are no references; give one"),
        (["summaries", "--data", "a.txt", "--pair", "y", "--predictions", "p"], "has lines, no column 'y'"),
        (["answer", "--data", "x", "--documents"], "--documents belongs to the task tag, not to answer"),
        (["translate", "--data", "x", "--model", "m"], "no task 'translate'; choose one of classify"),
        (["answer", "--data", "{data}", "--no-answer", "n"], "name them with --predictions FILE"),
        (
            ["answer", "--data", "{data}", "--nbest", "n", "--predictions", "p"],
            "--no-answer out, or name a --model to write all",
        ),
        (["choose", "--data", "x", "--no-answer", "n"], "--no-answer belongs to the task answer, not to choose"),
        (
            ["answer", "--data", "a", "b", "--predictions", "p"],
            "--predictions of 2 files would be one; name one --data",
        ),
        (["answer", "--data", "x", "--predictions", "p", "--markdown"], "--markdown goes with --table; add it"),
        (["answer", "--data", "x", "--figures", "f"], "--figures goes with --table; add it"),
        (["answer", "--data", "x", "--table"], "--table measures nothing; leave the task and --data out"),
        (["translation", "--data", "x", "--model", "m", "--skill", "spam"], "leave --skill and --label out"),
        (["perplexity", "--data", "x", "--skill", "spam"], "leave --skill and column names out"),
        (["perplexity", "--data", "x", "--label", "y"], "leave --skill and column names out"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(run, tmp_path, arguments, message):
    data = squad(tmp_path / "dev.json", impossible=True)
    code, out, err = run("evaluate", *(argument.format(data=data) for argument in arguments))
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
