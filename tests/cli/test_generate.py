"""`clearhead translate`, `clearhead generate` and `clearhead summarise --abstractive`."""

import json
import os

import pytest

import clearhead as ch
from clearhead.errors import BadInput
from clearhead.pipelines import generation as write
from clearhead.pipelines.generation import Generator
from pipelines.writers import TEXTS, gpt_folder, nllb_folder, translator


@pytest.fixture
def folder(tmp_path):
    translator().save(tmp_path / "model")
    return tmp_path / "model"


def test_translate(run, folder, tmp_path):
    model = translator()
    code, out, _ = run("translate", *TEXTS, "--model", folder, "--num-beams", 2)
    assert code == 0
    assert out.splitlines() == [one.text for one in model.translate(TEXTS, num_beams=2)]
    lines = tmp_path / "texts.txt"
    lines.write_text("\n".join(TEXTS), encoding="utf-8")
    assert run("translate", "--in", lines, "-m", folder, "--num-beams", 2)[1] == out
    assert run("translate", "-m", folder, "--num-beams", 2, stdin="\n".join(TEXTS) + "\n")[1] == out
    rows = [json.loads(line) for line in run("translate", TEXTS[0], "-m", folder, "--json")[1].splitlines()]
    assert rows[0]["translation"] == model.translate(TEXTS[0]).text
    assert rows[0]["parts"][0]["source"] == TEXTS[0]


def test_translate_with_a_recurrent_model(run, tmp_path):
    model = translator("seq2seq-gru")
    model.save(tmp_path / "gru")
    assert run("translate", TEXTS[0], "-m", tmp_path / "gru")[1] == model.translate(TEXTS[0]).text + "\n"


def test_generate_streams_the_text_or_gives_json(run):
    code, out, _ = run("generate", TEXTS[0], "--model", gpt_folder(), "--max-new-tokens", 10)
    assert code == 0
    assert out.startswith(TEXTS[0])
    row = json.loads(run("generate", TEXTS[0], "--model", gpt_folder(), "--max-new-tokens", 10, "--json")[1])
    assert out == TEXTS[0] + row["generated"] + "\n"
    assert set(row) == {"prompt", "generated", "score", "ended"}
    drawn = [
        run(
            "generate",
            "The",
            "-m",
            gpt_folder(),
            "--top-k",
            9,
            "--temperature",
            2,
            "--seed",
            seed,
            "--max-new-tokens",
            9,
        )[1]
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert run("generate", "The", "-m", gpt_folder(), "--num-beams", 2, "--max-new-tokens", 9)[1].startswith("The")


def test_a_file_is_written_in_batches_as_json_has_it_and_while_it_runs(run, tmp_path, monkeypatch):
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(TEXTS), encoding="utf-8")
    call = ("generate", "--in", lines, "-m", gpt_folder(), "--max-new-tokens", 9, "--temperature", 2, "--seed", 3)
    _, out, _ = run(*call)
    rows = [json.loads(line) for line in run(*call, "--json")[1].splitlines()]
    assert out == "".join(row["prompt"] + row["generated"] + "\n" for row in rows)
    assert run("generate", TEXTS[0], *call[3:])[1] == rows[0]["prompt"] + rows[0]["generated"] + "\n"

    together = []
    original = Generator.write
    monkeypatch.setattr(
        Generator, "write", lambda self, given, *a, **k: together.append(len(given)) or original(self, given, *a, **k)
    )
    run(*call)
    assert together == [len(TEXTS)]


@pytest.mark.parametrize("verb", ["generate", "translate"])
def test_what_was_written_before_an_interruption_is_printed(run, folder, tmp_path, monkeypatch, verb):
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(TEXTS), encoding="utf-8")
    monkeypatch.setattr(write, "_AHEAD", 1)
    whole = run(verb, "--in", lines, "-m", folder)[1].splitlines()
    original, calls = Generator.write, []

    def interrupted(self, *given, **how):
        calls.append(1)
        if len(calls) == 3:
            raise BadInput("enough")
        return original(self, *given, **how)

    monkeypatch.setattr(Generator, "write", interrupted)
    code, out, err = run(verb, "--in", lines, "-m", folder)
    assert (code, err) == (2, "error: enough\n")
    assert out.splitlines() == whole[:2] != []


