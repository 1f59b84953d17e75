"""Perplexity of plain text: of masked tokens, or of each next one."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch

from clearhead.data.batch import Batch, group_by_length
from clearhead.data.dataset import DatasetBuilder, TokenizedDataset, ids_of
from clearhead.data.masking import Masking, Vocabulary, mask
from clearhead.data.pretraining import next_tokens
from clearhead.data.rng import Stream, rng
from clearhead.errors import BadInput, WrongTask, check_lengths, require
from clearhead.io import Progress, in_wholes
from clearhead.models import RECURRENT_FAMILIES
from clearhead.models.rnnlm import RecurrentLM
from clearhead.nn.decoder import EncoderDecoder
from clearhead.objectives.language import causal_lm, masked_lm
from clearhead.objectives.loss import Loss
from clearhead.pipelines.model import Model


def perplexity(losses: Sequence[float], counts: Sequence[int]) -> float:
    """exp of the mean negative log-likelihood (natural logarithm) of the predicted tokens.

    losses: the sum over each batch; counts: its predicted tokens. For a masked model these are the masked tokens, so
    two of them compare only at the same masking rate and vocabulary.
    """
    check_lengths(losses, counts, "counts")
    total, tokens = math.fsum(losses), sum(counts)
    some = min(counts) >= 0 and tokens > 0
    require(some, f"No token is to be guessed: the counts add up to {tokens} tokens; give longer texts.", BadInput)
    require(math.isfinite(total), f"The losses add up to {total}; a perplexity needs a finite sum.", BadInput)
    try:
        return math.exp(total / tokens)
    except OverflowError:
        return math.inf


TOKENS = 4096  # of a batch
LONGEST = 512  # tokens of a sequence: of a model that knows no bound, too

Ask = Callable[[Batch, int], Loss]  # a batch and its number


@torch.inference_mode()
def evaluate_texts(model: Model, texts: Sequence[str], *, progress: Progress | None = None) -> dict[str, float]:
    """Perplexity of the tokens asked for, and how many of them are guessed right, in percent.

    A masked model is asked for 15 % of the tokens, chosen and hidden as in training and always the same; one that
    writes, for every token after the first. A longer text than the model reads is cut into several, and all counts.
    """
    ask = _way_to_ask(model)
    encoded = _encoded(model, texts)
    progress = in_wholes(progress, encoded.tokens, len(texts))
    losses = []
    for number, items in enumerate(group_by_length(encoded.lengths(), TOKENS)):
        batch = encoded.batch(items)
        losses.append(ask(batch, number))
        if progress is not None:
            progress(batch.tokens)
    counts = [int(loss.count) for loss in losses]
    right = sum(int(loss.metrics["accuracy"][0]) for loss in losses)
    found = perplexity([float(loss.total) for loss in losses], counts)
    return {"perplexity": found, "accuracy": 100 * right / sum(counts), "tokens": sum(counts)}


def _way_to_ask(model: Model) -> Ask:
    """For hidden tokens, or for each next one; a model that guesses neither is refused."""
    heads = getattr(model.network, "heads", ())  # a recurrent network has none
    if "masked_lm" in heads:
        return partial(_hidden_tokens, model, Vocabulary.of(model.tokenizer))
    writes = "causal_lm" in heads and not isinstance(model.encoder, EncoderDecoder)
    message = "this model guesses no tokens; choose one with a masked-LM head, a GPT, or a recurrent language model"
    require(writes or isinstance(model.network, RecurrentLM), message, WrongTask)
    return partial(_next_tokens, model)


def _encoded(model: Model, texts: Sequence[str]) -> TokenizedDataset:
    """The texts with their special tokens, cut where they are too long."""
    longest = LONGEST if model.family in RECURRENT_FAMILIES else min(model.encoder.max_length, LONGEST)
    template = model.tokenizer.template
    room = longest - template.specials(pair=False)
    writer = DatasetBuilder(template)
    for ids in ids_of(model.tokenizer, texts):
        for start in range(0, len(ids), room):
            writer.add(ids[start : start + room])
    encoded = writer.build()
    require(encoded.tokens > 0, "the texts have no tokens; give some that are not empty", BadInput)
    return encoded


def _hidden_tokens(model: Model, vocabulary: Vocabulary, batch: Batch, number: int) -> Loss:
    batch = mask(batch, vocabulary, Masking(), rng(Stream.EVALUATION, number)).to(model.device)
    hidden = model.encoder(batch.ids, batch.layout, batch.segments)
    logits = model.network.heads["masked_lm"](hidden, batch.layout, batch.targets["where"])
    return masked_lm(logits, batch.targets["labels"])


def _next_tokens(model: Model, batch: Batch, number: int) -> Loss:
    batch = batch.to(model.device)
    head = () if model.family in RECURRENT_FAMILIES else ("causal_lm",)
    logits = model.network(*head, batch.ids, batch.layout)
    return causal_lm(logits, next_tokens(batch.ids, batch.layout))
