"""The pipelines that write: as transformers has them where it still does, by v4's documented contract elsewhere."""

import pytest
import transformers

import clearhead as ch
from clearhead.errors import BadInput, NotFound, WrongTask
from pipelines.alike import alike
from pipelines.writers import TEXTS, gpt_folder, translator


@pytest.fixture(scope="module")
def their_pipeline():
    return transformers.pipeline("text-generation", model=str(gpt_folder()), device="cpu")


@pytest.mark.parametrize(
    "options",
    [
        {"max_new_tokens": 12},
        {"max_new_tokens": 12, "return_full_text": False},
        {"max_new_tokens": 10, "num_beams": 3, "num_return_sequences": 2},
        {"max_new_tokens": 14, "no_repeat_ngram_size": 2, "repetition_penalty": 1.3},
        {"max_new_tokens": 8, "return_tensors": True},
        {"max_new_tokens": 6, "prefix": "Ein Hund. "},
        {"max_new_tokens": 20, "min_new_tokens": 18},
    ],
)
def test_text_generation_is_transformers(their_pipeline, options):
    ours = ch.pipeline("text-generation", gpt_folder())
    given = {"max_length": None, "do_sample": False, "pad_token_id": 0, **options}
    assert alike(ours(TEXTS[0], **options), their_pipeline(TEXTS[0], **given))
    assert alike(ours(TEXTS, **options), their_pipeline(TEXTS, **given))


def test_text_generation_by_chance_and_by_length():
    ours = ch.pipeline("text-generation", gpt_folder(), do_sample=True, temperature=2.0, max_new_tokens=10)
    found = ours(TEXTS[0], num_return_sequences=3)
    assert len({one["generated_text"] for one in found}) > 1
    read = len(ours.model.generator.ids([TEXTS[0]])[0])
    (one,) = ours(TEXTS[0], do_sample=False, max_new_tokens=None, max_length=read + 3, return_tensors=True)
    assert len(one["generated_token_ids"]) == read + 3
    (hole,) = ours("bank " * 100, do_sample=False, handle_long_generation="hole", return_full_text=False)
    assert hole["generated_text"]


@pytest.mark.parametrize(
    ("task", "key"),
    [
        ("translation", "translation"),
        ("translation_de_to_en", "translation"),
        ("summarization", "summary"),
        ("text2text-generation", "generated"),
    ],
)
@pytest.mark.parametrize("kind", ["transformer", "seq2seq-lstm-additive"])
def test_v4s_contract_of_the_tasks_that_v5_has_no_longer(task, key, kind):
    ours = ch.pipeline(task, translator(kind), max_new_tokens=12)
    (one,) = ours(TEXTS[0])
    assert list(one) == [f"{key}_text"]
    assert ours(TEXTS) == [ours(text)[0] for text in TEXTS]
    assert list(ours(iter(TEXTS))) == [ours(text) for text in TEXTS]
    both = ours(TEXTS[:2], num_beams=4, num_return_sequences=2)
    assert [len(ways) for ways in both] == [2, 2]
    (ids,) = ours(TEXTS[0], return_tensors=True)
    assert ours.model.tokenizer.decode(ids[f"{key}_token_ids"]) == one[f"{key}_text"]


def test_text2text_writes_what_transformers_generate_writes(tmp_path):
    model = translator()
    model.save(tmp_path / "marian")
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path / "marian").eval()
    ours = ch.pipeline("text2text-generation", model, max_length=20, num_beams=3, return_tensors=True)
    import torch

    for text in TEXTS:
        ids = torch.tensor(model.generator.ids([text]))
        pad = model.config.pad_token_id
        settings = {"num_beams": 3, "max_length": 20, "bad_words_ids": [[pad]], "do_sample": False}
        out = theirs.generate(ids, attention_mask=torch.ones_like(ids), forced_eos_token_id=None, **settings)
        written = [token for token in out[0, 1:].tolist() if token not in (pad, model.config.eos_token_id)]
        assert ours(text)[0]["generated_token_ids"] == written


def test_t5_is_told_in_words_what_to_do(monkeypatch):
    model = translator("t5")
    read = []
    original = type(model.tokenizer).ids_batch
    monkeypatch.setattr(
        type(model.tokenizer), "ids_batch", lambda self, texts: read.extend(texts) or original(self, texts)
    )
    ch.pipeline("translation_en_to_de", model, max_new_tokens=2)("The bank")
    ch.pipeline("translation", model, max_new_tokens=2)("The bank", src_lang="en", tgt_lang="fr")
    ch.pipeline("summarization", model, max_new_tokens=2, min_length=0)("The bank")
    for text in ("translate English to German: The bank", "translate English to French: The bank"):
        assert text in read
    assert "summarize: The bank" in read
    with pytest.raises(BadInput, match="must be told src_lang and tgt_lang, got None and None"):
        ch.pipeline("translation", model)("The bank")


