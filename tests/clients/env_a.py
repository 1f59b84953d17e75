"""huggingface_hub's InferenceClient for every one of its text tasks, openai's client, and Cohere's of version 7."""

from typing import Any

import cohere
import openai
from acceptance import KEY, Acceptance
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError

on = Acceptance("A")


# huggingface_hub


def task(name: str, model: str = "built-in") -> InferenceClient:
    return InferenceClient(f"{on.url}/models/{model}/pipeline/{name}", token=KEY)


def fields(found: Any, *names: str) -> Any:
    return [{name: one[name] for name in names} for one in found]


def hugging_face() -> None:
    """Ten tasks, a skill, streaming, and errors."""
    best = [{"token_str": one["token"], "token": one["id"], "score": one["score"]} for one in on["fill"]]
    on.equal(
        "huggingface_hub fill_mask",
        lambda: fields(task("fill-mask").fill_mask(on["masked"], top_k=3), "token_str", "token", "score"),
        best,
    )
    on.equal(
        "huggingface_hub fill_mask, targets",
        lambda: fields(task("fill-mask").fill_mask(on["masked"], targets=["paris", "soup"]), "token_str", "score"),
        [{"token_str": one["token"], "score": one["score"]} for one in on["fill_of"]],
    )
    found = on["answer"]

    def answer() -> dict[str, Any]:
        one = task("question-answering").question_answering(on["question"], on["context"], max_answer_len=30)
        return {"answer": one.answer, "start": one.start, "end": one.end, "score": one.score}

    on.equal(
        "huggingface_hub question_answering",
        answer,
        {name: found[name] for name in ("answer", "start", "end", "score")},
    )
    on.equal(
        "huggingface_hub token_classification",
        lambda: fields(
            task("token-classification").token_classification(on["tagged"], aggregation_strategy="simple"),
            "entity_group",
            "word",
            "start",
            "end",
            "score",
        ),
        [
            {
                "entity_group": one["label"],
                "word": one["text"],
                "start": one["start"],
                "end": one["end"],
                "score": one["score"],
            }
            for one in on["entities"]
        ],
    )
    for skill in ("sentiment", "spam"):
        client = task("text-classification", f"built-in:{skill}")
        on.equal(
            f"huggingface_hub text_classification, {skill}",
            lambda client=client: {one.label: one.score for one in client.text_classification(on["texts"][2])},
            on[skill],
        )
    on.equal(
        "huggingface_hub zero_shot_classification",
        lambda: {
            one.label: one.score
            for one in task("zero-shot-classification").zero_shot_classification(
                on["texts"][2], on["labels"], hypothesis_template=on["template"]
            )
        },
        on["zero_shot"],
    )
    on.equal(
        "huggingface_hub summarization",
        lambda: task("summarization").summarization(on["article"]).summary_text,
        on["summary"],
    )
    on.equal(
        "huggingface_hub translation",
        lambda: task("translation", "built-in:translator").translation(on["german"]).translation_text,
        on["translation"],
    )
    on.equal(
        "huggingface_hub feature_extraction",
        lambda: task("feature-extraction").feature_extraction(on["texts"]).tolist(),
        on["vectors"],
    )
    on.equal(
        "huggingface_hub feature_extraction, dimensions",
        lambda: task("feature-extraction").feature_extraction(on["texts"], dimensions=64).tolist(),
        on["short_vectors"],
    )
    on.equal(
        "huggingface_hub sentence_similarity",
        lambda: task("sentence-similarity").sentence_similarity(on["texts"][0], on["texts"][1:]),
        on["similarities"],
    )
    writer = task("text-generation", "gpt")  # which must live as long as what it streams
    on.equal(
        "huggingface_hub text_generation",
        lambda: writer.text_generation(on["prompt"], max_new_tokens=12, do_sample=False),
        on["generated"],
    )
    on.equal(
        "huggingface_hub text_generation, streamed",
        lambda: "".join(writer.text_generation(on["prompt"], max_new_tokens=12, do_sample=False, stream=True)),
        on["generated"],
    )
    on.refused(
        "huggingface_hub, a model that is not there",
        lambda: task("fill-mask", "nothing").fill_mask(on["masked"]),
        HfHubHTTPError,
    )
    on.refused("huggingface_hub, no mask", lambda: task("fill-mask").fill_mask("No mask here."), HfHubHTTPError)


# openai


