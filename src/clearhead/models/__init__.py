"""One file per paper: configuration, encoder, heads, presets."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from clearhead.errors import keywords
from clearhead.models import (
    albert,
    bart,
    bert,
    deberta,
    distilbert,
    electra,
    elmo,
    gpt,
    m2m100,
    modernbert,
    mpnet,
    rnnlm,
    roberta,
    seq2seq,
    t5,
    transformer,
    word2vec,
    xlnet,
)


@dataclass(frozen=True)
class Family:
    """What a model file offers: its configuration, its encoder, and the heads that go with it.

    What a decoder calls its encoder is all of it but the head, the decoder's own blocks included.
    """

    config: type
    encoder: Callable[[Any], nn.Module]
    heads: Callable[..., dict[str, nn.Module]]


@dataclass(frozen=True)
class RecurrentFamily:
    """A model from before the Transformer: its configuration, and the one network that this makes."""

    config: type
    network: Callable[[Any], nn.Module]


# by the `model_type` of a published config.json
ENCODERS = {
    "albert": Family(albert.AlbertConfig, albert.Albert, albert.heads),
    "bert": Family(bert.BertConfig, bert.Bert, bert.heads),
    "deberta-v2": Family(deberta.DebertaV2Config, deberta.DebertaV2, deberta.heads),
    "distilbert": Family(distilbert.DistilBertConfig, distilbert.DistilBert, distilbert.heads),
    "electra": Family(electra.ElectraConfig, electra.Electra, electra.heads),
    "modernbert": Family(modernbert.ModernBertConfig, modernbert.ModernBert, modernbert.heads),
    "mpnet": Family(mpnet.MPNetConfig, mpnet.MPNet, mpnet.heads),
    "roberta": Family(roberta.RobertaConfig, roberta.Roberta, roberta.heads),
    # after the family that they are: a configuration of our own making goes by the first name of its class
    "camembert": Family(roberta.RobertaConfig, roberta.Roberta, roberta.heads),
    "xlm-roberta": Family(roberta.RobertaConfig, roberta.Roberta, roberta.heads),
}

# text generators, by the head "causal_lm"; see clearhead.decoding
GENERATORS = {
    "bart": Family(bart.BartConfig, bart.Bart, bart.heads),
    "gpt2": Family(gpt.Gpt2Config, gpt.Gpt2, gpt.heads),
    "m2m_100": Family(m2m100.M2M100Config, m2m100.M2M100, m2m100.heads),
    "marian": Family(transformer.TransformerConfig, transformer.Transformer, transformer.heads),
    "mbart": Family(bart.MBartConfig, bart.MBart, bart.heads),
    "t5": Family(t5.T5Config, t5.T5, t5.heads),
}

# encoders that predict words in any order, by the head "permutation_lm"
PERMUTATION_LMS = {"xlnet": Family(xlnet.XLNetConfig, xlnet.XLNet, xlnet.heads)}

ALL_FAMILIES = ENCODERS | GENERATORS | PERMUTATION_LMS

# models from before the Transformer, by the `model_type` of our own config.json
RECURRENT_FAMILIES = {
    **{name: RecurrentFamily(seq2seq.Seq2SeqConfig, build) for name, build in seq2seq.BUILD.items()},
    **{name: RecurrentFamily(rnnlm.RecurrentLMConfig, build) for name, build in rnnlm.BUILD.items()},
    "elmo": RecurrentFamily(elmo.ElmoConfig, elmo.Elmo),
    "word2vec": RecurrentFamily(word2vec.Word2VecConfig, word2vec.Word2Vec),
}

for _kind in {*(one.config for one in ALL_FAMILIES.values()), *(one.config for one in RECURRENT_FAMILIES.values())}:
    keywords(_kind)
