import math

import msgspec
import numpy as np
import pytest

from clearhead.serve.dialects.native import NATIVE
from clearhead.serve.dialects.vectors import floats
from clearhead.serve.work import Done, Refusal, Work

POSTS = {post.path.removeprefix("/v1/"): post for post in NATIVE.posts}
CLASSES = {"label": "spam", "score": 0.75, "scores": {"spam": 0.75, "ham": 0.25}}
WRITTEN = {"generated": " stood empty", "score": -1.5, "ended": True}
TRANSLATED = {"text": "Hello.", "parts": [{"source": "Hallo.", "text": "Hello.", "score": -0.2}]}
HIT = {"text": "Dogs bark.", "source": "0", "start": 0, "end": 10, "score": 0.9}
RANKED = [{"text": "b", "index": 1, "score": 0.9}, {"text": "a", "index": 0, "score": 0.1}]
FOUND = {
    "answer": "Ada",
    "start": 0,
    "end": 3,
    "score": 0.9,
    "null_score": -3.0,
    "candidates": [{"text": "Ada", "start": 0, "end": 3, "score": 0.9, "logit": 5.0}],
}


def call(use, **content):
    return POSTS[use].read(content, {})


def work(use, **content):
    return call(use, **content).work


def answer(use, results, **content):
    """What a client reads, after the way through JSON."""
    said = call(use, **content).answer(Done(results=results, model="built-in"))
    return msgspec.json.decode(msgspec.json.encode(said))


def refused(use, **content):
    with pytest.raises(Refusal) as wrong:
        call(use, **content)
    assert wrong.value.reason == "invalid"
    return wrong.value.message, wrong.value.field


def test_there_is_a_route_for_every_use_and_its_example_is_understood():
    assert list(POSTS) == [
        *(
            "fill",
            "classify",
            "zero-shot",
            "compare",
            "follows",
            "tag",
            "answer",
            "choose",
            "embed",
            "search",
            "rerank",
        ),
        *("summarise", "translate", "generate"),
    ]
    for use, post in POSTS.items():
        found = post.read(dict(post.example), {}).work
        assert found.use == use
        assert found.items
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=Work) == found


def test_one_text_gives_an_object_and_a_list_a_list():
    assert answer("classify", [CLASSES], text="Win!") == {"text": "Win!", **CLASSES}
    assert answer("classify", [CLASSES], text=["Win!"]) == [{"text": "Win!", **CLASSES}]
    assert answer("classify", [CLASSES] * 2, text=["a", "b"]) == [{"text": "a", **CLASSES}, {"text": "b", **CLASSES}]


def test_only_what_was_said_is_an_option():
    assert work("classify", text="a") == Work(use="classify", items=["a"])
    assert work("classify", text="a", top_k=None, model=None) == Work(use="classify", items=["a"])
    told = work("classify", text="a", top_k=2, model="built-in:spam")
    assert told == Work(use="classify", items=["a"], model="built-in:spam", options={"top_k": 2})


def test_fill():
    predictions = [{"token": "hat", "score": 0.5, "sequence": "a hat", "mask": 0, "id": 7}]
    found = answer("fill", [{"predictions": predictions}], text="a [MASK]", top_k=1)
    assert found == {"text": "a [MASK]", "predictions": predictions}
    assert work("fill", text="a [MASK]", candidates=["hat"]).options == {"candidates": ["hat"]}
    assert refused("fill", text=" ") == ("text: it is empty; give some words", "text")
    assert refused("fill", text="[MASK]", candidates=["a", ""])[1] == "candidates[1]"


def test_classify_takes_pairs_inside_of_a_list():
    assert work("classify", text=[["a", "b"], "c"]).items == [["a", "b"], "c"]
    assert answer("classify", [CLASSES], text=[["a", "b"]]) == [{"text": ["a", "b"], **CLASSES}]
    assert work("classify", text=["a", "b"]).items == ["a", "b"]  # two texts
    message, field = refused("classify", text=[["a", "b", "c"]])
    assert message == "text[0]: expected `array` of length <= 2, got ['a', 'b', 'c']"
    assert field == "text[0]"