def open_ai() -> None:
    """Embeddings in all forms, completions, models, errors."""
    client = openai.OpenAI(base_url=f"{on.url}/v1", api_key=KEY)

    def vectors(given: Any, **options: Any) -> Any:
        answer = client.embeddings.create(model="built-in", input=given, **options)
        return [one.embedding for one in sorted(answer.data, key=lambda one: one.index)]

    on.equal("openai embeddings", lambda: vectors(on["texts"]), on["vectors"])
    on.equal("openai embeddings, one text", lambda: vectors(on["texts"][0]), on["vectors"][:1])
    on.equal("openai embeddings, float", lambda: vectors(on["texts"], encoding_format="float"), on["vectors"])
    on.equal("openai embeddings, dimensions", lambda: vectors(on["texts"], dimensions=64), on["short_vectors"])
    on.equal("openai embeddings, token ids", lambda: vectors(on["token_ids"]), on["vectors_of_ids"])
    on.equal("openai embeddings, ids of one", lambda: vectors(on["token_ids"][0]), on["vectors_of_ids"][:1])

    def base64() -> Any:
        import struct
        from base64 import b64decode

        raw = client.embeddings.with_raw_response.create(model="built-in", input=on["texts"], encoding_format="base64")
        found = [b64decode(one["embedding"]) for one in raw.http_response.json()["data"]]
        return [list(struct.unpack(f"<{len(one) // 4}f", one)) for one in found]

    on.equal("openai embeddings, base64", base64, on["vectors"])
    asked = {"model": "gpt", "prompt": on["prompt"], "max_tokens": 12}
    on.equal(
        "openai completions",
        lambda: client.completions.create(**asked, temperature=0).choices[0].text,
        on["generated"],
    )
    on.equal(
        "openai completions, streamed",
        lambda: "".join(
            one.choices[0].text for one in client.completions.create(**asked, temperature=0, stream=True) if one.choices
        ),
        on["generated"],
    )
    on.equal(
        "openai completions, sampled with a seed",
        lambda: client.completions.create(**asked, temperature=0.9, seed=3).choices[0].text,
        on["sampled"],
    )
    on.equal(
        "openai models",
        lambda: {"built-in", "built-in:spam", "built-in:translator", "gpt"} <= {one.id for one in client.models.list()},
        True,
    )
    on.equal("openai models, one", lambda: client.models.retrieve("built-in:spam").id, "built-in:spam")
    # whoever asks for a skill that is not there must not get the base in silence
    on.refused(
        "openai, a model that is not there",
        lambda: client.embeddings.create(model="built-in:nothing", input="a"),
        openai.NotFoundError,
        "built-in:nothing",
    )
    on.refused("openai, an empty text", lambda: vectors([""]), openai.BadRequestError, "input")
    stranger = openai.OpenAI(base_url=f"{on.url}/v1", api_key="another-key-than-theirs")
    on.refused("openai, a wrong key", lambda: list(stranger.models.list()), openai.AuthenticationError)


# cohere


def coheres() -> None:
    """Version 2 of Cohere's API: vectors of every type, ranks, errors."""
    client = cohere.ClientV2(api_key=KEY, base_url=on.url)
    reader = cohere.ClientV2(api_key=KEY, base_url=on.reranker_url)

    def embedded(kind: str, input_type: str = "search_document", model: str = "built-in") -> Any:
        found = client.embed(model=model, texts=on["texts"], input_type=input_type, embedding_types=[kind])
        return getattr(found.embeddings, f"{kind}_" if kind == "float" else kind)

    on.equal("cohere embed, search", lambda: embedded("float"), on["search_vectors"])
    on.equal("cohere embed, classification", lambda: embedded("float", "classification"), on["vectors"])
    on.equal("cohere embed, ubinary", lambda: embedded("ubinary"), on["binary_vectors"])
    on.equal(
        "cohere embed, binary",
        lambda: embedded("binary"),
        [[number - 128 for number in row] for row in on["binary_vectors"]],
    )
    ranks = [{"index": one["index"], "relevance_score": one["score"]} for one in on["ranks"]]

    def ranked(**options: Any) -> Any:
        found = reader.rerank(model="reranker", query=on["query"], documents=on["passages"], **options)
        return [{"index": one.index, "relevance_score": one.relevance_score} for one in found.results]

    on.equal("cohere rerank", ranked, ranks)
    on.equal("cohere rerank, top_n", lambda: ranked(top_n=1), ranks[:1])
    on.refused(
        "cohere, a model that is not there", lambda: embedded("float", model="nothing"), cohere.errors.NotFoundError
    )


hugging_face()
open_ai()
coheres()
on.end()
