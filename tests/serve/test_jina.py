"""The dialect of Jina, vLLM, infinity, Voyage, NIM, llama.cpp and Ollama: requests and answers, good and bad."""

import json
import struct
from typing import Any

import msgspec
import pytest

from clearhead.serve.dialects.dialect import Call
from clearhead.serve.dialects.jina import JINA
from clearhead.serve.work import Done, Refusal

RERANK_PATHS = ["/rerank", "/v1/rerank", "/reranking", "/v1/reranking"]


def ask(path: str, content: dict[str, Any]) -> Call:
    (post,) = (one for one in JINA.posts if one.path == path and one.takes(content))
    return post.read(content, {})


def said(answer: Any) -> Any:
    """As it goes over the wire, without what is new each time."""
    found = json.loads(msgspec.json.encode(answer))
    for name in ("id", "created"):
        found.pop(name, None)
    return found


def refused(path: str, content: dict[str, Any]) -> str:
    with pytest.raises(Refusal) as caught:
        ask(path, content)
    status, body = JINA.error(caught.value)
    assert status == 400
    assert body["error"]["message"] == body["detail"] == body["message"]
    return str(body["detail"])


RANKED = [{"text": "b", "index": 1, "score": 0.98}, {"text": "a", "index": 0, "score": 0.01}]
DONE = Done(results=[RANKED], model="m", read=9)
USAGE = {"prompt_tokens": 9, "total_tokens": 9}


@pytest.mark.parametrize("path", RERANK_PATHS)
def test_rerank_as_jina_and_vllm_ask_for_it(path: str):
    body = {"model": "m", "query": "q", "documents": ["a", "b"], "top_n": 2, "return_documents": True}
    call = ask(path, {**body, "max_tokens_per_doc": None})
    work = call.work
    assert (work.use, work.items, work.model) == ("rerank", [["q", ["a", "b"]]], "m")
    assert (work.options, work.too_long) == ({"top_k": 2}, "windows")
    assert said(call.answer(DONE)) == {
        "object": "list",
        "model": "m",
        "usage": USAGE,
        "results": [
            {"index": 1, "relevance_score": 0.98, "document": {"text": "b"}},
            {"index": 0, "relevance_score": 0.01, "document": {"text": "a"}},
        ],
        "meta": {"api_version": {"version": "1"}, "billed_units": {"search_units": 1}},
    }


def test_rerank_of_objects_and_without_documents_in_the_answer():
    call = ask("/rerank", {"query": "q", "documents": [{"text": "a", "title": "t"}, "b"], "top_n": 0})
    assert (call.work.items, call.work.options) == ([["q", ["a", "b"]]], {})
    results = call.answer(DONE)["results"]
    assert results == [{"index": 1, "relevance_score": 0.98}, {"index": 0, "relevance_score": 0.01}]


def test_infinity_is_known_by_raw_scores_and_gets_documents_as_texts():
    body = {"query": "q", "documents": ["a", "b"], "return_documents": False, "raw_scores": False, "model": "m"}
    call = ask("/rerank", body)
    assert call.work.options == {}
    answer = call.answer(DONE)
    assert answer["object"] == "rerank"
    assert answer["results"][0] == {"index": 1, "relevance_score": 0.98}
    call = ask("/rerank", {**body, "return_documents": True, "raw_scores": True})
    assert call.work.options == {"raw_scores": True}
    assert call.answer(DONE)["results"][0]["document"] == "b"


@pytest.mark.parametrize(
    ("body", "options", "length"),
    [
        ({"max_tokens_per_doc": 50}, {}, ("cut-end", 50)),
        ({"truncate_prompt_tokens": -1}, {}, ("cut-end", None)),
        ({"use_activation": False}, {"raw_scores": True}, ("windows", None)),
        ({"rank_fields": ["text"], "max_chunks_per_doc": 10}, {}, ("windows", None)),
    ],
)
def test_how_to_rerank(body: dict[str, Any], options: dict[str, Any], length: tuple[str, int | None]):
    work = ask("/v1/rerank", {"query": "q", "documents": ["a"], **body}).work
    assert (work.options, (work.too_long, work.max_tokens)) == (options, length)


def test_voyage_is_known_by_top_k_and_gets_data():
    body = {"query": "q", "documents": ["a", "b"], "model": "m", "top_k": None, "truncation": True}
    call = ask("/v1/rerank", body)
    assert (call.work.items, call.work.options, call.work.too_long) == ([["q", ["a", "b"]]], {}, "windows")
    assert said(call.answer(DONE)) == {
        "object": "list",
        "data": [{"index": 1, "relevance_score": 0.98}, {"index": 0, "relevance_score": 0.01}],
        "model": "m",
        "usage": {**USAGE, "completion_tokens": 0},
    }
    call = ask("/v1/rerank", {**body, "top_k": 1, "truncation": False, "return_documents": True})
    assert (call.work.options, call.work.too_long) == ({"top_k": 1}, "refuse")
    assert call.answer(DONE)["data"][0]["document"] == "b"