def test_several_ways(run, folder):
    ways = translator().translate(TEXTS, num_beams=3, num_return_sequences=2)
    code, out, _ = run("translate", *TEXTS, "-m", folder, "--num-beams", 3, "--num-return-sequences", 2)
    assert code == 0
    assert out.splitlines() == [one.text for pair in ways for one in pair]
    rows = [
        json.loads(line)
        for line in run("translate", *TEXTS, "-m", folder, "--num-return-sequences", 2, "--json")[1].splitlines()
    ]
    assert [row["source"] for row in rows] == [text for text in TEXTS for _ in range(2)]
    assert rows[0]["parts"][0]["score"] >= rows[1]["parts"][0]["score"]
    options = (
        "-m",
        gpt_folder(),
        "--num-beams",
        3,
        "--num-return-sequences",
        3,
        "--max-new-tokens",
        8,
        "--length-penalty",
        0.5,
        "--min-new-tokens",
        4,
    )
    lines = run("generate", "The", *options)[1].splitlines()
    rows = [json.loads(line) for line in run("generate", "The", *options, "--json")[1].splitlines()]
    assert [row["prompt"] + row["generated"] for row in rows] == lines
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    found = ch.load(gpt_folder()).generate(
        "The", num_beams=3, num_return_sequences=3, max_new_tokens=8, length_penalty=0.5, min_new_tokens=4
    )
    assert [row["generated"] for row in rows] == [one.text for one in found]


def test_a_limit_that_the_model_cannot_keep_is_noted(run):
    code, out, err = run("generate", "The", "-m", gpt_folder(), "--max-new-tokens", 1000)
    assert code == 0
    assert err.startswith("note: the model has 96 positions, room for ")
    assert err.endswith(" new tokens after the longest prompt, not 1000\n")
    assert run("generate", "The", "-m", gpt_folder()) == (0, out, "")


def test_a_summary_in_its_own_words(run, tmp_path):
    model = translator("t5")
    model.save(tmp_path / "t5")
    text = tmp_path / "text.txt"
    text.write_text(TEXTS[0], encoding="utf-8")
    expected = model.summarise(TEXTS[0], abstractive=True).text
    assert run("summarise", "--in", text, "--abstractive", "-m", tmp_path / "t5")[1] == expected + "\n"
    row = json.loads(run("summarise", "--in", text, "--abstractive", "-m", tmp_path / "t5", "--json")[1])
    assert row == {"source": str(text), "summary": expected}
    short = model.summarise(TEXTS[0], abstractive=True, max_new_tokens=9, min_new_tokens=2).text
    lengths = ("--max-new-tokens", 9, "--min-new-tokens", 2)
    assert run("summarise", "--in", text, "--abstractive", *lengths, "-m", tmp_path / "t5")[1] == short + "\n"
    translator("seq2seq-gru").save(tmp_path / "gru")
    expected = translator("seq2seq-gru").summarise(TEXTS[0], abstractive=True).text
    assert run("summarise", "--in", text, "--abstractive", "-m", tmp_path / "gru")[1] == expected + "\n"
    code, _, err = run("summarise", "--in", text, "--abstractive", "--sentences", 2, "-m", tmp_path / "t5")
    assert (code, err) == (2, "error: sentences=2 are not picked where a summary is abstractive\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", " "], "the text is empty"),
        (["translate", "a", "--num-beams", "0"], "beams must be at least 1, got 0"),
        (["generate", "a", "--temperature", "0"], "temperature must be more than 0"),
        (["generate", "a", "--temperature", "inf"], "temperature must be a finite number, got inf"),
        (["generate", "a", "--seed", "5"], "seed 5 has nothing to draw"),
        (
            ["generate", "a", "--num-return-sequences", "2"],
            "num_return_sequences=2 needs as many num_beams, got 1, or sampling",
        ),
        (["generate", "--in", os.devnull], "there is no prompt"),
        (["translate", "a", "--num-return-sequences", "0"], "num_return_sequences must be at least 1, got 0"),
        (["translate", "a", "--num-beams", "100000"], "beams must be at most 256, got 100000"),
        (["classify", "a"], "this model cannot classify"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(run, folder, arguments, message):
    code, out, err = run(*arguments, "--model", folder)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    "options", [["--top-p", "0"], ["--num-beams", "0"], ["--max-new-tokens", "0"], ["--stop-strings", ""]]
)
def test_what_is_refused_is_refused_before_the_prompt_is_printed(run, options):
    code, out, err = run("generate", "The bank", "--model", gpt_folder(), *options)
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_a_model_of_many_languages_is_told_two(run):
    folder = nllb_folder()
    wanted = ch.load(folder).translate("The animal", src_lang="fra_Latn", tgt_lang="deu_Latn").text
    told = ["--from", "fra_Latn", "--to", "deu_Latn"]
    assert run("translate", "The animal", *told, "--model", folder) == (0, f"{wanted}\n", "")
    code, out, err = run("translate", "The animal", "--from", "fra_Latn", "--to", "de", "--model", folder)
    assert (code, out) == (2, "")
    assert err == "error: 'de' is no language of this model; near ones are deu_Latn and 3 others\n"


