from itertools import pairwise

import pytest
import torch

import clearhead as ch
from clearhead.errors import BadInput, InputTooLong, WrongTask
from pipelines.peers import LONG, SENTENCES, peers

PAIRS = [*pairwise(SENTENCES), (SENTENCES[3], "")]


@pytest.mark.parametrize("architecture", ["BertForNextSentencePrediction", "BertForPreTraining"])
def test_same_as_transformers(architecture):
    transformers = pytest.importorskip("transformers")
    pair = peers(architecture)
    theirs = getattr(transformers, architecture).from_pretrained(pair.folder).eval()
    found = pair.ours.follows(*zip(*PAIRS, strict=True))
    for (first, second), one in zip(PAIRS, found, strict=True):
        encoding = pair.ours.tokenizer.encode(first, second)
        given = {"input_ids": torch.tensor([encoding.ids]), "token_type_ids": torch.tensor([encoding.segments])}
        with torch.no_grad():
            out = theirs(**given)
        logits = out.seq_relationship_logits if architecture.endswith("PreTraining") else out.logits
        assert one.probability == pytest.approx(float(logits[0].softmax(-1)[0]), abs=1e-5)
        assert one.follows == (int(logits[0].argmax()) == 0)
    assert len({round(one.probability, 4) for one in found}) > 3  # else nothing was told apart


@pytest.fixture(scope="module")
def model() -> ch.Model:
    return peers("BertForPreTraining").ours


def test_what_we_save_transformers_reads(model, tmp_path):
    transformers = pytest.importorskip("transformers")
    model.save(tmp_path / "saved")
    theirs = transformers.BertForNextSentencePrediction.from_pretrained(tmp_path / "saved").eval()
    encoding = model.tokenizer.encode(*PAIRS[0])
    with torch.no_grad():
        logits = theirs(torch.tensor([encoding.ids]), token_type_ids=torch.tensor([encoding.segments])).logits
    expected = float(logits[0].softmax(-1)[0])
    assert model.follows(*PAIRS[0]).probability == pytest.approx(expected, abs=1e-5)
    assert ch.load(tmp_path / "saved").follows(*PAIRS[0]).probability == pytest.approx(expected, abs=1e-5)


def test_one_many_and_a_stream(model):
    one = model.follows(*PAIRS[0])
    assert one.to_dict() == {"follows": one.follows, "probability": one.probability}
    assert one.follows == (one.probability > 0.5)
    for many in (
        model.follows(SENTENCES[0], SENTENCES[1:3]),
        model.follows(SENTENCES[:2], SENTENCES[1]),
        model.follows(SENTENCES[:2], SENTENCES[1:3]),
        list(model.follows(iter(SENTENCES[:2]), SENTENCES[1])),
    ):
        assert len(many) == 2
        assert many[0].probability == pytest.approx(one.probability, abs=1e-5)
    assert model.follows([], []) == []
    with pytest.raises(BadInput, match="must be equally long"):
        model.follows(SENTENCES[:2], SENTENCES[:3])


def test_a_long_text_is_read_to_its_end_and_two_long_ones_are_refused(model):
    for pair in ((LONG, "a mask"), ("a mask", LONG)):
        more = (pair[0] + " river", pair[1]) if pair[0] == LONG else (pair[0], pair[1] + " river")
        assert model.follows(*pair).probability != pytest.approx(model.follows(*more).probability, abs=1e-6)
    with pytest.raises(InputTooLong, match=r"Both texts of a pair are long .*shorten one of them"):
        model.follows(LONG, LONG)


def test_a_model_without_the_head_says_so_and_what_it_can():
    with pytest.raises(WrongTask, match="cannot tell what follows: it has no 'next_sentence' head; it can fill, embed"):
        peers("BertForMaskedLM").ours.follows("a", "b")


def test_compare_points_here_where_there_is_no_other_head(model):
    with pytest.raises(WrongTask, match="only tells whether one follows the other; ask it with follows"):
        model.compare("a", "b")
    with pytest.raises(WrongTask, match=r"cannot classify or compare: .*; it can fill, tell what follows, embed"):
        model.classify("a")
