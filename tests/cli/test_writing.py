"""`clearhead translate`, `clearhead generate` and `clearhead summarise --abstractive`."""

import json

import pytest

from pipelines.writers import TEXTS, gpt_folder, translator


@pytest.fixture
def folder(tmp_path):
    translator().save(tmp_path / "model")
    return tmp_path / "model"


def test_translate(run, folder, tmp_path):
    model = translator()
    code, out, _ = run("translate", *TEXTS, "--model", folder, "--beams", 2)
    assert code == 0
    assert out.splitlines() == [one.text for one in model.translate(TEXTS, beams=2)]
    lines = tmp_path / "texts.txt"
    lines.write_text("\n".join(TEXTS), encoding="utf-8")
    assert run("translate", "--in", lines, "-m", folder, "--beams", 2)[1] == out
    assert run("translate", "-m", folder, "--beams", 2, stdin="\n".join(TEXTS) + "\n")[1] == out
    rows = [json.loads(line) for line in run("translate", TEXTS[0], "-m", folder, "--json")[1].splitlines()]
    assert rows[0]["translation"] == model.translate(TEXTS[0]).text
    assert rows[0]["parts"][0]["source"] == TEXTS[0]


def test_translate_with_a_recurrent_model(run, tmp_path):
    model = translator("seq2seq-gru")
    model.save(tmp_path / "gru")
    assert run("translate", TEXTS[0], "-m", tmp_path / "gru")[1] == model.translate(TEXTS[0]).text + "\n"


def test_generate_streams_the_text_or_gives_json(run):
    code, out, _ = run("generate", TEXTS[0], "--model", gpt_folder(), "--longest", 10)
    assert code == 0
    assert out.startswith(TEXTS[0])
    row = json.loads(run("generate", TEXTS[0], "--model", gpt_folder(), "--longest", 10, "--json")[1])
    assert out == TEXTS[0] + row["generated"] + "\n"
    assert set(row) == {"prompt", "generated", "score", "ended"}
    drawn = [
        run("generate", "The", "-m", gpt_folder(), "--top-k", 9, "--temperature", 2, "--seed", seed, "--longest", 9)[1]
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert run("generate", "The", "-m", gpt_folder(), "--beams", 2, "--longest", 9)[1].startswith("The")


def test_a_summary_in_its_own_words(run, tmp_path):
    model = translator("t5")
    model.save(tmp_path / "t5")
    text = tmp_path / "text.txt"
    text.write_text(TEXTS[0], encoding="utf-8")
    expected = model.summarise(TEXTS[0], abstractive=True).text
    assert run("summarise", text, "--abstractive", "-m", tmp_path / "t5")[1] == expected + "\n"
    row = json.loads(run("summarise", text, "--abstractive", "-m", tmp_path / "t5", "--json")[1])
    assert row == {"source": str(text), "summary": expected}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", " "], "the text is empty"),
        (["translate", "a", "--beams", "0"], "beams must be at least 1, got 0"),
        (["generate", "a", "--temperature", "0"], "temperature must be more than 0"),
        (["classify", "a"], "this model cannot classify"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(run, folder, arguments, message):
    code, out, err = run(*arguments, "--model", folder)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize("options", [["--top-p", "0"], ["--beams", "0"], ["--longest", "0"], ["--stop", ""]])
def test_what_is_refused_is_refused_before_the_prompt_is_printed(run, options):
    code, out, err = run("generate", "The bank", "--model", gpt_folder(), *options)
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_look_decoding(run, folder, tmp_path):
    page = tmp_path / "page.html"
    code, out, _ = run("look", "decoding", TEXTS[0], "--beams", 2, "--longest", 5, "-m", folder, "--out", page)
    assert code == 0
    assert out.startswith(f"wrote {page}")
    data = json.loads(run("look", "decoding", TEXTS[0], "--longest", 5, "-m", folder, "--out", page, "--json")[1])
    assert data["nodes"][0]["candidates"]


def test_info_knows_recurrent_models(run, tmp_path):
    translator("seq2seq-gru").save(tmp_path / "gru")
    code, out, _ = run("info", tmp_path / "gru", "--json")
    assert code == 0
    assert json.loads(out)["family"] == "seq2seq-gru"


def test_an_objective_that_is_not_there_is_answered_by_all_that_are(run, tmp_path):
    (tmp_path / "a.txt").write_text("a text", encoding="utf-8")
    code, _, err = run("pretrain", "--corpus", tmp_path / "a.txt", "--out", tmp_path, "--objective", "span")
    assert code == 2
    assert "there is no objective 'span'; choose one of masked, masked+next" in err
    assert "causal, spans, permutation" in err
