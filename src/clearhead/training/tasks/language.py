"""Language modelling: masked, causal, permuted, replaced tokens, translation, word vectors."""

# N packed tokens · M masked or asked tokens · V vocabulary

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from clearhead.data.batch import Batch
from clearhead.errors import BadInput, require
from clearhead.nn.embeddings import FactorisedEmbeddings, inner_of
from clearhead.nn.heads import MaskedLMHead, Network
from clearhead.nn.layout import Packed, Padded
from clearhead.nn.memory import Memory
from clearhead.objectives import language as objectives
from clearhead.objectives.loss import Loss, count_targets, cross_entropy
from clearhead.training.tasks.task import HeadTask, answer, encode, fill, need_heads, read

Pairs = Literal["next_sentence", "sentence_order"]


class MaskedLM(HeadTask):
    """Fill masks. Targets: where, labels."""

    head = part = "masked_lm"
    targets = ("labels",)
    objective = staticmethod(objectives.masked_lm)

    def _logits(self, batch: Batch) -> Tensor:
        return fill(self.network, encode(self.network, batch), batch)


class MaskedLMWithPairs:
    """Fill masks and judge pairs with the head named `pairs`. Targets: where, labels, and the one named `pairs`."""

    def __init__(self, network: Network, pairs: Pairs) -> None:
        need_heads(network, "masked_lm", pairs)
        self.network: nn.Module = network
        self.pairs = pairs
        self.weights: Mapping[str, float] = {"masked_lm": 1.0, pairs: 1.0}

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the masked tokens and the pairs."""
        pairs = int(count_targets(batch.targets[self.pairs]))  # a text alone has IGNORE_INDEX
        return {"masked_lm": batch.targets["labels"].shape[0], self.pairs: pairs}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Run the encoder once and both heads on what it gives."""
        hidden = encode(self.network, batch)
        filled, judged = fill(self.network, hidden, batch), read(self.network, self.pairs, hidden, batch)
        return {
            "masked_lm": objectives.masked_lm(filled, batch.targets["labels"]),
            self.pairs: cross_entropy(judged, batch.targets[self.pairs]),
        }


class CausalLM(HeadTask):
    """The token after each, by a head "causal_lm" or by `network(ids, layout)`, which gives logits (N, V).

    Targets: next (N,), IGNORE_INDEX where there is none.
    """

    part, targets = "next", ("next",)
    objective = staticmethod(objectives.causal_lm)

    def _logits(self, batch: Batch) -> Tensor:
        head = ("causal_lm",) if isinstance(self.network, Network) else ()
        return self.network(*head, batch.ids, batch.layout)


class PromptedTranslation(CausalLM):
    """Each word of the target from its source, which stands before it, and the words between. Targets: next (N,)."""

    part = "words"

    def __init__(self, network: nn.Module, *, label_smoothing: float = 0.0) -> None:
        super().__init__(network)
        self.label_smoothing = label_smoothing

    def _loss(self, logits: Tensor, batch: Batch) -> Loss:
        return objectives.causal_lm(logits, batch.targets["next"], label_smoothing=self.label_smoothing)


