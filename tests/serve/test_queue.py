"""Turns between clients and requests, batches by tokens, what is dropped, and results that do not depend on others."""

import threading
import time

import numpy as np
import pytest
import torch

from clearhead.pipelines.runner import queued_in
from clearhead.serve.fair import FairQueue
from clearhead.serve.queue import Dropped, Ticket, TokenQueue
from clearhead.serve.work import Refusal


def taken(queue: FairQueue[str], budget: int = 1) -> list[str]:
    found = []
    while queue:
        found += queue.pop(lambda first, other: budget)
    return found


def test_a_single_text_goes_before_the_rest_of_a_long_list():
    queue: FairQueue[str] = FairQueue(lambda item: False)
    for number in range(10):
        queue.push("one client", "list", "embed", 10, f"list {number}")
    assert queue.pop(lambda first, other: 1) == ["list 0"]
    queue.push("one client", "single", "embed", 10, "single")
    assert taken(queue)[:2] == ["single", "list 1"]


def test_a_client_with_many_requests_does_not_crowd_out_another():
    queue: FairQueue[str] = FairQueue(lambda item: False)
    for number in range(100):
        queue.push("many", number, "embed", 10, f"many {number}")
    for number in range(3):
        queue.push("few", number, "embed", 10, f"few {number}")
    first = taken(queue)[:8]
    assert [one for one in first if one.startswith("few")] == ["few 0", "few 1", "few 2"]


def test_clients_are_counted_by_tokens_not_by_requests():
    queue: FairQueue[str] = FairQueue(lambda item: False)
    for number in range(4):
        queue.push("long", number, "embed", 100, f"long {number}")
    for number in range(8):
        queue.push("short", number, "embed", 10, f"short {number}")
    # while the long one is read once, the short ones have all been read
    assert taken(queue).index("long 1") > 7


def test_nobody_waits_for_ever():
    """A long text behind short ones that keep coming, of one client and of new clients."""
    for client in (lambda number: "one", lambda number: number):
        queue: FairQueue[str] = FairQueue(lambda item: False)
        for number in range(5):
            queue.push(client(number), number, "embed", 10, "short")
        queue.push(client(5), "long", "embed", 500, "long")
        queue.push(client(5), "long", "embed", 500, "long again")
        seen: list[str] = []
        for number in range(6, 800):
            queue.push(client(number), number, "embed", 10, "short")
            seen += queue.pop(lambda first, other: 0)
        assert seen.index("long") < 10
        assert seen.index("long again") < 600


def test_a_batch_has_one_key_and_fits_its_budget():
    queue: FairQueue[str] = FairQueue(lambda item: False)
    for number in range(4):
        queue.push("a", number, "embed", 30, f"embed {number}")
        queue.push("b", number, "tag", 30, f"tag {number}")
    batches = []
    while queue:
        batches.append(queue.pop(lambda first, other: 70))
    assert [len(batch) for batch in batches] == [2, 2, 2, 2]
    for batch in batches:
        assert len({one.split()[0] for one in batch}) == 1


def test_what_is_dropped_is_passed_over():
    gone = {"b"}
    queue: FairQueue[str] = FairQueue(gone.__contains__)
    for name in "abc":
        queue.push("client", name, "embed", 10, name)
    assert taken(queue) == ["a", "c"]
    assert not queue


def test_nothing_is_lost_or_given_twice():
    draw = np.random.default_rng(0)
    queue: FairQueue[int] = FairQueue(lambda item: item % 7 == 0)
    seen: list[int] = []
    for number in range(2000):
        client, request, key = (int(one) for one in draw.integers(0, 5, 3))
        queue.push(client, request, key, int(draw.integers(1, 50)), number)
        if draw.random() < 0.4:
            seen += queue.pop(lambda first, other: 60)
    while queue:
        seen += queue.pop(lambda first, other: 60)
    assert sorted(seen) == [number for number in range(2000) if number % 7]


@pytest.fixture
def queue():
    made = TokenQueue(threads=2)
    yield made
    made.close()


def ask(queue, use, *args, client="c", deadline=1e9, **options):
    ticket = Ticket(queue, client, deadline)
    with queued_in(ticket):
        return use(*args, **options), ticket


TEXTS = ["The animal was tired.", "Be alert!", "He sat on the bank of the river. " * 30, "", "wear a mask"]


def test_all_uses_give_in_the_queue_what_they_give_without(queue, built_in):
    import clearhead

    model = clearhead.load()
    pairs = (["a man sleeps", "she ran"], ["nobody is awake", "he ran " * 60])
    calls = [
        (model.classify, TEXTS),
        (model.tag, TEXTS),
        (model.compare, *pairs),
        (model.follows, *pairs),
        (model.answer, "who was tired?", TEXTS[:3]),
        (model.rerank, "who was tired?", TEXTS),
    ]
    for use, *args in calls:
        found, ticket = ask(queue, use, *args)
        for one, other in zip(found, use(*args), strict=True):
            assert repr(one)[:40] == repr(other)[:40]
        assert ticket.read > 0
        assert ticket.compute_seconds > 0
    vectors, _ = ask(queue, model.embed, TEXTS)
    np.testing.assert_allclose(vectors, model.embed(TEXTS), atol=1e-5)
    found, _ = ask(queue, model.fill, "a [MASK] b [MASK]", top_k=2)
    assert [one.id for one in found.predictions] == [
        one.id for one in model.fill("a [MASK] b [MASK]", top_k=2).predictions
    ]


def test_a_result_does_not_depend_on_its_batch_mates(queue, built_in):
    import clearhead

    model = clearhead.load()
    alone = model.embed(TEXTS[0])
    found = []

    def one(number: int) -> None:
        mates = [TEXTS[0], *(f"mate {number} " * (1 + number * place) for place in range(number))]
        found.append(ask(queue, model.embed, mates, client=number % 3)[0][0])

    threads = [threading.Thread(target=one, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 12
    for vector in found:
        np.testing.assert_allclose(vector, alone, atol=1e-5)
    assert queue.tokens == 0
    assert queue.speed > 0


def test_a_failing_request_fails_alone(queue):
    """Two requests in one batch, of which one has a token that the network does not know."""
    module = torch.nn.Embedding(10, 4)
    from clearhead.pipelines.runner import Input, per_sequence

    def forward(batch):
        if int(batch.ids.max()) >= 10:
            raise IndexError("no such token")
        time.sleep(0.02)  # so that the next ones wait together
        return module(batch.ids)[: batch.layout.offsets.numel() - 1]

    results: dict[int, object] = {}

    def one(number: int, token: int) -> None:
        ticket = Ticket(queue, number, 1e9)
        try:
            results[number] = ticket.compute(module, forward, per_sequence, [Input([token], [0])])
        except IndexError as error:
            results[number] = error

    threads = [threading.Thread(target=one, args=(number, 10 if number == 5 else 1)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert isinstance(results[5], IndexError)
    assert sum(isinstance(one, IndexError) for one in results.values()) == 1


def test_a_cancelled_request_is_not_computed(queue, model):
    ticket = Ticket(queue, "c", 1e9)
    ticket.cancel()
    with queued_in(ticket), pytest.raises(Dropped):
        model.embed(["a", "b"])


def test_a_deadline_that_has_passed_is_said(queue, model):
    with pytest.raises(Refusal, match="deadline passed") as refused:
        ask(queue, model.embed, "a", deadline=time.monotonic() - 1)
    assert refused.value.status == 504


def test_a_closed_queue_refuses(model):
    queue = TokenQueue(threads=1)
    queue.close()
    with pytest.raises(Refusal, match="ending"):
        ask(queue, model.embed, "a")
