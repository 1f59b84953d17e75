"""What clients of the Inference API send becomes the right work, and its result has the shapes that they parse."""

import base64
import math
import struct
from typing import Any

import pytest

from clearhead.serve.dialects.dialect import Call
from clearhead.serve.dialects.huggingface import HUGGINGFACE
from clearhead.serve.work import Done, Refusal, Work

NAMED = "/models/{model:path}/pipeline/"


def asked(task: str, content: dict[str, Any], **params: str) -> Call:
    """As the application finds a route: that of the task, or the one for all other names."""
    paths = {post.path: post for post in HUGGINGFACE.posts}
    below = NAMED if "model" in params else "/pipeline/"
    if below + task in paths:
        return paths[below + task].read(content, params)
    return paths[below + "{task}"].read(content, {**params, "task": task})


def refused(task: str, content: dict[str, Any]) -> tuple[int, Any]:
    with pytest.raises(Refusal) as found:
        asked(task, content)
    return HUGGINGFACE.error(found.value)


def done(*results: Any, written: int = 0) -> Done:
    return Done(results=list(results), model="m", read=9, written=written)


# masks


def prediction(token: str, mask: int = 0) -> dict[str, Any]:
    return {"token": token, "score": 0.5, "sequence": f"the {token}.", "mask": mask, "id": 7}


def filled(token: str) -> dict[str, Any]:
    return {"score": 0.5, "token": 7, "token_str": token, "sequence": f"the {token}."}


def test_fill_mask():
    call = asked("fill-mask", {"inputs": "The [MASK].", "parameters": {"targets": ["a"], "top_k": 3}})
    assert call.work == Work(use="fill", items=["The [MASK]."], options={"top_k": 3, "candidates": ["a"]})
    found = {"predictions": [prediction("cat"), prediction("dog")]}
    assert call.answer(done(found)) == [filled("cat"), filled("dog")]


def test_fill_mask_of_several_masks_and_of_several_texts():
    assert asked("fill-mask", {"inputs": "a", "parameters": {"targets": "b"}}).work.options == {"candidates": ["b"]}
    found = {"predictions": [prediction("cat"), prediction("dog", mask=1)]}
    call = asked("fill-mask", {"inputs": "The [MASK] [MASK].", "parameters": None})
    assert call.answer(done(found)) == [[filled("cat")], [filled("dog")]]
    call = asked("fill-mask", {"inputs": ["The [MASK]."]})
    assert call.work.options == {}
    assert call.answer(done({"predictions": [prediction("cat")]})) == [[filled("cat")]]


# answers

QUESTION = {"question": "q", "context": "c"}
CANDIDATES = [
    {"text": "London", "start": 3, "end": 9, "score": 0.6, "logit": 2.0},
    {"text": "in London", "start": 0, "end": 9, "score": 0.1, "logit": 0.2},
]
FOUND = {
    "answer": "London",
    "start": 3,
    "end": 9,
    "score": 0.6,
    "null_score": 2.0 + math.log(0.5),
    "candidates": CANDIDATES,
}
ABSTAINED = {**FOUND, "answer": None, "start": None, "end": None, "score": 0.9}
LONDON = {"answer": "London", "score": 0.6, "start": 3, "end": 9}


def test_question_answering_reads_all_parameters():
    told = {
        "top_k": 2,
        "handle_impossible_answer": False,
        "max_answer_len": 20,
        "doc_stride": 128,
        "max_seq_len": 384,
        "max_question_len": 64,
        "align_to_words": False,
    }
    call = asked("question-answering", {"inputs": QUESTION, "parameters": told})
    options = {"top_k": 2, "max_answer_length": 20, "whole_words": False}
    assert call.work == Work(use="answer", items=[["q", "c"]], options=options)
    second = {"answer": "in London", "score": 0.1, "start": 0, "end": 9}
    assert call.answer(done(FOUND)) == [LONDON, second]


