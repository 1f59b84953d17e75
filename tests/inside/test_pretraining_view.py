"""The pre-training page: the dice are those of training, the losses the model's, and pairs are told apart."""

import math

import pytest
import torch

import clearhead as ch
from clearhead.data.batch import Batch
from clearhead.data.masking import Masking, Vocabulary, mask
from clearhead.data.rng import Stream, rng
from clearhead.errors import BadInput, WrongTask
from clearhead.inside import pretraining
from clearhead.inside.pretraining_view import CHOICES, ELSEWHERE
from inside.models import small
from pipelines.writers import translator

TEXT = "The animal didn't cross the street because it was too tired. He took a train. She went to the bank."


@pytest.mark.parametrize("choice", CHOICES)
def test_the_dice_are_those_of_training(choice):
    model = small()
    encoding = model.tokenizer.encode(TEXT)
    found = pretraining(model, TEXT, rolls=4, seed=3).data["rolls"][choice]
    for number, roll in enumerate(found):
        draw = rng(Stream.MASKING, 3, number)
        expected = mask(Batch.of([encoding.ids]), Vocabulary.of(model.tokenizer), CHOICES[choice], draw)
        assert roll["where"] == expected.targets["where"].tolist()
        assert len(roll["where"]) <= Masking().count(len(encoding) - 2)
        there = [model.tokenizer.id_to_token(token) for token in expected.ids[expected.targets["where"]].tolist()]
        for fate, token, place in zip(roll["fates"], there, roll["where"], strict=True):
            assert (fate == "mask") is (token == "[MASK]")
            assert (fate == "same") is (token == encoding.tokens[place])


def test_the_loss_of_each_mask_is_the_models():
    model = small()
    encoding = model.tokenizer.encode(TEXT)
    roll = pretraining(model, TEXT, rolls=2).data["rolls"]["pieces"][1]
    drawn = mask(Batch.of([encoding.ids]), Vocabulary.of(model.tokenizer), Masking(), rng(Stream.MASKING, 0, 1))
    with torch.no_grad():
        logits = model.network("masked_lm", drawn.ids, drawn.layout)
    truth = torch.tensor(encoding.ids)[roll["where"]]
    losses = torch.nn.functional.cross_entropy(logits[roll["where"]], truth, reduction="none")
    assert roll["losses"] == pytest.approx(losses.tolist(), abs=1e-3)
    for guesses in roll["guesses"]:
        shares = [share for _, share in guesses]
        assert shares == sorted(shares, reverse=True)


def test_over_many_rolls_the_fates_have_their_shares():
    fates = [fate for roll in pretraining(small(), TEXT, rolls=50).data["rolls"]["pieces"] for fate in roll["fates"]]
    shares = [fates.count(fate) / len(fates) for fate in ("mask", "random", "same")]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=4 * math.sqrt(0.16 / len(fates)))


def test_replaced_tokens_are_the_models_own_draws():
    data = pretraining(small(), TEXT, rolls=6).data
    for one, roll in zip(data["replaced"], data["rolls"]["pieces"], strict=True):
        assert one["where"] == roll["where"]
        for place, there, replaced in zip(one["where"], one["there"], one["replaced"], strict=True):
            assert replaced is (there != data["tokens"][place])
        assert one["found"] is None
    assert data == pretraining(small(), TEXT, rolls=6).data


def test_sentences_are_paired_with_the_next_and_with_another():
    data = pretraining(small(), TEXT).data
    assert [len(pair["options"]) for pair in data["pairs"]] == [2, 2]
    follows, other = data["pairs"][0]["options"]
    assert (follows["follows"], follows["second"]) == (True, "He took a train.")
    assert (other["follows"], other["second"]) == (False, ELSEWHERE[0])
    assert follows["probability"] is None
    coins = [coin for roll in data["coins"] for coin in roll]
    assert set(coins) == {True, False}
    (alone,) = pretraining(small(), "the animal was tired").data["pairs"]
    assert [one["follows"] for one in alone["options"]] == [False]


def test_the_built_in_encoder_tells_the_pairs_apart():
    model = ch.load()
    text = "The man went to the store. He bought a gallon of milk."
    (pair,) = pretraining(model, text, rolls=1).data["pairs"]
    probabilities = [one["probability"] for one in pair["options"]]
    assert probabilities[0] > 0.5 > probabilities[1]
    assert probabilities[0] == pytest.approx(
        model.follows(pair["first"], pair["options"][0]["second"]).probability, abs=1e-4
    )


@pytest.mark.parametrize(
    ("model", "text", "error", "message"),
    [
        (lambda: small("gpt2", "causal_lm"), TEXT, WrongTask, "a gpt2 without a masked-LM head hides no words"),
        (translator, TEXT, WrongTask, "without a masked-LM head hides no words"),
        (lambda: translator("seq2seq-gru"), TEXT, WrongTask, "a seq2seq-gru without a masked-LM head"),
        (small, "", BadInput, "the text is empty"),
        (small, "the " * 200, BadInput, "this page shows at most 64"),
    ],
)
def test_what_cannot_be_masked_is_said(model, text, error, message):
    with pytest.raises(error, match=message):
        pretraining(model(), text)
    with pytest.raises(BadInput, match="rolls=0 cannot be shown"):
        pretraining(small(), TEXT, rolls=0)
