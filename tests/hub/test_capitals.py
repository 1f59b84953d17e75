"""A model that looks at capitals: saved, exported, read by transformers, and refused where nobody tells them."""

import json
from dataclasses import replace
from functools import partial

import pytest
import torch
import transformers
from torch.testing import assert_close

import clearhead as ch
from clearhead.data.corpus import Corpus
from clearhead.data.examples import WordsExample
from clearhead.errors import BadConfig, BadInput
from clearhead.hub.skills import Skill, encoder_digest, tell_capitals, write_skill
from clearhead.inside.trace import trace
from clearhead.nn.lora import add_lora
from clearhead.nn.quantisation import available
from clearhead.training.recipes.distil import distil, recipe_for
from clearhead.training.recipes.finetune import Finetune, finetune, first_look
from clearhead.training.recipes.pretrain import Pretrain, pretrain
from inside.models import LABELS, small, telling
from probing import word_states

TEXT = "The Bank of BERT"
SAID = "transformers does not read the table for capitals"


@pytest.fixture
def tagger(tmp_path):
    telling().save(tmp_path / "tagger")
    return tmp_path / "tagger"


@pytest.fixture
def skilled(tmp_path):
    """A folder with a skill that looks at capitals."""
    folder = tmp_path / "skilled"
    small("modernbert").save(folder)
    model = ch.load(folder).with_head("tags", 3, labels=LABELS)
    model = ch.Model(tell_capitals(model.checkpoint))
    add_lora(model.encoder, ["qkv"], 2)
    torch.nn.init.normal_(model.encoder.embeddings.capital.weight)
    described = Skill(encoder=encoder_digest(model.encoder), uses=("tag",), head="tags", outputs=3, labels=LABELS)
    write_skill(described, model.network, folder / "skills" / "names")
    return folder


def test_saving_says_once_what_transformers_leaves_aside(tmp_path, caplog):
    telling().save(tmp_path / "tagger")
    (record,) = caplog.records
    assert SAID in record.message
    assert "its results are worse there" in record.message
    caplog.clear()
    small("modernbert").save(tmp_path / "plain")
    assert not caplog.records


def test_transformers_reads_it_without_the_table(tagger):
    theirs, told = transformers.AutoModelForTokenClassification.from_pretrained(tagger, output_loading_info=True)
    assert not told["missing_keys"]
    read = transformers.AutoTokenizer.from_pretrained(tagger)(TEXT, return_tensors="pt")
    ours = ch.load(tagger)
    assert read["input_ids"][0].tolist() == ours.tokenizer.encode(TEXT).ids
    ids = read["input_ids"]
    with torch.no_grad():
        wanted = theirs.eval()(input_ids=ids).logits[0]
        with_table = ours.network("tags", ids)[0]
        ours.encoder.embeddings.capital = None
        assert_close(ours.network("tags", ids)[0], wanted, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(with_table, wanted, atol=1e-3)


def test_a_skill_is_exported_with_its_table(skilled, tmp_path, caplog):
    ch.load(skilled, skill="names").save(tmp_path / "out")
    assert sum(SAID in record.message for record in caplog.records) == 1
    wanted, found = ch.load(skilled).tag(TEXT), ch.load(tmp_path / "out").tag(TEXT)
    assert [word.label for word in found.words] == [word.label for word in wanted.words]
    transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "out")


def test_vectors_know_capitals(tagger):
    model = ch.load(tagger)
    lower, upper = model.embed(["the bank", "The BANK"])
    assert abs(lower - upper).max() > 1e-3
    long = " ".join(["Bank of BERT"] * 40)  # in windows
    assert abs(model.embed([long]) - model.embed([long.lower()])).max() > 1e-3
    states = trace(model, TEXT).output[1:-1]
    assert_close(torch.from_numpy(model.token_vectors(TEXT).vectors), states, atol=1e-5, rtol=1e-5)
    assert_close(word_states(model, [WordsExample(tuple(TEXT.split()))])[:, -1].float(), states, atol=1e-2, rtol=1e-2)


@pytest.mark.skipif(not available(), reason="this processor has no VNNI")
@pytest.mark.parametrize("copies", [1, 60])
def test_int8_has_the_same_table(tagger, copies):
    model = ch.load(tagger)
    sample = [TEXT, "he took a Train"] * copies  # a large sample fixes the steps
    rounded = model.quantise(sample, loss=1.0)
    assert rounded.encoder.embeddings.capital.weight is model.encoder.embeddings.capital.weight
    assert rounded.tag(TEXT).words


def test_a_table_that_was_learnt_is_kept(tagger):
    model = ch.load(tagger)
    before = model.encoder.embeddings.capital.weight.clone()
    assert torch.equal(tell_capitals(model.checkpoint).network.encoder.embeddings.capital.weight, before)


def test_a_new_model_has_the_table_that_its_tokenizer_asks_for(tmp_path):
    words = telling().tokenizer
    ch.Model.create(telling().config, words).save(tmp_path)
    assert ch.load(tmp_path).encoder.embeddings.capital is not None
    with pytest.raises(BadConfig, match="not to bert"):
        ch.Model.create(small().config, words)


def test_what_reads_no_capitals_does_not_begin_with_such_a_tagger(tagger, tmp_path):
    rows = [{"sentence1": "a bank", "sentence2": "the bank", "score": score} for score in (0.5, 1.0)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for begin in (partial(finetune, out=tmp_path / "x"), first_look):
        with pytest.raises(
            BadInput, match="looks at capitals, which similar does not; begin with the model it was made"
        ):
            begin("similar", tagger, tmp_path / "rows.jsonl", recipe=Finetune())
    (tmp_path / "corpus.txt").write_text("he took a train\n" * 20)
    corpus, model = Corpus([tmp_path / "corpus.txt"]), ch.load(tagger)
    relations = replace(recipe_for(model), objective="relations")
    with pytest.raises(BadConfig, match="raw text is read without its capitals"):
        distil(model, corpus, tmp_path / "student", relations)
    plan = Pretrain(model=model.config, length=64)
    with pytest.raises(BadConfig, match="raw text is read without its capitals"):
        pretrain(corpus, model.tokenizer, tmp_path / "more", plan, start=tagger)
    with pytest.raises(BadConfig, match="has another tokenizer than the one given"):
        pretrain(corpus, small("modernbert").tokenizer, tmp_path / "more", plan, start=tagger)