def test_question_answering_gives_one_answer_without_a_list_even_where_the_model_would_abstain():
    call = asked("question-answering", {"inputs": QUESTION})
    assert call.work.options == {"top_k": 1, "max_answer_length": 15}
    assert call.answer(done(FOUND)) == LONDON
    assert call.answer(done(ABSTAINED)) == LONDON
    assert call.answer(done({**ABSTAINED, "candidates": []})) == {"answer": "", "score": 0.0, "start": 0, "end": 0}


def test_question_answering_may_say_that_there_is_none():
    call = asked("question-answering", {"inputs": QUESTION, "parameters": {"handle_impossible_answer": True}})
    assert call.answer(done(ABSTAINED)) == {"answer": "", "score": 0.9, "start": 0, "end": 0}
    assert call.answer(done(FOUND)) == LONDON
    call = asked(
        "question-answering", {"inputs": QUESTION, "parameters": {"handle_impossible_answer": True, "top_k": 2}}
    )
    best, none = call.answer(done(FOUND))
    assert best == LONDON
    assert none == {"answer": "", "score": pytest.approx(0.3), "start": 0, "end": 0}


def test_question_answering_of_many():
    call = asked("question-answering", {"inputs": [QUESTION, QUESTION]})
    assert call.answer(done(FOUND, FOUND)) == [LONDON, LONDON]


# labels of words

TEXT = "Ada Lovelace lived in London."
WORDS = [
    {"text": "Ada", "label": "B-PER", "start": 0, "end": 3, "score": 0.9},
    {"text": "Lovelace", "label": "I-PER", "start": 4, "end": 12, "score": 0.7},
    {"text": "lived", "label": "O", "start": 13, "end": 18, "score": 0.8},
    {"text": "in", "label": "O", "start": 19, "end": 21, "score": 0.6},
    {"text": "London", "label": "B-LOC", "start": 22, "end": 28, "score": 1.0},
]
ENTITIES = [
    {"text": "Ada Lovelace", "label": "PER", "start": 0, "end": 12, "score": 0.8},
    {"text": "London", "label": "LOC", "start": 22, "end": 28, "score": 1.0},
]
TAGGED = {"entities": ENTITIES, "words": WORDS}
PER = {"entity_group": "PER", "score": 0.8, "word": "Ada Lovelace", "start": 0, "end": 12}
LOC = {"entity_group": "LOC", "score": 1.0, "word": "London", "start": 22, "end": 28}


def test_token_classification_gives_entities():
    told = {"aggregation_strategy": "first", "ignore_labels": ["O"], "stride": 16}
    call = asked("token-classification", {"inputs": TEXT, "parameters": told})
    assert call.work == Work(use="tag", items=[TEXT], options={"aggregation_strategy": "first"})
    assert call.answer(done(TAGGED)) == [PER, LOC]
    usual = asked("token-classification", {"inputs": [TEXT]})
    assert usual.work.options == {"aggregation_strategy": "simple"}
    assert usual.answer(done(TAGGED)) == [[PER, LOC]]


def test_token_classification_leaves_out_the_labels_that_are_named_and_no_others():
    call = asked("token-classification", {"inputs": TEXT, "parameters": {"ignore_labels": ["LOC"]}})
    outside = {"entity_group": "O", "score": pytest.approx(0.7), "word": "lived in", "start": 13, "end": 21}
    assert call.answer(done(TAGGED)) == [PER, outside]


def test_token_classification_joins_neighbours_of_plain_tags():
    words = [
        {**word, "label": label} for word, label in zip(WORDS, ["NOUN", "NOUN", "VERB", "ADP", "NOUN"], strict=True)
    ]
    found = asked("token-classification", {"inputs": TEXT}).answer(done({"entities": [], "words": words}))
    assert [(one["entity_group"], one["word"]) for one in found] == [
        ("NOUN", "Ada Lovelace"),
        ("VERB", "lived"),
        ("ADP", "in"),
        ("NOUN", "London"),
    ]


