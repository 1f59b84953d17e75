"""Recorded steps give the numbers of computed ones, whoever leaves, moves or comes beside.

On a CPU nothing is recorded, but the cache lies still and is filled up as on a GPU; there all of it is run again.
"""

import gc
from copy import deepcopy

import pytest
import torch
from torch.testing import assert_close

from clearhead.decoding import cuda_graphs
from clearhead.decoding.beam import beam_search
from clearhead.decoding.config import Controls
from clearhead.decoding.cuda_graphs import GraphedDecoder, GraphedState
from clearhead.decoding.decoder import as_decoder
from clearhead.decoding.generate import greedy, stream
from clearhead.errors import InputTooLong
from clearhead.nn.hooks import record
from generators import DECODERS, PROMPTS, laid_out, our_decoder

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
RULES = Controls(end=(1,), max_new_tokens=24)


@pytest.fixture(params=DEVICES)
def device(request, monkeypatch):
    if request.param == "cpu":
        monkeypatch.setattr(GraphedDecoder, "_can_record", lambda self, logits: True)
    monkeypatch.setattr(cuda_graphs, "_COLUMNS", 4)  # so that they run out
    return request.param


def plainly(network):
    """The same decoder without recordings."""
    return as_decoder(network).decoder


@pytest.mark.parametrize("model", DECODERS)
def test_replayed_steps_are_the_whole_model(model, device):
    reference = our_decoder(model).network
    network = deepcopy(reference).to(device)
    start = getattr(network.encoder, "decoder_start_token_id", None)
    writer, written = as_decoder(network), [list(p) if start is None else [start] for p in PROMPTS]
    source = laid_out(PROMPTS, packed=True)
    rng = torch.Generator().manual_seed(0)
    with torch.inference_mode():
        logits, state = writer.begin(PROMPTS)
        assert isinstance(state, GraphedState)
        for step in range(30):
            ids, layout = laid_out(written, packed=True)
            whole = reference("causal_lm", ids, layout, source)
            assert_close(logits.cpu(), layout.last(whole), atol=1e-5, rtol=1e-5)
            tokens = torch.randint(2, 64, (len(written),), generator=rng)
            # two change places and one is doubled, one leaves, and then all but one, which moves to fewer rows
            if (kept := {3: [1, 0, 2, 2, 4], 13: [0, 1, 2, 4], 20: [2]}.get(step)) is not None:
                rows = torch.tensor(kept)
                state, tokens = state.select(rows.to(device)), tokens[rows]
                written = [list(written[row]) for row in rows]
                if hasattr(network.encoder, "encode"):
                    source = laid_out([source.layout.split(source.ids)[row].tolist() for row in rows], packed=True)
            for row, token in zip(written, tokens.tolist(), strict=True):
                row.append(token)
            logits, state = writer.step(tokens.to(device), state)
        assert state.cache.rows == 1


@pytest.mark.parametrize("model", DECODERS)
def test_texts_and_beams_are_those_without_recordings(model, device):
    network = our_decoder(model).network.to(device)
    writer = as_decoder(network)
    for prompts in (PROMPTS, PROMPTS[:1], PROMPTS):  # again from recordings that are there
        for ours, theirs in zip(greedy(writer, prompts, RULES), greedy(plainly(network), prompts, RULES), strict=True):
            assert ours.tokens == theirs.tokens
            assert ours.log_probabilities == pytest.approx(theirs.log_probabilities, abs=1e-4)
        found, wanted = (beam_search(one, prompts, RULES, num_beams=3) for one in (writer, plainly(network)))
        assert [[one.tokens for one in text] for text in found] == [[one.tokens for one in text] for text in wanted]


def test_two_texts_in_turns_do_not_share_a_recording(device):
    network = our_decoder("gpt2").network.to(device)
    writer = as_decoder(network)
    wanted = [list(stream(plainly(network), one, RULES)) for one in PROMPTS[:2]]
    both = [stream(writer, one, RULES) for one in PROMPTS[:2]]
    found: list[list[int]] = [[], []]
    for _ in range(24):
        for one, text in zip(both, found, strict=True):
            text.extend([token] if (token := next(one, None)) is not None else [])
    assert found == wanted


def test_recordings_are_used_again_and_new_weights_make_new_ones(device):
    network = our_decoder("marian").network.to(device)
    writer = as_decoder(network)
    greedy(writer, PROMPTS, RULES)
    gc.collect()
    before = dict(writer._recordings)
    greedy(writer, PROMPTS, RULES)
    assert before
    assert all(writer._recordings[key] is one for key, one in before.items())
    for weight in network.parameters():
        weight.data = weight.data.clone()
    greedy(writer, PROMPTS, RULES)
    assert not any(one in before.values() for one in writer._recordings.values())


def test_few_recordings_are_kept(device):
    writer = as_decoder(our_decoder("gpt2").network.to(device))
    for count in range(1, 5):
        for length in (1, 7, 15, 29):
            greedy(writer, [[5] * length] * 2**count, Controls(max_new_tokens=3))
    assert len(writer._recordings) == cuda_graphs._KEPT


def test_no_more_than_there_are_positions(device):
    network = our_decoder("gpt2").network.to(device)
    with pytest.raises(InputTooLong, match="61 tokens, the model has 60 positions"):
        greedy(as_decoder(network), [[5] * 50], Controls(max_new_tokens=20))


@pytest.mark.skipif("cuda" not in DEVICES, reason="there is no GPU")
def test_a_hook_sees_every_step():
    network = our_decoder("gpt2").network.to("cuda")
    with record(network.encoder.blocks[0]) as calls:
        greedy(as_decoder(network), [[5, 6, 7]], Controls(max_new_tokens=4))
    assert len(calls) == 4
