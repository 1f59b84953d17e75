"""Skills beside an encoder: adapters, heads, and tables for capitals."""

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
from clearhead.errors import BadCheckpoint, BadConfig, BadInput, NotFound, WrongTask
from clearhead.hub.checkpoint import write_folder
from clearhead.hub.skills import Skill, encoder_digest, tell_capitals, write_skill
from clearhead.inside.trace import trace
from clearhead.models.bert import BertConfig
from clearhead.models.modernbert import ModernBertConfig
from clearhead.nn.lora import add_lora
from clearhead.nn.quantisation import available
from clearhead.training.recipes.distil import distil, recipe_for
from clearhead.training.recipes.finetune import Finetune, finetune, first_look
from clearhead.training.recipes.pretrain import Pretrain, pretrain
from clearhead.training.settings import Every, Settings
from inside.models import LABELS, small, telling
from probing import word_states

WORDS = ["the", "red", "blue", "stone", "river", "house", "is", "here", "and", "there"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A small encoder, stored in int8, with two skills."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("home")
    words = ch.train_tokenizer(texts=[" ".join(WORDS)] * 20, vocabulary=80)
    config = ModernBertConfig(
        vocab_size=words.vocabulary,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=64,
        global_attn_every_n_layers=1,
        pad_token_id=words.pad_id,
    )
    model = ch.Model.create(config, words, heads={"masked_lm": words.vocabulary, "next_sentence": 2})
    write_folder(model.checkpoint, folder, int8=True)
    train = Settings(epochs=40.0, learning_rate=1e-2, every=Every(save=10**9, evaluate=10**9))
    recipe = Finetune(lora=4, items=8, length=32, train=train)
    rows = [{"text": f"the {colour} {thing} is here", "label": colour} for colour in ("red", "blue") for thing in WORDS]
    (folder / "colours.jsonl").write_text("\n".join(map(json.dumps, rows)))
    same = [{"sentence1": f"the {a}", "sentence2": f"is {b}", "score": float(a == b)} for a in WORDS for b in WORDS[:4]]
    (folder / "same.jsonl").write_text("\n".join(map(json.dumps, same)))
    for name, kind, data, uses in (
        ("colour", "classify", "colours.jsonl", ["classify"]),
        ("sameness", "similar", "same.jsonl", ["embed"]),
    ):
        path = folder / data
        made = finetune(kind, folder, path, folder / "skills" / name, dev=path, recipe=recipe, skill_for=uses)
        assert made.metrics, name
    return folder


def test_each_use_takes_the_skill_made_for_it(home):
    model = ch.load(home)
    assert set(model.skills) == {"colour", "sameness"}
    assert model.classify("the red stone is here").label == "red"
    assert model.classify(["the blue river is there"], skill="colour")[0].label == "blue"
    assert ch.load(home, skill="colour").classify("the blue house is here").label == "blue"
    assert ch.pipeline("text-classification", home)("the red river is here")[0]["label"] == "red"
    assert model.fill("the [MASK] stone", top_k=1)
    plain = ch.Model(model.checkpoint)
    assert not torch.allclose(torch.as_tensor(model.embed("the stone")), torch.as_tensor(plain.embed("the stone")))
    inner = model.embed("the stone", layers=[0])
    assert torch.equal(torch.as_tensor(inner), torch.as_tensor(plain.embed("the stone", layers=[0])))
    # the encoder is as it was, and its table of tokens is there once
    assert torch.equal(
        model.encoder.blocks[0].attention.qkv.weight, ch.load(home).encoder.blocks[0].attention.qkv.weight
    )
    assert model.skill("colour").encoder.embeddings is model.encoder.embeddings


def test_loading_is_exact(home):
    one, other = ch.load(home), ch.load(home)
    for a, b in zip(one.network.parameters(), other.network.parameters(), strict=True):
        assert torch.equal(a, b)
    stored = (home / "model.safetensors").stat().st_size
    assert stored < 2 * sum(weight.numel() for weight in one.network.parameters())


def test_what_cannot_be_used_is_refused(home, tmp_path):
    model = ch.load(home)
    with pytest.raises(NotFound, match="there is no skill 'colours'; there are colour, sameness"):
        model.classify("the red stone", skill="colours")
    with pytest.raises(WrongTask):
        model.tag("the red stone")
    other = ch.Model.create(model.config, model.tokenizer)
    other.save(tmp_path / "other")
    with pytest.raises(BadCheckpoint, match="was made for another encoder"):
        ch.load(tmp_path / "other", skill=home / "skills" / "colour")
    with pytest.raises(BadConfig, match="a skill is made of LoRA adapters"):
        finetune("classify", home, home / "colours.jsonl", tmp_path / "x", skill_for=[])
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "skill.json").write_text('{"encoder": "x", "code": "run me"}')
    with pytest.raises(BadCheckpoint, match="unknown key 'code'; known are encoder"):
        ch.load(home, skill=bad)
    (bad / "skill.json").write_text('{"encoder": "x", "threshold": "low"}')
    with pytest.raises(BadCheckpoint, match="threshold = 'low' is not of type float"):
        ch.load(home, skill=bad)


