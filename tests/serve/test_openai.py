"""OpenAI's dialect: the requests that real clients send, what they ask for, and the answers that they read."""

import base64
import json
import struct
from typing import Any

import msgspec
import pytest

from clearhead.decoding.config import generation_config
from clearhead.serve.dialects.dialect import Call
from clearhead.serve.dialects.openai import OPENAI
from clearhead.serve.work import Catalogue, Done, Refusal, Served


def ask(path: str, content: dict[str, Any]) -> Call:
    post = next(one for one in OPENAI.posts if one.path == path and one.takes(content))
    return post.read(content, {})


def refused(path: str, content: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    with pytest.raises(Refusal) as caught:
        ask(path, content)
    status, body = OPENAI.error(caught.value)
    return status, body["error"]


def said(answer: Any) -> Any:
    return json.loads(msgspec.json.encode(answer))


VECTOR = struct.pack("<4f", 0.5, -0.25, 0.0, -1.0)
DONE = Done(results=[VECTOR], model="built-in", read=8)


def embeddings(**body: Any) -> Call:
    return ask("/v1/embeddings", {"model": "m", "input": "a", **body})


def test_vectors_in_base64_which_clients_ask_for():
    call = ask("/v1/embeddings", {"model": "m", "input": ["a", "b"], "encoding_format": "base64"})
    assert (call.work.use, call.work.items, call.work.model, call.work.options) == ("embed", ["a", "b"], "m", {})
    assert call.work.too_long == "windows"
    answer = said(call.answer(Done(results=[VECTOR, VECTOR], model="m", read=8)))
    assert [one["index"] for one in answer["data"]] == [0, 1]
    assert base64.b64decode(answer["data"][1]["embedding"]) == VECTOR
    del answer["data"]
    assert answer == {"object": "list", "model": "m", "usage": {"prompt_tokens": 8, "total_tokens": 8}}


@pytest.mark.parametrize("path", ["/v1/embeddings", "/embeddings"])
def test_vectors_as_numbers(path: str):
    body = {"model": "m", "input": "a", "encoding_format": "float", "dimensions": 2, "user": "u"}
    call = ask(path, body)
    assert (call.work.items, call.work.options) == (["a"], {"dimensions": 2})
    data = said(call.answer(DONE))["data"]
    assert data == [{"object": "embedding", "index": 0, "embedding": [0.5, -0.25, 0.0, -1.0]}]


def test_numbers_without_an_encoding_format():
    assert said(embeddings().answer(DONE))["data"][0]["embedding"] == [0.5, -0.25, 0.0, -1.0]


@pytest.mark.parametrize("given", [[101, 2023, 102], [[101, 2023, 102]]])
def test_token_ids_of_one_text(given: Any):
    assert embeddings(input=given).work.items == [[101, 2023, 102]]


def test_voyage_sends_nulls():
    body = {"input_type": None, "truncation": True, "output_dtype": None, "output_dimension": None}
    call = embeddings(input=["a"], encoding_format="base64", **body)
    assert (call.work.options, call.work.too_long) == ({}, "windows")


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [("int8", [55, -28, 0, -111]), ("uint8", [183, 100, 128, 17]), ("ubinary", [160]), ("binary", [32])],
)
def test_voyage_has_smaller_numbers(kind: str, numbers: list[int]):
    call = embeddings(output_dtype=kind, output_dimension=4)
    assert call.work.options == {"dimensions": 4}
    assert said(call.answer(DONE))["data"][0]["embedding"] == numbers
    encoded = embeddings(output_dtype=kind, encoding_format="base64").answer(DONE)["data"][0]["embedding"]
    form = {"int8": "4b", "uint8": "4B", "ubinary": "1B", "binary": "1b"}[kind]
    assert list(struct.unpack(form, base64.b64decode(encoded))) == numbers


def test_int8_has_the_same_steps_in_every_request_and_none_for_a_vector_of_nothing():
    wide = struct.pack("<400f", 1.0, *[0.1] * 399)
    found = embeddings(output_dtype="int8").answer(Done(results=[wide, bytes(16)], model="m"))["data"]
    # the length is about 2.234, and the last step stands for 10 / √400 of it
    assert found[0]["embedding"] == [114, *[11] * 399]
    assert found[1]["embedding"] == [0] * 4


