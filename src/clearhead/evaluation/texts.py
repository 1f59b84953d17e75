"""How well a model knows plain text: the perplexity of masked tokens, or of each next one."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from clearhead.data.batch import Batch
from clearhead.data.encoded import Writer, ids_of
from clearhead.data.masking import Masking, Vocabulary, mask
from clearhead.data.source import rng
from clearhead.errors import BadInput, WrongTask, require
from clearhead.evaluation.perplexity import perplexity
from clearhead.nn.decoder import EncoderDecoder
from clearhead.nn.network import Network
from clearhead.objectives.causal import IGNORE, causal_lm
from clearhead.objectives.loss import Loss
from clearhead.objectives.masked import masked_lm
from clearhead.pipelines.batches import token_budgets
from clearhead.pipelines.model import Model

TOKENS = 4096  # of a batch
LONGEST = 512  # tokens of a sequence: of a model that knows no bound, too


@torch.inference_mode()
def evaluate_texts(
    model: Model, texts: Sequence[str], *, progress: Callable[[int], None] = lambda _: None
) -> dict[str, float]:
    """Perplexity of the tokens asked for, and how many of them are guessed right, in percent.

    A masked model is asked for 15 % of the tokens, chosen and hidden as in training and always the same; one that
    writes, for every token after the first. A longer text than the model reads is cut into several, and all counts.
    """
    losses = []
    for batch in _batches(model, texts):
        losses.append(_loss(model, batch))
        progress(batch.tokens)
    counts = [int(loss.count) for loss in losses]
    right = sum(int(loss.metrics["accuracy"][0]) for loss in losses)
    found = perplexity([float(loss.total) for loss in losses], counts)
    return {"perplexity": found, "accuracy": 100 * right / sum(counts), "tokens": sum(counts)}


def _batches(model: Model, texts: Sequence[str]) -> Iterator[Batch]:
    """Packed texts with their special tokens, and what is asked for."""
    heads = model.network.heads if isinstance(model.network, Network) else ()
    masked = "masked_lm" in heads
    writes = "causal_lm" in heads and not isinstance(model.encoder, EncoderDecoder)
    require(masked or writes, "this model guesses no tokens; choose one with a masked-LM head, or a GPT", WrongTask)
    template = model.tokenizer.template
    room = min(model.encoder.max_length, LONGEST) - template.specials(pair=False)
    writer = Writer(template)
    for ids in ids_of(model.tokenizer, texts):
        for start in range(0, len(ids), room):
            writer.add(ids[start : start + room])
    encoded = writer.done()
    require(encoded.tokens > 0, "the texts have no tokens; give some that are not empty", BadInput)
    vocabulary = Vocabulary.of(model.tokenizer) if masked else None
    for number, items in enumerate(token_budgets(encoded.lengths().tolist(), TOKENS)):
        batch = encoded.batch(np.array(items))
        yield batch if vocabulary is None else mask(batch, vocabulary, Masking(), rng(0, number))


def _loss(model: Model, batch: Batch) -> Loss:
    batch = batch.to(model.device)
    hidden = model.encoder(batch.ids, batch.layout, batch.segments)
    if "where" in batch.targets:
        logits = model.network.heads["masked_lm"](hidden, batch.layout, batch.targets["where"])
        return masked_lm(logits, batch.targets["labels"])
    following = batch.ids.roll(-1).masked_fill(batch.layout.positions.roll(-1) == 0, IGNORE)
    return causal_lm(model.network.heads["causal_lm"](hidden, batch.layout), following)
