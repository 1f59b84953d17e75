"""The pre-training page: dice for your own sentence, and what a real model makes of each mask.

Which tokens are chosen, and what stands in their place, is drawn by the code that trains models (`data/masking.py`).
"""

# T tokens · R rolls of the dice · V vocabulary

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from clearhead.data.batch import Batch
from clearhead.data.masking import Masking, Vocabulary, mask
from clearhead.data.rng import Stream, rng
from clearhead.errors import BadInput, WrongTask, keywords, require
from clearhead.inside.decoding import token_name
from clearhead.inside.page import LIMIT, View, check_length, rounded
from clearhead.nn.decoder import EncoderDecoder
from clearhead.nn.hooks import evaluating
from clearhead.pipelines.model import Model
from clearhead.text import Encoding
from clearhead.text.sentences import split_sentences

SCRIPTS = ("rolls.js", "main.js")
MOST_ROLLS = 50
CHOICES = {"pieces": Masking(), "words": Masking(whole_words=True), "spans": Masking(spans=True)}
GUESSES = 3
PAIRS = 5  # sentences that are paired
# sentences from elsewhere, for pairs that do not belong together
ELSEWHERE = (
    "Penguins are flightless birds.",
    "The train to Munich leaves at nine.",
    "Attention lets a decoder look back at every word.",
)


@keywords
def pretraining(model: Model, text: str, *, rolls: int = 12, seed: int = 0) -> View:
    """Show how a text is masked for pre-training, `rolls` times, and the model's loss at each mask.

    Beside it: pairs of sentences that follow one another or do not, tokens replaced by the model's own guesses, and
    spans as T5 writes them.
    """
    require(1 <= rolls <= MOST_ROLLS, f"rolls={rolls} cannot be shown; choose 1 to {MOST_ROLLS}", BadInput)
    sourced = hasattr(model, "encoder") and isinstance(model.encoder, EncoderDecoder)
    masked = hasattr(model, "encoder") and not sourced and "masked_lm" in model.network.heads
    told = f"a {model.family} without a masked-LM head hides no words; choose an encoder such as builtin:encoder"
    require(masked, told, WrongTask)
    encoding = model.tokenizer.encode(text)
    check_length(len(encoding), min(LIMIT, model.encoder.max_length))
    require(any(offset is not None for offset in encoding.offsets), "the text is empty; write a sentence", BadInput)
    found = {name: _rolled(model, encoding, masking, rolls, seed) for name, masking in CHOICES.items()}
    pairs = _pairs(model, text)
    data = {
        "family": model.family,
        "tokens": encoding.tokens,
        "special": [offset is None for offset in encoding.offsets],
        "rate": Masking().rate,
        "shares": [Masking().mask_share, Masking().random_share],
        "rolls": found,
        "replaced": _replaced(model, encoding, found["pieces"], seed),
        "pairs": pairs,
        "coins": _coins(len(pairs), rolls, seed),
    }
    return View.of("pretraining", "Pre-training", SCRIPTS, data)


def _rolled(model: Model, encoding: Encoding, masking: Masking, rolls: int, seed: int) -> list[dict[str, Any]]:
    """For each roll the chosen places, what stands there now, and what the model thinks of it."""
    vocabulary = Vocabulary.of(model.tokenizer)
    text = Batch.of([encoding.ids], [encoding.segments])
    drawn = [mask(text, vocabulary, masking, rng(Stream.MASKING, seed, roll)) for roll in range(rolls)]
    chosen = [one.targets["where"].tolist() for one in drawn]
    predicted = _predict(model, [one.ids.tolist() for one in drawn], encoding.segments, chosen)
    found = []
    for one, own in zip(drawn, predicted, strict=True):
        where, labels = one.targets["where"], one.targets["labels"]
        there = one.ids[where]
        best = own.topk(min(GUESSES, own.shape[-1]))
        fates = [
            "mask" if token == vocabulary.mask_id else "same" if token == label else "random"
            for token, label in zip(there.tolist(), labels.tolist(), strict=True)
        ]
        found.append(
            {
                "where": where.tolist(),
                "fates": fates,
                "there": [token_name(model.tokenizer, token) for token in there.tolist()],
                "losses": rounded(-own.gather(1, labels[:, None])[:, 0]),
                "guesses": [
                    [[token_name(model.tokenizer, i), p] for i, p in zip(row, shares, strict=True)]
                    for row, shares in zip(best.indices.tolist(), rounded(best.values.exp()), strict=True)
                ],
            }
        )
    return found