@pytest.mark.parametrize(
    ("body", "model", "search"),
    [
        ({}, "m", False),
        ({"input_type": "query"}, "m", True),
        ({"input_type": "passage"}, "m", True),
        ({"input_type": "document"}, "m", True),
        ({"input_type": "classification"}, "m", False),
        ({"task": "retrieval.query"}, "m", True),
        ({"task": "text-matching"}, "m", False),
        ({"model": "m-query"}, "m", True),
        ({"model": "m-passage"}, "m", True),
        ({"model": None}, None, False),
    ],
)
def test_vectors_for_search(body: dict[str, Any], model: str | None, search: bool):
    work = embeddings(**body).work
    assert work.model == model
    assert work.options == ({"purpose": "search"} if search else {})


@pytest.mark.parametrize(
    ("body", "too_long", "limit"),
    [
        ({"truncate": "NONE"}, "refuse", None),
        ({"truncate": "START"}, "cut-start", None),
        ({"truncate": "END"}, "windows", None),
        ({"truncate": True}, "windows", None),
        ({"truncation": False}, "refuse", None),
        ({"truncate_prompt_tokens": -1}, "cut-end", None),
        ({"truncate_prompt_tokens": 7, "truncation_side": "left"}, "cut-start", 7),
        ({"truncate_prompt_tokens": None, "truncate": None}, "windows", None),
    ],
)
def test_long_texts(body: dict[str, Any], too_long: str, limit: int | None):
    work = embeddings(**body).work
    assert (work.too_long, work.max_tokens) == (too_long, limit)


def test_what_jina_and_vllm_add():
    assert embeddings(normalized=False).work.options == {"normalise": False}
    assert embeddings(normalize=True).work.options == {"normalise": True}
    assert said(embeddings(embedding_type="ubinary").answer(DONE))["data"][0]["embedding"] == [160]
    assert said(embeddings(embedding_type="binary").answer(DONE))["data"][0]["embedding"] == [32]
    assert base64.b64decode(embeddings(embedding_type="base64").answer(DONE)["data"][0]["embedding"]) == VECTOR
    assert embeddings(request_id="x", priority=0, late_chunking=False).work.options == {}  # unknown, and tolerated


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({}, "input", "the body: object missing required field `input`"),
        ({"input": None}, "input", "input: expected `str | array`, got `null`"),
        ({"input": 3}, "input", "input: expected `str | array`, got `int`"),
        ({"input": ""}, "input", "input: it is empty; leave it out or give some text"),
        ({"input": ["a", ""]}, "input", "input[1]: it is empty; leave it out or give some text"),
        ({"input": []}, "input", "input: the list is empty; give at least one text"),
        ({"input": [[]]}, "input", "input[0]: it is empty; leave it out or give some text"),
        ({"input": [-1, 2]}, "input", "input: the token id -1 is negative"),
        (
            {"input": ["a", 1]},
            "input",
            "input: it mixes texts and token ids; give a text, a list of texts, or token ids in lists",
        ),
        ({"input": ["a"] * 2049}, "input", "input has 2049 texts, and a request takes 2048; send them in several"),
        (
            {"input": "a", "encoding_format": "bytes"},
            "encoding_format",
            "encoding_format 'bytes' is not known; choose float or base64",
        ),
        ({"input": "a", "dimensions": 0}, "dimensions", "dimensions: expected `int` >= 1"),
        ({"input": "a", "dimensions": "2"}, "dimensions", "dimensions: expected `int | null`, got `str`"),
        ({"input": "a", "output_dtype": "int4"}, "output_dtype", "output_dtype: invalid enum value 'int4'"),
        (
            {"input": "a", "embed_dtype": "float16"},
            "embed_dtype",
            "embed_dtype 'float16' cannot be had; leave it out for float32",
        ),
        (
            {"input": "a", "endianness": "big"},
            "endianness",
            "endianness 'big' cannot be had; leave it out for little-endian",
        ),
        (
            {"input": "a", "embedding_type": "x"},
            "embedding_type",
            "embedding_type 'x' is not known; choose float, base64, binary or ubinary",
        ),
        (
            {"input": "a", "truncate_prompt_tokens": 0},
            "truncate_prompt_tokens",
            "truncate_prompt_tokens is 0 and leaves nothing of a text; give 1 or more, or -1 for all that fits",
        ),
    ],
)
def test_embeddings_that_cannot_be_understood(body: dict[str, Any], field: str, message: str):
    status, error = refused("/v1/embeddings", {"model": "m", **body})
    assert status == 400
    assert error == {"message": message, "type": "invalid_request_error", "param": field, "code": None}


