"""Frameworks that ask for vectors and ranks: LangChain, LlamaIndex and Haystack, with their clients for services."""

from typing import Any

import openai
from acceptance import KEY, Acceptance
from haystack import Document as HaystackDocument
from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
from haystack.utils import Secret
from haystack_integrations.components.embedders.huggingface_api import (
    HuggingFaceAPIDocumentEmbedder,
    HuggingFaceAPITextEmbedder,
)
from haystack_integrations.components.rankers.huggingface_api import HuggingFaceTEIRanker
from huggingface_hub import InferenceClient
from langchain_cohere import CohereEmbeddings, CohereRerank
from langchain_core.documents import Document
from langchain_openai import OpenAI, OpenAIEmbeddings
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference
from llama_index.postprocessor.tei_rerank import TextEmbeddingInference

on = Acceptance("B")
best = [{"text": one["text"], "score": one["score"]} for one in on["ranks"]]
SECRET = Secret.from_token(KEY)


def langchain() -> None:
    """Vectors by OpenAI's and Cohere's words, ranks by Cohere's, text by OpenAI's completions."""
    embeddings = OpenAIEmbeddings(
        base_url=f"{on.url}/v1", api_key=KEY, model="built-in", check_embedding_ctx_length=False
    )
    on.equal("langchain-openai embed_documents", lambda: embeddings.embed_documents(on["texts"]), on["vectors"])
    on.equal("langchain-openai embed_query", lambda: embeddings.embed_query(on["texts"][0]), on["vectors"][0])
    short = OpenAIEmbeddings(
        base_url=f"{on.url}/v1", api_key=KEY, model="built-in", check_embedding_ctx_length=False, dimensions=64
    )
    on.equal("langchain-openai dimensions", lambda: short.embed_documents(on["texts"]), on["short_vectors"])
    writer = OpenAI(base_url=f"{on.url}/v1", api_key=KEY, model="gpt", max_tokens=12, temperature=0)
    on.equal("langchain-openai invoke", lambda: writer.invoke(on["prompt"]), on["generated"])
    on.equal("langchain-openai stream", lambda: "".join(writer.stream(on["prompt"])), on["generated"])
    unknown = OpenAIEmbeddings(base_url=f"{on.url}/v1", api_key=KEY, model="nothing", check_embedding_ctx_length=False)
    on.refused(
        "langchain-openai, a model that is not there", lambda: unknown.embed_query("a"), openai.NotFoundError, "nothing"
    )
    cohere = CohereEmbeddings(model="built-in", cohere_api_key=KEY, base_url=on.url)
    on.equal("langchain-cohere embed_documents", lambda: cohere.embed_documents(on["texts"]), on["search_vectors"])
    on.equal("langchain-cohere embed_query", lambda: cohere.embed_query(on["texts"][0]), on["search_vectors"][0])
    ranker = CohereRerank(model="reranker", cohere_api_key=KEY, base_url=on.reranker_url, top_n=2)

    def ranked() -> Any:
        documents = [Document(page_content=text) for text in on["passages"]]
        found = ranker.compress_documents(documents, on["query"])
        return [{"text": one.page_content, "score": one.metadata["relevance_score"]} for one in found]

    on.equal("langchain-cohere compress_documents", ranked, best[:2])


def llama_index() -> None:
    """Vectors and ranks by TEI's words, vectors by OpenAI's."""
    tei = TextEmbeddingsInference(model_name="built-in", base_url=on.url, auth_token=KEY)
    on.equal("llama-index TEI, batch", lambda: tei.get_text_embedding_batch(on["texts"]), on["unit_vectors"])
    on.equal("llama-index TEI, query", lambda: tei.get_query_embedding(on["texts"][0]), on["unit_vectors"][0])
    alike = OpenAILikeEmbedding(model_name="built-in", api_base=f"{on.url}/v1", api_key=KEY)
    on.equal("llama-index openai-like", lambda: alike.get_text_embedding_batch(on["texts"]), on["vectors"])
    # it sends the key without "Bearer", as its documentation has it
    ranker = TextEmbeddingInference(base_url=on.reranker_url, top_n=2, auth_token=KEY)

    def ranked() -> Any:
        nodes = [NodeWithScore(node=TextNode(text=text)) for text in on["passages"]]
        found = ranker.postprocess_nodes(nodes, query_str=on["query"])
        return [{"text": one.node.get_content(), "score": one.score} for one in found]

    on.equal("llama-index TEI rerank", ranked, best[:2])


def haystack() -> None:
    """Vectors and ranks by TEI's words, vectors by OpenAI's."""
    tei = {"api_type": "text_embeddings_inference", "api_params": {"url": on.url}, "token": SECRET}
    # it asks for vectors as they are, unless told otherwise
    one, unit = HuggingFaceAPITextEmbedder(**tei), HuggingFaceAPITextEmbedder(**tei, normalize=True)
    on.equal("haystack TEI, a text", lambda: one.run(text=on["texts"][0])["embedding"], on["raw_vectors"][0])
    on.equal("haystack TEI, normalised", lambda: unit.run(text=on["texts"][0])["embedding"], on["unit_vectors"][0])

    def documents() -> list[HaystackDocument]:
        return [HaystackDocument(content=text) for text in on["texts"]]

    many = HuggingFaceAPIDocumentEmbedder(**tei, progress_bar=False)
    on.equal(
        "haystack TEI, documents",
        lambda: [found.embedding for found in many.run(documents=documents())["documents"]],
        on["raw_vectors"],
    )
    ranker = HuggingFaceTEIRanker(url=on.reranker_url, token=SECRET, top_k=2)

    def ranked() -> Any:
        given = [HaystackDocument(content=text) for text in on["passages"]]
        found = ranker.run(query=on["query"], documents=given)["documents"]
        return [{"text": each.content, "score": each.score} for each in found]

    on.equal("haystack TEI rank", ranked, best[:2])
    asked = {"api_key": SECRET, "api_base_url": f"{on.url}/v1", "model": "built-in"}
    text = OpenAITextEmbedder(**asked)
    on.equal("haystack openai, a text", lambda: text.run(text=on["texts"][0])["embedding"], on["vectors"][0])
    several = OpenAIDocumentEmbedder(**asked, progress_bar=False)
    on.equal(
        "haystack openai, documents",
        lambda: [found.embedding for found in several.run(documents=documents())["documents"]],
        on["vectors"],
    )


def hub_before_two() -> None:
    """huggingface_hub before version 2, which these frameworks use."""
    client = InferenceClient(f"{on.url}/models/built-in/pipeline/feature-extraction", token=KEY)
    on.equal(
        "huggingface_hub 1 feature_extraction", lambda: client.feature_extraction(on["texts"]).tolist(), on["vectors"]
    )


langchain()
llama_index()
haystack()
hub_before_two()
on.end()