def test_token_classification_without_a_strategy_gives_words():
    call = asked("token-classification", {"inputs": TEXT, "parameters": {"aggregation_strategy": "none"}})
    assert call.work.options == {}
    found = call.answer(done(TAGGED))
    assert found[0] == {"entity": "B-PER", "score": 0.9, "index": 1, "word": "Ada", "start": 0, "end": 3}
    assert [(one["entity"], one["index"]) for one in found] == [("B-PER", 1), ("I-PER", 2), ("B-LOC", 5)]


# classes

CLASSES = {"label": "joy", "score": 0.9, "scores": {"joy": 0.9, "anger": 0.1}}
SAID = [{"label": "joy", "score": 0.9}, {"label": "anger", "score": 0.1}]


def test_text_classification_is_nested_for_one_text_too():
    call = asked("text-classification", {"inputs": "good", "parameters": {"top_k": 2}})
    assert call.work == Work(use="classify", items=["good"], options={"top_k": 2})
    assert call.answer(done(CLASSES)) == [SAID]
    assert asked("text-classification", {"inputs": ["a", "b"]}).answer(done(CLASSES, CLASSES)) == [SAID, SAID]


def test_text_classification_of_pairs():
    pair = {"text": "a", "text_pair": "b"}
    assert asked("text-classification", {"inputs": pair}).work == Work(use="compare", items=[["a", "b"]])
    assert asked("text-classification", {"inputs": [pair, "c"]}).work == Work(use="classify", items=[["a", "b"], "c"])
    assert asked("text-classification", {"inputs": {"text": "a"}}).work == Work(use="classify", items=["a"])


@pytest.mark.parametrize(
    ("function", "scores"),
    [("none", [2.0, 0.0]), ("softmax", [0.880797, 0.119203]), ("sigmoid", [0.880797, 0.5])],
)
def test_text_classification_makes_scores_of_logits_as_asked(function, scores):
    told = {"top_k": 1, "function_to_apply": function}
    call = asked("text-classification", {"inputs": "good", "parameters": told})
    assert call.work.options == {"raw_scores": True}  # all of them, since a softmax needs them
    logits = {"label": "joy", "score": 2.0, "scores": {"joy": 2.0, "anger": 0.0}}
    assert call.answer(done(logits)) == [[{"label": "joy", "score": pytest.approx(scores[0])}]]
    every = asked("text-classification", {"inputs": "good", "parameters": {"function_to_apply": function}})
    assert [one["score"] for one in every.answer(done(logits))[0]] == pytest.approx(scores)


def test_zero_shot_classification_is_a_list_of_labels():
    told = {"candidate_labels": ["joy", "anger"], "multi_label": False, "hypothesis_template": "It is {}."}
    call = asked("zero-shot-classification", {"inputs": "t", "parameters": told})
    options = {"labels": ["joy", "anger"], "hypothesis_template": "It is {}.", "multi_label": False}
    assert call.work == Work(use="zero-shot", items=["t"], options=options)
    assert call.answer(done(CLASSES)) == SAID
    labels = {"candidate_labels": "joy, anger"}
    several = asked("zero-shot-classification", {"inputs": ["t", "u"], "parameters": labels})
    assert several.work.options == {"labels": ["joy", "anger"], "hypothesis_template": "This example is {}."}
    assert several.answer(done(CLASSES, CLASSES)) == [SAID, SAID]
    alone = asked("zero-shot-classification", {"inputs": ["t"], "parameters": labels})
    assert alone.answer(done(CLASSES)) == SAID  # as the client in JavaScript sends and reads one text


# vectors


