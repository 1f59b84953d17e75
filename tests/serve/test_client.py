"""The client says what the model says, asks again when it should, and tells what is wrong in one sentence."""

import asyncio
import json
import math
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import numpy as np
import pytest

import clearhead as ch
from clearhead.client import client as client_module
from clearhead.client import connection, patience
from clearhead.client.client import AsyncClient, Client, connect_async
from clearhead.client.request import CHARACTERS
from clearhead.data.documents import Document
from clearhead.errors import BadInput, InputTooLong, NotFound, Unavailable, UnknownOption, WrongTask
from clearhead.pipelines.results import Rewritten, Written
from conftest import SENTENCES
from stub_service import Service, running

MASKED = "She went to the [MASK], he sat on the [MASK]."
DOCUMENTS = [Document(text, f"{number}.txt") for number, text in enumerate(SENTENCES)]


@pytest.fixture(scope="module")
def service(stand_in, writing_box, model) -> Iterator[Service]:
    names = {"built-in": stand_in, "translator": writing_box / "translator", "gpt": writing_box / "gpt"}
    models = {name: ch.load(folder) for name, folder in names.items()} | {"small": model}
    indexes = {"notes": models["built-in"].index(DOCUMENTS)}
    with running(Service(models, indexes)) as found:
        yield found


@pytest.fixture(autouse=True)
def forgotten(service):
    """What a test before this one asked, and the trouble it had."""
    service.asked.clear()
    service.trouble.clear()