def test_nim_has_logits():
    body = {"model": "m", "query": {"text": "q"}, "passages": [{"text": "a"}, {"text": "b"}], "truncate": "NONE"}
    call = ask("/v1/ranking", body)
    assert (call.work.items, call.work.options) == ([["q", ["a", "b"]]], {"raw_scores": True})
    assert call.work.too_long == "refuse"
    assert call.answer(DONE)["rankings"] == [{"index": 1, "logit": 0.98}, {"index": 0, "logit": 0.01}]


@pytest.mark.parametrize("path", [*RERANK_PATHS, "/tokenize"])
def test_what_is_others_is_left_to_them(path: str):
    (*posts,) = (one for one in JINA.posts if one.path == path)
    for content in ({"query": "q", "texts": ["a"], "inputs": "a"}, {"query": "q", "passages": ["a"], "inputs": []}):
        assert not any(one.takes(content) for one in posts)


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/rerank", {"documents": ["a"]}, "the body: object missing required field `query`"),
        ("/rerank", {"query": " ", "documents": ["a"]}, "query: it is empty; give some words"),
        ("/rerank", {"query": "q", "documents": []}, "documents: the list is empty; give at least one text"),
        ("/rerank", {"query": "q", "documents": "a"}, "documents: expected `array`, got `str`"),
        (
            "/rerank",
            {"query": "q", "documents": ["a", {"title": "b"}]},
            'documents[1]: it has no text; give a string, or an object with "text"',
        ),
        ("/rerank", {"query": "q", "documents": ["a"], "top_n": -1}, "top_n: expected `int` >= 0"),
        (
            "/v1/rerank",
            {"query": "q", "documents": ["a"], "rank_fields": ["title"]},
            "rank_fields ['title'] cannot be read, only text is; join the fields into one text",
        ),
        ("/v1/rerank", {"query": "q", "documents": ["a"], "top_k": 0}, "top_k: expected `int` >= 1"),
        ("/v1/ranking", {"query": "q", "passages": []}, "query: expected `object`, got `str`"),
        ("/score", {"documents": ["a"]}, "queries: the field is missing; give a text or a list of texts"),
        ("/score", {"queries": "q"}, "documents: the field is missing; give a text or a list of texts"),
        (
            "/score",
            {"queries": ["q", "r"], "documents": ["a", "b", "c"]},
            "2 queries cannot be scored with 3 documents; give one, or as many of both",
        ),
        ("/classify", {"input": [1]}, "input[0]: expected `str`, got `int`"),
        ("/classify", {"input": []}, "input: the list is empty; give at least one text"),
        (
            "/pooling",
            {"input": "a", "task": "plugin"},
            "task 'plugin' cannot be had here; choose embed, token_embed or",
        ),
        ("/pooling", {"input": "a", "task": "token_classify"}, "POST /v1/tag gives"),
        ("/pooling", {"input": "a", "encoding_format": "bytes"}, "encoding_format 'bytes' cannot be had here"),
        ("/pooling", {"input": [1, 2], "task": "classify"}, "input: classify takes texts, not token ids"),
        ("/pooling", {"input": "a", "task": "classify", "dimensions": 3}, "dimensions: classify has no vector"),
        ("/api/embed", {"input": ""}, "input: it is empty; leave it out or give some text"),
        ("/tokenize", {"messages": []}, "prompt: the field is missing; give a text"),
        ("/detokenize", {"tokens": [-1]}, "tokens[0]: expected `int` >= 0"),
    ],
)
def test_what_cannot_be_understood(path: str, body: dict[str, Any], message: str):
    assert message in refused(path, body)


@pytest.mark.parametrize("path", ["/score", "/v1/score"])
@pytest.mark.parametrize(
    ("first", "second"), [("queries", "documents"), ("text_1", "text_2"), ("data_1", "data_2"), ("queries", "items")]
)
def test_scores_of_one_query_stand_in_the_order_of_the_documents(path: str, first: str, second: str):
    call = ask(path, {"model": "m", first: "q", second: ["a", {"text": "b"}]})
    assert (call.work.use, call.work.items) == ("rerank", [["q", ["a", "b"]]])
    assert said(call.answer(DONE)) == {
        "object": "list",
        "model": "m",
        "data": [{"index": 0, "object": "score", "score": 0.01}, {"index": 1, "object": "score", "score": 0.98}],
        "usage": {**USAGE, "completion_tokens": 0},
    }


def test_scores_of_pairs():
    call = ask("/score", {"queries": ["q", "r"], "documents": ["a", "b"], "use_activation": False})
    assert (call.work.items, call.work.options) == ([["q", ["a"]], ["r", ["b"]]], {"raw_scores": True})
    done = Done(
        results=[[{"text": "a", "index": 0, "score": 0.1}], [{"text": "b", "index": 0, "score": 0.2}]], model="m"
    )
    assert [one["score"] for one in call.answer(done)["data"]] == [0.1, 0.2]


CLASSES = {"label": "joy", "score": 0.9, "scores": {"joy": 0.9, "anger": 0.1}}


