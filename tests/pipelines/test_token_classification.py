import copy
import pickle
import warnings
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import clearhead as ch
from clearhead.errors import BadInput
from clearhead.pipelines import token_classification
from clearhead.pipelines.token_classification import Labelled, Tagged, entities_of, join_words
from data.small import tokenizer
from pipelines.peers import LONG, SENTENCES, TAGS, peers, word_spans
from text.strategies import any_strings

STRATEGIES = ["simple", "first", "average", "max"]
WORDS = ["Ada", "Lovelace", "didn't", "", "cross", "the river."]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_same_as_transformers(strategy, seed):
    pair = peers("BertForTokenClassification", TAGS, seed=seed)
    theirs = pair.pipeline("token-classification", aggregation_strategy=strategy)
    check(theirs, pair.ours, strategy)


@pytest.mark.parametrize("family", ["Roberta", "Albert", "MPNet", "DebertaV2"])
def test_same_as_transformers_where_it_knows_no_words(family):
    """Of these tokenizers transformers guesses the words, so that only the strategy without words compares."""
    pair = peers(f"{family}ForTokenClassification", TAGS)
    check(pair.pipeline("token-classification", aggregation_strategy="simple"), pair.ours, "simple")


def check(theirs, ours, strategy):
    entities = 0
    # a word such as didn't is parted otherwise; pipeline("ner") parts it as they do
    texts = SENTENCES if strategy == "simple" else [text for text in SENTENCES if "'" not in text]
    for text, found in zip(texts, ours.tag(texts, aggregation_strategy=strategy), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # a piece that is only a space is no entity to us
            expected = [one for one in theirs(text) if text[one["start"] : one["end"]].strip()]
        places = [(one["entity_group"], *stripped(text, one["start"], one["end"])) for one in expected]
        assert [(one.label, one.start, one.end) for one in found.entities] == places
        assert [one.score for one in found.entities] == pytest.approx([one["score"] for one in expected], abs=1e-5)
        entities += len(places)
    assert entities > 4


def stripped(text, start, end):
    """Their offsets in some families start at the space before a word; ours never do."""
    return end - len(text[start:end].lstrip()), end


@pytest.fixture(scope="module")
def model() -> ch.Model:
    return peers("BertForTokenClassification", TAGS, seed=1).ours


def test_a_word_has_the_label_of_its_first_piece(model):
    text = SENTENCES[-1]
    encoding = model.tokenizer.encode(text)
    with torch.no_grad():
        scores = model.network("tags", torch.tensor([encoding.ids]))[0].softmax(-1)
    words = model.tag(text).words
    spans = word_spans(encoding)
    firsts = [encoding.words.index(word) for word in spans]
    assert [word.label for word in words] == [TAGS[int(scores[i].argmax())] for i in firsts]
    assert [(word.start, word.end) for word in words] == list(spans.values())
    assert [word.score for word in words] == pytest.approx([float(scores[i].max()) for i in firsts], abs=1e-5)


def test_words_that_are_given_are_kept(model):
    (found,) = model.tag([WORDS])
    assert [word.text for word in found.words] == WORDS
    assert (found.words[3].label, found.words[3].score) == ("O", 0)
    joined = " ".join(WORDS)
    for one in (*found.words, *found.entities):
        assert joined[one.start : one.end] == one.text
    whole = model.tag(joined).words
    assert [found.words[0].label, found.words[1].label] == [whole[0].label, whole[1].label]
    assert model.tag([[], ["\u200b"]])[0].words == ()


@given(st.lists(any_strings, max_size=8))
@settings(max_examples=30, deadline=None)
def test_every_word_that_is_given_gets_one_label(model, words):
    (found,) = model.tag([words])
    assert [word.text for word in found.words] == words
    joined = " ".join(words)
    assert all(joined[word.start : word.end] == word.text for word in found.words)


def test_each_piece_of_a_long_text_counts_where_it_sees_most(model):
    limit = model.encoder.max_length
    expected = []
    text = LONG.replace("'", " ")
    for window in ch.windows(model.tokenizer, text, length=limit):
        with torch.no_grad():
            labels = model.network("tags", torch.tensor([window.encoding.ids]))[0].argmax(-1).tolist()
        words = window.encoding.words
        expected += [TAGS[labels[i]] for i in window.best if words[i] != words[i - 1]]
    assert [word.label for word in model.tag(text).words] == expected
    assert "".join(word.text for word in model.tag(LONG).words) == LONG.replace(" ", "")


@given(st.lists(any_strings | st.just(LONG), min_size=1, max_size=5), st.sampled_from(STRATEGIES))
@settings(max_examples=40, deadline=None)
def test_entities_are_slices_and_neighbours_change_nothing(model, texts, strategy):
    together = model.tag(texts, aggregation_strategy=strategy)
    for text, found in zip(texts, together, strict=True):
        single = model.tag(text, aggregation_strategy=strategy)
        assert [(one.label, one.start, one.end) for one in single.words] == [
            (one.label, one.start, one.end) for one in found.words
        ]
        assert [one.score for one in single.entities] == pytest.approx([one.score for one in found.entities], abs=1e-5)
        for one in (*found.words, *found.entities):
            assert text[one.start : one.end] == one.text
        assert all(one.text and one.label in ("PER", "LOC") for one in found.entities)


def part(label, start):
    return Labelled("ab cd ef gh"[start : start + 2], label, start, start + 2, 0.5)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["B-PER", "I-PER", "O", "I-LOC"], ["PER:ab cd", "LOC:gh"]),
        (["B-PER", "B-PER", "I-LOC", "I-LOC"], ["PER:ab", "PER:cd", "LOC:ef gh"]),
        (["NOUN", "NOUN", "VERB", "O"], ["NOUN:ab cd", "VERB:ef"]),
        (["B-PER", "E-PER", "S-PER", "I-PER"], ["PER:ab cd", "PER:ef gh"]),
        (["NON-FICTION", "B-", "I-", "O"], ["NON-FICTION:ab", "B-:cd", "I-:ef"]),
    ],
)
def test_how_labels_group(labels, expected):
    found = entities_of("ab cd ef gh", [part(label, 3 * i) for i, label in enumerate(labels)])
    assert [f"{one.label}:{one.text}" for one in found] == expected


