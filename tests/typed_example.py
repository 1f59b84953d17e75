"""A user's script, whose types mypy checks: what each use gives for one text, for many, and for a stream."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import clearhead
from clearhead.client.client import AsyncClient, Client
from clearhead.client.connection import ServedModel
from clearhead.pipelines.classification import Classes
from clearhead.pipelines.clustering import Cluster, Duplicate
from clearhead.pipelines.embedding import TokenVectors
from clearhead.pipelines.fill_mask import Filled
from clearhead.pipelines.generation import Written
from clearhead.pipelines.multiple_choice import Choice
from clearhead.pipelines.next_sentence import NextSentence
from clearhead.pipelines.question_answering import Answer, FoundAnswer
from clearhead.pipelines.search.index import Hit, Index
from clearhead.pipelines.search.reranking import Reranked
from clearhead.pipelines.senses import Senses
from clearhead.pipelines.summarisation import Summary
from clearhead.pipelines.token_classification import Tagged
from clearhead.pipelines.translation import Rewritten

MASKED = "The capital of France is [MASK]."
QUESTION, CONTEXT = "Who was tired?", "The animal was tired."
MANY = ["What a joy!", "A dull film."]


def understand(model: clearhead.Model) -> None:
    """The built-in model does all of this."""
    assert_type(model.fill(MASKED), Filled)
    assert_type(model.fill(texts=[MASKED], top_k=3), list[Filled])
    assert_type(model.fill((MASKED,), candidates=["paris"]), list[Filled])
    assert_type(model.fill(iter([MASKED])), Iterator[Filled])
    assert_type(model.fill(np.array([MASKED])), list[Filled])
    assert_type(model.fill(MASKED).predictions[0].token, str)

    assert_type(model.classify("a", skill="spam"), Classes)
    assert_type(model.classify(MANY, skill="sentiment", top_k=1), list[Classes])
    assert_type(model.classify([("a", "b")], skill="inference"), list[Classes])
    assert_type(model.classify((text for text in MANY), skill="spam"), Iterator[Classes])

    assert_type(model.compare("a", "b"), Classes)
    assert_type(model.compare("a", MANY), list[Classes])
    assert_type(model.compare(MANY, MANY), list[Classes])
    assert_type(model.compare(first=iter(MANY), second="b"), Iterator[Classes])
    assert_type(model.compare("a", iter(MANY)), Iterator[Classes])

    assert_type(model.follows("a", "b"), NextSentence)
    assert_type(model.follows("a", "b").follows, bool)
    assert_type(model.follows(MANY, "b"), list[NextSentence])
    assert_type(model.follows("a", iter(MANY)), Iterator[NextSentence])

    assert_type(model.zero_shot("a", ["money", "animals"], multi_label=True), Classes)
    assert_type(model.zero_shot(MANY, labels=["money"], hypothesis_template="It is {}."), list[Classes])
    assert_type(model.zero_shot(iter(MANY), ["money"]), Iterator[Classes])

    assert_type(model.tag("Ada lived in London."), Tagged)
    assert_type(model.tag([["Ada", "lived"], "in London"], aggregation_strategy="max"), list[Tagged])
    assert_type(model.tag(iter(MANY)), Iterator[Tagged])

    assert_type(model.answer(QUESTION, CONTEXT), Answer)
    assert_type(model.answer(QUESTION, CONTEXT).text, str | None)
    assert_type(model.answer(QUESTION, model.index([CONTEXT])), FoundAnswer)
    assert_type(model.answer([QUESTION], model.index([CONTEXT])), list[FoundAnswer])
    assert_type(model.answer([QUESTION], CONTEXT, top_k=2, max_answer_length=9), list[Answer])
    assert_type(model.answer(QUESTION, [CONTEXT]), list[Answer])
    assert_type(model.answer(questions=QUESTION, contexts=iter([CONTEXT])), Iterator[Answer])
    assert_type(model.answer(iter([QUESTION]), [CONTEXT]), Iterator[Answer])

    assert_type(model.embed("a"), NDArray[Any])
    assert_type(model.embed(MANY, normalise=True, dimensions=64), NDArray[Any])
    assert_type(model.token_vectors("a"), TokenVectors)
    assert_type(model.token_vectors(MANY, layers=[0, -1], combine="concat"), list[TokenVectors])
    assert_type(model.token_vectors(iter(MANY)), Iterator[TokenVectors])
    assert_type(model.index(MANY), Index)
    assert_type(model.search("joy", MANY, top_k=1), list[Hit])
    assert_type(model.index(MANY).search(MANY, rerank=False), list[list[Hit]])
    assert_type(model.cluster(MANY, threshold=0.5), list[Cluster])
    assert_type(model.duplicates(MANY), list[Duplicate])
    assert_type(model.senses("joy", MANY), Senses)
    assert_type(model.summarise(CONTEXT), Summary)
    assert_type(model.summarise(MANY, sentences=1), list[Summary])
    assert_type(model.summarise(iter(MANY)), Iterator[Summary])
    assert_type(model.skill("spam"), clearhead.Model)
    assert_type(model.skills, dict[str, Path])


def rerank(model: clearhead.Model) -> None:
    """A model with a head for pairs, or a skill for it, reranks."""
    assert_type(model.rerank("joy", MANY, top_k=1), list[Reranked])
    assert_type(model.rerank("joy", iter(MANY)), list[Reranked])
    assert_type(model.rerank([("joy", MANY)]), list[list[Reranked]])
    assert_type(model.rerank(iter([("joy", MANY)])), Iterator[list[Reranked]])


def choose(model: clearhead.Model) -> None:
    """A model with a head for it chooses."""
    assert_type(model.choose("a", ["b", "c"]), Choice)
    assert_type(model.choose([("a", ["b", "c"])]), list[Choice])
    assert_type(model.choose(iter([("a", ["b", "c"])])), Iterator[Choice])


def write(model: clearhead.Model) -> None:
    """A decoder, an encoder–decoder or a recurrent network writes."""
    assert_type(model.generate("a", max_new_tokens=4), Written)
    assert_type(model.generate("a", max_new_tokens=4).text, str)
    assert_type(model.generate(MANY, max_new_tokens=4, num_beams=2, no_repeat_ngram_size=2), list[Written])
    assert_type(model.generate(iter(MANY), max_new_tokens=4, top_p=0.9, seed=1), Iterator[Written])
    assert_type(model.generate("a", num_beams=2, num_return_sequences=2), list[Written])
    assert_type(model.generate(MANY, num_beams=2, num_return_sequences=1), list[list[Written]])
    assert_type(model.stream("a", max_new_tokens=4), Iterator[str])


def rewrite(model: clearhead.Model) -> None:
    """An encoder–decoder, or a recurrent network that reads a source, translates and summarises."""
    assert_type(model.translate("a"), Rewritten)
    assert_type(model.translate(MANY, num_beams=1), list[Rewritten])
    assert_type(model.translate(iter(MANY), prefix="b"), Iterator[Rewritten])
    assert_type(model.translate("a", num_return_sequences=3), list[Rewritten])
    assert_type(model.summarise("a", abstractive=True, max_new_tokens=9, min_new_tokens=2), Rewritten)
    assert_type(model.summarise(MANY, abstractive=True), list[Rewritten])
    assert_type(model.summarise("a", abstractive=True, num_return_sequences=2), list[Rewritten])


def ask(client: Client) -> None:
    """A service has the same types."""
    assert_type(client.fill(MASKED, top_k=3), Filled)
    assert_type(client.fill([MASKED]), list[Filled])
    assert_type(client.fill(iter([MASKED])), Iterator[Filled])
    assert_type(client.classify("a", skill="spam", model="built-in"), Classes)
    assert_type(client.classify([("a", "b")], top_k=1), list[Classes])
    assert_type(client.zero_shot("a", ["money", "animals"], multi_label=True), Classes)
    assert_type(client.compare("a", "b"), Classes)
    assert_type(client.compare("a", MANY), list[Classes])
    assert_type(client.compare(first=iter(MANY), second="b"), Iterator[Classes])
    assert_type(client.follows(MANY, "b"), list[NextSentence])
    assert_type(client.tag([["Ada", "lived"], "in London"]), list[Tagged])
    assert_type(client.answer(QUESTION, CONTEXT, top_k=2), Answer)
    assert_type(client.answer(QUESTION, [CONTEXT]), list[Answer])
    assert_type(client.answer(QUESTION, iter([CONTEXT])), Iterator[Answer])
    assert_type(client.answer(QUESTION, index="notes"), FoundAnswer)
    assert_type(client.answer([QUESTION], index="notes"), list[FoundAnswer])
    assert_type(client.choose("a", ["b", "c"]), Choice)
    assert_type(client.choose([("a", ["b", "c"])]), list[Choice])
    assert_type(client.embed(MANY, normalise=True, dimensions=64), NDArray[Any])
    assert_type(client.search("joy", MANY, top_k=1), list[Hit])
    assert_type(client.search(["joy"], index="notes"), list[list[Hit]])
    assert_type(client.rerank("joy", MANY), list[Reranked])
    assert_type(client.rerank([("joy", MANY)]), list[list[Reranked]])
    assert_type(client.summarise(CONTEXT, sentences=1), Summary)
    assert_type(client.summarise(MANY, abstractive=True, max_new_tokens=9), list[Rewritten])
    assert_type(client.translate("a", tgt_lang="fr"), Rewritten)
    assert_type(client.translate("a", num_return_sequences=3), list[Rewritten])
    assert_type(client.generate(MANY, max_new_tokens=4, top_p=0.9, seed=1), list[Written])
    assert_type(client.stream("a", max_new_tokens=4), Iterator[str])
    assert_type(client.models(), list[ServedModel])
    assert_type(client.asynchronous(), AsyncClient)


async def ask_later(client: AsyncClient) -> None:
    """To be awaited, and of an iterator an asynchronous one."""
    assert_type(await client.fill(MASKED), Filled)
    assert_type(await client.fill([MASKED], top_k=3), list[Filled])
    assert_type(client.fill(iter([MASKED])), AsyncIterator[Filled])
    assert_type(await client.compare("a", MANY), list[Classes])
    assert_type(await client.answer(QUESTION, CONTEXT), Answer)
    assert_type(await client.answer([QUESTION], index="notes"), list[FoundAnswer])
    assert_type(await client.embed("a"), NDArray[Any])
    assert_type(await client.search("joy", MANY), list[Hit])
    assert_type(await client.rerank("joy", MANY), list[Reranked])
    assert_type(await client.summarise(MANY), list[Summary])
    assert_type(await client.generate("a", num_return_sequences=2), list[Written])
    assert_type(client.stream("a"), AsyncIterator[str])


if __name__ == "__main__":
    understand(clearhead.load())