def test_zero_shot():
    found = work("zero-shot", text="a", labels=["x", "y"], multi_label=True, hypothesis_template="It is {}.")
    assert found.options == {"labels": ["x", "y"], "multi_label": True, "hypothesis_template": "It is {}."}
    assert answer("zero-shot", [CLASSES], text="a", labels=["spam", "ham"]) == {"text": "a", **CLASSES}
    assert refused("zero-shot", text="a") == (
        'labels: it is missing; give it, such as ["money","animals"]',
        "labels",
    )
    assert refused("zero-shot", text="a", labels=[]) == ("labels: the list is empty; give at least one", "labels")
    assert refused("zero-shot", text="a", labels=["x", " "])[1] == "labels[1]"


@pytest.mark.parametrize("use", ["compare", "follows"])
def test_two_texts_are_paired_as_in_python(use):
    assert work(use, first="a", second="b").items == [["a", "b"]]
    assert work(use, first="a", second=["b", "c"]).items == [["a", "b"], ["a", "c"]]
    assert work(use, first=["a", "b"], second="c").items == [["a", "c"], ["b", "c"]]
    assert work(use, first=["a", "b"], second=["c", "d"]).items == [["a", "c"], ["b", "d"]]
    found = {"follows": True, "probability": 0.9}
    assert answer(use, [found], first="a", second="b") == {"first": "a", "second": "b", **found}
    assert answer(use, [found], first="a", second=["b"]) == [{"first": "a", "second": "b", **found}]
    assert refused(use, first=["a", "b"], second=["c"]) == (
        "second: there are 2 for first and 1 for second; give as many of both, or one of them as a single text",
        "second",
    )
    assert refused(use, first=[], second="c")[1] == "first"
    assert refused(use, first="a")[1] == "second"


def test_only_compare_has_a_top_k():
    assert work("compare", first="a", second="b", top_k=1).options == {"top_k": 1}
    assert "there are model, first, second" in refused("follows", first="a", second="b", top_k=1)[0]


def test_tag():
    entity = {"text": "Ada", "label": "PER", "start": 0, "end": 3, "score": 0.9}
    result = {"entities": [entity], "words": [{**entity, "label": "B-PER"}]}
    assert answer("tag", [result], text="Ada") == {"text": "Ada", **result}
    assert answer("tag", [result], text="Ada", words=False) == {"text": "Ada", "entities": [entity]}
    assert answer("tag", [result], text=[["Ada"]]) == [{"text": ["Ada"], **result}]
    told = work("tag", text=["a", ["b", "c"]], aggregation_strategy="max", words=False)
    assert (told.items, told.options) == (["a", ["b", "c"]], {"aggregation_strategy": "max"})
    assert refused("tag", text=[[]]) == ("text[0]: the list is empty; give at least one", "text[0]")
    assert refused("tag", text="a", aggregation_strategy="frist") == (
        "aggregation_strategy: 'frist' is not known; did you mean first?",
        "aggregation_strategy",
    )


def test_answer():
    assert answer("answer", [FOUND], question="Who?", context="Ada") == {"question": "Who?", "context": None, **FOUND}
    assert work("answer", question=["a", "b"], context="c").items == [["a", "c"], ["b", "c"]]
    assert work("answer", question="a", context=["c", "d"]).items == [["a", "c"], ["a", "d"]]
    options = work("answer", question="a", context="c", threshold="inf", max_answer_length=5, whole_words=False).options
    assert options == {"threshold": math.inf, "max_answer_length": 5, "whole_words": False}
    assert work("answer", question="a", context="c", threshold=-1).options == {"threshold": -1.0}
    nothing = {**FOUND, "answer": None, "start": None, "end": None, "null_score": math.inf, "candidates": []}
    assert answer("answer", [nothing], question="Who?", context="")["null_score"] is None


def test_answer_out_of_an_index_names_its_document():
    told = work("answer", question=["Who?"], index="notes")
    assert (told.items, told.options) == (["Who?"], {"index": "notes"})
    found = answer("answer", [{**FOUND, "source": "notes/ada.txt"}], question="Who?", index="notes")
    assert found == {"question": "Who?", "context": "notes/ada.txt", **FOUND}