@pytest.fixture
def client(service) -> Iterator[Client]:
    with ch.connect(service.url) as found:
        yield found


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    """The seconds that clients wait, which nobody waits for here."""
    waited: list[float] = []

    async def later(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(client_module, "sleep", waited.append)
    monkeypatch.setattr(client_module, "sleep_later", later)
    return waited


PAIRS = [("The animal", ["was tired.", "was a bank."]), ("She went", ["to the bank."])]
CALLS = {
    "fill": ("fill", ([MASKED, MASKED],), {"top_k": 2}),
    "fill among candidates": ("fill", ("wear a [MASK]",), {"candidates": ["mask", "bank"]}),
    "classify": ("classify", (SENTENCES,), {}),
    "classify by a skill": ("classify", (SENTENCES[0],), {"skill": "spam", "top_k": 1}),
    "classify pairs": ("classify", ([("A man sleeps.", "Nobody is awake.")],), {"skill": "inference"}),
    "zero_shot": ("zero_shot", (SENTENCES, ["money", "animals"]), {"multi_label": True}),
    "zero_shot one": ("zero_shot", (SENTENCES[0],), {"labels": ["money", "animals"], "hypothesis_template": "{}!"}),
    "compare": ("compare", (SENTENCES[0], SENTENCES[1]), {}),
    "compare with many": ("compare", (SENTENCES[0], SENTENCES), {"top_k": 2}),
    "compare many": ("compare", (SENTENCES, SENTENCES[1]), {}),
    "compare lists": ("compare", (SENTENCES, SENTENCES[::-1]), {"skill": "similarity"}),
    "follows": ("follows", (SENTENCES, SENTENCES[0]), {}),
    "tag": ("tag", (SENTENCES[0],), {}),
    "tag words": ("tag", ([["Ada", "lived"], "in London"],), {"aggregation_strategy": "max"}),
    "tag parts of speech": ("tag", (SENTENCES,), {"skill": "part-of-speech"}),
    "answer": ("answer", ("Who was tired?", SENTENCES[0]), {"top_k": 3}),
    "answer always": ("answer", (["Who?", "Where?"], SENTENCES[2]), {"threshold": math.inf, "whole_words": False}),
    "answer in many": ("answer", ("Who was tired?", SENTENCES), {"max_answer_length": 3}),
    "choose": ("choose", PAIRS[0], {}),
    "choose many": ("choose", (PAIRS,), {}),
    "embed": ("embed", (SENTENCES,), {}),
    "embed one": ("embed", (SENTENCES[0],), {"skill": "search", "dimensions": 8, "normalise": True}),
    "embed layers": ("embed", (["", "a bank"],), {"layers": [0, -1], "combine": "concat", "pooling": "max"}),
    "embed bits": ("embed", (SENTENCES,), {"precision": "binary"}),
    "search": ("search", ("the bank", SENTENCES), {"top_k": 2, "min_score": 0.0}),
    "search documents": ("search", ("the bank", DOCUMENTS), {"method": "bm25"}),
    "rerank": ("rerank", ("a bank", SENTENCES), {}),
    "rerank many": ("rerank", ([("a bank", SENTENCES), ("BERT", SENTENCES[:2])],), {"top_k": 1}),
    "summarise": ("summarise", (" ".join(SENTENCES),), {"sentences": 2}),
    "summarise many": ("summarise", ([" ".join(SENTENCES), SENTENCES[0]],), {}),
}


def same(found: object, expected: object) -> bool:
    if isinstance(expected, np.ndarray):
        return isinstance(found, np.ndarray) and found.dtype == expected.dtype and np.array_equal(found, expected)
    return found == expected and type(found) is type(expected)


def nearly(found: object, expected: object) -> bool:
    """The same but for rounding, which depends on what is computed beside."""
    if isinstance(expected, float):
        return found == pytest.approx(expected, abs=1e-5)
    if isinstance(expected, list | dict):
        values = expected.items() if isinstance(expected, dict) else enumerate(expected)
        return len(found) == len(expected) and all(nearly(found[key], value) for key, value in values)
    return nearly(found.to_dict(), expected.to_dict()) if hasattr(expected, "to_dict") else found == expected


def expected_of(service: Service, use: str, args: tuple, options: dict) -> object:
    return getattr(service.models["built-in"], use)(*args, **options)


@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_the_model(client, service, name):
    use, args, options = CALLS[name]
    assert same(getattr(client, use)(*args, **options), expected_of(service, use, args, options))


@pytest.mark.parametrize("name", CALLS)
def test_results_are_the_same_asynchronously(service, name):
    use, args, options = CALLS[name]

    async def ask() -> object:
        async with connect_async(service.url) as later:
            return await getattr(later, use)(*args, **options)

    assert same(asyncio.run(ask()), expected_of(service, use, args, options))


def test_what_is_written_is_the_same(client, service):
    gpt, translator = service.models["gpt"], service.models["translator"]
    drawn = {"max_new_tokens": 6, "temperature": 0.9, "seed": 3}

    def without_tokens(found: Written) -> Written:
        return replace(found, tokens=())

    assert client.generate("The old house", **drawn) == without_tokens(gpt.generate("The old house", **drawn))
    texts = ["The old", "I have"]
    assert client.generate(texts, **drawn) == list(map(without_tokens, gpt.generate(texts, **drawn)))
    ways = {"num_beams": 2, "num_return_sequences": 2, "max_new_tokens": 4}
    assert client.generate("The", **ways) == list(map(without_tokens, gpt.generate("The", **ways)))
    assert client.translate(texts, tgt_lang="fr", num_beams=2) == translator.translate(
        texts, tgt_lang="fr", num_beams=2
    )
    two = client.translate("I have", num_return_sequences=2)
    assert two == translator.translate("I have", num_return_sequences=2)
    shorter = {"abstractive": True, "max_new_tokens": 5, "min_new_tokens": 1}
    told = gpt.summarise(SENTENCES[0], **shorter)
    assert client.summarise(SENTENCES[0], **shorter) == Rewritten(told.text, ())


def test_text_is_streamed(client, service):
    how = {"max_new_tokens": 8, "temperature": 1.0, "seed": 1}
    pieces = list(client.stream("The old house", **how))
    assert pieces == list(service.models["gpt"].stream("The old house", **how))
    assert len(pieces) > 1

    async def ask() -> list[str]:
        async with client.asynchronous() as later:
            return [piece async for piece in later.stream("The old house", **how)]

    assert asyncio.run(ask()) == pieces


def test_of_an_iterator_there_is_an_iterator(client, service):
    found = client.classify(text for text in SENTENCES)
    assert isinstance(found, Iterator)
    expected = service.models["built-in"].classify(SENTENCES)
    assert list(found) == expected
    assert list(client.compare("a", iter(SENTENCES))) == service.models["built-in"].compare("a", SENTENCES)
    assert list(client.fill(iter([]))) == []
    assert client.fill([]) == []
    assert client.embed([]).shape[0] == 0

    async def texts() -> AsyncIterator[str]:
        for text in SENTENCES:
            yield text

    async def ask() -> list[object]:
        async with connect_async(service.url) as later:
            again = [one async for one in later.classify(iter(SENTENCES))]
            assert again == expected
            return [one async for one in later.classify(texts())]

    assert asyncio.run(ask()) == expected


def test_answers_and_hits_come_out_of_an_index_of_the_service(client, service):
    index, own = service.indexes["notes"], service.models["built-in"]
    assert client.answer("Who was tired?", index="notes", top_k=2) == own.answer("Who was tired?", index, top_k=2)
    assert client.answer(["Who?"], index="notes") == own.answer(["Who?"], index)
    assert client.search("the bank", index="notes", top_k=2) == index.search("the bank", top_k=2)
    assert client.search(["bank", "mask"], index="notes") == index.search(["bank", "mask"])


def test_a_model_is_named_by_its_id(client, service):
    assert client.fill("a [MASK]", model="small") == service.models["small"].fill("a [MASK]")
    client.classify("a", skill="spam")
    client.classify("a", model="built-in", skill="spam")
    client.classify("a", model="built-in:spam")
    assert [body["model"] for _, _, body in service.asked] == ["small", *["built-in:spam"] * 3]
    with ch.connect(service.url, model="small") as other:
        other.fill("a [MASK]")
        other.fill("a [MASK]", model="built-in")
    assert [body["model"] for _, _, body in service.asked[-2:]] == ["small", "built-in"]
    assert [one.id for one in client.models()] == list(service.models)


def test_what_is_not_said_is_not_sent(client, service):
    client.classify("a")
    client.embed("a", layers=np.array([0, -1]), dimensions=np.int64(8), normalise=False)
    assert service.asked[0][2] == {"text": ["a"]}
    vectors = {"layers": [0, -1], "dimensions": 8, "normalise": False, "encoding_format": "base64"}
    assert service.asked[1][2] == {"text": ["a"], **vectors}


def test_many_texts_are_sent_in_several_requests(client, service):
    texts = [f"{number} {'bank ' * 60}" for number in range(400)]
    done: list[int] = []
    found = client.classify(texts, progress=done.append)
    assert nearly(found, service.models["built-in"].classify(texts))
    sizes = [sum(map(len, body["text"])) for _, _, body in service.asked]
    assert len(sizes) > 3
    assert max(sizes) <= CHARACTERS
    assert sum(done) == len(texts)
    service.asked.clear()

    async def ask() -> object:
        async with connect_async(service.url) as later:
            return await later.classify(texts)

    assert nearly(asyncio.run(ask()), found)
    assert len(service.asked) == len(sizes)


def test_a_text_that_is_read_with_every_other_counts_with_each(client, service):
    context = "The animal was tired. " * 400
    questions = [f"Who was tired {number}?" for number in range(9)]
    assert nearly(client.answer(questions, context), service.models["built-in"].answer(questions, context))
    assert [len(body["question"]) for _, _, body in service.asked] == [3, 3, 3]
    assert all(body["context"] == context for _, _, body in service.asked)


def test_what_is_too_large_for_a_service_is_sent_in_halves(client, service):
    expected = service.models["built-in"].classify(SENTENCES)
    service.trouble += [(413, {}), (413, {})]  # all four, and the first two
    assert nearly(client.classify(SENTENCES), expected)
    assert [len(body["text"]) for _, _, body in service.asked] == [4, 2, 1, 1, 2]
    service.trouble += [(413, {})]

    async def ask() -> object:
        async with connect_async(service.url) as later:
            return await later.classify(SENTENCES)

    assert nearly(asyncio.run(ask()), expected)


def test_passages_of_one_query_are_ranked_over_several_requests(client, service):
    passages = [f"{'bank ' * (number % 60)}{number}" for number in range(600)]
    expected = service.models["built-in"].rerank("a bank", passages, top_k=20)
    done: list[int] = []
    found = client.rerank("a bank", passages, top_k=20, progress=done.append)
    assert len(service.asked) > 1
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-6)
    assert {one.index for one in found} == {one.index for one in expected}
    assert all(passages[one.index] == one.text for one in found)
    assert sum(done) == len(passages)
    both = client.rerank([("a bank", passages), ("BERT", SENTENCES)], top_k=20)
    assert [one.index for one in both[0]] == [one.index for one in found]
    assert nearly(both[1], service.models["built-in"].rerank("BERT", SENTENCES))