def test_feature_extraction_has_its_options_beside_the_inputs():
    content = {
        "inputs": ["a"],
        "normalize": True,
        "prompt_name": None,
        "truncate": True,
        "truncation_direction": "right",
        "dimensions": 64,
        "encoding_format": "float",
    }
    call = asked("feature-extraction", content)
    assert call.work == Work(use="embed", items=["a"], options={"normalise": True, "dimensions": 64})
    vector = struct.pack("<2f", 0.5, 0.25)
    assert call.answer(done(vector)) == [[0.5, 0.25]]
    call = asked("feature-extraction", {"inputs": "a", "parameters": {"truncate": False}, "encoding_format": "base64"})
    assert call.work == Work(use="embed", items=["a"], too_long="refuse")
    assert call.answer(done(vector)) == [base64.b64encode(vector).decode()]
    left = asked("feature-extraction", {"inputs": "a", "truncate": True, "truncation_direction": "left"})
    assert left.work.too_long == "cut-start"


def test_sentence_similarity():
    content = {"inputs": {"source_sentence": "a", "sentences": ["b"]}, "parameters": {}}
    call = asked("sentence-similarity", content, model="m")
    options = {"purpose": "similarity"}
    assert call.work == Work(use="compare", items=[["a", "b"]], model="m", options=options)
    assert call.answer(done({"label": "similarity", "score": 0.5, "scores": {"similarity": 0.5}})) == [0.5]


def test_text_ranking():
    call = asked("text-ranking", {"query": "q", "texts": ["a"], "parameters": {"return_documents": True}})
    assert call.work == Work(use="rerank", items=[["q", ["a"]]])
    ranks = [{"text": "a", "index": 0, "score": 0.9}]
    assert call.answer(done(ranks)) == {"scores": [{"index": 0, "score": 0.9, "text": "a"}]}
    assert asked("text-ranking", {"query": "q", "texts": ["a"]}).answer(done(ranks)) == {
        "scores": [{"index": 0, "score": 0.9}]
    }


# writing


def test_summarization_picks_sentences_unless_something_is_said_of_writing():
    told = {"clean_up_tokenization_spaces": True, "truncation": "longest_first", "generate_parameters": {}}
    call = asked("summarization", {"inputs": "long", "parameters": told})
    assert call.work == Work(use="summarise", items=["long"])
    assert call.answer(done({"summary": "short", "sentences": []})) == [{"summary_text": "short"}]
    call = asked("summarization", {"inputs": "long", "parameters": {"generate_parameters": {"max_length": 5}}})
    assert call.work.options == {"abstractive": True, "max_new_tokens": 4}  # v4 counts the start token
    assert call.answer(done({"text": "short", "parts": []})) == [{"summary_text": "short"}]
    call = asked("summarization", {"inputs": ["a", "b"], "parameters": {"min_length": 3, "max_new_tokens": 9}})
    assert call.work.options == {"abstractive": True, "max_new_tokens": 9, "min_new_tokens": 2}
    both = [{"summary_text": "1"}, {"summary_text": "2"}]
    assert call.answer(done({"text": "1", "parts": []}, {"text": "2", "parts": []})) == both


def test_translation():
    told = {"src_lang": "en", "tgt_lang": "de", "generate_parameters": {"num_beams": 2, "max_length": 9}}
    call = asked("translation", {"inputs": "one", "parameters": told})
    options = {"src_lang": "en", "tgt_lang": "de", "num_beams": 2}
    assert call.work == Work(use="translate", items=["one"], options=options)
    assert call.answer(done({"text": "eins", "parts": []})) == [{"translation_text": "eins"}]
    call = asked("translation", {"inputs": ["one"], "parameters": {"num_return_sequences": 2, "num_beams": 2}})
    both = [{"text": "eins", "parts": []}, {"text": "ein", "parts": []}]
    assert call.answer(done(both)) == [{"translation_text": "eins"}, {"translation_text": "ein"}]