def test_bad_questions():
    place = "context, or the name of an index that the service was started with"
    assert refused("answer", question="a") == (f"context: neither is there: {place}", "context")
    assert refused("answer", question="a", context="b", index="c")[0].startswith("context: give one of the two")
    assert refused("answer", question="", context="b") == ("question: it is empty; give some words", "question")
    assert refused("answer", question="a", context="b", threshold="often") == (
        "threshold: 'often' is not known; give a number, or \"inf\"",
        "threshold",
    )
    assert refused("answer", question=["a"], context=["b", "c"])[1] == "context"
    assert refused("answer", question="a", context="b", top_k=0) == ("top_k: expected `int` >= 1, got 0", "top_k")


@pytest.mark.parametrize(("use", "one", "many"), [("choose", "context", "candidates"), ("rerank", "query", "passages")])
def test_each_text_has_its_list(use, one, many):
    assert work(use, **{one: "q", many: ["a", "b"]}).items == [["q", ["a", "b"]]]
    assert work(use, **{one: ["q", "r"], many: [["a"], ["b", "c"]]}).items == [["q", ["a"]], ["r", ["b", "c"]]]
    assert work(use, **{one: ["q", "r"], many: ["a", "b"]}).items == [["q", ["a", "b"]], ["r", ["a", "b"]]]
    assert refused(use, **{one: "q", many: [["a"]]}) == (
        f"{many}: of one {one} it is a list of texts, not of lists",
        many,
    )
    assert refused(use, **{one: ["q"], many: [["a"], "b"]})[0].startswith(f"{many}: texts and lists are mixed")
    assert (
        refused(use, **{one: ["q"], many: [["a"], ["b"]]})[0]
        == f"{many}: there are 2 lists for 1 of {one}; give one for each"
    )
    assert refused(use, **{one: ["q", "r"], many: [["a"], []]})[1] == f"{many}[1]"
    assert refused(use, **{one: "q", many: []})[1] == many
    assert refused(use, **{one: "q", many: "a"})[1] == many


def test_choose_and_rerank_say_what_was_asked():
    choice = {"text": "b", "index": 1, "score": 0.9, "scores": [0.1, 0.9]}
    assert answer("choose", [choice], context="q", candidates=["a", "b"]) == {"context": "q", **choice}
    assert answer("choose", [choice], context=["q"], candidates=["a", "b"]) == [{"context": "q", **choice}]
    assert answer("rerank", [RANKED], query="q", passages=["a", "b"], top_k=2) == {"query": "q", "results": RANKED}
    assert work("rerank", query="q", passages=["a", "b"], top_k=2).options == {"top_k": 2}
    assert refused("rerank", query="\n", passages=["a"])[1] == "query"


def test_embed_gives_numbers_that_are_the_same_in_float32():
    vector = np.array([0.1, -2.5, 0.0, 1e-7, 123456.789], "<f4")
    found = answer("embed", [vector.tobytes()], text="a")
    assert found["text"] == "a"
    assert found["vector"][:3] == [0.100000001, -2.5, 0.0]
    assert (np.array(found["vector"], np.float32) == vector).all()
    assert answer("embed", [bytes([255, 1])], text=["a"], precision="binary") == [{"text": "a", "vector": [255, 1]}]
    assert answer("embed", [bytes([0, 0, 128, 63])], text="a", encoding_format="base64")["vector"] == "AACAPw=="


@pytest.mark.parametrize("scale", [1e-40, 1e-20, 1e-6, 1.0, 1e6, 1e20, 1e37])
def test_numbers_have_no_more_digits_than_float32(scale):
    vector = (np.random.default_rng(0).normal(size=2000) * scale).astype("<f4")
    found = floats(vector.tobytes())
    assert (np.array(found, np.float32) == vector).all()
    if 1e-10 < scale < 1e10:
        assert max(len(str(abs(one)).partition("e")[0].replace(".", "").strip("0")) for one in found) <= 9