@pytest.fixture
def alone(service) -> Iterator[Service]:
    """A service that still gets what was under way when a client turned away."""
    with running(Service(service.models)) as found:
        yield found


def test_who_reads_no_further_asks_no_further(alone):
    texts = ("bank " * 6000 for _ in range(50))
    with ch.connect(alone.url) as other:
        stream = other.fill((f"{text}[MASK]" for text in texts), top_k=1)
        next(stream)
        stream.close()
    assert len(alone.asked) <= 5


@pytest.mark.parametrize("status", [408, 429, 503])
def test_what_may_go_better_is_asked_again(client, service, pauses, status):
    service.trouble += [(status, {}), (status, {})]
    assert client.classify("a") == service.models["built-in"].classify("a")
    assert len(service.asked) == 3
    assert patience._FIRST_PAUSE <= pauses[0] < 2 * patience._FIRST_PAUSE <= pauses[1]
    service.trouble += [(status, {})]

    async def ask() -> object:
        async with connect_async(service.url) as later:
            return await later.classify("a")

    assert asyncio.run(ask()) == service.models["built-in"].classify("a")


def test_the_service_says_how_long_to_wait(client, service, pauses):
    service.trouble += [(429, {"retry-after": "3"}), (503, {"retry-after": "soon"})]
    client.classify("a")
    assert 3 <= pauses[0] <= 3 * 1.25
    assert pauses[1] < 1
    service.trouble += [(429, {"retry-after": "2"})]
    list(client.stream("The", max_new_tokens=2))
    assert 2 <= pauses[2] <= 2.5