def test_a_name_of_a_task_may_hold_languages():
    for parameters in (None, {"src_lang": None}):
        work = asked("translation_en_to_de", {"inputs": "one", "parameters": parameters}).work
        assert work == Work(use="translate", items=["one"], options={"src_lang": "en", "tgt_lang": "de"})


def test_text2text_generation_is_flat():
    call = asked("text2text-generation", {"inputs": ["a", "b"], "parameters": {"max_length": 6}})
    assert call.work == Work(use="generate", items=["a", "b"], options={"max_new_tokens": 5})
    written = [{"generated": one, "score": -1.0, "ended": True} for one in "xy"]
    assert call.answer(done(*written)) == [{"generated_text": "x"}, {"generated_text": "y"}]


WRITTEN = {"generated": "ab", "score": -1.0, "ended": False}


def test_text_generation():
    told = {
        "max_new_tokens": 3,
        "do_sample": True,
        "temperature": 0.8,
        "top_k": 20,
        "top_p": 0.95,
        "repetition_penalty": 1.1,
        "return_full_text": False,
        "seed": 0,
        "stop": [],
        "typical_p": 0.95,
        "watermark": False,
    }
    call = asked("text-generation", {"inputs": "a", "parameters": told, "stream": False})
    options = {
        "max_new_tokens": 3,
        "temperature": 0.8,
        "top_k": 20,
        "top_p": 0.95,
        "seed": 0,
        "repetition_penalty": 1.1,
    }
    assert call.work == Work(use="generate", items=["a"], options=options)
    assert call.stream is None
    assert call.answer(done(WRITTEN)) == [{"generated_text": "ab"}]
    whole = asked("text-generation", {"inputs": ["a"], "parameters": {"return_full_text": True}})
    assert whole.answer(done(WRITTEN)) == [[{"generated_text": "aab"}]]
    several = asked("text-generation", {"inputs": "a", "parameters": {"num_return_sequences": 2, "do_sample": True}})
    assert several.work.options == {"num_return_sequences": 2, "temperature": 1.0, "top_k": 50}
    assert several.answer(done([WRITTEN, WRITTEN])) == [{"generated_text": "ab"}] * 2


def test_text_generation_without_sampling_draws_nothing():
    told = {"do_sample": False, "temperature": 0.8, "top_k": 50, "top_p": 0.95, "seed": 0, "truncate": 7}
    work = asked("text-generation", {"inputs": "a", "parameters": told}).work
    assert work == Work(use="generate", items=["a"], options={"num_beams": 1}, too_long="cut-start", max_tokens=7)


@pytest.mark.parametrize(
    ("stop", "written", "reason"),
    [
        (None, WRITTEN, "length"),
        (None, {**WRITTEN, "ended": True}, "eos_token"),
        (["b"], {**WRITTEN, "ended": True}, "stop_sequence"),
        (["c"], {**WRITTEN, "ended": True}, "eos_token"),
    ],
)
def test_text_generation_tells_details(stop, written, reason):
    call = asked("text-generation", {"inputs": "a", "parameters": {"details": True, "stop": stop}})
    details = {"finish_reason": reason, "generated_tokens": 2, "seed": None, "prefill": [], "tokens": []}
    assert call.answer(done(written, written=2)) == [{"generated_text": "ab", "details": details}]
    assert call.work.options == ({} if stop is None else {"stop_strings": stop})


def test_text_generation_while_it_is_written():
    stream = asked("text-generation", {"inputs": "a", "parameters": {"return_full_text": True}, "stream": True}).stream
    assert stream is not None
    token = {"id": None, "text": "b", "logprob": None, "special": False}
    assert stream.piece(0, "b") == {"index": 1, "token": token, "generated_text": None, "details": None}
    (last,) = stream.end(done(WRITTEN, written=2))
    assert (last["token"]["text"], last["token"]["special"], last["generated_text"]) == ("", True, "aab")
    assert last["details"] == {"finish_reason": "length", "generated_tokens": 2, "input_length": 9, "seed": None}


