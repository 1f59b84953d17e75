# %% [markdown]
# # 6. Positions
#
# Self-attention sees a bag of words: *dog bites man* and *man bites dog* give the same vectors in another order. The 2017
# paper adds a table of sines and cosines to the words, each pair of features a clock of its own speed:
#
# > PE(pos, 2i) = sin(pos / 10000<sup>2i/D</sup>), PE(pos, 2i+1) = cos(pos / 10000<sup>2i/D</sup>)
#
# {{ clearhead.nn.positions.sinusoidal_interleaved }}
#
# Deck 000 draws the table for D = 4 in another layout, all sines first, with speeds from 1 down to 1/10000:
#
# {{ clearhead.nn.positions.sinusoidal_split }}

# %%
import torch

from clearhead.nn.positions import Rotary, sinusoidal_interleaved, sinusoidal_split

for row in sinusoidal_split(3, 4).tolist():
    print([round(one, 4) for one in row])
assert torch.allclose(
    sinusoidal_split(3, 4),
    torch.tensor([[0, 0, 1, 1], [0.84, 0.0001, 0.54, 1], [0.91, 0.0002, -0.42, 1]]),
    atol=5e-3,
)

# %% [markdown]
# Those are the slide's numbers. What the table is good for: the dot product of two rows depends on how far apart they
# are, so that "three words back" can be looked for.

# %%
table = sinusoidal_interleaved(64, 64)
for distance in (0, 1, 4, 16):
    near = [(table[i] @ table[i + distance]).item() for i in (0, 10, 40)]
    print(f"{distance:3} apart:", [round(one, 3) for one in near])
assert torch.isclose(table[0] @ table[4], table[40] @ table[44], atol=1e-4)

# %% [markdown]
# BERT learns a vector for each position instead. The built-in encoder has *rotary* positions (2021): queries and keys
# are turned by an angle that grows with their position, so that the score depends on the distance alone.

# %%
rotary = Rotary(8, 10000.0, 64)
torch.manual_seed(0)
q, k = torch.randn(1, 1, 8), torch.randn(1, 1, 8)


def score(at: int, other: int) -> float:
    turned_q, _ = rotary(q, q, torch.tensor([at]))
    turned_k, _ = rotary(k, k, torch.tensor([other]))
    return (turned_q * turned_k).sum().item()


print([round(score(at, at + 3), 4) for at in (0, 7, 30)])
assert abs(score(0, 3) - score(30, 33)) < 1e-4

# %%
from clearhead import inside

inside.position_tables()

# %% [markdown]
# ## Exercises
#
# **1.** Without positions, swapping two words only swaps their vectors. Show it with `self_attention`, then add the
# table and show that it no longer holds.

# %% tags=["solution"]
from clearhead.nn.attention import self_attention

words, swap = torch.randn(3, 64), torch.tensor([2, 1, 0])
assert torch.allclose(self_attention(words[swap]), self_attention(words)[swap], atol=1e-5)
placed = table[:3]
assert not torch.allclose(self_attention(words[swap] + placed), self_attention(words + placed)[swap], atol=1e-2)

# %% [markdown]
# **2.** All rows of the sinusoidal table have the same length. Which, and why?

# %% tags=["solution"]
assert torch.allclose(table.norm(dim=-1), torch.tensor(32.0).sqrt())  # sin² + cos² = 1, for each of D/2 pairs

# %% [markdown]
# **3.** PE(pos + 1) is a fixed linear map of PE(pos). Find the 2 × 2 matrix for the first pair of features.

# %% tags=["solution"]
one = torch.tensor(1.0)
turn = torch.stack([torch.stack([one.cos(), one.sin()]), torch.stack([-one.sin(), one.cos()])])
assert torch.allclose(table[:-1, :2] @ turn.T, table[1:, :2], atol=1e-4)