def test_classes_for_vllm_stand_in_the_order_of_the_model():
    call = ask("/classify", {"model": "m", "input": ["a", "b"]})
    assert (call.work.use, call.work.items, call.work.options) == ("classify", ["a", "b"], {})
    done = Done(results=[CLASSES, CLASSES], model="m", read=9, labels=["anger", "joy"])
    answer = said(call.answer(done))
    assert answer["data"][1] == {"index": 1, "label": "joy", "probs": [0.1, 0.9], "num_classes": 2}
    assert answer["object"] == "list"
    assert answer["usage"]["prompt_tokens"] == 9


def test_classes_for_infinity():
    call = ask("/classify", {"input": ["a"], "model": "m", "raw_scores": False})
    answer = said(call.answer(Done(results=[CLASSES], model="m", read=9)))
    assert answer["object"] == "classify"
    assert answer["data"] == [[{"label": "joy", "score": 0.9}, {"label": "anger", "score": 0.1}]]
    assert ask("/classify", {"input": "a", "raw_scores": True}).work.options == {"raw_scores": True}


VECTOR = struct.pack("<4f", 0.5, -0.25, 0.0, -1.0)


def test_pooling():
    call = ask("/pooling", {"model": "m", "input": ["a"], "task": "embed", "dimensions": 4})
    assert (call.work.use, call.work.options) == ("embed", {"dimensions": 4})
    data = said(call.answer(Done(results=[VECTOR], model="m")))["data"]
    assert data == [{"index": 0, "object": "pooling", "data": [0.5, -0.25, 0.0, -1.0]}]
    call = ask("/pooling", {"input": "a", "task": "token_embed"})
    assert call.work.use == "embed-tokens"
    found = {"tokens": ["a", "b"], "offsets": [[0, 1], [1, 2]], "vectors": VECTOR, "width": 2}
    data = call.answer(Done(results=[found], model="m"))["data"]
    assert data[0]["data"] == [[0.5, -0.25], [0.0, -1.0]]
    call = ask("/pooling", {"input": "a", "task": "classify"})
    assert call.work.use == "classify"
    done = Done(results=[CLASSES], model="m", labels=["anger", "joy"])
    assert call.answer(done)["data"][0]["data"] == [0.1, 0.9]


def test_ollama():
    call = ask("/api/embed", {"model": "m", "input": ["a"], "truncate": True, "dimensions": 4, "keep_alive": "5m"})
    assert (call.work.items, call.work.options, call.work.too_long) == (["a"], {"dimensions": 4}, "windows")
    assert said(call.answer(Done(results=[VECTOR], model="m", read=3, total_seconds=0.5))) == {
        "model": "m",
        "embeddings": [[0.5, -0.25, 0.0, -1.0]],
        "total_duration": 500_000_000,
        "load_duration": 0,
        "prompt_eval_count": 3,
    }
    assert ask("/api/embed", {"input": "a", "truncate": False}).work.too_long == "refuse"


def test_embedding_of_llama_cpp():
    answer = ask("/embedding", {"content": "a"}).answer(Done(results=[VECTOR], model="m"))
    assert answer == [{"index": 0, "embedding": [[0.5, -0.25, 0.0, -1.0]]}]


TOKENS = [
    {"id": 101, "text": "[CLS]", "special": True, "start": None, "stop": None},
    {"id": 1037, "text": "a", "special": False, "start": 0, "stop": 1},
]


def test_tokens_for_vllm():
    call = ask("/tokenize", {"model": "m", "prompt": "a", "return_token_strs": True})
    assert (call.work.use, call.work.items, call.work.options) == ("tokenise", ["a"], {"add_special_tokens": True})
    answer = call.answer(Done(results=[TOKENS], model="m"))
    assert answer == {"count": 2, "tokens": [101, 1037], "token_strs": ["[CLS]", "a"]}
    call = ask("/tokenize", {"prompt": "a", "add_special_tokens": False})
    assert call.work.options == {"add_special_tokens": False}
    assert call.answer(Done(results=[TOKENS[1:]], model="m")) == {"count": 1, "tokens": [1037], "token_strs": None}


def test_tokens_for_llama_cpp():
    call = ask("/tokenize", {"content": "a"})
    assert call.work.options == {"add_special_tokens": False}
    assert call.answer(Done(results=[TOKENS[1:]], model="m")) == {"tokens": [1037]}
    call = ask("/tokenize", {"content": "a", "add_special": True, "with_pieces": True})
    assert call.work.options == {"add_special_tokens": True}
    pieces = [{"id": 101, "piece": "[CLS]"}, {"id": 1037, "piece": "a"}]
    assert call.answer(Done(results=[TOKENS], model="m")) == {"tokens": pieces}


def test_texts_of_tokens():
    call = ask("/detokenize", {"model": "m", "tokens": [101, 1037]})
    assert (call.work.use, call.work.items) == ("detokenise", [[101, 1037]])
    assert call.work.options == {"skip_special_tokens": False}
    assert call.answer(Done(results=["[CLS] a"], model="m")) == {"prompt": "[CLS] a", "content": "[CLS] a"}


def test_examples_are_understood():
    for post in JINA.posts:
        assert post.takes(post.example)
        assert post.read(dict(post.example), {}).work.items