# routes and errors


@pytest.mark.parametrize(("other", "use"), [("ner", "tag"), ("sentiment-analysis", "classify"), ("fill-mask", "fill")])
def test_other_names_and_names_of_models(other, use):
    assert asked(other, {"inputs": "a"}).work.use == use
    work = asked(other, {"inputs": "a", "model": "other"}, model="owner/name").work
    assert (work.use, work.model) == (use, "owner/name")
    assert asked(other, {"inputs": "a", "model": "other"}).work.model == "other"


def test_a_task_that_is_not_there_is_answered_with_those_that_are():
    status, body = refused("image-classification", {"inputs": "a"})
    assert status == 404
    assert body["error"].startswith(
        "there is no task 'image-classification'; there are fill-mask, question-answering, "
    )
    assert body["error"].endswith("text-ranking, ner, sentiment-analysis")


@pytest.mark.parametrize(
    ("task", "content", "told"),
    [
        ("fill-mask", {}, "the body: object missing required field `inputs`"),
        ("fill-mask", {"inputs": []}, "inputs: the list is empty"),
        ("fill-mask", {"inputs": {"a": 1}}, "inputs: expected `str | array`, got `object`"),
        ("fill-mask", {"inputs": "a", "parameters": {"top_k": 0}}, "parameters.top_k: expected `int` >= 1"),
        ("fill-mask", {"inputs": "a", "parameters": []}, "parameters: expected `object | null`, got `array`"),
        ("question-answering", {"inputs": "a"}, "inputs: expected `object | array`, got `str`"),
        ("question-answering", {"inputs": {"question": "q"}}, "inputs: object missing required field `context`"),
        (
            "token-classification",
            {"inputs": "a", "parameters": {"aggregation_strategy": "best"}},
            "parameters.aggregation_strategy: invalid enum value 'best'",
        ),
        (
            "text-classification",
            {"inputs": "a", "parameters": {"function_to_apply": "relu"}},
            "parameters.function_to_apply: invalid enum value 'relu'",
        ),
        ("zero-shot-classification", {"inputs": "a"}, "the body: object missing required field `parameters`"),
        (
            "zero-shot-classification",
            {"inputs": "a", "parameters": {"candidate_labels": []}},
            "parameters.candidate_labels: there is none",
        ),
        ("summarization", {"inputs": 1}, "inputs: expected `str | array`, got `int`"),
        (
            "translation",
            {"inputs": "a", "parameters": {"generate_parameters": {"num_beams": "2"}}},
            "parameters.generate_parameters.num_beams: expected `int | null`, got `str`",
        ),
        ("translation_en_to_de", {"inputs": "a", "parameters": {"tgt_lang": 1}}, "parameters.tgt_lang: expected"),
        ("feature-extraction", {"inputs": []}, "`inputs` cannot be empty"),
        ("feature-extraction", {"inputs": "a", "encoding_format": "bits"}, "encoding_format: invalid enum value"),
        ("sentence-similarity", {"inputs": {"sentences": ["a"]}}, "inputs: object missing required field"),
        ("text-ranking", {"query": "q", "texts": []}, "texts: the list is empty"),
        ("text-generation", {"inputs": ["a"], "stream": True}, "stream: it is for one prompt"),
        ("text-generation", {"inputs": ["a"], "parameters": {"details": True}}, "parameters.details: it is for one"),
        ("text-generation", {"inputs": "a", "parameters": {"max_length": 9}}, "parameters.max_length: it counts"),
        ("text-generation", {"inputs": "a", "parameters": {"grammar": {}}}, "parameters.grammar: no text is held"),
        ("text-generation", {"inputs": "a", "parameters": {"adapter_id": "x"}}, "parameters.adapter_id: an adapter"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_field(task, content, told):
    status, body = refused(task, content)
    assert status == 422
    assert body["error"].startswith(told)
    assert [*body] == ["error"]
