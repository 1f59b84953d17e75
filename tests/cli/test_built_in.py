"""Without --model, every verb takes the built-in model and the skill that is made for it."""

import json

import pytest

from built_in import SKILLS
from conftest import SENTENCES

TEXT = SENTENCES[0]
VERBS = {
    "ask": ["ask", "Who was tired?", "--context", "{file}"],
    "fill": ["fill", "She went to the [MASK]."],
    "classify": ["classify", TEXT],
    "classify by labels": ["classify", TEXT, "--labels", "animals,money"],
    "tag": ["tag", TEXT],
    "compare": ["compare", TEXT, SENTENCES[1]],
    "follows": ["follows", TEXT, SENTENCES[1]],
    "choose": ["choose", TEXT, SENTENCES[1], SENTENCES[2]],
    "embed": ["embed", TEXT],
    "search": ["search", "bank", "--in", "{file}"],
    "rerank": ["rerank", "bank", *SENTENCES],
    "cluster": ["cluster", "--in", "{file}", "--threshold", "0.5"],
    "duplicates": ["duplicates", "--in", "{file}"],
    "summarise": ["summarise", "--in", "{file}"],
    "senses": ["senses", "bank", "--in", "{file}"],
    "tokenize": ["tokenize", TEXT],
    "info": ["info"],
    "export": ["export", "{out}", "--skill", "spam"],
    "look attention": ["look", "attention", TEXT, "--out", "{out}.html"],
    "look layers": ["look", "layers", TEXT, "--out", "{out}.html"],
    "look input": ["look", "input", TEXT, "--out", "{out}.html"],
    "look senses": ["look", "senses", "bank", "--out", "{out}.html"],
    "look why": ["look", "why", TEXT, "--out", "{out}.html"],
    "look step": ["look", "step", TEXT, "--token", "1", "--out", "{out}.html"],
}


@pytest.fixture
def called(run, tmp_path):
    """Run a verb on a file with the sentences."""
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(SENTENCES), encoding="utf-8")
    return lambda *words: run(*(str(word).format(file=file, out=tmp_path / "out") for word in words))


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_works_without_a_model_named(called, built_in, verb):
    code, out, err = called(*VERBS[verb], "--json")
    assert code == 0, err
    assert [json.loads(line) for line in out.splitlines()] or verb == "duplicates"


def test_a_skill_is_measured(run, built_in, tmp_path):
    data = tmp_path / "messages.jsonl"
    data.write_text("".join(json.dumps({"text": text, "label": "ham"}) + "\n" for text in SENTENCES))
    code, out, err = run("evaluate", "classify", "--data", data, "--skill", "spam", "--json")
    assert code == 0, err
    assert json.loads(out)["examples"] == len(SENTENCES)


@pytest.mark.parametrize("verb", VERBS)
def test_where_the_model_is_missing_every_verb_says_so_in_one_sentence(called, no_built_in, verb):
    code, out, err = called(*VERBS[verb])
    assert (code, out) == (2, "")
    assert err.startswith("error: this copy of clearhead has no built-in model 'encoder'; name a checkpoint folder")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        (["classify", TEXT], SKILLS["sentiment"][1]),
        (["classify", TEXT, "--skill", "spam"], SKILLS["spam"][1]),
        (["compare", TEXT, TEXT], SKILLS["inference"][1]),
        (["compare", TEXT, TEXT, "--skill", "similarity"], ("similarity",)),
    ],
)
def test_the_skill_is_the_one_for_the_use_or_the_one_named(called, built_in, words, labels):
    found = json.loads(called(*words, "--json")[1])
    assert set(found["scores"]) == set(labels)


def test_the_same_text_is_as_similar_as_can_be(called, built_in):
    found = json.loads(called("compare", TEXT, TEXT, "--skill", "similarity", "--json")[1])
    assert found["score"] == pytest.approx(1, abs=1e-5)


def test_an_unknown_skill_lists_the_known(called, built_in):
    code, out, err = called("classify", TEXT, "--skill", "spa")
    assert (code, out) == (2, "")
    assert err == (f"error: there is no skill 'spa'; there are {', '.join(sorted(SKILLS))}, or give a folder\n")


def test_info_names_the_skills(called, built_in):
    assert json.loads(called("info", "--json")[1])["skills"] == sorted(SKILLS)


def test_a_skill_of_ones_own_is_trained_on_it_and_named_by_its_folder(called, built_in, tmp_path):
    data = tmp_path / "data.jsonl"
    rows = [{"text": text, "label": label} for text in SENTENCES for label in ("yes", "no")]
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    settings = ["--set", "lora=2", "--set", "train.epochs=1"]
    code, _, err = called("finetune", "classify", "--data", data, "--out", "{out}", "--skill-for", "none", *settings)
    assert code == 0, err
    found = json.loads(called("classify", TEXT, "--skill", "{out}", "--json")[1])
    assert set(found["scores"]) == {"yes", "no"}


def test_translation_is_learnt_by_a_new_model_instead(called, built_in):
    small = ["--set", "model.d_model=8", "--set", "train.steps=1", "--set", "tokenizer=word"]
    code, _, err = called("finetune", "translation", "--data", "{file}", "{file}", "--out", "{out}", *small)
    assert code == 0, err