def test_results_as_json_and_unknown_strategies(model):
    found = model.tag(SENTENCES[0]).to_dict()
    assert set(found) == {"entities", "words"}
    assert set(found["words"][0]) == {"text", "label", "start", "end", "score"}
    with pytest.raises(BadInput, match="strategy='last' is not known; choose simple, first, average, max"):
        model.tag("text", aggregation_strategy="last")


@pytest.mark.parametrize("given", [SENTENCES[2], WORDS, "", []])
def test_words_that_nobody_has_looked_at_are_those_that_somebody_has(model, given):
    def fresh() -> Tagged:
        return model.tag([given])[0]

    looked = fresh()
    made = Tagged(tuple(looked.words), tuple(looked.entities))
    assert looked.words is looked.words
    assert looked.entities is looked.entities
    assert isinstance(fresh().words, tuple)
    assert isinstance(fresh().entities, tuple)
    assert (fresh(), hash(fresh()), repr(fresh())) == (made, hash(made), repr(made))
    assert made == fresh()
    assert pickle.loads(pickle.dumps(fresh())) == copy.deepcopy(fresh()) == copy.copy(fresh()) == made
    assert asdict(fresh()) == asdict(made)
    assert replace(fresh(), entities=()) == Tagged(made.words, ())
    assert fresh().to_dict() == looked.to_dict() == made.to_dict()
    assert replace(fresh(), words=()).to_dict()["words"] == []
    assert replace(fresh(), entities=()).to_dict()["entities"] == []
    with pytest.raises(AttributeError, match="'Tagged' object has no attribute 'word'"):
        _ = fresh().word
    with pytest.raises(AttributeError, match="cannot assign to field 'words'"):
        fresh().words = ()


@pytest.mark.parametrize("family", ["Albert", "DebertaV2"])
def test_words_of_which_nothing_is_left_are_outside(family):
    pair = peers(f"{family}ForTokenClassification", TAGS)
    (found,) = pair.ours.tag([["", "\u200b", "Ada", ""]])
    assert [word.text for word in found.words] == ["", "\u200b", "Ada", ""]
    assert found.words[-1] == Labelled("", "O", 7, 7, 0.0)
    assert pair.ours.tag([[""], [" "]])[0].words[0].label == "O"


def words_of(text: str) -> list[str]:
    pieces = tokenizer().pieces(text)
    numbers = join_words(text, pieces.offsets, pieces.words)
    places = [
        [span for span, one in zip(pieces.offsets, numbers, strict=True) if one == n] for n in sorted(set(numbers))
    ]
    return [text[spans[0][0] : spans[-1][1]] for spans in places]


