"""BART, M2M-100 and NLLB as people use them: what transformers reads, writes and decides, from the same folders."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import clearhead as ch
from clearhead.errors import BadCheckpoint, BadInput, ClearheadError
from clearhead.pipelines.compat.pipeline import pipeline
from pipelines.writers import SIZES, TEXTS, bart_folder, bart_library, nllb_folder, translator
from references import randomised

SUMMARIES = {
    "num_beams": 3,
    "length_penalty": 2.0,
    "early_stopping": True,
    "min_length": 6,
    "max_length": 17,
    "no_repeat_ngram_size": 3,
    "forced_bos_token_id": 0,
    "forced_eos_token_id": 2,
}
ARTICLE = "She went to the bank to get money. The animal was too tired."


def their_text(folder: Path, text: str, **how: Any) -> str:
    """What transformers writes beside a source."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    ids = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        found = network.generate(ids["input_ids"], attention_mask=ids["attention_mask"], **how)
    return tokenizer.decode(found[0], skip_special_tokens=True)


def test_bart_writes_as_its_files_say():
    folder = bart_folder("BartForConditionalGeneration", json.dumps(SUMMARIES))
    model = ch.load(folder)
    assert model.summarise(ARTICLE, abstractive=True).text == their_text(folder, ARTICLE)
    one = model.generate(ARTICLE)
    assert one.text == their_text(folder, ARTICLE, num_beams=1, early_stopping=False, length_penalty=1.0)
    assert one.tokens[0] == 0
    assert 5 <= len(one.tokens) <= 16
    # what is asked for goes first, and a limit that is asked for before the fewest that are usual
    short = model.generate(ARTICLE, max_new_tokens=3, num_beams=2)
    assert len(short.tokens) <= 3
    assert "".join(model.stream(ARTICLE)) == one.text
    assert model.generate([ARTICLE], min_new_tokens=9)[0].tokens[0] == 0


def test_the_pipelines_write_as_the_files_say():
    folder = bart_folder("BartForConditionalGeneration", json.dumps(SUMMARIES))
    wanted = their_text(folder, ARTICLE)
    assert pipeline("summarization", model=folder)(ARTICLE) == [{"summary_text": wanted}]
    assert pipeline("text2text-generation", model=folder)(ARTICLE) == [{"generated_text": wanted}]
    greedy = their_text(folder, ARTICLE, num_beams=1, early_stopping=False, length_penalty=1.0, min_length=2)
    told = pipeline("text2text-generation", model=folder)(ARTICLE, num_beams=1, min_length=2)
    assert told == [{"generated_text": greedy}]


def test_a_special_token_without_a_vector_is_no_token(tmp_path):
    """bart-large-cnn and its relatives have one vector less than their tokenizer has tokens, for <mask> is the last."""
    library = bart_library()
    mask = library.get_vocab_size()
    library.add_special_tokens(["<unused>"])
    config = transformers.BartConfig(vocab_size=mask, **SIZES)
    randomised(transformers.BartForConditionalGeneration(config), 3).save_pretrained(tmp_path)
    library.save(str(tmp_path / "tokenizer.json"))
    model = ch.load(tmp_path)
    assert model.tokenizer.vocabulary == mask
    assert max(model.tokenizer.encode("An <unused> word").ids) < mask
    assert model.tokenizer.encode("An animal").ids == library.encode("An animal").ids
    assert model.generate("An <unused> word", max_new_tokens=4).tokens
    library.add_tokens(["ordinary"])
    library.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(BadCheckpoint, match="they are from different models"):
        ch.load(tmp_path)


def test_what_bart_is_saved_with(tmp_path):
    folder = bart_folder("BartForConditionalGeneration", json.dumps(SUMMARIES))
    model = ch.load(folder)
    model.save(tmp_path / "ours")
    said = json.loads((tmp_path / "ours" / "generation_config.json").read_text())
    assert said == json.loads((folder / "generation_config.json").read_text())
    assert their_text(tmp_path / "ours", ARTICLE) == their_text(folder, ARTICLE)
    assert ch.load(tmp_path / "ours").generate(ARTICLE) == model.generate(ARTICLE)


def test_a_config_json_of_before_says_the_same(tmp_path):
    folder = bart_folder("BartForConditionalGeneration", json.dumps(SUMMARIES))
    wanted = ch.load(folder).summarise(ARTICLE, abstractive=True)
    ch.load(folder).save(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    config = json.loads((tmp_path / "config.json").read_text())
    tasks = {"summarization": {name: value for name, value in SUMMARIES.items() if "forced" not in name}}
    forced = {name: value for name, value in SUMMARIES.items() if "forced" in name}
    (tmp_path / "config.json").write_text(json.dumps({**config, **forced, "task_specific_params": tasks}))
    assert ch.load(tmp_path).summarise(ARTICLE, abstractive=True) == wanted


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("num_beams", "four", r"generation_config.json: num_beams = 'four' is not of type int"),
        ("forced_bos_token_id", -1, r"forced_bos_token_id = -1 is no token's id"),
        ("eos_token_id", ["a"], r"eos_token_id = \['a'\] is no token's id"),
        ("forced_bos_token_id", 10**6, r"names the token 1000000, the model has vectors for 3\d\d; they are from"),
        ("no_repeat_ngram_size", -2, r"no_repeat_ngram_size must not be negative"),
    ],
)
def test_a_generation_config_that_says_nonsense(tmp_path, name, value, message):
    ch.load(bart_folder("BartForConditionalGeneration")).save(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps({name: value}))
    model = ch.load(tmp_path)
    with pytest.raises(ClearheadError, match=message):
        model.generate(ARTICLE)


