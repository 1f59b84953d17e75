"""Greedy and sampling: the tokens of transformers, whatever else is in the batch, with the cache as without."""

from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from clearhead.decoding.beam import beam_search
from clearhead.decoding.config import Controls, Sampling
from clearhead.decoding.decoder import Recorder, as_decoder
from clearhead.decoding.generate import greedy, sample, stream, top
from clearhead.errors import BadCheckpoint, BadInput, InputTooLong, WrongTask
from clearhead.nn.attention import Attend
from clearhead.nn.hooks import record
from generators import DECODERS, PROMPTS, laid_out, our_decoder

from .writers import Table, ours, their_texts

PLAIN = Controls(end=(1,), max_new_tokens=20)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("model", DECODERS)
def test_greedy_writes_what_transformers_writes(model, seed, tmp_path):
    outputs = greedy(ours(model, tmp_path, seed), PROMPTS, PLAIN)
    for prompt, output in zip(PROMPTS, outputs, strict=True):
        assert [output.tokens] == their_texts(model, prompt, seed)[0]
        assert len(output.log_probabilities) == len(output.tokens) + output.ended
        assert output.score == pytest.approx(sum(output.log_probabilities))


@pytest.mark.parametrize("model", DECODERS)
def test_the_cache_changes_nothing(model):
    network = our_decoder(model).network
    start = getattr(network.encoder, "decoder_start_token_id", None)
    writer, written = as_decoder(network), [list(p) if start is None else [start] for p in PROMPTS]
    source = laid_out(PROMPTS, packed=True)
    rng = torch.Generator().manual_seed(0)
    with torch.inference_mode():
        logits, state = writer.begin(PROMPTS)
        for step in range(40):
            ids, layout = laid_out(written, packed=True)
            whole = network("causal_lm", ids, layout, source)
            assert_close(logits, layout.last(whole), atol=1e-5, rtol=1e-5)
            tokens = torch.randint(2, 64, (len(written),), generator=rng)
            if step in (3, 33):  # two change places, one is doubled, the longest leaves
                rows = torch.tensor([1, 0, 2, 2, 4] if step == 3 else [0, 1, 2, 4])
                state, tokens = state.select(rows), tokens[rows]
                written = [list(written[row]) for row in rows]
                if hasattr(network.encoder, "encode"):
                    source = laid_out([source.layout.split(source.ids)[row].tolist() for row in rows], packed=True)
            for row, token in zip(written, tokens.tolist(), strict=True):
                row.append(token)
            logits, state = writer.step(tokens, state)


@pytest.mark.parametrize(
    ("rules", "theirs"),
    [
        ({"repetition_penalty": 1.7}, {"repetition_penalty": 1.7}),
        ({"repetition_penalty": 0.6}, {"repetition_penalty": 0.6}),
        ({"no_repeat_ngram_size": 2}, {"no_repeat_ngram_size": 2}),
        ({"no_repeat_ngram_size": 1, "max_new_tokens": 12}, {"no_repeat_ngram_size": 1, "max_new_tokens": 12}),
        (
            {"no_repeat_ngram_size": 3, "repetition_penalty": 1.2},
            {"no_repeat_ngram_size": 3, "repetition_penalty": 1.2},
        ),
        ({"min_new_tokens": 15}, {"min_new_tokens": 15}),
        ({"banned": (5, 33, 7)}, {"bad_words_ids": [[5], [33], [7]]}),
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", [0, 1])
def test_rules_do_what_those_of_transformers_do(rules, theirs, seed, tmp_path):
    controls = Controls(**{"end": (1,), "max_new_tokens": 20, **rules})
    outputs = greedy(ours("gpt2", tmp_path, seed), PROMPTS, controls, history=PROMPTS)
    for prompt, output in zip(PROMPTS, outputs, strict=True):
        assert [output.tokens] == their_texts("gpt2", prompt, seed, **theirs)[0]


def test_texts_that_have_ended_leave_the_batch():
    # 2 → 3 → end; 4 → 5 → 5 …
    logits = torch.zeros(6, 6)
    for token, following in [(2, 3), (3, 1), (4, 5), (5, 5)]:
        logits[token, following] = 9.0
    table = Table(logits)
    first, second = greedy(table, [[2], [4]], Controls(end=(1,), max_new_tokens=6))
    assert (first.tokens, first.ended, second.tokens, second.ended) == ([3], True, [5] * 6, False)
    assert table.rows == [2, 2, 1, 1, 1, 1]
    assert list(stream(table, [2], Controls(end=(1,), max_new_tokens=6))) == [3]
    assert greedy(table, [], PLAIN) == []


def test_stop_strings():
    table = Table(torch.eye(6).roll(1, 1) * 9)  # 0 1 2 3 4 5 0 …
    controls = Controls(max_new_tokens=20, stop_strings=("34",), decode=lambda ids: "".join(map(str, ids)))
    (output,) = greedy(table, [[0]], controls)
    assert (output.tokens, output.ended) == ([1, 2, 3, 4], True)
    assert list(stream(table, [0], controls)) == [1, 2, 3, 4]
    with pytest.raises(BadInput, match="stop strings and whole sentences need decode"):
        Controls(stop_strings=("34",))


def test_a_recorder_sees_the_candidates():
    table = Table(torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0], [0.0, 0.0, 4.0]]))
    recorder = Recorder(top_k=2)
    greedy(table, [[0], [2]], Controls(max_new_tokens=2), recorder=recorder)
    assert [(step.number, step.text, step.written, step.chosen) for step in recorder.steps] == [
        (0, 0, [], [1]),
        (0, 1, [], [2]),
        (1, 0, [1], [0]),
        (1, 1, [2], [2]),
    ]
    (best, chance), (second, less) = recorder.steps[0].candidates
    assert (best, second) == (1, 2)
    assert [chance, less] == pytest.approx(torch.tensor([0.0, 2.0, 1.0]).softmax(0)[1:].tolist())


