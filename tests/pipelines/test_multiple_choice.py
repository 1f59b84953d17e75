import pytest
import torch

import clearhead as ch
from clearhead.errors import BadInput
from pipelines.peers import LONG, SENTENCES, peers

QUESTIONS = [(SENTENCES[0], SENTENCES[1:4]), (SENTENCES[1], ["a mask", ""]), (SENTENCES[2], ["the river"])]


@pytest.fixture(scope="module")
def model() -> ch.Model:
    return peers("BertForMultipleChoice").ours


@pytest.mark.parametrize("family", ["Bert", "MPNet", "DebertaV2"])
def test_same_as_transformers(family):
    transformers = pytest.importorskip("transformers")
    pair = peers(f"{family}ForMultipleChoice")
    model, theirs = pair.ours, transformers.AutoModelForMultipleChoice.from_pretrained(pair.folder).eval()
    for (context, candidates), found in zip(QUESTIONS, model.choose(QUESTIONS), strict=True):
        encodings = [model.tokenizer.encode(context, one) for one in candidates]
        logits = []
        for encoding in encodings:
            with torch.no_grad():
                ids, segments = (torch.tensor([[row]]) for row in (encoding.ids, encoding.segments))
                segmented = {} if family == "MPNet" else {"token_type_ids": segments}
                logits.append(theirs(input_ids=ids, **segmented).logits[0, 0])
        scores = torch.stack(logits).softmax(-1).tolist()
        assert found.scores == pytest.approx(scores, abs=1e-5)
        assert (found.index, found.score) == (scores.index(max(scores)), pytest.approx(max(scores), abs=1e-5))
        assert found.text == candidates[found.index]


def test_one_many_and_json(model):
    one = model.choose(*QUESTIONS[0])
    assert model.choose(QUESTIONS)[0].scores == pytest.approx(one.scores, abs=1e-5)
    assert set(one.to_dict()) == {"text", "index", "score", "scores"}
    assert sum(one.scores) == pytest.approx(1)


def test_long_contexts_and_long_candidates_are_read_to_the_end(model):
    found = model.choose([(LONG, ["a mask", "the river"]), ("a mask", [LONG, "", LONG + " river"])])
    assert [len(one.scores) for one in found] == [2, 3]
    assert found[1].scores[0] != pytest.approx(found[1].scores[2], abs=1e-6)


def test_bad_input(model):
    for wrong in ([], "a mask"):
        with pytest.raises(BadInput, match="list of at least one text"):
            model.choose("context", wrong)
    with pytest.raises(BadInput, match="give a context and its candidates"):
        model.choose("context")