def test_lengths_that_nobody_could_mean(tmp_path):
    ch.load(bart_folder("BartForConditionalGeneration")).save(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps({"max_length": 10**12, "min_length": 10**11}))
    assert 1 <= len(ch.load(tmp_path).generate(ARTICLE).tokens) <= SIZES["max_position_embeddings"]


def test_bart_decides_as_in_transformers():
    folder = bart_folder("BartForSequenceClassification")
    model = ch.load(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = network(**tokenizer(TEXTS[0], TEXTS[2], return_tensors="pt")).logits[0]
    found = model.compare(TEXTS[0], TEXTS[2]).scores
    names = ("contradiction", "neutral", "entailment")
    assert [found[name] for name in names] == pytest.approx(logits.softmax(0).tolist(), abs=1e-5)
    labels = ["money", "animals"]
    chosen = model.zero_shot(TEXTS[2], labels, hypothesis_template="This is {}.")
    with torch.no_grad():
        rows = [network(**tokenizer(TEXTS[2], f"This is {one}.", return_tensors="pt")).logits[0, 2] for one in labels]
    assert [chosen.scores[one] for one in labels] == pytest.approx(torch.stack(rows).softmax(0).tolist(), abs=1e-5)


def test_bart_answers_as_in_transformers():
    folder = bart_folder("BartForQuestionAnswering")
    found = ch.load(folder).answer("Who was tired?", TEXTS[0], threshold=1e9, whole_words=False)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    encoded = tokenizer("Who was tired?", TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        out = network(**encoded)
    inside = torch.tensor([part == 1 for part in encoded.sequence_ids(0)])
    scores = out.start_logits[0][:, None] + out.end_logits[0][None]
    allowed = torch.ones_like(scores).triu().tril(29).bool() & inside[:, None] & inside[None]
    best = scores.masked_fill(~allowed, -torch.inf).flatten().argmax().item()
    first, last = (encoded.token_to_chars(place) for place in divmod(best, len(inside)))
    assert found.text == TEXTS[0][first.start : last.end].strip()


TEXT = "The animal was tired"
ENOUGH = 24  # new tokens that `translate` allows for so short a text


def their_translation(folder: Path, source: str, target: str) -> str:
    """What transformers writes for TEXT."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, src_lang=source)
    network = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    ids = tokenizer(TEXT, return_tensors="pt")
    first = tokenizer.convert_tokens_to_ids(target)
    with torch.no_grad():
        found = network.generate(**ids, forced_bos_token_id=first, num_beams=4, max_new_tokens=ENOUGH)
    return tokenizer.decode(found[0], skip_special_tokens=True)


@pytest.mark.parametrize(("source", "target"), [("eng_Latn", "deu_Latn"), ("fra_Latn", "zho_Hans")])
def test_nllb_is_told_its_languages(source, target, tmp_path):
    folder = nllb_folder()
    model = ch.load(folder)
    found = model.translate(TEXT, src_lang=source, tgt_lang=target)
    assert found.text == their_translation(folder, source, target)
    told = pipeline("translation", model=folder)(TEXT, src_lang=source, tgt_lang=target, max_new_tokens=ENOUGH)
    assert told == [{"translation_text": found.text}]
    model.save(tmp_path)
    assert their_translation(tmp_path, source, target) == found.text
    assert ch.load(tmp_path).translate(TEXT, src_lang=source, tgt_lang=target) == found
    # the language of the source stands before it, or behind its end in files that say so
    (read,) = model.generator.between(source, target).ids([TEXT])
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**settings, "legacy_behaviour": True}))
    (behind,) = ch.load(tmp_path).generator.between(source, target).ids([TEXT])
    assert behind == [*read[1:], read[0]]
    assert behind == transformers.AutoTokenizer.from_pretrained(tmp_path, src_lang=source)(TEXT)["input_ids"]


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"tgt_lang": "de"}, "'de' is no language of this model; near ones are deu_Latn and 3 others"),
        ({"tgt_lang": "fra_Lat"}, "'fra_Lat' is no language of this model; near ones are fra_Latn and 3 others"),
        ({"tgt_lang": "xx"}, "'xx' is no language of this model; there are deu_Latn, eng_Latn, fra_Latn, zho_Hans"),
        ({"src_lang": "zho", "tgt_lang": "deu_Latn"}, "'zho' is no language of this model; near ones are zho_Hans"),
        ({}, r"this model knows 4 languages; say tgt_lang \(--to\), such as deu_Latn, eng_Latn, fra_Latn"),
    ],
)
def test_languages_that_nllb_does_not_know(told, message):
    with pytest.raises(BadInput, match=message):
        ch.load(nllb_folder()).translate(TEXT, **told)


def test_a_bart_has_languages_of_its_own():
    with pytest.raises(BadInput, match="translates between languages of its own; leave src_lang and tgt_lang out"):
        ch.load(bart_folder("BartForConditionalGeneration")).translate(TEXT, src_lang="en", tgt_lang="de")


def test_a_t5_is_told_in_words():
    model, how = translator("t5"), {"num_beams": 1}
    told = model.translate(TEXT, src_lang="en", tgt_lang="de", **how)
    assert told == model.translate(TEXT, prefix="translate English to German: ", **how)
    with pytest.raises(BadInput, match="a T5 must be told src_lang and tgt_lang, got 'en' and None; choose among en"):
        model.translate(TEXT, src_lang="en")


def test_a_bart_is_looked_into():
    model = ch.load(bart_folder("BartForConditionalGeneration"))
    seen = ch.trace(model, TEXT)
    assert (seen.tokens[0], seen.tokens[-1]) == ("<s>", "</s>")
    assert len(seen.layers) == SIZES["encoder_layers"]