def test_errors_have_openais_shape_and_what_others_look_for():
    status, body = OPENAI.error(Refusal("unknown_model", "there is no model 'x'", field="model"))
    error = {"message": "there is no model 'x'", "type": "invalid_request_error", "param": "model"}
    assert status == 404
    assert body["error"] == {**error, "code": "model_not_found"}
    assert body["detail"] == body["message"] == "there is no model 'x'"
    status, body = OPENAI.error(Refusal("too_long", "it has 600 tokens"))
    assert (status, body["error"]["code"]) == (400, "context_length_exceeded")
    status, body = OPENAI.error(Refusal("overloaded", "the queue is full"))
    assert (status, body["error"]["type"]) == (429, "rate_limit_error")


# completions

WRITTEN = Done(results=[{"generated": "ab", "score": -1.0, "ended": False}], model="m", read=1, written=2)


def complete(**body: Any) -> Call:
    return ask("/v1/completions", {"model": "m", "prompt": "a", **body})


def test_completion():
    body = {"max_tokens": 5, "temperature": 1.0, "top_p": 1.0, "n": 1, "stop": ["\n"], "seed": 0}
    call = complete(**body, stream=False, logprobs=None)
    assert (call.work.use, call.work.items, call.work.model) == ("generate", ["a"], "m")
    wanted = {"max_new_tokens": 5, "temperature": 1.0, "top_p": 1.0, "seed": 0, "stop_strings": ["\n"]}
    assert call.work.options == wanted
    assert call.stream is None
    answer = said(call.answer(WRITTEN))
    assert answer.pop("id").startswith("cmpl-")
    assert isinstance(answer.pop("created"), int)
    assert answer == {
        "object": "text_completion",
        "model": "m",
        "choices": [{"index": 0, "text": "ab", "logprobs": None, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }


@pytest.mark.parametrize(
    ("body", "options"),
    [
        ({}, {"max_new_tokens": 16, "temperature": 1.0}),
        ({"temperature": 0, "top_p": 0.5, "seed": 1, "top_k": 3}, {"max_new_tokens": 16, "num_beams": 1}),
        ({"temperature": 1e-9}, {"max_new_tokens": 16, "num_beams": 1}),
        ({"temperature": 0.5, "n": 2}, {"max_new_tokens": 16, "temperature": 0.5, "num_return_sequences": 2}),
        ({"top_k": -1, "stop": "."}, {"max_new_tokens": 16, "temperature": 1.0, "top_k": 0, "stop_strings": ["."]}),
        (
            {"min_tokens": 2, "repetition_penalty": 1.1, "presence_penalty": 0, "logit_bias": {}, "best_of": 1},
            {"max_new_tokens": 16, "temperature": 1.0, "min_new_tokens": 2, "repetition_penalty": 1.1},
        ),
    ],
)
def test_options_are_those_of_generate(body: dict[str, Any], options: dict[str, Any]):
    found = complete(**body).work.options
    assert found == options
    assert generation_config(**{name: value for name, value in found.items() if name != "max_new_tokens"})


def test_langchain_sends_what_changes_nothing():
    body = {"frequency_penalty": 0, "logprobs": None, "max_tokens": 5, "n": 1, "presence_penalty": 0, "seed": None}
    call = complete(prompt=["a"], temperature=0.5, top_p=1, stop=["\nEND"], **body)
    wanted = {"max_new_tokens": 5, "temperature": 0.5, "top_p": 1.0, "stop_strings": ["\nEND"]}
    assert call.work.options == wanted


def test_several_prompts_and_texts_are_numbered_in_turn():
    one, two = ({"generated": text, "score": 0.0, "ended": True} for text in ("x", "y"))
    call = complete(prompt=["a", "b"], n=2, echo=True)
    answer = call.answer(Done(results=[[one, two], [two, one]], model="m", read=2, written=4))
    assert [choice["text"] for choice in answer["choices"]] == ["ax", "ay", "by", "bx"]
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert {choice["finish_reason"] for choice in answer["choices"]} == {"stop"}


def test_greedy_texts_are_written_once_and_said_n_times():
    answer = complete(temperature=0, n=3).answer(WRITTEN)
    assert [choice["text"] for choice in answer["choices"]] == ["ab"] * 3
    assert answer["usage"] == {"prompt_tokens": 1, "completion_tokens": 6, "total_tokens": 7}


def test_a_text_ends_before_its_stop_string():
    done = Done(results=[{"generated": "one. two! three.", "score": 0.0, "ended": True}], model="m")
    assert complete(stop=["!", ". t"]).answer(done)["choices"][0]["text"] == "one"


def streamed(call: Call, pieces: list[str], done: Done = WRITTEN) -> tuple[list[str], list[Any]]:
    assert call.stream is not None
    events = [call.stream.piece(number, text) for number, text in enumerate(pieces)]
    assert all(one["choices"][0]["finish_reason"] is None for one in events)
    assert all(one["object"] == "text_completion" for one in events)
    last = list(call.stream.end(done))
    assert len({one["id"] for one in [*events, *last[:-1]]}) == 1
    return [one["choices"][0]["text"] for one in [*events, last[0]]], last


def test_a_stream_has_the_pieces_an_end_and_a_mark():
    texts, last = streamed(complete(stream=True), ["a", "b"])
    assert texts == ["a", "b", ""]
    assert last[0]["choices"][0]["finish_reason"] == "length"
    assert last[1:] == ["[DONE]"]


def test_a_stream_tells_its_usage_if_asked():
    _, last = streamed(complete(stream=True, stream_options={"include_usage": True}), ["a"])
    assert last[1]["choices"] == []
    assert last[1]["usage"] == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


@pytest.mark.parametrize(
    ("pieces", "texts"),
    [
        (["on", "e\n", "EN", "D more"], ["on", "e", "", "", ""]),
        (["one\n", "EN", "S"], ["one", "", "\nENS", ""]),
        (["one\nE"], ["one", "\nE"]),
        (["one\nEND two"], ["one", ""]),
        ([], [""]),
    ],
)
def test_a_stream_holds_back_what_may_become_a_stop_string(pieces: list[str], texts: list[str]):
    found, _ = streamed(complete(stream=True, stop=["\nEND"]), pieces)
    assert found == texts


@pytest.mark.parametrize(("pieces", "texts"), [(["b", "c"], ["ab", "c", ""]), ([], ["a"])])
def test_a_stream_may_begin_with_the_prompt(pieces: list[str], texts: list[str]):
    assert streamed(complete(stream=True, echo=True), pieces)[0] == texts


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"prompt": [1, 2]}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"n": 0}, "n"),
        ({"stop": ""}, "stop"),
        ({"stop": ["a", ""]}, "stop"),
        ({"logprobs": 2}, "logprobs"),
        ({"suffix": "x"}, "suffix"),
        ({"best_of": 3}, "best_of"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"min_tokens": 17}, "min_tokens"),
        ({"stream": True, "n": 2}, "stream"),
        ({"stream": True, "prompt": ["a", "b"]}, "stream"),
    ],
)
def test_completions_that_cannot_be_had(body: dict[str, Any], field: str):
    status, error = refused("/v1/completions", {"prompt": "a", **body})
    assert (status, error["param"]) == (400, field)