# Going on from a skill

STILL = Settings(steps=1, learning_rate=1e-12, weight_decay=0.0, every=Every(save=10**9, evaluate=10**9))


def probabilities(model, text="the red stone is here"):
    return torch.tensor([model.classify(text).scores[label] for label in model.labels])


@pytest.mark.parametrize("rank", [4, 7])
def test_training_goes_on_from_a_skill(home, tmp_path, rank):
    recipe = Finetune(lora=rank, items=8, length=32, train=STILL)
    data, out = home / "colours.jsonl", tmp_path / "again"
    made = finetune("classify", home, data, out, recipe=recipe, skill="colour", skill_for=["classify"])
    again = ch.load(home, skill=out)
    # a step that learns nothing leaves what the skill says, but for int8
    assert_close(probabilities(again), probabilities(ch.load(home, skill="colour")), atol=0.02, rtol=0)
    assert len(again.encoder.blocks[0].attention.qkv.down) == rank
    assert "with its skill colour" in (out / "README.md").read_text()
    assert made.model.labels == ("blue", "red")


def test_training_from_a_skill_learns_more_and_is_a_run_of_its_own(home, tmp_path):
    rows = [{"text": f"there is {thing}", "label": "red" if thing in WORDS[:5] else "blue"} for thing in WORDS]
    (tmp_path / "more.jsonl").write_text("\n".join(map(json.dumps, rows)))
    old = (home / "colours.jsonl").read_text()
    (tmp_path / "both.jsonl").write_text(old + "\n" + (tmp_path / "more.jsonl").read_text())
    train = Settings(epochs=80.0, learning_rate=1e-2, every=Every(save=10**9, evaluate=10**9))
    recipe = Finetune(lora=4, items=8, length=32, train=train)
    learn = partial(finetune, "classify", home, tmp_path / "both.jsonl", recipe=recipe, skill_for=[])
    made = learn(tmp_path / "more", skill="colour", dev=tmp_path / "both.jsonl")
    before = ch.load(home, skill="colour").classify([row["text"] for row in rows])
    assert sum(one.label == row["label"] for one, row in zip(before, rows, strict=True)) < 9
    assert made.metrics["accuracy"] > 95
    with pytest.raises(BadConfig, match="holds another run, which differs in the starting skill"):
        learn(tmp_path / "more", dev=tmp_path / "both.jsonl")


def test_all_of_a_model_goes_on_from_its_skill(home, tmp_path):
    recipe = Finetune(items=8, length=32, train=STILL)
    finetune("classify", home, home / "colours.jsonl", tmp_path / "whole", recipe=recipe, skill="colour")
    assert_close(probabilities(ch.load(tmp_path / "whole")), probabilities(ch.load(home, skill="colour")))


def test_another_task_keeps_the_adapters_of_a_skill_and_learns_a_head(home, tmp_path):
    rows = [{"text": text, "label": label} for text, label in (("the red", "x"), ("the blue", "y"), ("is here", "z"))]
    (tmp_path / "other.jsonl").write_text("\n".join(map(json.dumps, rows)))
    recipe = Finetune(lora=4, length=32, train=STILL)
    made = finetune("classify", home, tmp_path / "other.jsonl", tmp_path / "x", recipe=recipe, skill="colour")
    assert made.model.labels == ("x", "y", "z")
    vectors = [model.embed("the red stone", layers=[2]) for model in (made.model, ch.load(home, skill="colour"))]
    assert_close(*map(torch.as_tensor, vectors), atol=1e-5, rtol=1e-4)


def test_what_no_training_can_go_on_from_is_refused(home, tmp_path):
    learn = partial(finetune, "classify", home, home / "colours.jsonl", tmp_path / "x", skill_for=[])
    for look in (learn, partial(first_look, "classify", home, home / "colours.jsonl")):
        with pytest.raises(NotFound, match="there is no skill 'colours'; there are colour, sameness"):
            look(skill="colours", recipe=Finetune(lora=4))
        with pytest.raises(BadConfig, match="the skill colour has the rank 4, which lora=2 cannot hold; set lora=4"):
            look(skill="colour", recipe=Finetune(lora=2))
    assert first_look("classify", home, home / "colours.jsonl", skill="colour", recipe=Finetune(lora=4))
    assert not list(tmp_path.glob("x/*.safetensors"))


