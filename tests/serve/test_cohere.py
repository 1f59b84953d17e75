"""Cohere's dialect: embed and rerank as its clients send them, and the answers that they read."""

import base64
import json
import struct
from typing import Any

import msgspec
import pytest

from clearhead.serve.dialects.cohere import COHERE
from clearhead.serve.dialects.dialect import Call
from clearhead.serve.work import Done, Refusal

VECTOR = struct.pack("<8f", 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0)


def ask(path: str, content: dict[str, Any]) -> Call:
    post = next(one for one in COHERE.posts if one.path == path and one.takes(content))
    return post.read(content, {})


def said(answer: Any) -> Any:
    return json.loads(msgspec.json.encode(answer))


def test_embed_in_every_type():
    kinds = ["float", "int8", "uint8", "binary", "ubinary", "base64"]
    body = {"model": "m", "texts": ["a", "b"], "input_type": "search_document", "embedding_types": kinds}
    call = ask("/v2/embed", {**body, "truncate": "END", "output_dimension": 8})
    work = call.work
    assert (work.use, work.items, work.model, work.too_long) == ("embed", ["a", "b"], "m", "windows")
    assert work.options == {"dimensions": 8, "purpose": "search"}
    answer = said(call.answer(Done(results=[VECTOR, VECTOR], model="m", read=2)))
    assert isinstance(answer.pop("id"), str)
    found = answer.pop("embeddings")
    assert list(found) == kinds
    assert found["float"][1] == [1.0, -1.0] * 4
    assert found["int8"][0] == [45, -45] * 4  # 127 / √8
    assert found["uint8"][0] == [173, 83] * 4
    assert found["ubinary"][0] == [0b10101010]
    assert found["binary"][0] == [0b10101010 - 128]
    assert base64.b64decode(found["base64"][0]) == VECTOR
    assert answer == {
        "texts": ["a", "b"],
        "meta": {"api_version": {"version": "2"}, "billed_units": {"input_tokens": 2}},
        "response_type": "embeddings_by_type",
    }


def test_version_1_has_plain_numbers_unless_types_are_asked_for():
    done = Done(results=[VECTOR], model="m", read=2)
    plain = ask("/v1/embed", {"model": "m", "texts": ["a"], "input_type": "search_query"}).answer(done)
    assert plain["response_type"] == "embeddings_floats"
    assert plain["embeddings"] == [[1.0, -1.0] * 4]
    assert plain["meta"]["api_version"] == {"version": "1"}
    typed = ask("/v1/embed", {"model": "m", "texts": ["a"], "embedding_types": ["ubinary", "ubinary"]}).answer(done)
    assert typed["response_type"] == "embeddings_by_type"
    assert typed["embeddings"] == {"ubinary": [[170]]}


def test_version_2_has_types_even_if_none_are_asked_for():
    answer = ask("/v2/embed", {"texts": ["a"], "embedding_types": None}).answer(Done(results=[VECTOR], model="m"))
    assert answer["embeddings"] == {"float": [[1.0, -1.0] * 4]}
    assert answer["response_type"] == "embeddings_by_type"


def test_a_value_of_zero_is_a_bit_of_one():
    done = Done(results=[bytes(32)], model="m")
    assert ask("/v2/embed", {"texts": ["a"], "embedding_types": ["ubinary"]}).answer(done)["embeddings"] == {
        "ubinary": [[255]]
    }


@pytest.mark.parametrize(
    ("body", "options", "too_long"),
    [
        ({"input_type": "search_query"}, {"purpose": "search"}, "windows"),
        ({"input_type": "classification"}, {}, "windows"),
        ({"input_type": "clustering", "truncate": "NONE"}, {}, "refuse"),
        ({"input_type": None, "truncate": "START"}, {}, "cut-start"),
        ({"truncate": None, "output_dimension": None, "images": None}, {}, "windows"),
    ],
)
def test_what_is_asked_for(body: dict[str, Any], options: dict[str, Any], too_long: str):
    work = ask("/v2/embed", {"texts": ["a"], **body}).work
    assert (work.options, work.too_long) == (options, too_long)


def test_only_what_is_coheres_is_taken_of_the_shared_path():
    (post,) = (one for one in COHERE.posts if one.path == "/v1/embed")
    assert post.takes({"texts": ["a"]})
    assert not post.takes({"text": "a"})


def test_rerank_with_explicit_nulls():
    body = {"model": "m", "query": "q", "documents": ["x", "y"], "top_n": 1, "max_tokens_per_doc": None}
    call = ask("/v2/rerank", body)
    work = call.work
    assert (work.use, work.items, work.model) == ("rerank", [["q", ["x", "y"]]], "m")
    assert (work.options, work.too_long, work.max_tokens) == ({"top_k": 1}, "windows", None)
    answer = said(call.answer(Done(results=[[{"text": "x", "index": 0, "score": 0.98}]], model="m", read=9)))
    assert answer["results"] == [{"index": 0, "relevance_score": 0.98}]
    assert answer["meta"] == {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
    assert isinstance(answer["id"], str)


def test_documents_may_be_cut():
    work = ask("/v2/rerank", {"query": "q", "documents": ["x"], "max_tokens_per_doc": 50}).work
    assert (work.too_long, work.max_tokens) == ("cut-end", 50)


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/v2/embed", {}, "texts: there are none; give at least one text"),
        ("/v2/embed", {"texts": []}, "texts: there are none; give at least one text"),
        ("/v2/embed", {"texts": "a"}, "texts: expected `array | null`, got `str`"),
        ("/v2/embed", {"images": ["data:"]}, "images: only texts can be embedded here; send them as texts"),
        ("/v1/embed", {"images": ["data:"]}, "images: only texts can be embedded here; send them as texts"),
        ("/v2/embed", {"inputs": [{}]}, "inputs: only texts can be embedded here; send them as texts"),
        (
            "/v2/embed",
            {"texts": ["a"], "input_type": "image"},
            "input_type: images cannot be embedded here; send texts",
        ),
        ("/v2/embed", {"texts": ["a"], "truncate": "end"}, "truncate: invalid enum value 'end'"),
        ("/v2/embed", {"texts": ["a"], "embedding_types": ["int4"]}, "embedding_types[0]: invalid enum value 'int4'"),
        ("/v2/rerank", {"query": "q"}, "the body: object missing required field `documents`"),
        ("/v2/rerank", {"query": "q", "documents": []}, "documents: the list is empty; give at least one text"),
    ],
)
def test_errors_are_a_message(path: str, body: dict[str, Any], message: str):
    with pytest.raises(Refusal) as caught:
        ask(path, body)
    assert COHERE.error(caught.value) == (400, {"message": message})


def test_other_errors_keep_their_status():
    assert COHERE.error(Refusal("unknown_model", "no")) == (404, {"message": "no"})
    assert COHERE.error(Refusal("too_long", "no"))[0] == 400
    assert COHERE.error(Refusal("overloaded", "no"))[0] == 429


def test_examples_are_understood():
    for post in COHERE.posts:
        assert post.takes(post.example)
        assert post.read(dict(post.example), {}).work.items