def test_it_gives_up_after_so_many_times(service, pauses):
    service.trouble += [(429, {})] * 9
    with ch.connect(service.url, retries=2) as other, pytest.raises(Unavailable, match=r"^trouble 429$"):
        other.classify("a")
    assert len(pauses) == 2
    assert len(service.asked) == 3


def test_it_waits_no_longer_than_the_timeout(service, pauses):
    service.trouble += [(429, {"retry-after": "30"})]
    with ch.connect(service.url, timeout=20) as other, pytest.raises(Unavailable, match="trouble 429"):
        other.classify("a")
    assert pauses == []
    told = int(service.asked[0][1]["x-timeout-ms"])
    assert 0 < told <= 20_000


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (422, None, BadInput),
        (422, "wrong_task", WrongTask),
        (404, "model_not_found", NotFound),
        (413, "too_large", patience.TooLarge),
        (413, "context_length_exceeded", InputTooLong),
        (500, None, Unavailable),
        (504, None, Unavailable),
    ],
)
def test_errors_are_the_familiar_ones(client, service, pauses, status, code, error):
    service.trouble += [(status, {} if code is None else {"code": code})]
    with pytest.raises(error, match=f"^trouble {status}$") as raised:
        client.classify("a")
    assert raised.type is error
    assert pauses == []
    service.trouble += [(status, {} if code is None else {"code": code})]
    with pytest.raises(error):
        list(client.stream("a"))


def test_what_the_model_cannot_do_is_its_own_sentence(client, service):
    with pytest.raises(WrongTask, match=r"^this model cannot answer: it has no 'span' head"):
        client.answer("Who?", "a", model="small")
    with pytest.raises(NotFound, match=r"^there is no skill 'spa'; there are "):
        client.classify("a", skill="spa")
    with pytest.raises(NotFound, match=r"^there is no model 'other'; there are built-in, translator, gpt, small$"):
        client.classify("a", model="other")
    with pytest.raises(BadInput, match="There is no mask in 'nothing is hidden'"):
        client.fill("nothing is hidden")


def test_an_error_among_many_requests_ends_them(alone):
    texts = [f"{'bank ' * 6000}[MASK]"] * 20
    texts[7] = "nothing is hidden"
    with ch.connect(alone.url) as other, pytest.raises(BadInput, match="There is no mask"):
        other.fill(texts, top_k=1)
    assert len(alone.asked) < len(texts)


@pytest.mark.parametrize("status", [401, 403])
def test_a_missing_key_is_advised(client, service, status):
    service.trouble += [(status, {})]
    with pytest.raises(BadInput, match=rf"^trouble {status}; give the key of the service as api_key, or in CLEARHEAD"):
        client.classify("a")


def test_the_key_is_the_one_given_or_that_of_the_environment(service, monkeypatch):
    monkeypatch.setenv("CLEARHEAD_API_KEY", "first-key, second-key")
    for given in (None, "my-key"):
        with ch.connect(service.url, api_key=given) as other:
            other.classify("a")
    assert [headers["authorization"] for _, headers, _ in service.asked] == ["Bearer first-key", "Bearer my-key"]