def test_numbers_that_are_none_stay():
    found = floats(np.array([np.inf, -np.inf, np.nan, 0], "<f4").tobytes())
    assert found[:2] == [math.inf, -math.inf]
    assert math.isnan(found[2])
    assert found[3] == 0


def test_options_of_embed():
    options = {
        "layers": [-1, 0],
        "combine": "concat",
        "pooling": "max",
        "normalise": True,
        "dimensions": 64,
        "precision": "binary",
    }
    assert work("embed", text="a", encoding_format="base64", **options).options == options
    assert (
        refused("embed", text="a", precision="int8")[0] == "precision: 'int8' is not known; there are float32, binary"
    )
    assert refused("embed", text="a", layers=[]) == ("layers: the list is empty; give at least one", "layers")
    assert refused("embed", text="a", layers=[-1, "two"])[1] == "layers[1]"
    assert refused("embed", text="a", dimensions=0)[1] == "dimensions"


def test_paths_that_are_shared_are_told_apart_by_the_body():
    assert POSTS["embed"].takes({"text": "a"})
    assert not POSTS["embed"].takes({"texts": ["a"]})
    assert POSTS["rerank"].takes({"query": "q", "passages": ["a"]})
    assert not POSTS["rerank"].takes({"query": "q", "documents": ["a"]})


def test_search():
    told = work("search", query="dogs", documents=["Dogs bark.", {"id": "cats", "text": "Cats meow."}], min_score=0.5)
    assert told.items == ["dogs"]
    documents = ["Dogs bark.", {"id": "cats", "text": "Cats meow."}]
    assert told.options == {"documents": documents, "min_score": 0.5}
    told = work("search", query=["a", "b"], index="notes", method="bm25", rerank=False, top_k=3)
    assert told.options == {"index": "notes", "method": "bm25", "rerank": False, "top_k": 3}
    assert answer("search", [[HIT]], query="dogs", index="notes") == {"query": "dogs", "results": [HIT]}
    assert answer("search", [[HIT], []], query=["a", "b"], index="n")[1] == {"query": "b", "results": []}
    assert refused("search", query="a")[1] == "documents"
    assert refused("search", query="a", documents=["b"], index="c")[1] == "documents"
    assert refused("search", query="a", documents=[])[1] == "documents"
    assert refused("search", query=" ", documents=["b"])[1] == "query"
    assert refused("search", query="a", documents=[{"id": 1}])[0].startswith("documents[0]: object missing required")


def test_summarise():
    sentence = {"text": "Dogs bark.", "start": 0, "end": 10, "score": 1.2}
    result = {"summary": "Dogs bark.", "sentences": [sentence]}
    assert answer("summarise", [result], text="Dogs bark. Cats.", sentences=1) == {"source": None, **result}
    found = answer("summarise", [TRANSLATED], text="Hallo.", abstractive=True)
    assert found == {"source": None, "summary": "Hello."}
    options = work("summarise", text="a", abstractive=True, max_new_tokens=9, num_beams=2).options
    assert options == {"abstractive": True, "max_new_tokens": 9, "num_beams": 2}
    assert refused("summarise", text="a", sentences=0)[1] == "sentences"


def test_translate():
    said = {"source": "Hallo.", "translation": "Hello.", "parts": TRANSLATED["parts"]}
    assert answer("translate", [TRANSLATED], text="Hallo.") == said
    assert answer("translate", [[TRANSLATED] * 2], text="Hallo.", num_return_sequences=2) == [said, said]
    assert answer("translate", [[TRANSLATED]], text=["Hallo."], num_return_sequences=1) == [[said]]
    options = {"src_lang": "de", "tgt_lang": "en", "prefix": "to English: ", "num_beams": 3, "length_penalty": 0.5}
    assert work("translate", text="Hallo.", **options).options == options
    assert refused("translate", text="a", num_beams=257)[0] == "num_beams: expected `int` <= 256, got 257"


