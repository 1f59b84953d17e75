# %% [markdown]
# # 7. The Transformer
#
# Stack what we have. A block is attention, which moves information between words, and a feed-forward network, which
# works on each word alone; round both go a residual sum and a LayerNorm:
#
# > y = LayerNorm(x + MultiHead(x)), z = LayerNorm(y + W<sub>2</sub> max(0, W<sub>1</sub> y + b<sub>1</sub>) + b<sub>2</sub>)
#
# {{ clearhead.nn.blocks.PostNormBlock }}
#
# (The two lines under `can_fuse` are a faster way to the same numbers; a test holds that they agree.) The encoder of 2017
# is six of these, the decoder six with a causal mask and with cross-attention to the encoder in between. Width 512, eight
# heads of 64, feed-forward 2048:

# %%
import torch

from clearhead.models.transformer import PRESETS, Transformer

base = PRESETS["base"]
with torch.device("meta"):  # shapes without numbers
    network = Transformer(base)
count = sum(part.numel() for part in network.parameters())
print(f"{base.encoder_layers}+{base.decoder_layers} blocks, width {base.d_model}, {base.encoder_attention_heads} heads")
print(
    f"{count / 1e6:.0f} million parameters, of which {base.vocab_size * base.d_model / 1e6:.0f} in the table of words"
)

# %% [markdown]
# ## Why the residual sums
#
# Attention mixes words, and what is mixed again and again becomes the same everywhere (Dong et al. 2021). The sum x + …
# keeps each word's own vector on its way. Build twelve untrained blocks both ways, and look how alike ten random words have become:

# %%
from functools import partial

from torch import nn

from clearhead.nn.attention import MultiHeadAttention
from clearhead.nn.blocks import FeedForward, PostNormBlock
from clearhead.nn.layout import Packed


class NoResidual(PostNormBlock):
    def forward(self, x, layout, *given):
        return self.norm_2(self.feedforward(self.norm_1(self.attention(x, layout))))


def alike(block: type) -> float:
    torch.manual_seed(0)
    x = torch.randn(10, 64)
    with torch.inference_mode():
        for _ in range(12):
            attention, feedforward = MultiHeadAttention(64, 4), FeedForward(64, 256, act="gelu")
            x = block(attention, feedforward, partial(nn.LayerNorm, 64), dropout=0.0)(x, Packed.of([10]))
        unit = nn.functional.normalize(x, dim=-1)
        return ((unit @ unit.T).sum().item() - 10) / 90  # the mean over pairs of different words


with_sums, without = alike(PostNormBlock), alike(NoResidual)
print(f"mean cosine of two words after twelve blocks: {with_sums:.3f} with residual sums, {without:.3f} without")
assert without > 0.99
assert with_sums < without

# %% [markdown]
# In the built-in encoder the residual stream can be watched from layer to layer: what each token means after each
# block, guessed by the head that fills masks.

# %%
import clearhead as ch
from clearhead import inside

model = ch.load()
inside.through_layers(model, "The capital of France is [MASK].")

# %% [markdown]
# ## Exercises
#
# **1.** A LayerNorm gives every token mean 0 and variance 1. Show it for a fresh one, and say what its two parameters are for.

# %% tags=["solution"]
norm = nn.LayerNorm(64)
y = norm(5 + 3 * torch.randn(10, 64))
assert torch.allclose(y.mean(-1), torch.zeros(10), atol=1e-5)
assert torch.allclose(y.var(-1, unbiased=False), torch.ones(10), atol=1e-3)
# weight and bias let the network undo it where that is better

# %% [markdown]
# **2.** How many multiplications does attention need for n tokens of width D, and how many the feed-forward? From which
# length on does attention cost more?

# %% tags=["solution"]
# attention: 4·n·D² for its matrices, 2·n²·D for scores and sums; feed-forward: 8·n·D² (inner width 4·D)
width = 512
cost = {n: (4 * n * width**2 + 2 * n * n * width, 8 * n * width**2) for n in (128, 512, 1024, 2048)}
print({n: round(a / f, 2) for n, (a, f) in cost.items()})
assert cost[1024][0] == cost[1024][1]  # at n = 2·D

# %% [markdown]
# **3.** The encoder keeps the shape. Check that a block gives n × D for n × D, for one text and for two packed ones, and
# that a text's numbers do not depend on its neighbour.

# %% tags=["solution"]
torch.manual_seed(0)
block = PostNormBlock(
    MultiHeadAttention(64, 4), FeedForward(64, 256, act="gelu"), partial(nn.LayerNorm, 64), 0.0
).eval()
x = torch.randn(7, 64)
with torch.inference_mode():
    alone, together = block(x[:3], Packed.of([3])), block(x, Packed.of([3, 4]))
assert together.shape == (7, 64)
assert torch.allclose(alone, together[:3], atol=1e-5)