def test_hooks_see_the_attention_of_every_step():
    network = our_decoder("marian").network
    parts = [part for part in network.encoder.decoder_blocks.modules() if isinstance(part, Attend)]
    with record(*parts) as calls:
        greedy(as_decoder(network), [[5, 6, 7]], Controls(max_new_tokens=4))
    looks = [call for call in calls if call.module is network.encoder.decoder_blocks[0].cross.attend]
    assert [call.inputs[1].shape[1] for call in looks] == [3] * 4  # keys of the source
    backs = [call for call in calls if call.module is network.encoder.decoder_blocks[0].attention.attend]
    assert [call.inputs[1].shape[1] for call in backs] == [1, 2, 3, 4]


def test_sampling_follows_the_probabilities():
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0, -torch.inf]]).repeat(5, 1)
    rng = [Random(row) for row in range(40)]
    for sampling, wanted in [
        (Sampling(), logits[0].softmax(0)),
        (Sampling(temperature=0.5), (logits[0] * 2).softmax(0)),
        (Sampling(top_k=2), torch.cat([logits[0, :2].softmax(0), torch.zeros(3)])),
        # 0.64, 0.24, 0.09, 0.03: the first two make 0.88
        (Sampling(top_p=0.8), torch.cat([logits[0, :2].softmax(0), torch.zeros(3)])),
        (Sampling(top_p=0.9), torch.cat([logits[0, :3].softmax(0), torch.zeros(2)])),
        (Sampling(top_p=0.1), torch.tensor([1.0, 0, 0, 0, 0])),
    ]:
        outputs = sample(Table(logits), [[0]] * 40, Controls(max_new_tokens=250), sampling, rngs=rng)
        drawn = torch.tensor([output.tokens for output in outputs]).flatten().bincount(minlength=5) / 10_000
        assert_close(drawn, wanted, atol=0.015, rtol=0)  # three times the deviation of a fair draw
        assert_close(sampling.probabilities(logits)[0], wanted)


@pytest.mark.parametrize("model", DECODERS)
def test_sampling_depends_on_its_chance_alone_in_any_company(model):
    writer = as_decoder(our_decoder(model).network)

    def drawn(seed: int, count: int = len(PROMPTS)) -> list[list[int]]:
        chance = [Random(seed + place) for place in range(count)]
        found = sample(writer, PROMPTS[:count], PLAIN, Sampling(temperature=3.0), rngs=chance)
        return [output.tokens for output in found]

    assert drawn(0) == drawn(0) != drawn(1)
    assert drawn(0, 1) == drawn(0)[:1]
    tokens = list(stream(writer, PROMPTS[0], PLAIN, Sampling(top_k=5), rng=Random(7)))
    again = sample(writer, PROMPTS[:1], PLAIN, Sampling(top_k=5), rngs=[Random(7)])
    assert tokens == again[0].tokens


