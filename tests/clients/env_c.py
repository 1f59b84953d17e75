"""litellm, which speaks to a service in the words of many others."""

from typing import Any

import litellm
from acceptance import KEY, Acceptance

on = Acceptance("C")
litellm.telemetry = False
litellm.suppress_debug_info = True


def vectors(model: str, base: str, **options: Any) -> Any:
    found = litellm.embedding(model=model, input=on["texts"], api_base=base, api_key=KEY, **options)
    return [one["embedding"] for one in sorted(found.data, key=lambda one: one["index"])]


def ranks(model: str, base: str) -> Any:
    found = litellm.rerank(
        model=model, query=on["query"], documents=on["passages"], api_base=base, api_key=KEY, return_documents=False
    )
    return [{"index": one["index"], "score": one["relevance_score"]} for one in found.results]


best = [{"index": one["index"], "score": one["score"]} for one in on["ranks"]]
on.equal("litellm embedding, openai/", lambda: vectors("openai/built-in", f"{on.url}/v1"), on["vectors"])
on.equal(
    "litellm embedding, openai/ with dimensions",
    lambda: vectors("openai/built-in", f"{on.url}/v1", dimensions=64, allowed_openai_params=["dimensions"]),
    on["short_vectors"],
)
on.equal("litellm embedding, hosted_vllm/", lambda: vectors("hosted_vllm/built-in", f"{on.url}/v1"), on["vectors"])
on.equal("litellm embedding, infinity/", lambda: vectors("infinity/built-in", on.url), on["vectors"])
on.equal("litellm rerank, hosted_vllm/", lambda: ranks("hosted_vllm/reranker", on.reranker_url), best)
on.equal("litellm rerank, cohere/", lambda: ranks("cohere/reranker", on.reranker_url), best)
on.equal("litellm rerank, jina_ai/", lambda: ranks("jina_ai/reranker", on.reranker_url), best)
on.equal("litellm rerank, infinity/", lambda: ranks("infinity/reranker", on.reranker_url), best)
on.equal("litellm rerank, huggingface/", lambda: ranks("huggingface/reranker", on.reranker_url), best)
on.equal(
    "litellm text_completion",
    lambda: (
        litellm.text_completion(
            model="text-completion-openai/gpt",
            prompt=on["prompt"],
            max_tokens=12,
            temperature=0,
            api_base=f"{on.url}/v1",
            api_key=KEY,
        )
        .choices[0]
        .text
    ),
    on["generated"],
)
on.refused(
    "litellm, a model that is not there",
    lambda: vectors("openai/nothing", f"{on.url}/v1"),
    litellm.exceptions.NotFoundError,
)
on.end()