@pytest.mark.parametrize(
    "words",
    [
        "The U.S. and the U.K. agreed .",
        "C. L. Cairns hit 3.5 at 12:30 , or 1,000 .",
        "Mary O'Brien of AT&T met the Anglo-Dutch team .",
        "It 's McDonald 's , we don 't go",
        "1. Ada",
        '" Paris , " he said ( twice ) .',
        "see example.com or and/or 1996-08-22",
        "你 好 , 世 界",
    ],
)
def test_words_are_parted_as_taggers_learn_them(words):
    parted = words.split()
    text = words.replace(" ,", ",").replace(" .", ".").replace(" '", "'").replace("( ", "(").replace(" )", ")")
    text = text.replace('" Paris', '"Paris').replace(', "', ',"').replace("你 好", "你好").replace("世 界", "世界")
    assert words_of(text) == parted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Vitamin A.", ["Vitamin", "A", "."]),
        ("in 1996. Then", ["in", "1996", ".", "Then"]),
        ("the end.Next", ["the", "end", ".", "Next"]),
        ("well-", ["well", "-"]),
        ("", []),
    ],
)
def test_the_end_of_a_sentence_is_no_part_of_a_word(text, words):
    assert words_of(text) == words


def test_a_word_does_not_grow_without_end():
    assert max(map(len, words_of("a." * 5_000))) < 110


@given(any_strings)
def test_words_only_grow(text):
    pieces = tokenizer().pieces(text)
    numbers = join_words(text, pieces.offsets, pieces.words)
    assert len(numbers) == len(pieces.words)
    for i in range(1, len(numbers)):
        assert numbers[i] - numbers[i - 1] in (0, 1)
        assert numbers[i] == numbers[i - 1] or pieces.words[i] != pieces.words[i - 1]


@pytest.mark.parametrize("labels", [1, 2, 9, 15, 16, 17, 40])
def test_the_best_label_is_that_of_the_softmax(labels):
    logits = 5 * torch.randn(300, labels, generator=torch.Generator().manual_seed(labels))
    score, place = token_classification._best_labels(logits)
    expected = logits.softmax(-1).max(-1)
    torch.testing.assert_close(torch.from_numpy(score), expected.values, rtol=1e-6, atol=0)
    assert place.tolist() == expected.indices.tolist() == logits.argmax(-1).tolist()


_HELD = st.lists(st.sampled_from([*"aBnN'’t.,:-_&/(1 \n日é", "U.S.", "don't", "1. ", "O'B", "n't"]), max_size=30)


@given(st.lists(_HELD.map("".join), min_size=1, max_size=4))
def test_what_is_not_asked_would_say_the_same(texts):
    pieces = tokenizer().packed_batch(texts)
    found = token_classification._opens_joined_word(texts, pieces)
    with pytest.MonkeyPatch.context() as patch:
        ask_all = lambda texts, owners, *rest: (np.ones(len(owners), np.bool_), np.zeros(len(owners), np.bool_))  # noqa: E731
        patch.setattr(token_classification, "_may_hold", ask_all)
        assert found.tolist() == token_classification._opens_joined_word(texts, pieces).tolist()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I don't know.", ["I", "do", "n't", "know", "."]),
        ("We won’t, you CAN'T!", ["We", "wo", "n’t", ",", "you", "CA", "N'T", "!"]),
        ("She cannot say it isn't so", ["She", "can", "not", "say", "it", "is", "n't", "so"]),
        ("They do n't, it's O'Brien", ["They", "do", "n't", ",", "it", "'s", "O'Brien"]),
        ("don't", ["do", "n't"]),
        ("an ant, a knot, n't", ["an", "ant", ",", "a", "knot", ",", "n't"]),
        ("", []),
    ],
)
@pytest.mark.parametrize("family", ["Bert", "MPNet", "Roberta"])
def test_parts_of_speech_part_contractions_as_their_taggers_learn_them(family, text, words):
    model = peers(f"{family}ForTokenClassification", ("DET", "NOUN", "VERB")).ours
    found = model.tag(text).words
    assert [word.text for word in found] == words
    assert all(text[word.start : word.end] == word.text for word in found)
    given = model.tag([words])[0].words  # which is how they are learnt
    if family != "Roberta":  # to which a space before a sign is another token
        assert [word.label for word in found] == [word.label for word in given]
    assert "didn" not in [word.text for word in model.tag(" ".join(["didn't"] * 90)).words]


def test_entities_are_found_in_texts_as_they_are():
    model = peers("BertForTokenClassification", TAGS).ours
    assert [word.text for word in model.tag("I don't know.").words] == ["I", "don", "'t", "know", "."]