def _predict(
    model: Model, texts: Sequence[list[int]], segments: list[int], chosen: Sequence[Sequence[int]]
) -> list[Tensor]:
    """Log-probabilities (M, V) of the tokens at the chosen places of every text."""
    batch = Batch.of(list(texts), [segments] * len(texts)).to(model.device)
    starts = range(0, len(texts) * len(segments), len(segments))
    where = torch.tensor([start + place for start, places in zip(starts, chosen, strict=True) for place in places])
    with torch.inference_mode(), evaluating(model.network):
        hidden = model.encoder(batch.ids, batch.layout, batch.segments)
        logits = model.network.heads["masked_lm"](hidden, batch.layout, where.to(model.device))
    return list(logits.float().log_softmax(-1).cpu().split([len(places) for places in chosen]))


def _replaced(model: Model, encoding: Encoding, rolls: Sequence[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """ELECTRA's task: the masks filled by draws from the model itself; which tokens are no longer the writer's?"""
    draw = torch.Generator().manual_seed(seed)
    mask_id = model.tokenizer.mask_id
    texts = []
    for roll in rolls:
        ids = list(encoding.ids)
        for place in roll["where"]:
            ids[place] = mask_id
        texts.append(ids)
    filled = []
    chosen = [roll["where"] for roll in rolls]
    for places, ids, log_probs in zip(chosen, texts, _predict(model, texts, encoding.segments, chosen), strict=True):
        for place, own in zip(places, log_probs, strict=True):
            ids[place] = int(torch.multinomial(own.exp(), 1, generator=draw))
        filled.append(ids)
    found = _found(model, filled, encoding.segments)
    return [
        {
            "where": roll["where"],
            "there": [token_name(model.tokenizer, ids[place]) for place in roll["where"]],
            "replaced": [ids[place] != encoding.ids[place] for place in roll["where"]],
            "found": None if found is None else rounded(found[number], 3),
        }
        for number, (roll, ids) in enumerate(zip(rolls, filled, strict=True))
    ]


def _found(model: Model, texts: Sequence[list[int]], segments: list[int]) -> list[Tensor] | None:
    """The probability that each token was replaced, of a model that was trained to find them."""
    if "replaced" not in model.network.heads:
        return None
    batch = Batch.of(list(texts), [segments] * len(texts)).to(model.device)
    with torch.inference_mode(), evaluating(model.network):
        logits = model.network("replaced", batch.ids, batch.layout, batch.segments)
    return list(logits.float().sigmoid().cpu().split(batch.layout.lengths))


def _pairs(model: Model, text: str) -> list[dict[str, Any]]:
    """Every sentence with the next one and with one from elsewhere, and what the model says if it was taught."""
    sentences = [one.strip() for one in split_sentences(text) if one.strip()][:PAIRS]
    taught = "next_sentence" in model.network.heads
    found: list[dict[str, Any]] = []
    for number, first in enumerate(sentences):
        seconds = [(True, sentences[number + 1])] if number + 1 < len(sentences) else []
        seconds.append((False, ELSEWHERE[number % len(ELSEWHERE)]))
        if len(seconds) == 1 and found:
            break  # the last sentence was the second of a pair already
        options = [
            {
                "second": second,
                "follows": follows,
                "probability": round(model.follows(first, second).probability, 4) if taught else None,
            }
            for follows, second in seconds
        ]
        found.append({"first": first, "options": options})
    return found


def _coins(pairs: int, rolls: int, seed: int) -> list[list[bool]]:
    """For each roll, whether each pair is a true one: half of them are."""
    return [
        [bool(coin) for coin in rng(Stream.SENTENCE_PAIRS, seed, roll).random(pairs) < 0.5] for roll in range(rolls)
    ]
