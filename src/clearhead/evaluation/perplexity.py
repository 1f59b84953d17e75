"""Perplexity of plain text: of masked tokens, or of each next one."""

# B rows · T tokens of a segment

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch

from clearhead.data.batch import IGNORE_INDEX, Batch, chunks, group_by_length
from clearhead.data.dataset import DatasetBuilder, TokenizedDataset, ids_of
from clearhead.data.masking import Masking, Vocabulary, mask
from clearhead.data.pretraining import next_tokens
from clearhead.data.rng import Stream, rng
from clearhead.errors import BadInput, WrongTask, check_lengths, require
from clearhead.io import Progress, in_wholes
from clearhead.models import RECURRENT_FAMILIES
from clearhead.models.rnnlm import RecurrentLM
from clearhead.nn.decoder import EncoderDecoder
from clearhead.nn.layout import Packed, Padded
from clearhead.nn.memory import Memory
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
def evaluate_texts(
    model: Model, texts: Sequence[str], *, memory: int = 0, progress: Progress | None = None
) -> dict[str, float]:
    """Perplexity of the tokens asked for, and how many of them are guessed right, in percent.

    A masked model is asked for 15 % of the tokens, chosen and hidden as in training and always the same; one that
    writes, and XLNet from left to right, for every token after the first. A longer text than the model reads is cut
    into several, and all counts. With `memory` each of these knows so many tokens before it: XLNet by what its layers
    were given of them (Transformer-XL); a GPT, whose positions count from a text's beginning, reads them again.
    """
    require(memory >= 0, f"a memory of {memory} tokens is none; give 1 or more, or leave it out", BadInput)
    if "permutation_lm" in getattr(model.network, "heads", ()):
        found = _from_the_left(model, texts, memory)
        total = sum(map(len, model.tokenizer.ids_batch(list(texts))))
    else:
        ask, encoded = _way_to_ask(model, memory), _encoded(model, texts, memory)
        batches = (encoded.batch(items) for items in group_by_length(encoded.lengths(), TOKENS))
        found = ((ask(batch, number), batch.tokens) for number, batch in enumerate(batches))
        total = encoded.tokens
    progress = in_wholes(progress, total, len(texts))
    losses = []
    for loss, tokens in found:
        losses.append(loss)
        if progress is not None:
            progress(tokens)
    counts = [int(loss.count) for loss in losses]
    right = sum(int(loss.metrics["accuracy"][0]) for loss in losses)
    figure = perplexity([float(loss.total) for loss in losses], counts)
    return {"perplexity": figure, "accuracy": 100 * right / sum(counts), "tokens": sum(counts)}


def _way_to_ask(model: Model, memory: int) -> Ask:
    """For hidden tokens, or for each next one; a model that guesses neither is refused."""
    heads = getattr(model.network, "heads", ())  # a recurrent network has none
    remembers = not memory or "causal_lm" in heads
    require(remembers, f"memory={memory} is for XLNet and GPT, not for {model.family}; leave it out", BadInput)
    if "masked_lm" in heads:
        return partial(_hidden_tokens, model, Vocabulary.of(model.tokenizer))
    writes = "causal_lm" in heads and not isinstance(model.encoder, EncoderDecoder)
    message = "this model guesses no tokens; choose one with a masked-LM head, a GPT, or a recurrent language model"
    require(writes or isinstance(model.network, RecurrentLM), message, WrongTask)
    return partial(_next_tokens, model)


def _encoded(model: Model, texts: Sequence[str], memory: int) -> TokenizedDataset:
    """The texts with their special tokens, cut where they are too long, each part behind `memory` tokens before it.

    Its target `asked` is 0 where a token is there to be remembered.
    """
    longest = LONGEST if model.family in RECURRENT_FAMILIES else min(model.encoder.max_length, LONGEST)
    template = model.tokenizer.template
    room = longest - template.specials(pair=False) - memory
    told = f"a memory of {memory} tokens leaves no room for others among the {longest} that are read at once"
    require(room > 0, f"{told}; give fewer than {longest // 2}", BadInput)
    writer, asked = DatasetBuilder(template), array("b")
    before, after = (len(part) for part in template.around_text)
    for ids in ids_of(model.tokenizer, texts):
        for start in range(0, len(ids), room):
            old, new = ids[max(start - memory, 0) : start], ids[start : start + room]
            writer.add([*old, *new])
            asked.extend([1] * before + [0] * len(old) + [1] * (len(new) + after))
    encoded = writer.build(token_targets={"asked": np.array(asked)} if memory else None)
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
    logits, labels = model.network(*head, batch.ids, batch.layout), next_tokens(batch.ids, batch.layout)
    if "asked" in batch.targets:
        labels = labels.masked_fill(batch.targets["asked"].roll(-1) == 0, IGNORE_INDEX)
    return causal_lm(logits, labels)


def _from_the_left(model: Model, texts: Sequence[str], memory: int) -> Iterator[tuple[Loss, int]]:
    """XLNet's words in the order in which they stand, each from those before it, segment after segment of each text.

    Gives losses, and how many tokens were read for each. A text's first token is not asked for, nor, without a memory,
    a segment's.
    """
    read = sorted((ids for ids in ids_of(model.tokenizer, texts) if len(ids)), key=len, reverse=True)
    require(bool(read), "the texts have no tokens; give some that are not empty", BadInput)
    for rows in chunks(read, max(TOKENS // LONGEST, 1)):
        kept = Memory(memory) if memory else None
        for start in range(0, len(rows[0]), LONGEST):
            going = [ids[start : start + LONGEST] for ids in rows if len(ids) > start]  # the longest are the first
            if kept is not None:
                kept.select(torch.arange(len(going), device=model.device))
            first = 1 if kept is None or start == 0 else 0
            yield _segment(model, going, first, kept), sum(map(len, going))


def _segment(model: Model, rows: Sequence[Sequence[int]], first: int, memory: Memory | None) -> Loss:
    """Ask for the words of a segment in each row, from the `first` on."""
    lengths, device = [len(ids) for ids in rows], model.device
    ids = torch.zeros(len(rows), max(lengths), dtype=torch.int64)
    for row, own in enumerate(rows):
        ids[row, : len(own)] = torch.as_tensor(own)
    column = torch.arange(ids.shape[1])
    keep = column < torch.tensor(lengths)[:, None]
    where = (keep & (column >= first)).flatten().nonzero().flatten()
    rank = (column + 1 - first).expand_as(ids)  # rank 0 is seen by all, and not asked for
    asked = Packed.of([length - first for length in lengths], device)
    hidden = model.encoder.guess(
        ids.to(device), Padded.of(keep.to(device)), rank.to(device), where.to(device), asked, memory=memory
    )
    logits = model.network.heads["permutation_lm"](hidden, asked)
    return causal_lm(logits, ids.flatten()[where].to(device))