class Edge(Random):
    """Chance at the edge of what it can be."""

    def __init__(self, value: float) -> None:
        super().__init__(0)
        self.value = value

    def random(self) -> float:
        return self.value


@pytest.mark.parametrize("value", [0.0, 1 - 2**-53])
def test_what_has_no_probability_is_never_drawn(value):
    logits = torch.tensor([[-torch.inf, 1.0, -torch.inf, 0.0, -torch.inf]])
    assert Sampling().draw(logits, [Edge(value)]).item() == (3 if value == 0 else 1)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_model_that_computes_no_numbers_is_refused(bad):
    table = Table(torch.tensor([[0.0, 1.0, 2.0], [0.0, bad, 1.0], [0.0, 3.0, 1.0]]))
    for write in (
        lambda: greedy(table, [[1]], PLAIN),
        lambda: sample(table, [[1]], PLAIN, Sampling(), rngs=[Random(0)]),
        lambda: beam_search(table, [[1]], PLAIN, num_beams=2),
        lambda: list(stream(table, [1], PLAIN)),
    ):
        with pytest.raises(BadCheckpoint, match=r"scores are not numbers \(NaN or infinite\)"):
            write()


def test_rules_that_leave_nothing_are_refused():
    table, nothing = Table(torch.zeros(3, 3)), Controls(max_new_tokens=4, banned=(0, 1, 2))
    with pytest.raises(BadInput, match="the rules leave no token to be written"):
        sample(table, [[1]], nothing, Sampling(), rngs=[Random(0)])
    with pytest.raises(BadInput, match="the rules leave no token to be written"):
        beam_search(table, [[1]], nothing, num_beams=2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1, got 0"),
        ({"repetition_penalty": 0.0}, "repetition_penalty must be more than 0, got 0.0; 1 is no penalty"),
        ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size must not be negative, got -1"),
        ({"min_new_tokens": 2.5}, "min_new_tokens must be a whole number, got 2.5"),
        ({"repetition_penalty": float("inf")}, "repetition_penalty must be a finite number, got inf"),
        ({"stop_strings": ("",), "decode": str}, "a stop string must not be empty"),
    ],
)
def test_bad_controls_are_refused(values, message):
    with pytest.raises(BadInput, match=message):
        Controls(**values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"temperature": 0.0}, r"temperature must be more than 0, got 0\.0; leave it out for the likeliest token"),
        ({"temperature": float("inf")}, "temperature must be a finite number, got inf"),
        ({"temperature": "hot"}, "temperature must be a finite number, got 'hot'"),
        ({"top_k": 2.5}, r"top_k must be a whole number, got 2\.5"),
        ({"top_p": 1.5}, r"top_p must be more than 0 and at most 1, got 1\.5"),
    ],
)
def test_bad_sampling_is_refused(values, message):
    with pytest.raises(BadInput, match=message):
        Sampling(**values)


def test_chance_is_given_not_taken():
    with pytest.raises(BadInput, match="sampling needs something to draw with"):
        next(stream(Table(torch.zeros(2, 2)), [0], PLAIN, Sampling()))


def test_bad_beginnings_are_refused():
    network = our_decoder("gpt2").network
    with pytest.raises(BadInput, match="prompt 1 is empty; give it at least one token"):
        greedy(as_decoder(network), [[5], []], PLAIN)
    with pytest.raises(InputTooLong, match="Input has 61 tokens, the model has 60 positions"):
        greedy(as_decoder(network), [[5] * 50], Controls(max_new_tokens=40))
    del network.heads["causal_lm"]
    with pytest.raises(WrongTask, match="writes no text: it has no head 'causal_lm'"):
        as_decoder(network)


@given(width=st.sampled_from([5, 300, 4096, 4097, 9001]), count=st.integers(1, 9), seed=st.integers(0, 9))
def test_the_largest_are_the_largest(width, count, seed):
    scores = torch.randn(3, width, generator=torch.Generator().manual_seed(seed))
    values, places = top(scores, count)
    torch.testing.assert_close(values, scores.topk(min(count, width)).values, atol=0, rtol=0)
    assert torch.equal(scores.gather(1, places), values)
    assert all(len(set(row)) == len(row) for row in places.tolist())


def test_what_is_forbidden_comes_last():
    scores = torch.full((1, 5000), -torch.inf)
    scores[0, 4999] = 1.0
    assert top(scores, 1)[1].item() == 4999
