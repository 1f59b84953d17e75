import shutil
import warnings

import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

import clearhead as ch
from clearhead.errors import BadInput
from pipelines.alike import alike
from pipelines.peers import LONG, SENTENCES, TAGS, Peers, peers
from text.strategies import any_strings

STRATEGIES = ["none", "simple", "first", "average", "max"]
WORDS = ["Ada", "Lovelace", "didn't", "cross", "the", "river."]
ODD = ["Zürich 中 [MASK] 🙂 Ada's", "", "  Ada\tLovelace\n"]


@pytest.fixture(scope="module")
def bert() -> Peers:
    return peers("BertForTokenClassification", TAGS, seed=1)


def quiet(pipe, *inputs, **options):
    """Call theirs, which warns where it has to guess words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pipe(*inputs, **options)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("family", ["Bert", "Roberta", "MPNet"])
def test_same_as_transformers(family, strategy):
    pair = peers(f"{family}ForTokenClassification", TAGS, seed=0)
    ours = ch.pipeline("token-classification", pair.folder, aggregation_strategy=strategy)
    theirs = pair.pipeline("token-classification", aggregation_strategy=strategy)
    assert alike(ours(SENTENCES), quiet(theirs, SENTENCES))
    assert alike(ours(SENTENCES[0]), quiet(theirs, SENTENCES[0]))
    assert sum(map(len, ours(SENTENCES))) > 8
    assert alike(ours(SENTENCES, ignore_labels=[]), quiet(theirs, SENTENCES, ignore_labels=[]))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("family", ["Albert", "DebertaV2"])
def test_sentencepiece_as_transformers_but_for_spaces(family, strategy):
    """Theirs counts the space before a word to the entity, and forgets the spaces between the words of one."""
    pair = peers(f"{family}ForTokenClassification", TAGS, seed=0)
    ours = ch.pipeline("ner", pair.folder, aggregation_strategy=strategy)
    theirs = pair.pipeline("ner", aggregation_strategy=strategy)
    for text in SENTENCES:
        found, expected = ours(text), quiet(theirs, text)
        for one, other in zip(found, expected, strict=True):
            assert one["word"].replace(" ", "") == other["word"].replace(" ", "")
            assert one["start"] == other["end"] - len(text[other["start"] : other["end"]].lstrip())
            other.update(word=one["word"], start=one["start"])
        assert alike(found, expected)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_odd_texts(bert, strategy):
    ours = ch.pipeline("ner", bert.folder, aggregation_strategy=strategy, ignore_labels=[])
    theirs = bert.pipeline("ner", aggregation_strategy=strategy, ignore_labels=[])
    assert alike([ours(text) for text in ODD], [theirs(text) if text else [] for text in ODD])


def test_labels_without_prefixes_and_with_unusual_ones():
    labels = ("NOUN", "B-PER", "E-PER", "NON-FICTION", "O")
    pair = peers("BertForTokenClassification", labels, seed=2)
    ours, theirs = (make("ner") for make in (lambda task: ch.pipeline(task, pair.folder), pair.pipeline))
    assert alike(ours(SENTENCES, aggregation_strategy="simple"), theirs(SENTENCES, aggregation_strategy="simple"))


def test_words_that_are_given(bert):
    ours, theirs = ch.pipeline("ner", bert.folder), bert.pipeline("ner")
    for words in (WORDS, [WORDS, WORDS[:2]]):
        for options in ({}, {"delimiter": ""}, {"delimiter": " | ", "aggregation_strategy": "simple"}):
            options = {"is_split_into_words": True, "ignore_labels": [], **options}
            assert alike(ours(words, **options), theirs(words, **options))


@pytest.mark.parametrize("strategy", STRATEGIES[1:])
def test_windows_with_a_stride_as_theirs(bert, strategy, tmp_path):
    folder = shutil.copytree(bert.folder, tmp_path / "limited")
    bert.ours.tokenizer.write_files(folder, max_length=bert.ours.encoder.max_length)
    theirs = transformers.pipeline("ner", model=str(folder), device="cpu", stride=10, aggregation_strategy=strategy)
    ours = ch.pipeline("ner", folder, stride=10, aggregation_strategy=strategy)
    assert alike(ours(LONG), theirs(LONG))
    assert alike(ours(SENTENCES), theirs(SENTENCES))


def test_a_long_text_is_read_to_its_end(bert):
    ner = ch.pipeline("ner", bert.folder, ignore_labels=[])
    found = ner(LONG)
    assert [one["index"] for one in found] == list(range(1, len(found) + 1))
    assert "".join(LONG[one["start"] : one["end"]] for one in found) == LONG.replace(" ", "")
    grouped = ner(LONG, aggregation_strategy="first", ignore_labels=["O"])
    expected = bert.ours.tag(LONG).entities
    assert [(one["entity_group"], one["start"], one["end"]) for one in grouped] == [
        (one.label, one.start, one.end) for one in expected
    ]


@given(st.lists(any_strings | st.just(LONG), min_size=1, max_size=4), st.sampled_from(STRATEGIES), st.booleans())
@settings(max_examples=40)
@pytest.mark.parametrize("family", ["Bert", "Albert"])
def test_any_text_has_entities_within_it(family, texts, strategy, striding):
    model = peers(f"{family}ForTokenClassification", TAGS, seed=0).ours
    options = {"stride": 8} if striding and strategy != "none" else {}
    ner = ch.pipeline("ner", model, aggregation_strategy=strategy, ignore_labels=[], **options)
    together = ner(texts)
    for text, found in zip(texts, together, strict=True):
        assert all(0 <= one["start"] <= one["end"] <= len(text) for one in found)
        assert alike(ner(text), found)


def test_older_names_of_the_strategies(bert):
    ner = ch.pipeline("ner", bert.folder)
    text = SENTENCES[-1]
    assert ner(text, grouped_entities=True) == ner(text, aggregation_strategy="simple")
    assert ner(text, grouped_entities=True, ignore_subwords=True) == ner(text, aggregation_strategy="FIRST")
    assert ner(text, grouped_entities=False) == ner(text)


def test_what_is_refused(bert):
    with pytest.raises(BadInput, match="aggregation_strategy='last' is not known; choose none, simple"):
        ch.pipeline("ner", bert.folder, aggregation_strategy="last")
    ner = ch.pipeline("ner", bert.folder)
    with pytest.raises(BadInput, match="stride needs an aggregation_strategy other than none"):
        ner("text", stride=3)
    with pytest.raises(BadInput, match="A text is a string, or a list with is_split_into_words=True"):
        ner([WORDS])