@pytest.mark.parametrize(
    ("verb", "taken"),
    [
        (["translate", "a"], "translator"),
        (["generate", "a"], "gpt"),
        (["finetune", "instruct"], "gpt"),
        (["look", "decoding", "a"], "translator"),
    ],
)
def test_what_writes_has_a_built_in_model_of_its_own(run, tmp_path, no_built_in, verb, taken):
    data = tmp_path / "rows.jsonl"
    data.write_text('{"prompt": "a", "completion": "b"}\n', encoding="utf-8")
    options = ["--data", data, "--out", tmp_path / "out"] if verb[0] == "finetune" else []
    code, printed, err = run(*verb, *options)
    assert (code, printed, err.count("\n")) == (2, "", 1)
    assert f"this copy of clearhead has no built-in model '{taken}'; " in err


def test_the_encoder_names_what_writes(run, built_in):
    for verb, taken in (("translate", "translator"), ("generate", "gpt")):
        code, _, err = run(verb, "a", "-m", "builtin:encoder")
        assert (code, err.count("\n")) == (2, 1)
        assert f'cannot {verb}; choose one that does: load("builtin:{taken}"), or --model builtin:{taken}' in err


def test_what_reads_no_source_translates_nothing_and_what_has_no_room_says_so(run):
    code, _, err = run("translate", "a", "-m", gpt_folder())
    assert (code, err.count("\n")) == (2, 1)
    assert "it can generate, but not translate or summarise" in err
    code, _, err = run("summarise", TEXTS[0], "--abstractive", "-m", gpt_folder())
    assert (code, err) == (2, "error: 200 new tokens leave no room for a text, of 96 positions; ask for fewer\n")


def test_a_prefix_that_leaves_no_room_is_named(run, folder):
    code, _, err = run("translate", "a", "-m", folder, "--prefix", "translate this: " * 40)
    assert (code, err.count("\n")) == (2, 1)
    assert "that are read at once; give a shorter prefix" in err


