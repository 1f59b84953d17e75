"""Beam search: texts, order and scores of transformers; one beam is greedy; company changes nothing."""

import pytest
import torch

from clearhead.decoding.beam import beam_search
from clearhead.decoding.config import Controls
from clearhead.decoding.decoder import Recorder, as_decoder
from clearhead.decoding.generate import greedy
from clearhead.errors import BadInput
from generators import DECODERS, PROMPTS, our_decoder

from .writers import Table, ours, their_texts

PLAIN = Controls(end=(1,), max_new_tokens=20)


@pytest.mark.parametrize(
    ("model", "length_penalty", "seed"),
    [
        *(("gpt2", penalty, seed) for penalty in (1.0, 0.0, -1.5, 2.5) for seed in (0, 1)),
        *((model, penalty, 0) for model in ("marian", "t5", "t5-v1.1") for penalty in (1.0, 0.6)),
        *((model, 1.0, 0) for model in ("bart", "m2m_100", "mbart")),
    ],
)
def test_the_texts_and_scores_of_transformers(model, length_penalty, seed, tmp_path):
    outputs = beam_search(
        ours(model, tmp_path, seed), PROMPTS, PLAIN, num_beams=4, num_return_sequences=3, length_penalty=length_penalty
    )
    for prompt, found in zip(PROMPTS, outputs, strict=True):
        texts, scores = their_texts(
            model, prompt, seed, num_beams=4, num_return_sequences=3, length_penalty=length_penalty
        )
        assert [output.tokens for output in found] == texts
        assert [output.score for output in found] == pytest.approx(scores, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(
    ("rules", "theirs"),
    [
        ({"repetition_penalty": 1.5}, {"repetition_penalty": 1.5}),
        ({"no_repeat_ngram_size": 2}, {"no_repeat_ngram_size": 2}),
        ({"min_new_tokens": 10, "banned": (9, 33)}, {"min_new_tokens": 10, "bad_words_ids": [[9], [33]]}),
    ],
    ids=str,
)
def test_rules_do_what_those_of_transformers_do(rules, theirs, tmp_path):
    writer = ours("gpt2", tmp_path)
    outputs = beam_search(writer, PROMPTS, Controls(end=(1,), max_new_tokens=20, **rules), num_beams=3, history=PROMPTS)
    for prompt, (output,) in zip(PROMPTS, outputs, strict=True):
        assert [output.tokens] == their_texts("gpt2", prompt, num_beams=3, **theirs)[0]


@pytest.mark.parametrize("model", ["bart", "m2m_100", "marian"])
@pytest.mark.parametrize("early", [False, True])
def test_tokens_that_are_forced_and_ends_that_are_enough(model, early, tmp_path):
    """As the files of BART and its relatives say: the first token, the end at the limit, the first ends there are."""
    writer = ours(model, tmp_path)
    rules = {"no_repeat_ngram_size": 3, "min_new_tokens": 2}
    said = {**rules, "forced_bos_token_id": 7, "forced_eos_token_id": 1, "max_new_tokens": 9}
    controls = Controls(end=(1,), max_new_tokens=9, first=7, last=1, **rules)
    history = [[writer.start]] * len(PROMPTS)
    found = beam_search(writer, PROMPTS, controls, num_beams=3, early_stopping=early, history=history)
    for prompt, (output,) in zip(PROMPTS, found, strict=True):
        texts, scores = their_texts(model, prompt, num_beams=3, early_stopping=early, **said)
        assert [output.tokens] == texts
        assert output.score == pytest.approx(scores[0], rel=1e-4, abs=1e-4)
        assert output.tokens[0] == 7
    for prompt, one in zip(PROMPTS, greedy(writer, PROMPTS, controls, history=history), strict=True):
        assert [one.tokens] == their_texts(model, prompt, **said)[0]
        assert one.ended == (len(one.log_probabilities) < 9)  # an end that the limit forces is none


@pytest.mark.parametrize("model", DECODERS)
def test_one_beam_is_greedy_and_company_changes_nothing(model):
    writer = as_decoder(our_decoder(model).network)
    one = beam_search(writer, PROMPTS, PLAIN, num_beams=1, length_penalty=0.0)
    for (found,), wanted in zip(one, greedy(writer, PROMPTS, PLAIN), strict=True):
        assert found.tokens == wanted.tokens
        assert found.score == pytest.approx(wanted.score)
        assert found.log_probabilities == pytest.approx(wanted.log_probabilities)
    together = beam_search(writer, PROMPTS, PLAIN, num_beams=3)
    for prompt, found in zip(PROMPTS, together, strict=True):
        assert [output.tokens for output in found] == [
            o.tokens for o in beam_search(writer, [prompt], PLAIN, num_beams=3)[0]
        ]


def test_a_better_text_behind_a_worse_beginning():
    # 2 looks best at first and leads to an even choice; 3 leads to a certain one, and then to the end
    chances = torch.full((5, 5), 1e-6)
    chances[0, 2], chances[0, 3] = 0.6, 0.4
    chances[2] = 0.2
    chances[3, 4], chances[4, 1] = 0.99, 0.99
    table = Table(chances.log())
    controls = Controls(end=(1,), max_new_tokens=5)
    assert greedy(table, [[0]], controls)[0].tokens[0] == 2
    recorder = Recorder(top_k=2)
    ((best, second),) = beam_search(table, [[0]], controls, num_beams=2, num_return_sequences=2, recorder=recorder)
    assert best.tokens == [3, 4]
    assert best.score > second.score
    assert recorder.steps[0].chosen == [2, 3]
    assert [step.written for step in recorder.steps[1:3]] == [[2], [3]]


def test_texts_that_are_done_leave_the_batch():
    logits = torch.full((6, 6), -30.0)
    for token, following in [(2, 1), (4, 5), (5, 5)]:
        logits[token, following] = 9.0
    table = Table(logits)
    short, long = beam_search(table, [[2], [4]], Controls(end=(1,), max_new_tokens=4), num_beams=1)
    assert (short[0].tokens, short[0].ended, long[0].tokens, long[0].ended) == ([], True, [5] * 4, False)
    assert table.rows == [2, 1, 1, 1]


def test_stop_strings_end_a_beam():
    table = Table(torch.eye(6).roll(1, 1) * 9)  # 0 1 2 3 4 5 0 …
    controls = Controls(max_new_tokens=20, stop_strings=("34",), decode=lambda ids: "".join(map(str, ids)))
    ((output,),) = beam_search(table, [[0]], controls, num_beams=2)
    assert (output.tokens, output.ended) == ([1, 2, 3, 4], True)


def test_bad_widths_are_refused():
    with pytest.raises(BadInput, match="num_beams must be at least 1, got 0"):
        beam_search(Table(torch.zeros(2, 2)), [[0]], PLAIN, num_beams=0)
    with pytest.raises(BadInput, match="num_return_sequences must be from 1 to num_beams=2, got 3"):
        beam_search(Table(torch.zeros(2, 2)), [[0]], PLAIN, num_beams=2, num_return_sequences=3)
