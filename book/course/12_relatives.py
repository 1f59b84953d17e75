# %% [markdown]
# # 12. BERT's relatives
#
# After 2018 came a family. Most of its members change one thing, and the package has each in one file. What they change can be
# counted, with V words, width D, L layers and a feed-forward of 4·D:
#
# > parameters ≈ V·D + L·12·D<sup>2</sup>; ALBERT: V·128 + 128·D + 12·D<sup>2</sup>

# %%
import torch

from clearhead.models import ENCODERS, GENERATORS, albert, bert, distilbert, electra


def millions(family: str, config: object) -> float:
    kind = {**ENCODERS, **GENERATORS}[family]
    with torch.device("meta"):  # shapes alone
        network = kind.encoder(config)
    return sum(part.numel() for part in network.parameters()) / 1e6


counted = {
    "BERT-base": millions("bert", bert.PRESETS["base"]),
    "BERT-large": millions("bert", bert.PRESETS["large"]),
    "ALBERT-base": millions("albert", albert.PRESETS["base"]),
    "DistilBERT": millions("distilbert", distilbert.PRESETS["base"]),
    "ELECTRA-small": millions("electra", electra.PRESETS["small"]),
}
for name, count in counted.items():
    print(f"{name:14} {count:6.1f} million")
assert 105 < counted["BERT-base"] < 111
assert 330 < counted["BERT-large"] < 341

# %% [markdown]
# BERT-base and -large are the lectures' 110 and 340 million (with the pooler). **ALBERT** shares one layer's numbers among all twelve, and its
# table of words is factorised, V × 128 × D:
#
# {{ clearhead.models.albert.Albert }}
#
# **DistilBERT** has half of the layers and learns to say what its teacher says: soft targets, not only the right word.
# **ELECTRA** is asked about *every* token: a small generator replaces some, the model tells which.

# %%
import clearhead as ch

model = ch.load()
text = "The chef [MASK] the meal."
guess = model.fill(text, top_k=3).predictions
print("a generator might write:", [one.token for one in guess])
# the built-in encoder was pre-trained on replaced tokens, masks and next sentences together

# %% [markdown]
# **T5** makes every task text to text, and hides whole spans behind sentinels. **GPT** reads from left to right only and guesses
# the next word. **XLNet** guesses words in a random order, so that it sees both sides without a mask. What each may see
# is a matrix:

# %%
from clearhead.nn.attention import causal_mask

both_sides = torch.ones(4, 4, dtype=torch.bool)
left_to_right = causal_mask(4, torch.device("cpu"))
order = torch.tensor([2, 0, 3, 1])  # a permutation: word 2 is guessed first
place = order.argsort()
permuted = place[:, None] > place[None, :]  # what is earlier in the order may be seen
for name, allowed in (("BERT", both_sides), ("GPT", left_to_right), ("XLNet", permuted)):
    print(name)
    print("\n".join("   " + " ".join("■" if one else "·" for one in row) for row in allowed.tolist()))
assert permuted.sum() == 6
assert not permuted.diagonal().any()

# %% [markdown]
# Why a word on both sides helps, in one picture: the layers of the built-in encoder, which sees both.

# %%
from clearhead import inside

inside.through_layers(model, "The chef [MASK] the meal.")

# %% [markdown]
# Two questions close deck 004: is there a better feature extractor than the Transformer, and a better task than MLM and
# NSP? `docs/benchmarks.md` has our own table, at equal compute on equal data, and another, "The lectures' claims", of CBOW, ELMo, GPT,
# BERT, T5 and replaced tokens.
#
# ## Exercises
#
# **1.** How many numbers does ALBERT's factorised table save for V = 30,000, D = 768 and E = 128?

# %% tags=["solution"]
plain, factorised = 30_000 * 768, 30_000 * 128 + 128 * 768
print(plain, factorised, round(plain / factorised, 1))
assert plain > 5 * factorised

# %% [markdown]
# **2.** Distillation compares distributions softened by a temperature T. Show that T = 2 tells more of the wrong words.

# %% tags=["solution"]
logits = torch.tensor([6.0, 3.0, 1.0, 0.0])
for t in (1.0, 2.0):
    print(t, [round(one, 3) for one in (logits / t).softmax(-1).tolist()])
assert (logits / 2).softmax(-1)[1] > 2 * logits.softmax(-1)[1]

# %% [markdown]
# **3.** Write T5's input and target of "Thank you for inviting me to your party last week", with *for inviting* and
# *last* hidden.

# %% tags=["solution"]
source = "Thank you <extra_id_0> me to your party <extra_id_1> week"
target = "<extra_id_0> for inviting <extra_id_1> last <extra_id_2>"
whole = source.replace("<extra_id_0>", "for inviting").replace("<extra_id_1>", "last")
assert whole == "Thank you for inviting me to your party last week"
