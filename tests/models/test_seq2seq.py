"""Recurrent encoder–decoders: company changes nothing, training and writing agree, attention can be read."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from clearhead.data.batch import Batch
from clearhead.errors import BadConfig, BadInput
from clearhead.models import RECURRENT_FAMILIES
from clearhead.models.seq2seq import BUILD, Seq2Seq, Seq2SeqConfig
from clearhead.nn.layout import Packed

PAIRS = [([4, 5, 6, 2], [7, 8, 2]), ([9, 2], [3, 3, 4, 5, 2]), ([5, 5, 5, 5, 5, 5, 2], [2])]


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    return replace(Batch.of([target for _, target in pairs]), source=Batch.of([source for source, _ in pairs]))


def model(name: str, **changes: object) -> Seq2Seq:
    torch.manual_seed(0)
    sizes = {"vocab_size": 12, "embedding_size": 6, "hidden_size": 8, "num_hidden_layers": 2, **changes}
    return RECURRENT_FAMILIES[name].network(Seq2SeqConfig(**sizes)).eval()


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("name", BUILD)
def test_company_changes_nothing(name, bidirectional):
    network = model(name, bidirectional=bidirectional)
    with torch.no_grad():
        together = Batch.of([target for _, target in PAIRS]).layout.split(network(batch_of(PAIRS)))
        for pair, found in zip(PAIRS, together, strict=True):
            assert_close(found, network(batch_of([pair])), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", BUILD)
def test_teacher_forcing_is_writing_step_by_step(name):
    network = model(name)
    with torch.no_grad():
        wanted = network(batch_of(PAIRS)).split([len(target) for _, target in PAIRS])
        logits, state = network.begin([source for source, _ in PAIRS])
        for place in range(5):
            for row, (_, target) in enumerate(PAIRS):
                if place < len(target):
                    assert_close(logits[row], wanted[row][place], atol=1e-5, rtol=1e-5)
            tokens = torch.tensor([target[place] if place < len(target) else 2 for _, target in PAIRS])
            logits, state = network.step(tokens, state)


@pytest.mark.parametrize("name", ["seq2seq-lstm-additive", "seq2seq-gru", "seq2seq-lstm-dot-luong"])
def test_rows_of_the_state_can_be_moved(name):
    network, rows = model(name), torch.tensor([2, 0, 0])
    with torch.no_grad():
        logits, state = network.begin([source for source, _ in PAIRS])
        tokens = logits.argmax(-1)
        wanted, _ = network.step(tokens, state)
        moved, _ = network.step(tokens[rows], state.select(rows))
    assert_close(moved, wanted[rows], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", BUILD)
def test_a_gradient_reaches_every_parameter(name):
    network = model(name).train()
    network(batch_of(PAIRS)).square().sum().backward()
    for label, parameter in network.named_parameters():
        assert parameter.grad is not None, label
        assert parameter.grad.isfinite().all(), label
        assert parameter.grad.any(), label


@pytest.mark.parametrize("name", [name for name in BUILD if name.count("-") >= 2])
def test_attention_of_every_word_is_kept_when_asked(name):
    network = model(name).train()
    matrices = network.attention(batch_of(PAIRS))
    assert [tuple(one.shape) for one in matrices] == [(len(target), len(source)) for source, target in PAIRS]
    for one in matrices:
        assert_close(one.sum(-1), torch.ones(one.shape[0]))
    assert network.training


@torch.no_grad()
def test_luongs_decoder_reads_what_the_word_before_was_chosen_by():
    network = model("seq2seq-gru-dot-luong", num_hidden_layers=1)
    states, memory = network.read(torch.tensor(PAIRS[0][0]), Packed.of([4]))
    fed, wanted = torch.zeros(1, 6), []
    for word in (0, 7, 8):  # the start, and the target without its end
        x = torch.cat([network.target.weight[[word]], fed], -1)
        state = network.decoder.core(x[None], states[0])[1]
        states = (state,)
        weights = (memory.hidden[0] @ state[-1, 0]).softmax(0)
        fed = network.join(torch.cat([weights @ memory.hidden[0], state[-1, 0]])[None]).tanh()
        wanted.append(network.output(fed))
    assert_close(network(batch_of(PAIRS[:1])), torch.cat(wanted), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_bahdanaus_decoder_reads_the_context_of_the_state_before():
    network = model("seq2seq-gru-additive-bahdanau", num_hidden_layers=1)
    states, memory = network.read(torch.tensor(PAIRS[0][0]), Packed.of([4]))
    state, score, wanted = states[0], network.context.score, []
    for word in (0, 7, 8):
        own = score.of_state(state[-1, 0]) + score.of_hidden(memory.hidden[0])
        context = score.sum(own.tanh()).squeeze(-1).softmax(0) @ memory.hidden[0]
        x = torch.cat([network.target.weight[word], context])
        state = network.decoder.core(x[None, None], state)[1]
        wanted.append(network.output(network.join(torch.cat([context, state[-1, 0]])[None]).tanh()))
    assert_close(network(batch_of(PAIRS[:1])), torch.cat(wanted), atol=1e-5, rtol=1e-5)


def test_without_attention_there_is_nothing_to_look_at():
    with pytest.raises(BadInput, match="this model has no attention to look at"):
        model("seq2seq-lstm").attention(batch_of(PAIRS))


def test_an_empty_source_is_refused():
    with pytest.raises(BadInput, match="source 1 is empty; give it at least one token"):
        model("seq2seq-gru").begin([[3], []])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_size": 7}, "hidden_size 7 must be even for two directions"),
        ({"eos_token_id": 8000}, "eos_token_id must be less than vocab_size 8000"),
        ({"dropout": 1.0}, "dropout must be from 0 up to but not including 1"),
    ],
)
def test_bad_configurations_are_refused(values, message):
    with pytest.raises(BadConfig, match=message):
        Seq2SeqConfig(**values)
