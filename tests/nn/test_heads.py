import torch
from torch import nn
from torch.testing import assert_close

from clearhead.models.bert import PRESETS, Bert, heads
from clearhead.nn.heads import MaskedLMHead, SentenceVector
from clearhead.nn.layout import Packed, Padded

EVERY = {"masked_lm": 30522, "pooled": 128, "next_sentence": 2, "classes": 3, "choice": 1, "tags": 5, "span": 2}


def test_shapes_in_both_layouts():
    bert = Bert(PRESETS["tiny"]).eval()
    packed = Packed.of([4, 2])
    padded, rectangle = packed.pad(torch.randn(6, 128))
    for name, head in heads(bert, EVERY).items():
        head.eval()
        out = head(rectangle.pack(padded)[0], packed)
        per_token = name in ("masked_lm", "tags", "span")
        assert out.shape == ((6 if per_token else 2), EVERY[name])
        again = head(padded, rectangle)
        assert_close(again[rectangle.keep] if per_token else again, out, atol=1e-5, rtol=1e-5)


def test_masked_lm_only_where_asked():
    token = nn.Embedding(50, 8)
    head = MaskedLMHead(8, token, act="gelu", norm_eps=1e-12)
    nn.init.normal_(head.bias)
    x = torch.randn(2, 5, 8)
    everywhere = head(x, Padded.full(x[..., 0]))
    mask = torch.zeros(2, 5, dtype=torch.bool)
    mask[0, 3] = mask[1, 0] = True
    assert_close(head(x, Padded.full(x[..., 0]), where=mask), everywhere[mask])
    assert_close(head(x, Padded.full(x[..., 0]), where=torch.tensor([3, 5])), everywhere[mask])
    assert head.weight is token.weight


def test_building_heads_leaves_the_encoder_alone():
    bert = Bert(PRESETS["tiny"])
    before = bert.embeddings.token.weight.clone()
    built = heads(bert, EVERY)
    assert torch.equal(bert.embeddings.token.weight, before)
    assert built["classes"].pooler is built["next_sentence"].pooler is built["pooled"]


def test_sentence_vectors():
    layout = Packed.of([2, 3])
    x = torch.randn(5, 4)
    assert_close(SentenceVector("mean")(x, layout)[1], x[2:].mean(0))
    assert_close(SentenceVector("first", normalise=True)(x, layout).norm(dim=-1), torch.ones(2))