class BidirectionalLM:
    """The token after each, and the one before. `network(ids, layout)` gives both logits. Targets: next, previous."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.weights: Mapping[str, float] = {"next": 0.5, "previous": 0.5}

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the tokens that have a neighbour."""
        return {name: int(count_targets(batch.targets[name])) for name in self.weights}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Cross-entropy of each token in each direction."""
        logits = zip(self.weights, self.network(batch.ids, batch.layout), strict=True)
        return {name: objectives.causal_lm(one, batch.targets[name]) for name, one in logits}


class Translation:
    """Each word of the target from its source and the words before. Targets: none but the ids; it needs a `source`.

    With `agreement`, every pair is read twice while the network learns, and both readings should say the same.
    """

    def __init__(self, network: nn.Module, *, label_smoothing: float = 0.0, agreement: float = 0.0) -> None:
        self.network = network
        self.weights: Mapping[str, float] = {"words": 1.0, "agreement": agreement} if agreement else {"words": 1.0}
        self.label_smoothing = label_smoothing

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the words of the targets."""
        return dict.fromkeys(self.weights, batch.tokens)

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Cross-entropy of each word."""
        twice = "agreement" in self.weights and self.network.training
        read = batch.twice() if twice else batch
        logits = write(self.network, read)
        words = objectives.causal_lm(logits, read.ids, label_smoothing=self.label_smoothing)
        if not twice:
            return {"words": words}
        return {"words": Loss(words.total / 2, batch.tokens, words.metrics), "agreement": objectives.agreement(logits)}


def write(network: Any, batch: Batch) -> Tensor:
    """Teacher forcing: logits (N, V) for `batch.ids`, each from `batch.source` and the ids before it.

    A network with a head "causal_lm" is given the ids after its start token; another does that itself.
    """
    if not isinstance(network, Network):
        return network(batch)
    before = batch.ids.roll(1).masked_fill(batch.layout.positions == 0, network.encoder.decoder_start_token_id)
    return network("causal_lm", before, batch.layout, batch.source)


class PermutationLM(HeadTask):
    """Each asked word from those before it in its text's order. Targets: place; the source's: rank.

    With `memory`, texts, all of one length, are read in segments of `segment` tokens, each of which knows so many
    tokens before it (Transformer-XL).
    """

    head, part = "permutation_lm", "words"

    def __init__(self, network: nn.Module, *, memory: int | None = None, segment: int = 0) -> None:
        super().__init__(network)
        self.memory, self.segment = memory, segment

    def _count(self, batch: Batch) -> int:
        return batch.tokens

    def _logits(self, batch: Batch) -> Tensor:
        if (text := batch.source) is None:
            raise BadInput("the batch holds questions and no text; make it with data.masking.PermutedBatches")
        network: Any = self.network
        if self.memory is not None:
            hidden = self._in_segments(network.encoder, batch, text, Memory(self.memory))
            return read(network, self.head, hidden, batch)
        counts = batch.layout.offsets.diff().long()
        firsts = text.layout.offsets[:-1].long().repeat_interleave(counts, output_size=batch.tokens)
        where, rank = firsts + batch.targets["place"], text.targets["rank"]
        hidden = network.encoder.guess(text.ids, text.layout, rank, where, batch.layout, text.segments)
        return read(network, self.head, hidden, batch)

    def _in_segments(self, encoder: Any, batch: Batch, text: Batch, memory: Memory) -> Tensor:
        """The queries' hidden states (M, D), segment after segment of all texts at once."""
        rows, length = text.layout.batch, self.segment
        counts = batch.layout.offsets.diff().long()
        row = torch.arange(rows, device=counts.device).repeat_interleave(counts, output_size=batch.tokens)
        place = batch.targets["place"]
        assert text.segments is not None  # noqa: S101
        cut = [part.view(rows, -1).split(length, 1) for part in (text.ids, text.targets["rank"], text.segments)]
        found, order = [], []
        for number, (ids, rank, segments) in enumerate(zip(*cut, strict=True)):
            mine = (place // length == number).nonzero().flatten()
            where = row[mine] * length + place[mine] % length
            asked = Packed.of(row[mine].bincount(minlength=rows).tolist(), ids.device)
            found.append(encoder.guess(ids, Padded.full(ids), rank, where, asked, segments, memory))
            order.append(mine)
        return torch.cat(found)[torch.cat(order).argsort()]

    def _loss(self, logits: Tensor, batch: Batch) -> Loss:
        return objectives.masked_lm(logits, batch.ids)


class ReplacedTokens:
    """ELECTRA: fill masks, then find what was filled wrongly, with shared embeddings. Targets: where, labels."""

    def __init__(self, generator: Network, discriminator: Network) -> None:
        need_heads(generator, "masked_lm", who="the generator")
        need_heads(discriminator, "replaced", who="the discriminator")
        share_embeddings(generator, discriminator)
        self.network: nn.Module = nn.ModuleDict({"generator": generator, "discriminator": discriminator})
        self.weights: Mapping[str, float] = objectives.WEIGHTS
        self.generator, self.discriminator = generator, discriminator

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the masked tokens, and all tokens."""
        return {"masked_lm": batch.targets["labels"].shape[0], "replaced": batch.tokens}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Run the generator on the masked text and the discriminator on what it made of it."""
        logits = fill(self.generator, encode(self.generator, batch), batch)
        corrupted = objectives.corrupt(batch, objectives.sample_tokens(logits))
        found = answer(self.discriminator, "replaced", corrupted)
        return {
            "masked_lm": objectives.masked_lm(logits, batch.targets["labels"]),
            "replaced": objectives.replaced_tokens(found, corrupted.targets["replaced"]),
        }


class ReplacedAndMasked(ReplacedTokens):
    """ELECTRA for a model that is to fill masks as well: one masked place in five stays a mask for the discriminator.

    There its own masked-LM head is trained; everywhere else it finds what the generator replaced, a mask counting as
    replaced. Targets: where, labels, and next_sentence if there is such a head.
    """

    EVERY = 5  # at a rate of 15 %, 3 % of the tokens

    def __init__(self, generator: Network, discriminator: Network, mask_id: int) -> None:
        need_heads(discriminator, "replaced", "masked_lm", who="the discriminator")
        super().__init__(generator, discriminator)
        pairs = {"next_sentence": 1.0} if "next_sentence" in discriminator.heads else {}
        both = self.weights
        self.weights = {"generator": both["masked_lm"], "replaced": both["replaced"], "masked_lm": 1.0, **pairs}
        self.mask_id = mask_id

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the masked tokens of both, all tokens, and perhaps the pairs."""
        masked = batch.targets["labels"].shape[0]
        counts = {"generator": masked, "replaced": batch.tokens, "masked_lm": -(-masked // self.EVERY)}
        if "next_sentence" in self.weights:
            counts["next_sentence"] = int(count_targets(batch.targets["next_sentence"]))
        return counts

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Run the generator on the masked text and the discriminator on what it made of it, with some masks left."""
        where, labels = batch.targets["where"], batch.targets["labels"]
        logits = fill(self.generator, encode(self.generator, batch), batch)
        sampled = objectives.sample_tokens(logits)
        sampled[:: self.EVERY] = self.mask_id
        corrupted = objectives.corrupt(batch, sampled)
        hidden = encode(self.discriminator, corrupted)
        found = read(self.discriminator, "replaced", hidden, corrupted)
        own = self.discriminator.heads["masked_lm"](hidden, batch.layout, where[:: self.EVERY])
        losses = {
            "generator": objectives.masked_lm(logits, labels),
            "replaced": objectives.replaced_tokens(found, corrupted.targets["replaced"]),
            "masked_lm": objectives.masked_lm(own, labels[:: self.EVERY]),
        }
        if "next_sentence" in self.weights:
            judged = read(self.discriminator, "next_sentence", hidden, batch)
            losses["next_sentence"] = cross_entropy(judged, batch.targets["next_sentence"])
        return losses


def share_embeddings(generator: Network, discriminator: Network) -> None:
    """Give the generator the discriminator's embeddings (section 3.2), each projected to its own width if need be."""
    theirs, ours = (inner_of(network.encoder.embeddings) for network in (discriminator, generator))
    has, needs = ({name: tuple(p.shape) for name, p in tables.named_parameters()} for tables in (ours, theirs))
    different = f"generator and discriminator share their embeddings, but have {has} and {needs}"
    require(has == needs, f"{different}; give both the same vocabulary, positions and embedding width")
    if isinstance(generator.encoder.embeddings, FactorisedEmbeddings):
        generator.encoder.embeddings.inner = theirs
    else:
        generator.encoder.embeddings = theirs
    for head in generator.heads.values():
        if isinstance(head, MaskedLMHead):
            head.weight = theirs.token.weight


class NegativeSampling(HeadTask):
    """Which word stood there? `network(ids, layout, candidates)` gives logits. Targets: candidates (M, 1 + K)."""

    part, targets = "word", ("candidates",)
    objective = staticmethod(objectives.negative_sampling)

    def _count(self, batch: Batch) -> int:
        return batch.layout.batch

    def _logits(self, batch: Batch) -> Tensor:
        return self.network(batch.ids, batch.layout, batch.targets["candidates"])