def test_chance_may_be_asked_for_where_beams_are_the_rule():
    ours = ch.pipeline("translation", translator(), max_new_tokens=12)
    drawn = ours(TEXTS[0], do_sample=True, temperature=3.0, num_return_sequences=4)
    assert len({one["translation_text"] for one in drawn}) > 1


def test_a_long_text_is_read_to_its_end():
    ours = ch.pipeline("summarization", translator(), max_new_tokens=4)
    short, long = (len(ours.model.tokenizer.pieces(ours(text)[0]["summary_text"])) for text in (TEXTS[0], TEXTS[0] * 9))
    assert long > short


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda: ch.pipeline("translation", ch.load(gpt_folder())), WrongTask, "reads no source"),
        (lambda: ch.pipeline("text-generation", translator()), WrongTask, "its pipelines are text2text-generation"),
        (
            lambda: ch.pipeline("text-generation", gpt_folder())([{"role": "user", "content": "a"}]),
            BadInput,
            "chats need a chat template",
        ),
        (lambda: ch.pipeline("text-generation", gpt_folder(), max_tokens=3), BadInput, "max_tokens is no option"),
        (lambda: ch.pipeline("text-generation", gpt_folder())("a bank", max_length=1), BadInput, "leaves no room"),
        (
            lambda: ch.pipeline("translation", translator())("a", num_beams=0),
            BadInput,
            "num_beams=0 must be 1 or more",
        ),
        (
            lambda: ch.pipeline("text-generation", gpt_folder())("a", num_return_sequences=2),
            BadInput,
            "num_return_sequences=2 needs num_beams=2 or more, or do_sample=True",
        ),
        (
            lambda: ch.pipeline("translation", translator())("a", num_return_sequences=5),
            BadInput,
            "num_return_sequences=5 needs num_beams=5 or more",
        ),
    ],
)
def test_bad_input_is_one_sentence(use, error, message):
    with pytest.raises(error, match=message):
        use()


def test_without_a_model_the_built_in_writers_are_taken(writers):
    writer = ch.load("builtin:translator")
    for task, text, target in (
        ("translation_de_to_en", "Ich muss gehen.", "en"),
        ("translation_en_to_fr", "I have to go.", "fr"),
        ("translation", "Je suis étudiant", "en"),
    ):
        found = ch.pipeline(task, max_new_tokens=9)([text, text])
        (wanted,) = writer.generate([f">>{target}<< {text}"], num_beams=4, max_new_tokens=9)
        assert found == [{"translation_text": wanted.text}] * 2
    mixed = ch.pipeline("translation", max_new_tokens=9)(["Ich muss gehen.", "I have to go."], src_lang="en")
    assert mixed[1] == ch.pipeline("translation_en_to_de", max_new_tokens=9)("I have to go.")[0]
    with pytest.raises(BadInput, match="this model translates de-en, fr-en, en-de, en-fr, not de-fr"):
        ch.pipeline("translation_de_to_fr")("Ich muss gehen.")
    with pytest.raises(BadInput, match="the language of '42' cannot be told"):
        ch.pipeline("translation")("42")

    write = ch.pipeline("text-generation", max_new_tokens=9)
    (one,) = write("The old house")
    assert list(one) == ["generated_text"]
    assert one["generated_text"].startswith("The old house")
    (greedy,) = write("The old house", do_sample=False)
    assert greedy == write("The old house", do_sample=False)[0]


def test_a_gpt_summarises_what_is_longer_than_it_reads(writers):
    model = ch.load("builtin:gpt")
    text = "I have to go to the market. The old house is small. " * 12
    (one,) = ch.pipeline("summarization", max_new_tokens=20)(text)
    assert one == {"summary_text": model.summarise(text, abstractive=True, max_new_tokens=20).text}
    assert list(ch.pipeline("summarization", max_new_tokens=20)("")[0]) == ["summary_text"]


def test_a_copy_without_a_writer_says_so_in_a_sentence(built_in):
    for task, name in (("translation_de_to_en", "translator"), ("text-generation", "gpt"), ("summarization", "gpt")):
        with pytest.raises(NotFound, match=f"this copy of clearhead has no built-in model '{name}'; name a checkpoint"):
            ch.pipeline(task)