def test_the_built_in_translator_goes_by_the_language_of_each_text(run, writers, tmp_path):
    model = ch.load("builtin:translator")
    german, french, english = "Ich muss auf den Markt gehen.", "Je suis étudiant", "I am a student"
    assert run("translate", german) == (0, model.translate(german, src_lang="de", tgt_lang="en").text + "\n", "")
    assert run("translate", french)[1:] == (model.translate(french, tgt_lang="en").text + "\n", "")
    assert run("translate", english, "--to", "fr") == (0, model.translate(english, tgt_lang="fr").text + "\n", "")
    code, out, err = run("translate", english)
    assert (code, out) == (0, model.translate(english, src_lang="en", tgt_lang="de").text + "\n")
    assert err == "note: en is translated to de; choose with --to de or --to fr\n"
    lines = tmp_path / "mixed.txt"
    lines.write_text("\n".join([german, english, "", french, english]), encoding="utf-8")
    code, out, noted = run("translate", "--in", lines)
    assert (code, noted) == (0, err)  # once
    given = [german, english, "", french, english]
    assert out.splitlines() == [one.text for one in model.translate(given)]
    assert out.splitlines()[2] == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["42"], "the language of '42' cannot be told; say it with src_lang (--from): this model translates de-en, "),
        (["我是学生"], "the language of '我是学生' cannot be told; say it with src_lang (--from)"),
        (
            ["¿Dónde está la estación?"],
            "not from es; '¿Dónde está la estación?' seems to be es, and if it is not, say ",
        ),
        (["Ich gehe", "--to", "fr"], "this model translates de-en, fr-en, en-de, en-fr, not de-fr; 'Ich gehe' seems"),
        (["Ich gehe", "--from", "de", "--to", "fr"], "this model translates de-en, fr-en, en-de, en-fr, not de-fr\n"),
        (["Ich gehe", "--from", "it"], "this model translates de-en, fr-en, en-de, en-fr, not from it\n"),
        (["I go", "--to", "English"], "not en-English; 'I go' seems to be en"),
        (["5 " * 100], "'5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 …' cannot be told"),
    ],
)
def test_a_direction_that_the_built_in_translator_lacks_is_one_sentence(run, writers, arguments, message):
    code, out, err = run("translate", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_what_cannot_be_told_is_taken_as_it_is_said(run, writers):
    wanted = ch.load("builtin:translator").translate("42", src_lang="en", tgt_lang="fr").text
    assert run("translate", "42", "--from", "en", "--to", "fr") == (0, wanted + "\n", "")


def test_the_built_in_gpt_samples_by_habit_and_is_greedy_when_told(run, writers):
    usual = run("generate", "The old house")
    assert usual == run("generate", "The old house")
    assert usual[0] == 0
    assert usual[1].startswith("The old house")
    assert run("generate", "The old house", "--seed", 1)[1] != usual[1]
    greedy = ch.load("builtin:gpt").generate("The old house", num_beams=1).text
    assert run("generate", "The old house", "--num-beams", 1)[1] == f"The old house{greedy}\n" != usual[1]
    for prompt in ("", "Ein Hund läuft über die Straße. 我 🙂"):
        assert run("generate", prompt)[0] == 0
        assert run("generate", prompt)[1].startswith(prompt)
    code, out, err = run("generate", "the market " * 100)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "tokens, the model has 128 positions; give a shorter one" in err


def test_an_abstractive_summary_is_the_built_in_gpts(run, writers, tmp_path):
    text = "I have to go to the market. The old house is small. " * 12  # several windows
    file = tmp_path / "article.txt"
    file.write_text(text, encoding="utf-8")
    found = ch.load("builtin:gpt").summarise(text.strip(), abstractive=True, max_new_tokens=20)
    assert len(found.parts) > 1
    assert " ".join(part.source for part in found.parts) == text.strip()
    code, out, err = run("summarise", "--in", file, "--abstractive", "--max-new-tokens", 20)
    assert (code, out, err) == (0, found.text + "\n", "")
    assert run("summarise", "--in", file, "--sentences", 1)[1].strip() in text  # by the encoder
    code, _, err = run("summarise", "--in", file, "--abstractive", "-m", "builtin:encoder")
    assert (code, err.count("\n")) == (2, 1)
    assert 'writes no text and cannot write a summary; choose one that does: load("builtin:gpt"), or --model' in err


def test_look_decoding_tells_the_built_in_translator_where_to(run, writers, tmp_path):
    page = tmp_path / "page.html"
    options = ["--max-new-tokens", 4, "--json", "--overwrite", "--out", page]
    for text, tag in (("Ich gehe", ">>en<<"), (">>fr<< I go", ">>fr<<"), ("I go", ">>de<<")):
        found = json.loads(run("look", "decoding", text, *options)[1])
        assert found["read"][0] == tag
        assert found["read"].count(tag) == 1
    written = run("look", "decoding", "The old house", "-m", "builtin:gpt", *options)
    assert json.loads(written[1])["source"] is False
