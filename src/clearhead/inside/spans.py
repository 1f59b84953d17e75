"""Where an answer may start and end: the probabilities that a question-answering head gives to every token."""

from typing import Any

import torch

from clearhead.data.batch import Batch
from clearhead.inside.numbers import rounded
from clearhead.nn.record import evaluating
from clearhead.pipelines.engine import check_head
from clearhead.pipelines.model import Model


def span_scores(model: Model, question: str, context: str) -> dict[str, Any] | None:
    """The tokens of the context with their probabilities to be the start and the end; None if they do not fit at once.

    The rest of the probability lies on the other tokens, most of it on the first, which stands for "no answer".
    """
    check_head(model.network, "span")
    encoding = model.tokenizer.encode(question, context)
    if len(encoding) > model.encoder.max_length:
        return None
    batch = Batch.of([encoding.ids], [encoding.segments]).to(model.device)
    with torch.no_grad(), evaluating(model.network):
        logits = model.network("span", batch.ids, batch.layout, batch.segments)  # (T, 2)
    own = encoding.parts[1]
    start, end = logits.float().softmax(0)[own.start : own.stop].T
    return {"tokens": encoding.tokens[own.start : own.stop], "start": rounded(start), "end": rounded(end)}
