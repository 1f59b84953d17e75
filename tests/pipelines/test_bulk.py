"""Many texts at once give, to the bit, what a plain implementation gives that looks at one text after another."""

import math
import threading
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clearhead import Model
from clearhead.errors import BadInput
from clearhead.pipelines import runner
from clearhead.pipelines.classification import class_logits
from clearhead.pipelines.question_answering import Search, SpanTable, read_passages, spans_of_text
from clearhead.pipelines.results import Answer, Candidate, Labelled, Tagged
from clearhead.pipelines.runner import per_sequence, prepare_texts, read_ahead, read_windows, through, windows_of_texts
from clearhead.pipelines.token_classification import entities_of, tag_windows, word_scores, words_of
from pipelines.peers import LONG, SENTENCES, TAGS, peers

TEXTS = [
    *SENTENCES,
    "",
    "  ",
    "...",
    "don't, O'Brien! (U.S.) [x]",
    LONG,
    "日本 МОСКВА 😀",
    "a\ud800b",
    f"{LONG} {LONG}",
]
WORDS = [SENTENCES[0].split(), [], ["a b", "", "c!"], [""]]
TAGGER = peers("BertForTokenClassification", TAGS).ours
READER = peers("BertForQuestionAnswering").ours
JUDGE = peers("BertForSequenceClassification", ("a", "b", "c")).ours


def words_and_entities(given, windows, tables, labels, strategy) -> Tagged:
    """What `tag` did text by text."""
    text = given if isinstance(given, str) else " ".join(given)
    spans, owners = words_of(given, windows)
    if not owners:
        return Tagged(() if isinstance(given, str) else as_given(given, ()), ())
    logits = [table[one.best.start : one.best.stop] for one, table in zip(windows, tables, strict=True)]
    scores = torch.cat(logits).softmax(-1)
    firsts = [i for i, owner in enumerate(owners) if i == 0 or owner != owners[i - 1]]
    word_spans = [(spans[i][0], spans[j - 1][1]) for i, j in pairwise([*firsts, len(owners)])]
    words = labelled(text, word_spans, scores[firsts], labels)
    joined = words
    if strategy == "simple":
        joined = labelled(text, spans, scores, labels)
    elif strategy != "first":
        rows = torch.stack([word_scores(pieces, strategy) for pieces in scores.tensor_split(firsts[1:])])
        joined = labelled(text, word_spans, rows, labels)
    return Tagged(words if isinstance(given, str) else as_given(given, words), entities_of(text, joined))


def labelled(text, spans, scores, names):
    best, index = scores.max(-1)
    rows = zip(spans, index.tolist(), best.tolist(), strict=True)
    return tuple(Labelled(text[start:end], names[i], start, end, score) for (start, end), i, score in rows)


def as_given(words, found):
    ends = [end - 1 for end in accumulate(len(word) + 1 for word in words)]
    by_word = {sum(end <= one.start for end in ends): one for one in reversed(found)}
    outside = Labelled("", "O", 0, 0, 0.0)
    return tuple(
        replace(by_word.get(i, outside), text=word, start=end - len(word), end=end)
        for i, (word, end) in enumerate(zip(words, ends, strict=True))
    )


@pytest.mark.parametrize("strategy", ["first", "simple", "average", "max"])
def test_tags(strategy):
    given = [*TEXTS, *WORDS, TEXTS[0]]
    expected = [words_and_entities(*read, TAGS, strategy) for read in tag_windows(TAGGER, given)]
    assert TAGGER.tag(given, aggregation_strategy=strategy) == expected
    assert list(TAGGER.tag(iter(given), aggregation_strategy=strategy)) == expected


def best_spans(context, pieces, windows, tables, search) -> Answer:
    """What `answer` did question by question."""
    parts = [(one.first, one.passage, logits) for one, logits in zip(windows, tables, strict=True)]
    table = SpanTable.of(len(pieces), parts, search.max_answer_length, search.null_bias)
    total = float(torch.cat([table.logits.flatten(), torch.tensor([table.null])]).logsumexp(0))
    found = {}
    for start, end, logit in spans_of_text(context, pieces, table, search):
        found.setdefault((start, end), Candidate(context[start:end], start, end, math.exp(logit - total), logit))
        if len(found) == search.top_k:
            break
    candidates = tuple(found.values())
    if not candidates or table.null - candidates[0].logit > search.threshold:
        return Answer(None, None, None, math.exp(table.null - total), table.null, candidates)
    best = candidates[0]
    return Answer(best.text, best.start, best.end, best.score, table.null, candidates)


