"""Pre-training as ELECTRA does it: generator and discriminator together; and a discriminator that fills masks too."""

from collections.abc import Mapping

from torch import nn

from clearhead.data.batch import Batch
from clearhead.errors import BadConfig, require
from clearhead.nn.embeddings import FactorisedEmbeddings, inner_of
from clearhead.nn.heads import MaskedLMHead
from clearhead.nn.network import Network
from clearhead.objectives.loss import Loss
from clearhead.objectives.masked import masked_lm
from clearhead.objectives.pairs import count_pairs, sentence_pairs
from clearhead.objectives.replaced import WEIGHTS, corrupt, replaced_tokens, sample_tokens
from clearhead.training.tasks.run import answer, encode, fill, need_heads, read


class ReplacedTokens:
    """Fill masks, then find what was filled wrongly. Targets: where, labels. The two share their embeddings."""

    def __init__(self, generator: Network, discriminator: Network) -> None:
        need_heads(generator, "masked_lm", who="the generator")
        need_heads(discriminator, "replaced", who="the discriminator")
        share_embeddings(generator, discriminator)
        self.network: nn.Module = nn.ModuleDict({"generator": generator, "discriminator": discriminator})
        self.weights: Mapping[str, float] = WEIGHTS
        self.generator, self.discriminator = generator, discriminator

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the masked tokens, and all tokens."""
        return {"masked_lm": batch.targets["labels"].shape[0], "replaced": batch.tokens}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Run the generator on the masked text and the discriminator on what it made of it."""
        logits = fill(self.generator, encode(self.generator, batch), batch)
        corrupted = corrupt(batch, sample_tokens(logits))
        found = answer(self.discriminator, "replaced", corrupted)
        return {
            "masked_lm": masked_lm(logits, batch.targets["labels"]),
            "replaced": replaced_tokens(found, corrupted.targets["replaced"]),
        }


class ReplacedAndMasked:
    """ELECTRA for a model that is to fill masks as well: one masked place in five stays a mask for the discriminator.

    There its own masked-LM head is trained; everywhere else it finds what the generator replaced, a mask counting as
    replaced. Targets: where, labels, and next_sentence if there is such a head.
    """

    EVERY = 5  # at a rate of 15 %, 3 % of the tokens

    def __init__(self, generator: Network, discriminator: Network, mask_id: int) -> None:
        need_heads(generator, "masked_lm", who="the generator")
        need_heads(discriminator, "replaced", "masked_lm", who="the discriminator")
        share_embeddings(generator, discriminator)
        self.network: nn.Module = nn.ModuleDict({"generator": generator, "discriminator": discriminator})
        pairs = {"next_sentence": 1.0} if "next_sentence" in discriminator.heads else {}
        self.weights: Mapping[str, float] = {
            "generator": WEIGHTS["masked_lm"],
            "replaced": WEIGHTS["replaced"],
            "masked_lm": 1.0,
            **pairs,
        }
        self.generator, self.discriminator, self.mask_id = generator, discriminator, mask_id

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the masked tokens of both, all tokens, and perhaps the pairs."""
        masked = batch.targets["labels"].shape[0]
        counts = {"generator": masked, "replaced": batch.tokens, "masked_lm": -(-masked // self.EVERY)}
        if "next_sentence" in self.weights:
            counts["next_sentence"] = count_pairs(batch.targets["next_sentence"])
        return counts

    def losses(self, batch: Batch) -> dict[str, Loss]:
        """Run the generator on the masked text and the discriminator on what it made of it, with some masks left."""
        where, labels = batch.targets["where"], batch.targets["labels"]
        logits = fill(self.generator, encode(self.generator, batch), batch)
        sampled = sample_tokens(logits)
        sampled[:: self.EVERY] = self.mask_id
        corrupted = corrupt(batch, sampled)
        hidden = encode(self.discriminator, corrupted)
        found = read(self.discriminator, "replaced", hidden, corrupted)
        own = self.discriminator.heads["masked_lm"](hidden, batch.layout, where[:: self.EVERY])
        losses = {
            "generator": masked_lm(logits, labels),
            "replaced": replaced_tokens(found, corrupted.targets["replaced"]),
            "masked_lm": masked_lm(own, labels[:: self.EVERY]),
        }
        if "next_sentence" in self.weights:
            judged = read(self.discriminator, "next_sentence", hidden, batch)
            losses["next_sentence"] = sentence_pairs(judged, batch.targets["next_sentence"])
        return losses


def share_embeddings(generator: Network, discriminator: Network) -> None:
    """Give the generator the discriminator's embeddings (section 3.2), each projected to its own width if need be."""
    theirs, ours = (inner_of(network.encoder.embeddings) for network in (discriminator, generator))
    shapes = [{name: tuple(p.shape) for name, p in tables.named_parameters()} for tables in (ours, theirs)]
    require(
        shapes[0] == shapes[1],
        f"generator and discriminator share their embeddings, but have {shapes[0]} and {shapes[1]}; "
        "give both the same vocabulary, positions and embedding width",
        BadConfig,
    )
    if isinstance(generator.encoder.embeddings, FactorisedEmbeddings):
        generator.encoder.embeddings.inner = theirs
    else:
        generator.encoder.embeddings = theirs
    for head in generator.heads.values():
        if isinstance(head, MaskedLMHead):
            head.weight = theirs.token.weight