# models

CATALOGUE = Catalogue(
    models=[Served(id="built-in", uses=["embed"], max_length=512), Served(id="built-in:spam", parent="built-in")],
    default={"embed": "built-in"},
    created=1794800000,
)


def test_models_and_skills_are_listed():
    listing, single = OPENAI.gets
    assert (listing.path, single.path) == ("/v1/models", "/v1/models/{model}")
    answer = listing.answer(CATALOGUE, {})
    assert answer["object"] == "list"
    told = [{name: one[name] for name in ("id", "object", "created", "owned_by", "parent")} for one in answer["data"]]
    same = {"object": "model", "created": 1794800000, "owned_by": "clearhead"}
    assert told == [{"id": "built-in", **same, "parent": None}, {"id": "built-in:spam", **same, "parent": "built-in"}]
    assert answer["data"][0]["max_model_len"] == 512
    assert single.answer(CATALOGUE, {"model": "built-in:spam"}) == answer["data"][1]


def test_an_unknown_model_is_named_with_those_there_are():
    with pytest.raises(Refusal, match="there is no model 'x'; there are built-in, built-in:spam") as caught:
        OPENAI.gets[1].answer(CATALOGUE, {"model": "x"})
    assert OPENAI.error(caught.value)[0] == 404


def test_examples_are_understood():
    for post in OPENAI.posts:
        assert post.read(dict(post.example), {}).work.items