@pytest.fixture(scope="module")
def names(home):
    """Colours that are names if they have a capital: what an uncased tokenizer cannot tell."""
    lines = [
        f"{word if i % 2 else word.title()} {'O' if i % 2 else 'B-PER'}\n{thing} O\n\n"
        for i, word in enumerate(["red", "red", "blue", "blue"])
        for thing in WORDS
    ]
    path = home / "names.conll"
    path.write_text("".join(lines))
    return path


@pytest.mark.parametrize("lora", [None, 4])
def test_a_tagger_can_look_at_capitals(home, names, tmp_path, lora):
    train = Settings(epochs=40.0, learning_rate=1e-2, every=Every(save=10**9, evaluate=10**9))
    recipe = Finetune(lora=lora, capitals=True, items=8, length=32, train=train)
    uses = None if lora is None else ["tag"]
    made = finetune("tag", home, names, tmp_path / "tagger", dev=names, recipe=recipe, skill_for=uses)
    assert made.metrics["f1"] == 100.0
    tagger = ch.load(tmp_path / "tagger") if lora is None else ch.load(home, skill=tmp_path / "tagger")
    assert [entity.text for entity in tagger.tag("Red river and red stone").entities] == ["Red"]
    assert [entity.text for entity in tagger.tag([["blue", "Blue"]])[0].entities] == ["Blue"]
    found = ch.pipeline("ner", tagger, aggregation_strategy="simple")("the Red house")
    assert [one["word"] for one in found] == ["red"]
    tagger.save(tmp_path / "again")
    assert ch.load(tmp_path / "again").tag("red Blue").entities == tagger.tag("red Blue").entities
    # nobody else sees the table
    assert ch.load(home).encoder.embeddings.capital is None


@pytest.mark.parametrize("paired", [False, True])
def test_a_class_can_depend_on_capitals(home, tmp_path, paired):
    beside = {"pair": "the river"} if paired else {}
    rows = [
        {"text": f"{word if small else word.upper()} is here", "label": "calm" if small else "loud", **beside}
        for word in WORDS
        for small in (True, False)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    train = Settings(epochs=40.0, learning_rate=1e-2, every=Every(save=10**9, evaluate=10**9))
    recipe = Finetune(lora=4, capitals=True, items=8, length=32, train=train)
    columns = {"text": "text", "pair": "pair"} if paired else None
    made = finetune("classify", home, path, tmp_path / "s", dev=path, recipe=recipe, columns=columns, skill_for=[])
    assert made.metrics["accuracy"] == 100.0
    model = ch.load(home, skill=tmp_path / "s")
    given = ("RIVER is there", "the river") if paired else "RIVER is there"
    assert model.classify([given])[0].label == "loud"


def test_an_answer_can_depend_on_capitals(home, tmp_path):
    asked = [
        {"id": f"{first} {loud}", "question": "STONE" if loud else "stone", "context": context, "answer": answer}
        for first in WORDS
        for loud in (True, False)
        for context in [f"{first} RED is here and blue"]
        for answer in ["RED" if loud else "blue"]
    ]
    paragraphs = [
        {
            "context": one["context"],
            "qas": [
                {
                    "id": one["id"],
                    "question": one["question"],
                    "answers": [{"text": one["answer"], "answer_start": one["context"].index(one["answer"])}],
                }
            ],
        }
        for one in asked
    ]
    path = tmp_path / "asked.json"
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}))
    train = Settings(epochs=40.0, learning_rate=1e-2, every=Every(save=10**9, evaluate=10**9))
    recipe = Finetune(lora=4, capitals=True, items=8, length=32, train=train)
    made = finetune("answer", home, path, tmp_path / "s", dev=path, recipe=recipe, skill_for=[])
    assert made.metrics["exact_match"] == 100.0
    model = ch.load(home, skill=tmp_path / "s")
    assert [model.answer(said, asked[0]["context"]).text for said in ("STONE", "stone")] == ["RED", "blue"]


def test_capitals_are_for_tasks_and_families_that_can_be_told(home, names, tmp_path):
    recipe = Finetune(capitals=True)
    with pytest.raises(BadInput, match="capitals=true is for classify, label, regress, tag, summarise, answer;"):
        finetune("similar", home, home / "same.jsonl", tmp_path / "x", recipe=recipe)
    bert = BertConfig(vocab_size=80, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48)
    ch.Model.create(bert, ch.load(home).tokenizer).save(tmp_path / "bert")
    with pytest.raises(BadConfig, match="capitals are told to a model with a table for them, not to bert"):
        finetune("tag", tmp_path / "bert", names, tmp_path / "x", recipe=recipe)
    assert not (tmp_path / "x").exists()
    path = tmp_path / "bert" / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tells_capitals": True}))
    with pytest.raises(BadCheckpoint, match="tells capitals, which bert does not read"):
        ch.load(tmp_path / "bert")


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
