"""Translation from files to a model: new recurrent models and Transformers, on a language that is soon learnt."""

import json
import random
import re
from dataclasses import replace
from signal import SIGTERM

import pytest
import torch
import transformers
from typer.testing import CliRunner

import clearhead as ch
from clearhead.cli import app
from clearhead.data.batch import Batch
from clearhead.data.examples import PairExample
from clearhead.errors import BadConfig, BadInput, ClearheadError, NotFound, WrongTask
from clearhead.hub.checkpoint import read_folder
from clearhead.models.seq2seq import Seq2SeqConfig
from clearhead.models.transformer import TransformerConfig
from clearhead.pipelines.translation import translate_texts
from clearhead.training.loop import TrainResult
from clearhead.training.recipes import translate as recipes
from clearhead.training.recipes.translate import Translate, _batches, prepare, recipe_for, translate
from clearhead.training.settings import NEVER, Every, Settings
from clearhead.training.tasks.language import Translation
from pipelines.writers import bart_folder, gpt_folder, nllb_folder, pieces, translator

WORDS = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben"]
THEIRS = ["one", "two", "three", "four", "five", "six", "seven"]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A language whose sentences are those of the other, word by word from the end."""
    folder, draw = tmp_path_factory.mktemp("pairs"), random.Random(0)
    for name, count in (("train", 1500), ("dev", 40)):
        rows = [draw.choices(range(len(WORDS)), k=draw.randint(2, 5)) for _ in range(count)]
        (folder / f"{name}.de").write_text("\n".join(" ".join(WORDS[i] for i in row) for row in rows), "utf-8")
        (folder / f"{name}.en").write_text("\n".join(" ".join(THEIRS[i] for i in row[::-1]) for row in rows), "utf-8")
    return folder


def recipe(model: object, steps: int, rate: float = 1e-2, seed: int = 0) -> Translate:
    every = Every(log=20, save=10**6, evaluate=10**6)
    settings = Settings(steps=steps, learning_rate=rate, seed=seed, every=every)
    plan = Translate(model=model, tokens=512, label_smoothing=0.0, train=settings)
    return plan if model is None else replace(plan, tokenizer="word")


def pair(folder, name):
    return [folder / f"{name}.de", folder / f"{name}.en"]


def test_attention_learns_to_reverse_in_seconds_and_says_where_it_looks(files, tmp_path):
    config = Seq2SeqConfig(embedding_size=32, hidden_size=48, dropout=0.0)
    outcome = translate(
        "seq2seq-lstm-dot", pair(files, "train"), tmp_path, dev=pair(files, "dev"), recipe=recipe(config, 160, 2e-2)
    )
    assert outcome.metrics["accuracy"] > 95
    assert outcome.metrics["perplexity"] < 1.3
    assert outcome.metrics["bleu"] > 80
    loaded = read_folder(tmp_path)
    network, tokenizer = loaded.network, loaded.tokenizer
    texts = ["eins zwei drei vier", "sieben eins"]
    written = translate_texts(network, tokenizer, texts)
    assert written == ["four three two one", "one seven"]
    assert translate_texts(network, tokenizer, texts, num_beams=3) == written
    source, target = ([*ids, tokenizer.sep_id] for ids in tokenizer.ids_batch([texts[0], written[0]]))
    (weights,) = network.attention(replace(Batch.of([target]), source=Batch.of([source])))
    assert weights.shape == (5, 5)
    assert weights[:4].argmax(-1).tolist() == [3, 2, 1, 0]


def test_a_transformer_is_trained_by_the_same_recipe(files, tmp_path):
    config = TransformerConfig(
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=32,
        dropout=0.0,
        pad_token_id=0,
    )
    outcome = translate(
        "transformer-tiny", pair(files, "train"), tmp_path, dev=pair(files, "dev"), recipe=recipe(config, 30, 3e-3)
    )
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["loss"] < rows[0]["loss"]
    assert outcome.result.exit == "finished"
    again = prepare(tmp_path, [], recipe_for(tmp_path))
    assert "causal_lm" in again.network.heads
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert 'pipeline_tag: "translation"' in card
    assert "| perplexity |" in card


def test_one_model_learns_several_directions_by_the_tags_of_its_sources(tmp_path):
    config = TransformerConfig(
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=32,
        dropout=0.0,
        pad_token_id=0,
    )
    rows = [(f">>{to}<< {word}", written) for word in WORDS for to, written in (("en", word[::-1]), ("fr", "oui"))]
    data = tmp_path / "pairs.tsv"
    data.write_text("".join(f"{source}\t{target}\n" for source, target in rows * 20), "utf-8")
    plan = replace(recipe(config, 60, 1e-2), tokenizer="bpe", vocabulary=300, directions=("de-en", "de-fr"))
    translate("transformer-tiny", [data], tmp_path / "model", recipe=plan)
    model = ch.load(tmp_path / "model")
    assert model.tokenizer.languages.directions == (("de", "en"), ("de", "fr"))
    assert model.tokenizer.encode(">>fr<< eins").tokens[0] == ">>fr<<"
    assert model.generate([f">>{to}<< drei" for to in ("en", "fr")])[1].text == "oui"
    assert model.generate(">>en<< drei").text != "oui"
    data.write_text("drei\ttrois\n", "utf-8")
    with pytest.raises(BadInput, match=r"'drei' begins with none of >>en<<, >>fr<<"):
        translate("transformer-tiny", [data], tmp_path / "other", recipe=plan)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_two_readings_of_each_pair_differ_by_their_dropout_alone(files, tmp_path, dropout):
    config = Seq2SeqConfig(embedding_size=8, hidden_size=8, dropout=dropout)
    plan = recipe(config, 3)
    losses = {}
    for name, weight in (("once", 0.0), ("twice", 5.0)):
        out = tmp_path / name
        chosen = replace(plan, agreement=weight, train=replace(plan.train, every=replace(plan.train.every, log=1)))
        translate("seq2seq-gru-dot", pair(files, "train"), out, recipe=chosen)
        losses[name] = [json.loads(line) for line in (out / "run" / "metrics.jsonl").read_text().splitlines()]
    first, twice = (losses[name] for name in ("once", "twice"))
    assert "agreement" in twice[0]
    assert "agreement" not in first[0]
    if dropout:
        assert all(row["agreement"] > 0 for row in twice)
        assert twice[0]["loss"] == pytest.approx(twice[0]["words"] + 5 * twice[0]["agreement"], rel=1e-5)
    else:  # then both agree, and the pair read twice teaches what it teaches read once
        assert [row["loss"] for row in twice] == pytest.approx([row["loss"] for row in first], rel=1e-5)


def test_training_goes_on_from_a_folder(files, tmp_path):
    config = Seq2SeqConfig(embedding_size=8, hidden_size=8, dropout=0.0)
    first = translate("seq2seq-lstm", pair(files, "train"), tmp_path / "a", recipe=recipe(config, 2))
    assert first.metrics == {}
    second = translate(tmp_path / "a", pair(files, "train"), tmp_path / "b", recipe=recipe(None, 2))
    assert second.model.family == "seq2seq-lstm"
    assert second.model.tokenizer.digest == first.model.tokenizer.digest


def test_opus_mt_learns_to_write_pieces_of_its_own(files, tmp_path, monkeypatch):
    folder = tmp_path / "opus"
    translator().save(folder)
    seen = []
    monkeypatch.setattr(
        "clearhead.training.recipes.translate.Tokenizer.of_targets", lambda at: seen.append(at) or pieces()
    )
    for name in ("target.spm", "vocab.json"):
        (folder / name).write_text("{}", encoding="utf-8")
    translate(folder, pair(files, "train"), tmp_path / "out", recipe=recipe(None, 1))
    assert seen == [folder]
    assert all((tmp_path / "out" / name).is_file() for name in ("target.spm", "vocab.json"))


def test_a_model_that_does_not_write_is_refused(files, folder, tmp_path):
    with pytest.raises(WrongTask, match="has no head that writes"):
        translate(folder, pair(files, "train"), tmp_path)


def test_a_run_that_is_interrupted_says_how_to_go_on(files, tmp_path, monkeypatch):
    both = [str(file) for file in pair(files, "train")]
    command = ["finetune", "translation", "--data", *both, "--dev", *both, "--out", str(tmp_path)]
    small = ["--set", "model.hidden_size=8", "--set", "tokenizer=word", "--set", "tokens=256", "--seeds", "2"]
    stopped = TrainResult(exit="interrupted", step=3, tokens=90, elapsed=1.0, best=None, best_step=None, signal=SIGTERM)
    monkeypatch.setattr("clearhead.training.recipes.run.train", lambda *_, **__: stopped)
    run = CliRunner().invoke(app, [*command, "--model", "seq2seq-gru", *small])
    assert run.exit_code == 143, run.output
    assert run.stdout == "interrupted after 3 steps and 90 tokens: run the same command again to go on\n"
    assert not (tmp_path / "seed-0" / "config.json").exists()


def test_a_misspelt_name_is_no_hub_model():
    with pytest.raises(NotFound, match=r"there is no model 'seq2seq-foo'; New ones are seq2seq-.*, transformer-tiny"):
        recipe_for("seq2seq-foo")
    with pytest.raises(NotFound, match=r"there is no model 'gpt'; New ones are .*gpt-mini"):
        recipe_for("gpt")
    with pytest.raises(NotFound, match="there is no model 'seq2seq-gruu'; did you mean seq2seq-gru"):
        recipe_for("seq2seq-gruu")


def test_the_command_line(files, tmp_path):
    small = ["--set", "model.hidden_size=8", "--set", "model.embedding_size=8", "--set", "train.steps=3"]
    words = ["--set", "tokenizer=word", "--set", "tokens=256"]
    both = [str(file) for file in pair(files, "train")]
    command = ["finetune", "translation", "--data", *both, "--model", "seq2seq-gru-dot"]
    dev = ["--dev", *(str(file) for file in pair(files, "dev"))]
    run = CliRunner().invoke(app, [*command, *dev, "--out", str(tmp_path), *small, *words, "--json"])
    assert run.exit_code == 0, run.output
    assert set(json.loads(run.stdout)["figures"]) == {"perplexity", "accuracy", "bleu"}
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "seq2seq-gru-dot"
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    for part in ("`seq2seq-gru-dot`", "(1,500 pairs)", "(40 pairs)", "| bleu |", "```sh", "model.hidden_size = 8\n"):
        assert part in card
    assert "transformers" not in card
    seen = CliRunner().invoke(app, [*command, *dev, "--out", str(tmp_path), "--dry-run"])
    assert "train: 1,500 pairs of" in seen.stdout
    assert "dev: 40 pairs of" in seen.stdout
    seen = CliRunner().invoke(app, [*command, *dev, "--out", str(tmp_path), "--dry-run", "--json"])
    assert json.loads(seen.stdout)["dev"]["pairs"] == 40
    wrong = CliRunner().invoke(app, ["finetune", "classify", "--data", *both, "-m", "x", "--out", str(tmp_path)])
    assert isinstance(wrong.exception, BadInput)
    assert "classify reads one file, not 2" in str(wrong.exception)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dev", "none.de", "none.en", "--dry-run"], "none.de"),
        (["--set", "foo=1", "--dry-run"], "unknown key foo"),
        (["--skill-for", "tag"], "--skill-for is not for translation; leave it out"),
        (["--skill", "spam"], "--skill is not for translation; leave it out"),
        (["--label", "x"], "--label is not for translation; leave it out"),
        (["--text", "x"], "two files have no columns, such as 'x'; leave --text and --pair out"),
        (["--set", "label_smoothing=2"], r"label_smoothing is a share in \[0, 1\), got 2"),
        (["--set", "agreement=-1"], "agreement is a weight of 0 or more, got -1.0; 5 is usual, 0 is none"),
        (["--model", "{gpt}", "--set", "vocabulary=500"], "vocabulary=500 is for a new model; .*leave it out"),
        (["--device", "tpu"], "device 'tpu' is not there; choose cpu or cuda"),
        (["--set", "train.epochs=1e400"], "epochs must be positive and finite, got inf"),
    ],
)
def test_what_would_be_passed_over_is_refused(files, tmp_path, options, message):
    given = [option.format(gpt=gpt_folder()) for option in options]
    command = ["finetune", "translation", "--data", *map(str, pair(files, "train")), "--out", str(tmp_path / "out")]
    run = CliRunner().invoke(app, [*command, *given])
    assert isinstance(run.exception, ClearheadError), run.output
    assert re.search(message, str(run.exception))
    assert not (tmp_path / "out").exists()


def test_a_translator_is_measured_on_a_test_set(files, tmp_path):
    config = Seq2SeqConfig(embedding_size=8, hidden_size=8, dropout=0.0)
    translate("seq2seq-gru", pair(files, "train"), tmp_path, recipe=recipe(config, 2))
    both = [str(file) for file in pair(files, "dev")]
    command = ["evaluate", "translation", "--data", *both, "--model", str(tmp_path)]
    found = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert found["examples"] == 40
    assert 0 <= found["bleu"] <= 100
    assert found["bleu_signature"].startswith("nrefs:1|case:mixed")
    shown = CliRunner().invoke(app, command).stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["bleu", "chrf"]
    one = CliRunner().invoke(app, ["evaluate", "classify", "--data", *both, "--model", str(tmp_path)])
    assert f"{both[0]} has no column with a usual name for the text" in str(one.exception)  # each alone


def test_a_new_transformer_learns_as_its_paper_says():
    assert recipe_for("transformer-base").train.schedule == "noam"
    assert recipe_for("transformer-base").train.every.average == 5
    assert recipe_for("seq2seq-lstm").train.every.average == 1


@pytest.mark.parametrize("family", ["bart", "nllb"])
def test_both_sides_are_marked_as_transformers_marks_them(family, tmp_path):
    folder = nllb_folder() if family == "nllb" else bart_folder("BartForConditionalGeneration")
    codes = {"src_lang": "fra_Latn", "tgt_lang": "deu_Latn"} if family == "nllb" else {}
    plan = replace(recipe(None, 1), **codes)
    model = prepare(folder, [], plan)
    first, second = "The animal was tired.", "Ein Hund bellt."
    words = model.tokenizer
    batch = _batches([PairExample(first, second)], model, (words, words), plan).batch(0)
    theirs = transformers.AutoTokenizer.from_pretrained(folder, **codes)
    encoded = theirs(first, text_target=second, return_tensors="pt")
    assert batch.source.ids.tolist() == encoded["input_ids"][0].tolist()
    assert batch.ids.tolist() == encoded["labels"][0].tolist()
    network = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = network(**encoded).loss
        found = Translation(model.network, label_smoothing=0.0).losses(batch)["words"]
    torch.testing.assert_close(found.total / len(batch.ids), expected, atol=1e-5, rtol=1e-5)
    if family == "nllb":  # it is saved for these two
        model.save(tmp_path)
        assert ch.load(tmp_path).translate(first) == model.translate(first)


def test_a_model_of_many_languages_must_be_told_which(tmp_path):
    with pytest.raises(BadInput, match=r"knows 4 languages; say which with --set tgt_lang=CODE, such as deu_Latn"):
        prepare(nllb_folder(), [], recipe(None, 1))
    with pytest.raises(BadInput, match=r"'de' is no language of this model; near ones are deu_Latn"):
        prepare(nllb_folder(), [], replace(recipe(None, 1), tgt_lang="de"))
    with pytest.raises(BadInput, match=r"languages of its own; leave src_lang out"):
        prepare(bart_folder("BartForConditionalGeneration"), [], replace(recipe(None, 1), src_lang="en"))


@pytest.mark.parametrize("average", [1, 2])
def test_development_pairs_are_measured_once(files, tmp_path, monkeypatch, average):
    config, calls = Seq2SeqConfig(embedding_size=8, hidden_size=8, dropout=0.0), []
    whole = recipes._metrics
    monkeypatch.setattr(recipes, "_metrics", lambda *given: calls.append(1) or whole(*given))
    plan = recipe(config, 4)
    plan = replace(plan, train=replace(plan.train, every=Every(save=2, evaluate=NEVER, average=average)))
    outcome = translate("seq2seq-gru", pair(files, "dev"), tmp_path, dev=pair(files, "dev"), recipe=plan)
    assert len(calls) == 1
    assert set(outcome.metrics) == {"perplexity", "accuracy", "bleu"}


def test_a_metric_that_the_loop_does_not_measure(files, tmp_path):
    plan = recipe(Seq2SeqConfig(), 1)
    plan = replace(plan, train=replace(plan.train, metric="bleu"))
    with pytest.raises(BadConfig, match="gives no 'bleu' for metric while it trains; it gives perplexity and accuracy"):
        translate("seq2seq-gru", pair(files, "dev"), tmp_path, dev=pair(files, "dev"), recipe=plan)
