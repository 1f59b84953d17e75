import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.batch import IGNORE_INDEX
from clearhead.data.encode import encode_tags
from clearhead.data.examples import Labels, WordsExample
from clearhead.errors import BadInput
from data.small import tokenizer

TAGS = Labels(("B-PER", "I-PER", "O"))
words = st.text(st.sampled_from("abelrtuhTHE!?.,'-é你好😀\u0301\u200b0"), min_size=1, max_size=8)
sentences = st.lists(
    st.lists(st.tuples(words, st.sampled_from(TAGS.names)), min_size=1, max_size=30), min_size=1, max_size=3
)


def example(pairs):
    return WordsExample(tuple(word for word, _ in pairs), tuple(tag for _, tag in pairs))


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
@given(data=sentences, length=st.integers(6, 20), overlap=st.sampled_from([None, 0, 1, 2]))
def test_tags_survive_the_way_to_pieces_and_back(kind, data, length, overlap):
    examples = [example(pairs) for pairs in data]
    found = encode_tags(examples, tokenizer(kind), TAGS, length=length, overlap=overlap)
    assert np.diff(found.encoded.offsets).max() <= length
    targets = found.encoded.token_targets["tags"]
    assert ((targets == IGNORE_INDEX) == (found.words < 0)).all()
    owners = np.repeat(found.owners, np.diff(found.encoded.offsets))
    for i, one in enumerate(examples):
        own = (owners == i) & (found.words >= 0)
        assert sorted(found.words[own]) == sorted(set(tokenizer(kind).pieces_of_words(one.words).words))
        assert [TAGS.names[label] for label in targets[own]] == [one.tags[word] for word in found.words[own]]


def test_the_label_is_on_the_first_piece():
    words = ("Blackburn", "sat")
    batch = encode_tags([WordsExample(words, ("B-PER", "O"))], tokenizer(), TAGS).encoded.batch(np.arange(1))
    encoding = tokenizer().encode_words(words)
    assert batch.ids.tolist() == encoding.ids
    first = encoding.first_pieces()
    expected = [IGNORE_INDEX] * len(encoding)
    expected[first[0]], expected[first[1]] = 0, 2
    assert len(encoding) > 4
    assert batch.targets["tags"].tolist() == expected


def test_every_word_of_a_long_sentence_is_learnt_once():
    long = WordsExample(("cat", "Blackburn") * 50, ("O", "B-PER") * 50)
    found = encode_tags([WordsExample(("a",), ("O",)), long], tokenizer(), TAGS, length=16)
    assert len(found.encoded) > 10
    assert found.owners[0] == 0
    assert set(found.owners[1:]) == {1}
    spoken = found.words[found.encoded.offsets[1] :]
    assert sorted(spoken[spoken >= 0]) == list(range(100))


def test_prediction_needs_no_tags_but_training_does():
    assert encode_tags([WordsExample(("a",))], tokenizer()).encoded.token_targets == {}
    with pytest.raises(BadInput, match="Sentence 1 has no tags"):
        encode_tags([WordsExample(("a",))], tokenizer(), TAGS)
    with pytest.raises(BadInput, match="Sentence 2 has the label 'B-LOC'"):
        encode_tags([WordsExample(("a",), ("O",)), WordsExample(("a",), ("B-LOC",))], tokenizer(), TAGS)
    with pytest.raises(BadInput, match="Sentence 1 has no words"):
        encode_tags([WordsExample((), ())], tokenizer(), TAGS)