@pytest.mark.parametrize("url", ["localhost:8643", "ftp://a", "http://", "", "http://a:port", "/tmp"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(BadInput, match=r"is no address of a service; write one such as http://127\.0\.0\.1:8643$"):
        ch.connect(url)


def test_a_service_that_is_not_there_is_one_sentence(pauses):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    told = rf"^there is no answer from {url} \(.*\); check the address, and that clearhead serve runs there$"
    with ch.connect(url) as other:
        with pytest.raises(Unavailable, match=told):
            other.classify("a")
        assert len(pauses) == 4
        with pytest.raises(Unavailable, match=told):
            list(other.stream("a"))


def test_a_service_that_keeps_silent_is_left_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        told = r"gave no answer within 0\.2 seconds; send less at a time"
        with ch.connect(url, timeout=0.2) as other, pytest.raises(Unavailable, match=told):
            other.classify("a")


def test_what_is_no_service_of_ours_is_said(service, monkeypatch):
    with ch.connect(service.url + "/elsewhere") as other, pytest.raises(NotFound, match="there is no such route at"):
        other.classify("a")
    with ch.connect(service.url) as other:
        monkeypatch.setattr(service, "results", lambda work: [{"labels": []}])
        with pytest.raises(
            Unavailable, match=r"does not understand \(.*label.*\); check that a clearhead serve of the"
        ):
            other.classify("a")


def test_wrong_keywords_and_texts_are_refused_before_anything_is_sent(client, service):
    with pytest.raises(UnknownOption, match=r"topk is no option of fill; did you mean top_k\?"):
        client.fill("a", topk=3)
    with pytest.raises(BadInput, match="give a text or a list of texts, not int"):
        client.fill(3)
    with pytest.raises(BadInput, match="A text must be a string, not int"):
        client.fill(["a", 3])
    with pytest.raises(BadInput, match="two lists must be equally long"):
        client.compare(["a"], ["b", "c"])
    with pytest.raises(BadInput, match="give contexts to look in, or the name of an index"):
        client.answer("Who?")
    with pytest.raises(BadInput, match="int8 is cut by the ranges of all vectors"):
        client.embed("a", precision="int8")
    with pytest.raises(BadInput, match="threshold=nan is no number"):
        client.answer("Who?", "a", threshold=math.nan)
    assert service.asked == []


def test_half_a_character_is_sent_as_the_model_reads_it(client, service):
    text = "a bank \ud800 a mask"
    assert client.classify(text) == service.models["built-in"].classify(text)
    assert service.asked[0][2] == {"text": ["a bank \ufffd a mask"]}


def test_other_columns_count_as_lists(client, service):
    expected = service.models["built-in"].classify(SENTENCES)
    assert client.classify(tuple(SENTENCES)) == expected
    assert client.classify(np.array(SENTENCES)) == expected
    pyarrow = pytest.importorskip("pyarrow")
    assert client.classify(pyarrow.array(SENTENCES)) == expected


def test_this_machine_is_reached_without_a_proxy(service, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with ch.connect(service.url) as other:
        other.classify("a")
    for url, here in {"http://[::1]:8": True, "http://localhost": True, "https://example.org": False}.items():
        assert connection.Address.of(url, None, None, 1.0, 0).options()["trust_env"] is not here


def test_without_its_library_it_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(NotFound, match=r"A client of a service needs httpx2, .*: pip install 'clearhead\[client\]'"):
        ch.connect("http://127.0.0.1:8643")


def test_both_clients_have_the_same_methods():
    names = [{name for name in vars(kind) if not name.startswith("_")} for kind in (Client, AsyncClient)]
    assert names[0] - names[1] == {"asynchronous"}
    assert names[1] <= names[0]
    shared = {name for name in vars(ch.Model) if not name.startswith("_")} & names[0]
    assert len(shared) == 15
    for kind in (Client, AsyncClient):
        assert all(getattr(kind, name).__doc__ for name in names[1])


def test_no_torch_is_imported(service):
    script = f"""
import sys, clearhead
with clearhead.connect({service.url!r}) as client:
    print(client.classify("What a joy!", skill="sentiment").label)
assert "torch" not in sys.modules
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() in ("negative", "positive")
    assert json.loads(json.dumps(service.asked[-1][2])) == {"text": ["What a joy!"], "model": "built-in:sentiment"}
