"""The languages of translators: found by their tokens, told by their codes."""

import pytest

from clearhead.errors import BadConfig, BadInput
from clearhead.text.languages import Languages

NLLB = ["deu_Latn", "eng_Latn", "est_Latn", "fra_Latn", "spa_Latn", "zho_Hans", "zho_Hant"]
NOWHERE = ((), ())


def found(tokens, around=NOWHERE, **settings):
    return Languages.find({token: place for place, token in enumerate(tokens)}, around, settings)


@pytest.mark.parametrize(
    ("tokens", "codes", "place"),
    [
        (["<s>", *NLLB], NLLB, "before"),
        (["<s>", "__en__", "__ast__"], ["en", "ast"], "before"),
        (["en_XX", "ro_RO", "<mask>"], ["en_XX", "ro_RO"], "before"),
        ([">>fra<<", ">>por_BR<<", "</s>"], ["fra", "por_BR"], "target"),
    ],
)
def test_languages_are_known_by_their_tokens(tokens, codes, place):
    languages = found(tokens)
    assert list(languages.ids) == codes
    assert all(tokens[languages.ids[code]].strip("_<>") == code for code in codes)
    assert languages.place == place


@pytest.mark.parametrize("tokens", [["[CLS]", "[SEP]"], ["<s>", "</s>", "<mask>"], ["<extra_id_0>", "__en__"], []])
def test_other_tokenizers_have_none(tokens):
    assert found(tokens) is None


@pytest.mark.parametrize(
    ("settings", "around", "place"),
    [
        ({"tokenizer_class": "NllbTokenizer"}, ((), (9, 1)), "before"),  # whatever the template of old files says
        ({"tokenizer_class": "NllbTokenizer", "legacy_behaviour": True}, NOWHERE, "after"),
        ({"tokenizer_class": "MBartTokenizerFast"}, NOWHERE, "after"),
        ({"tokenizer_class": "MBart50Tokenizer"}, NOWHERE, "before"),
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, ((), (9, 1)), "after"),
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, ((1,), (9,)), "before"),
    ],
)
def test_where_a_language_stands(settings, around, place):
    languages = found(["en_XX", "ro_RO"], around, **settings)
    assert languages.place == place
    assert languages.around(7, "ro_RO") == (((1,), (7,)) if place == "before" else ((), (7, 1)))


def test_the_directions_of_a_small_translator_are_read():
    tokens = [">>en<<", ">>de<<"]
    assert found(tokens, directions=["de-en", "en-de"]).directions == (("de", "en"), ("en", "de"))
    assert found(tokens).directions == ()
    with pytest.raises(BadConfig, match="pairs of codes such as de-en and en-de, got 'German'"):
        found(tokens, directions="German")


def test_what_the_files_say_is_the_default():
    languages = found(NLLB, src_lang="fra_Latn", tgt_lang="nowhere")
    assert (languages.source, languages.target) == ("fra_Latn", None)
    assert languages.around(9) == ((3,), (9,))
    assert found(NLLB).around(9) == ((1,), (9,))  # English
    assert found(NLLB, ((5,), (9,))).source == "zho_Hans"


@pytest.mark.parametrize(
    ("code", "near"),
    [
        ("de", "deu_Latn"),
        ("es", "spa_Latn"),
        ("zh", "zho_Hans, zho_Hant"),
        ("zh-CN", "zho_Hans, zho_Hant"),
        ("fra", "fra_Latn"),
        ("engl_Latn", "eng_Latn"),
    ],
)
def test_an_unknown_code_is_told_the_near_ones(code, near):
    with pytest.raises(BadInput, match=f"'{code}' is no language of this model; near ones are {near}"):
        found(NLLB).id(code)


@pytest.mark.parametrize("code", ["", "klingon", 5, None])
def test_a_code_that_is_near_to_none(code):
    with pytest.raises(BadInput, match=r"is no language of this model; there are deu_Latn, eng_Latn, .* and 2 others"):
        found(NLLB).id(code)


def test_a_direction_is_as_told_or_by_the_text():
    languages = found([">>en<<", ">>de<<", ">>fr<<"], directions=["de-en", "fr-en", "en-de", "en-fr"])
    assert languages.direction("Guten Morgen") == ("de", "en")
    assert languages.direction("Bonjour") == ("fr", "en")
    assert languages.direction("Hello") == ("en", "de")
    assert languages.direction("Hello", None, "fr") == ("en", "fr")
    assert languages.direction("42", "fr") == ("fr", "en")
    assert languages.direction("Hello", "de", "en") == ("de", "en")  # who says it knows it
    with pytest.raises(BadInput, match=r"^the language of '42' cannot be told; say it with src_lang \(--from\): this"):
        languages.direction("42", None, "en")
    with pytest.raises(BadInput, match=r"^this model translates de-en, fr-en, en-de, en-fr, not de-fr$"):
        languages.direction("Hello", "de", "fr")
    with pytest.raises(BadInput, match="not en-en; 'Hello' seems to be en, and if it is not, say src_lang"):
        languages.direction("Hello", None, "en")