def test_generate():
    assert answer("generate", [WRITTEN], text="The house") == {"prompt": "The house", **WRITTEN}
    found = answer("generate", [[WRITTEN, WRITTEN]], text=["The house"], num_return_sequences=2, temperature=1)
    assert found == [[{"prompt": "The house", **WRITTEN}] * 2]
    options = {
        **{"max_new_tokens": 8, "min_new_tokens": 1, "temperature": 0.8, "top_k": 5, "top_p": 0.9, "seed": 3},
        **{"repetition_penalty": 1.1, "no_repeat_ngram_size": 2, "stop_strings": ["\n"], "whole_sentences": True},
        **{"early_stopping": False},
    }
    assert work("generate", text="a", **options).options == options
    assert call("generate", text="a").stream is None
    assert refused("generate", text="a", temperature=0)[0] == "temperature: expected `float` > 0.0, got 0"
    assert refused("generate", text="a", stop_strings=[""])[1] == "stop_strings[0]"
    assert refused("generate", text="a", max_new_tokens=10**9)[1] == "max_new_tokens"


def test_generate_streams_pieces_and_then_all_of_it():
    found = call("generate", text="The house", stream=True, max_new_tokens=4)
    assert found.work.options == {"max_new_tokens": 4}
    assert found.stream is not None
    assert found.stream.piece(0, " stood") == {"piece": " stood"}
    assert found.stream.end(Done(results=[WRITTEN], model="m")) == [{"prompt": "The house", **WRITTEN}]


def test_what_cannot_be_streamed():
    assert refused("generate", text=["a"], stream=True)[1] == "stream"
    assert refused("generate", text="a", stream=True, num_beams=2)[1] == "num_beams"
    assert refused("generate", text="a", stream=True, num_return_sequences=1)[1] == "num_return_sequences"
    assert call("generate", text="a", stream=True, num_beams=1).stream is not None


@pytest.mark.parametrize("use", POSTS)
def test_every_route_names_the_field_that_was_meant(use):
    example = dict(POSTS[use].example)
    assert refused(use, **example, modle="x") == (
        "modle: it is no field of this route; did you mean model?",
        "modle",
    )
    assert refused(use, **{**example, "model": 3}) == ("model: expected `str | null`, got `int`", "model")
    for name in list(example):
        assert refused(use, **{**example, name: {"a": 1}})[1] == name
    needed = next(name for name in example if name in ("text", "first", "question", "context", "query"))
    message, field = refused(use, **{name: value for name, value in example.items() if name != needed})
    assert message.startswith(f"{needed}: it is missing; give it, such as ")
    assert field == needed
    assert refused(use, **{**example, needed: []}) == (f"{needed}: the list is empty; give at least one", needed)


def test_a_skill_is_a_model():
    message, field = refused("classify", text="a", skill="spam")
    assert message == 'skill: it is no field of this route; name it as a model, such as "built-in:spam"'
    assert field == "skill"


def test_what_a_client_sends_is_not_said_back_at_length():
    message, field = refused("classify", **{"x" * 10_000: 1})
    assert len(message) < 500
    assert len(field) < 300
    assert len(refused("classify", text=[["x" * 10_000]])[0]) < 500


@pytest.mark.parametrize(
    ("refusal", "status", "kind", "code"),
    [
        (Refusal("invalid", "no", field="text"), 422, "invalid_request_error", None),
        (Refusal("unknown_model", "no", field="model"), 404, "invalid_request_error", "model_not_found"),
        (Refusal("unauthorised", "no"), 401, "authentication_error", "invalid_api_key"),
        (Refusal("too_long", "no"), 413, "invalid_request_error", "context_length_exceeded"),
        (Refusal("overloaded", "no", retry_after=2), 429, "rate_limit_error", "rate_limit_exceeded"),
        (Refusal("internal", "no"), 500, "server_error", "internal"),
        (Refusal("deadline", "no"), 504, "server_error", "deadline"),
    ],
)
def test_errors_are_openais(refusal, status, kind, code):
    error = {"message": "no", "type": kind, "param": refusal.field, "code": code}
    assert NATIVE.error(refusal) == (status, {"error": error})
