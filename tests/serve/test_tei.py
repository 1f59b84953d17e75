"""What TEI's clients send becomes the right work, and its result is said as they read it."""

import struct
from typing import Any

import pytest

from clearhead.serve.dialects.dialect import Call
from clearhead.serve.dialects.tei import TEI
from clearhead.serve.work import Catalogue, Done, Refusal, Served, Work

NAMED = "/models/{model:path}/tei"


def asked(path: str, content: dict[str, Any], **params: str) -> Call:
    """As the application finds a route: the first of this path that takes the body."""
    post = next(post for post in TEI.posts if post.path == path and post.takes(content))
    return post.read(content, params)


def refused(path: str, content: dict[str, Any]) -> tuple[int, dict[str, str]]:
    with pytest.raises(Refusal) as found:
        asked(path, content)
    return TEI.error(found.value)


def done(*results: Any) -> Done:
    return Done(results=list(results), model="m", read=9)


def vector(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


def test_embed_reads_the_request_that_its_clients_send():
    content = {
        "inputs": ["a", "b"],
        "normalize": True,
        "truncate": True,
        "truncation_direction": "Right",
        "prompt_name": None,
        "dimensions": None,
    }
    call = asked("/embed", content)
    assert call.work == Work(use="embed", items=["a", "b"], options={"normalise": True})
    assert call.answer(done(vector(0.5, 0.25), vector(1, 2))) == [[0.5, 0.25], [1, 2]]


@pytest.mark.parametrize(
    ("inputs", "items"),
    [
        ("a", ["a"]),
        (["a"], ["a"]),
        ([101, 2023], [[101, 2023]]),
        ([[101], [102, 103]], [[101], [102, 103]]),
        (["a", [101]], ["a", [101]]),
    ],
)
def test_one_text_token_ids_and_lists_of_either_give_a_list_of_vectors(inputs, items):
    call = asked("/embed", {"inputs": inputs})
    assert call.work.items == items
    assert call.answer(done(*[vector(1)] * len(items))) == [[1]] * len(items)


def test_options_of_embed():
    work = asked("/embed", {"inputs": "a", "normalize": False, "dimensions": 64, "model": "m", "unknown": 1}).work
    assert work.options == {"normalise": False, "dimensions": 64}
    assert work.model == "m"


@pytest.mark.parametrize("path", ["/embed", "/embed_all", "/predict", "/rerank", "/similarity"])
@pytest.mark.parametrize(
    ("told", "too_long"),
    [
        ({}, "windows"),
        ({"truncate": True}, "windows"),
        ({"truncate": None, "truncation_direction": None}, "windows"),
        ({"truncate": True, "truncation_direction": "Right"}, "windows"),
        ({"truncate": True, "truncation_direction": "Left"}, "cut-start"),
        ({"truncation_direction": "left"}, "cut-start"),
        ({"truncate": False}, "refuse"),
        ({"truncate": False, "truncation_direction": "Left"}, "refuse"),
    ],
)
def test_a_text_is_only_cut_where_its_end_is_wanted_and_refused_where_no_cut_may_be(path, told, too_long):
    body = {"/rerank": {"query": "q", "texts": ["a"]}}.get(path, {"inputs": "a"})
    if path == "/similarity":
        content = {"inputs": {"source_sentence": "a", "sentences": ["b"]}, "parameters": told}
    else:
        content = {**body, **told}
    assert asked(path, content).work.too_long == too_long


def test_embed_all_gives_a_vector_for_each_token():
    call = asked("/embed_all", {"inputs": "a b"})
    assert call.work == Work(use="embed-tokens", items=["a b"])
    found = {"tokens": ["a", "b"], "offsets": [[0, 1], [2, 3]], "vectors": vector(1, 2, 3, 4), "width": 2}
    assert call.answer(done(found)) == [[[1, 2], [3, 4]]]


def test_embed_sparse_says_what_it_would_need():
    status, body = refused("/embed_sparse", {"inputs": "a"})
    assert (status, body["error_type"]) == (424, "Backend")
    assert "SPLADE" in body["error"]


CLASSES = {"label": "joy", "score": 0.9, "scores": {"joy": 0.9, "anger": 0.1}}
SAID = [{"score": 0.9, "label": "joy"}, {"score": 0.1, "label": "anger"}]


@pytest.mark.parametrize(
    ("inputs", "use", "items"),
    [
        ("I like you", "classify", ["I like you"]),
        (["I like you"], "classify", ["I like you"]),
        (["a", "b"], "compare", [["a", "b"]]),  # one pair, not two texts
    ],
)
def test_predict_of_one_text_or_pair_is_flat(inputs, use, items):
    call = asked("/predict", {"inputs": inputs, "raw_scores": False})
    assert call.work == Work(use=use, items=items)
    assert call.answer(done(CLASSES)) == SAID


@pytest.mark.parametrize(
    ("inputs", "use", "items"),
    [
        ([["a"], ["b"]], "classify", ["a", "b"]),
        ([["a"], ["b", "c"]], "classify", ["a", ["b", "c"]]),
        ([["a", "b"], ["c", "d"]], "compare", [["a", "b"], ["c", "d"]]),
    ],
)
def test_predict_of_a_batch_is_nested(inputs, use, items):
    call = asked("/predict", {"inputs": inputs, "raw_scores": True})
    assert call.work == Work(use=use, items=items, options={"raw_scores": True})
    assert call.answer(done(CLASSES, CLASSES)) == [SAID, SAID]


def test_a_batch_of_one_text_is_nested_too():
    assert asked("/predict", {"inputs": [["a"]]}).answer(done(CLASSES)) == [SAID]


RANKS = [{"text": "b", "index": 1, "score": 0.98}, {"text": "a", "index": 0, "score": 0.01}]


def test_rerank_gives_all_texts_the_best_first():
    content = {
        "query": "q",
        "texts": ["a", "b"],
        "raw_scores": False,
        "return_text": False,
        "truncate": True,
        "truncation_direction": "Right",
    }
    call = asked("/rerank", content)
    assert call.work == Work(use="rerank", items=[["q", ["a", "b"]]])
    assert call.answer(done(RANKS)) == [{"index": 1, "score": 0.98}, {"index": 0, "score": 0.01}]
    whole = asked("/rerank", {**content, "return_text": True, "raw_scores": True})
    assert whole.work.options == {"raw_scores": True}
    assert whole.answer(done(RANKS))[0] == {"index": 1, "score": 0.98, "text": "b"}


def test_rerank_and_tokenize_leave_the_bodies_of_other_dialects_on_their_paths():
    for path, content in [("/rerank", {"query": "q", "documents": ["a"]}), ("/tokenize", {"prompt": "a"})]:
        assert not any(post.takes(content) for post in TEI.posts if post.path == path)


def test_similarity_gives_cosines():
    content = {"inputs": {"source_sentence": "a", "sentences": ["b", "c"]}, "parameters": {"truncate": True}}
    call = asked("/similarity", content)
    assert call.work == Work(use="compare", items=[["a", "b"], ["a", "c"]], options={"purpose": "similarity"})
    cosines = [{"label": "similarity", "score": one, "scores": {"similarity": one}} for one in (0.5, 0.7)]
    assert call.answer(done(*cosines)) == [0.5, 0.7]


def test_tokenize_and_decode():
    call = asked("/tokenize", {"inputs": "a", "add_special_tokens": True, "prompt_name": None})
    assert call.work == Work(use="tokenise", items=["a"], options={"add_special_tokens": True})
    tokens = [{"id": 101, "text": "[CLS]", "special": True, "start": None, "stop": None}]
    assert call.answer(done(tokens)) == [tokens]
    bare = {"add_special_tokens": False}
    assert asked("/tokenize", {"inputs": ["a"], **bare}).work.options == bare
    call = asked("/decode", {"ids": [[101, 1037, 102]], "skip_special_tokens": True})
    assert call.work == Work(use="detokenise", items=[[101, 1037, 102]], options={"skip_special_tokens": True})
    assert call.answer(done("a")) == ["a"]
    work = asked("/decode", {"ids": [101, 1037], "skip_special_tokens": False}).work
    assert work == Work(use="detokenise", items=[[101, 1037]], options={"skip_special_tokens": False})


@pytest.mark.parametrize("path", ["/", "/invocations", NAMED, f"{NAMED}/invocations"])
def test_without_a_route_the_body_says_what_is_asked_for(path):
    assert asked(path, {"inputs": ["a"], "truncate": True}).work.use == "embed"
    assert asked(path, {"query": "q", "texts": ["a"]}).work.use == "rerank"
    work = asked(path, {"inputs": {"source_sentence": "a", "sentences": ["b"]}}).work
    assert (work.use, work.options) == ("compare", {"purpose": "similarity"})


def test_a_model_may_be_named_in_the_path_which_goes_before_the_body():
    for path in ("/embed", "/predict", "/tokenize"):
        assert (
            asked(NAMED + path, {"inputs": "a", "model": "other"}, model="built-in:spam").work.model == "built-in:spam"
        )
    assert {post.path.removeprefix(NAMED) or "/" for post in TEI.posts if post.path.startswith(NAMED)} == {
        post.path for post in TEI.posts if not post.path.startswith(NAMED)
    }


def test_vertex_puts_requests_of_one_kind_together_and_answers_each():
    call = asked("/vertex", {"instances": [{"inputs": "a"}, {"inputs": ["b", "c"]}]})
    assert call.work == Work(use="embed", items=["a", "b", "c"], options={"normalise": True})
    assert call.answer(done(vector(1), vector(2), vector(3))) == {"predictions": [[[1]], [[2], [3]]]}
    call = asked("/vertex", {"instances": [{"query": "q", "texts": ["a", "b"]}]})
    assert call.answer(done(RANKS)) == {"predictions": [[{"index": 1, "score": 0.98}, {"index": 0, "score": 0.01}]]}


@pytest.mark.parametrize(
    ("path", "content", "told"),
    [
        ("/embed", {}, "the body: object missing required field `inputs`"),
        ("/embed", {"inputs": 1}, "inputs: expected `str | array`, got `int`"),
        ("/embed", {"inputs": [["a"]]}, "inputs[0][0]: expected `int`, got `str`"),
        ("/embed", {"inputs": [-1]}, "inputs[0]: expected `int` >= 0"),
        ("/embed", {"inputs": ["a", 1]}, "inputs: token ids stand among texts"),
        ("/embed", {"inputs": "a", "normalize": "yes"}, "normalize: expected `bool | null`, got `str`"),
        ("/embed", {"inputs": "a", "dimensions": 0}, "dimensions: expected `int` >= 1"),
        ("/embed", {"inputs": "a", "truncation_direction": "Up"}, "truncation_direction: invalid enum value 'Up'"),
        ("/embed", {"inputs": "a", "prompt_name": "query"}, "prompt_name: there is no prompt 'query'"),
        ("/predict", {"inputs": ["a", "b", "c"]}, "inputs: 3 texts stand in one list"),
        ("/predict", {"inputs": [["a", "b", "c"]]}, "inputs: 3 texts stand in one list"),
        ("/predict", {"inputs": [[]]}, "inputs: 0 texts stand in one list"),
        ("/predict", {"inputs": ["a", ["b"]]}, "inputs: texts stand among lists"),
        ("/rerank", {"texts": ["a"]}, "the body: object missing required field `query`"),
        ("/rerank", {"query": "q", "texts": "a"}, "texts: expected `array`, got `str`"),
        ("/similarity", {"inputs": "a"}, "inputs: expected `object`, got `str`"),
        ("/tokenize", {"inputs": [1]}, "inputs[0]: expected `str`, got `int`"),
        ("/decode", {"ids": ["a"]}, "ids[0]: expected `int | array`, got `str`"),
        ("/decode", {"ids": [1, [2]]}, "ids: numbers stand among lists"),
        ("/vertex", {"instances": [{"inputs": "a"}, {"query": "q", "texts": ["a"]}]}, "instances[1]: it asks for"),
        ("/vertex", {"instances": [{"inputs": "a"}, {"inputs": "b", "normalize": False}]}, "instances[1]: it asks for"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_field(path, content, told):
    status, body = refused(path, content)
    assert (status, body["error_type"]) == (422, "Validation")
    assert body["error"].startswith(told)


@pytest.mark.parametrize(
    ("path", "content", "name"),
    [
        ("/embed", {"inputs": []}, "inputs"),
        ("/embed", {"inputs": [[]]}, "inputs"),
        ("/predict", {"inputs": []}, "inputs"),
        ("/rerank", {"query": "q", "texts": []}, "texts"),
        ("/similarity", {"inputs": {"source_sentence": "a", "sentences": []}}, "sentences"),
        ("/tokenize", {"inputs": []}, "inputs"),
        ("/decode", {"ids": []}, "ids"),
        ("/vertex", {"instances": []}, "instances"),
    ],
)
def test_nothing_at_all_has_a_status_of_its_own(path, content, name):
    assert refused(path, content) == (400, {"error": f"`{name}` cannot be empty", "error_type": "Empty"})


@pytest.mark.parametrize(
    ("reason", "status", "kind"),
    [
        ("invalid", 422, "Validation"),
        ("too_long", 422, "Validation"),
        ("too_large", 413, "Validation"),
        ("wrong_task", 424, "Backend"),
        ("internal", 424, "Backend"),
        ("overloaded", 429, "Overloaded"),
        ("deadline", 504, "Overloaded"),
        ("unavailable", 503, "Unhealthy"),
        ("unauthorised", 401, "Validation"),
        ("unknown_model", 404, "Validation"),
    ],
)
def test_errors_have_its_statuses_and_its_words(reason, status, kind):
    assert TEI.error(Refusal(reason, "why")) == (status, {"error": "why", "error_type": kind})


CATALOGUE = Catalogue(
    models=[
        Served(id="built-in", uses=["fill", "classify", "embed"]),
        Served(id="built-in:similarity", uses=["embed"], pooling="mean", max_length=512),
        Served(id="cls", uses=["embed"], pooling="first", max_length=512),
        Served(id="built-in:spam", uses=["classify", "embed"], labels=["ham", "spam"], max_length=512),
        Served(id="reader", uses=["classify", "compare", "rerank", "embed"], labels=["LABEL_0"], max_length=512),
    ],
    default={"embed": "built-in:similarity"},
    max_queue_tokens=51200,
)


def info(**params: str) -> Any:
    get = next(get for get in TEI.gets if get.path == (f"{NAMED}/info" if params else "/info"))
    return get.answer(CATALOGUE, params)


def test_info_tells_of_the_default_model_for_vectors():
    found = info()
    assert found["model_id"] == found["served_model_name"] == "built-in:similarity"
    assert found["model_type"] == {"embedding": {"pooling": "mean"}}
    assert (found["max_input_length"], found["max_client_batch_size"]) == (512, 100)
    names = "model_sha model_dtype max_concurrent_requests max_batch_tokens max_batch_requests auto_truncate"
    assert {*names.split(), "tokenization_workers", "version", "sha", "docker_label"} < {*found}


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("built-in", {"embedding": {"pooling": "mean"}}),
        ("cls", {"embedding": {"pooling": "cls"}}),
        (
            "built-in:spam",
            {"classifier": {"id2label": {"0": "ham", "1": "spam"}, "label2id": {"ham": 0, "spam": 1}}},
        ),
        ("reader", {"reranker": {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}}),
    ],
)
def test_info_of_a_model_by_its_name_has_the_type_that_it_was_trained_for(model, kind):
    assert info(model=model)["model_type"] == kind


def test_info_of_a_model_that_is_not_there():
    with pytest.raises(Refusal, match="there is no model 'none'; there are built-in, ") as found:
        info(model="none")
    assert TEI.error(found.value)[0] == 404
