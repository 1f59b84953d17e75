# %% [markdown]
# # 5. Heads
#
# One softmax can point at one thing at a time. A word wants several: its noun, its verb, the word before. So attention is
# done H times side by side, each head with narrower matrices of its own; the results are put next to each other,
# n × (H·d), and multiplied by W<sup>O</sup>, back to n × D.
#
# > head<sub>i</sub> = softmax(x W<sub>i</sub><sup>Q</sup> (x W<sub>i</sub><sup>K</sup>)<sup>T</sup> / √d) x W<sub>i</sub><sup>V</sup>
# >
# > MultiHead(x) = [head<sub>1</sub> … head<sub>H</sub>] W<sup>O</sup>
#
# {{ clearhead.nn.attention.MultiHeadAttention.forward }}

# %%
import torch

from clearhead.nn.attention import MultiHeadAttention, scaled_dot_product
from clearhead.nn.layout import Packed

torch.manual_seed(0)
attention = MultiHeadAttention(width=512, heads=8).eval()
x = torch.randn(5, 512)
with torch.inference_mode():
    out = attention(x, Packed.of([5]))
print(tuple(x.shape), "->", tuple(out.shape))

# the same by hand, head after head
q, k, v = (x @ attention.qkv.weight.T + attention.qkv.bias).unflatten(-1, (3, 8, 64)).unbind(1)
heads = [scaled_dot_product(q[:, h], k[:, h], v[:, h])[0] for h in range(8)]
by_hand = torch.cat(heads, -1) @ attention.output.weight.T + attention.output.bias
assert torch.allclose(out, by_hand, atol=1e-5)
print("eight heads of 64, one matrix behind them:", tuple(torch.cat(heads, -1).shape))

# %% [markdown]
# ## What heads learn
#
# Nobody tells a head what to look for. In the lectures' sentence, which head links *it* to *animal*?

# %%
import clearhead as ch

model = ch.load()
traced = ch.trace(model, "The animal didn't cross the street because it was too tired")
for link in traced.links("it", "animal")[:3]:
    print(f"layer {link.layer}, head {link.head}: it looks at animal with {link.weight:.2f}")
best = traced.links("it", "animal")[0]
row = traced.attention(best.layer, best.head)[traced.position("it")]
assert traced.tokens[int(row.argmax())] == "animal"

# %% [markdown]
# The page below opens there. Choose another token, layer or head; most heads are less telling than this one, and a
# picture of attention is no proof of what the model decided by (deck 002: *attention is not explanation*; `inside.why`
# and `clearhead look why` measure that).

# %%
traced.heads(best.layer, best.head)

# %% [markdown]
# ## Exercises
#
# **1.** Change *tired* into *wide*. Where does the same head look now?

# %% tags=["solution"]
wide = ch.trace(model, "The animal didn't cross the street because it was too wide")
row = wide.attention(best.layer, best.head)[wide.position("it")]
print([(wide.tokens[i], round(row[i].item(), 2)) for i in row.argsort(descending=True)[:3].tolist()])
assert abs(row.sum().item() - 1) < 1e-4

# %% [markdown]
# **2.** Many heads look at the word before. Find the head that does so most, over all words of the sentence.

# %% tags=["solution"]
before = {
    (layer.index, head): layer.attention(head).diagonal(-1).mean().item()
    for layer in traced.layers
    for head in range(layer.heads)
}
chosen = max(before, key=before.get)
print("layer and head", chosen, "look at the word before with", round(before[chosen], 2), "on average")
assert before[chosen] > 0.3

# %% [markdown]
# **3.** Do eight heads of 64 have more parameters than one of 512?

# %% tags=["solution"]
one = MultiHeadAttention(width=512, heads=1)
count = [sum(part.numel() for part in parts.parameters()) for parts in (attention, one)]
print(count)
assert count[0] == count[1]
