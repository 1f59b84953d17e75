# %% [markdown]
# # 4. Self-attention by hand
#
# Attention lets a decoder look at a source. Self-attention lets every word of a text look at every other word of the
# same text, all at once and without a recurrent network. Deck 004 begins with a form that has no parameters at all:
#
# > a<sub>ij</sub> = x<sub>i</sub>·x<sub>j</sub>, and each word becomes the mean of all, weighted by softmax(a)
#
# {{ clearhead.nn.attention.self_attention }}

# %%
import torch

from clearhead.nn.attention import scaled_dot_product, self_attention

x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
print(self_attention(x).numpy().round(2))
shuffled = torch.tensor([2, 0, 1])
assert torch.allclose(self_attention(x[shuffled]), self_attention(x)[shuffled])  # permutation-equivariant

# %% [markdown]
# The first two words are alike, so each becomes mostly the mean of both. Shuffle the words and the results are shuffled
# with them, nothing more: order is not seen. Positions (chapter 6) mend that.
#
# Now the form that every Transformer uses. Each word gets three roles by three learned matrices: a *query* (what I look
# for), a *key* (what I offer), a *value* (what I say):
#
# > q = x W<sup>Q</sup>, k = x W<sup>K</sup>, v = x W<sup>V</sup>; Z = softmax(Q K<sup>T</sup> / √d<sub>k</sub>) V
#
# {{ clearhead.nn.attention.scaled_dot_product }}
#
# The slide "Thinking Machines" prints the numbers: the scores of *Thinking* are 112 and 96, d<sub>k</sub> is 64, so they become 14
# and 12, and the softmax 0.88 and 0.12.

# %%
from clearhead.inside.by_hand import THINKING_MACHINES

slide = THINKING_MACHINES
q, k, v = (slide.x @ matrix[0] for matrix in (slide.query, slide.key, slide.value))
scores = q @ k.T
divided = scores / slide.key_width**0.5
weights = divided.softmax(-1)
print("scores ", scores[0].tolist())
print("divided", divided[0].tolist())
print("softmax", [round(one, 2) for one in weights[0].tolist()])
assert scores[0].tolist() == [112, 96]
assert divided[0].tolist() == [14, 12]
assert [round(one, 2) for one in weights[0].tolist()] == [0.88, 0.12]
print("z of Thinking", (weights @ v)[0].numpy().round(2))

# %% [markdown]
# Every number of that slide on one page, where you can change them:

# %%
from clearhead import inside

inside.by_hand()

# %% [markdown]
# ## Exercises
#
# **1.** Why divide by √d<sub>k</sub>? Draw queries and keys of 4, 64 and 1024 random features and look at the largest weight.

# %% tags=["solution"]
torch.manual_seed(0)
for width in (4, 64, 1024):
    q, k = torch.randn(200, width), torch.randn(8, width)
    raw, scaled = ((q @ k.T / by).softmax(-1).amax(-1).mean().item() for by in (1, width**0.5))
    print(f"{width:5} features: largest weight {raw:.2f} undivided, {scaled:.2f} divided")
assert raw > 0.95  # without the division one key takes all, and the softmax has no gradient left
assert scaled < 0.7

# %% [markdown]
# **2.** A decoder must not see the future. Which mask forbids it, and what are the first row's weights then?

# %% tags=["solution"]
from clearhead.nn.attention import causal_mask

allowed = causal_mask(3, torch.device("cpu"))
_, weights = scaled_dot_product(x, x, x, allowed)
print(weights.numpy().round(2))
assert weights[0].tolist() == [1, 0, 0]

# %% [markdown]
# **3.** Show that rows of weights add up to one, and that a word that may look at nothing gets zeros instead of NaN.

# %% tags=["solution"]
blind = allowed.clone()
blind[1] = False
mixed, weights = scaled_dot_product(x, x, x, blind)
assert torch.allclose(weights.sum(-1), torch.tensor([1.0, 0.0, 1.0]))
assert mixed[1].tolist() == [0, 0]