@pytest.mark.parametrize("options", [{}, {"top_k": 4, "whole_words": False, "threshold": math.inf}])
def test_answers(options):
    asked = [(SENTENCES[i % 3], text) for i, text in enumerate(TEXTS * 2)]
    search = Search(max_answer_length=7, **options)
    expected = [best_spans(*read, search) for read in read_passages(READER, asked, search)]
    found = READER.answer([one for one, _ in asked], [one for _, one in asked], max_answer_length=7, **options)
    assert found == expected


def test_spans_that_are_as_good_come_in_the_order_of_one_question_alone():
    flat = Model(READER.checkpoint).with_head("span", 2)
    with torch.no_grad():
        for one in flat.network.heads.parameters():
            one.zero_()
    search = Search(threshold=math.inf)
    expected = [
        best_spans(*read, search) for read in read_passages(flat, [(SENTENCES[0], one) for one in TEXTS], search)
    ]
    assert flat.answer(SENTENCES[0], TEXTS, threshold=math.inf) == expected


def test_vectors_and_classes():
    encoder, limit = JUDGE.encoder, JUDGE.encoder.max_length

    def windows(chunk):
        return windows_of_texts(JUDGE.tokenizer, chunk, limit)

    def row(item, tables):
        rows = torch.cat(tables)
        weights = torch.tensor([float(len(one.best)) for one in item])
        return rows[0] if len(rows) == 1 else weights @ rows / weights.sum()

    forward = through(JUDGE.network, "classes")
    read = read_windows(JUDGE.network, forward, per_sequence, TEXTS, windows)
    logits = [row(item, tables) for _, item, tables in read]
    for one, expected in zip(JUDGE.classify(TEXTS), logits, strict=True):
        assert list(one.scores.values()) == sorted(expected.softmax(-1).tolist(), reverse=True)

    pooled = read_windows(
        encoder, lambda batch: batch.layout.mean(encoder(batch.ids, batch.layout)), per_sequence, TEXTS, windows
    )
    vectors = torch.stack([row(item, tables) for _, item, tables in pooled]).numpy()
    np.testing.assert_array_equal(JUDGE.embed(TEXTS, pooling="mean", normalise=False), vectors)
    unit = F.normalize(torch.from_numpy(vectors[: len(SENTENCES), :8]), dim=-1).numpy()
    np.testing.assert_allclose(JUDGE.embed(SENTENCES, pooling="mean", normalise=True, dimensions=8), unit, atol=1e-6)


def test_texts_and_pairs_may_come_mixed():
    given = [
        one for both in zip(TEXTS[:9], zip(SENTENCES * 3, TEXTS[::-1], strict=False), strict=False) for one in both
    ]
    alone = [JUDGE.classify([one])[0] for one in given]
    for one, other in zip(JUDGE.classify(given), alone, strict=True):
        assert one.label == other.label
        assert one.score == pytest.approx(other.score, abs=1e-6)


# ---- as a GPU reads ------------------------------------------------------------------------------------------------


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(runner, "_CHUNK_CHARACTERS", 1500)


def ahead(items, progress=None):
    forward = through(JUDGE.network, "classes")

    def prepare(chunk):
        return prepare_texts(JUDGE.tokenizer, chunk, JUDGE.encoder.max_length)

    return read_ahead(JUDGE.network, forward, per_sequence, items, prepare, progress=progress)


def test_what_is_read_ahead_is_the_same(small_chunks):
    counted = []
    found = [runner.merged(ready.windows, rows) for ready, rows in ahead(iter(TEXTS), counted.append)]
    assert len(found) > 2
    expected = torch.stack(list(class_logits(JUDGE, TEXTS)))
    torch.testing.assert_close(torch.cat(found), expected, atol=1e-5, rtol=1e-5)
    assert sum(counted) == len(TEXTS)
    assert list(ahead([])) == []


def test_a_stream_is_taken_in_its_own_thread_and_not_far_ahead(small_chunks):
    here, taken = threading.current_thread(), 0

    def stream():
        nonlocal taken
        while True:
            assert threading.current_thread() is here
            taken += 1
            yield "x" * 1300  # each is a chunk

    results = ahead(stream())
    for number in range(1, 5):
        next(results)
        assert taken <= number + 3
    results.close()
    assert not any(thread.name.startswith("clearhead-ahead") for thread in threading.enumerate())


@pytest.mark.parametrize("wrong", [3, None])
def test_what_came_before_an_error_is_given_out_first(small_chunks, wrong):
    results = ahead([*["x" * 1300] * 3, wrong])
    assert sum(len(rows) for _, rows in (next(results) for _ in range(3))) >= 3
    with pytest.raises(BadInput, match="A text must be a string"):
        next(results)


def test_an_error_of_the_stream_itself_too(small_chunks):
    def stream():
        yield "x" * 1300
        raise OSError("the disk is gone")

    results = ahead(stream())
    next(results)
    with pytest.raises(OSError, match="the disk is gone"):
        next(results)
