# %% [markdown]
# # 11. What contexts know
#
# ELMo and BERT give a word another vector in every sentence. Does that tell senses apart? The lectures ask it with *bank*,
# *apple* and *train*:

# %%
import clearhead as ch

model = ch.load()
texts = ["He took a train.", "The train to London leaves at nine.", "He likes to train in the mornings."]
found = model.senses("train", texts)
for text, row in zip(texts, found.cosines, strict=True):
    print([f"{one:.3f}" for one in row], text)
assert found.cosines[0, 1] > found.cosines[0, 2]

# %% [markdown]
# The two that run on rails are nearer to each other than to the third. As a map, with the lectures' sentences about banks:

# %%
from clearhead import inside

inside.senses_of(model, "bank")

# %% [markdown]
# ## Which layer?
#
# Deck 000 feeds vectors of different layers to a tagger and measures CoNLL-2003: the embeddings alone 91.0, the last layer
# 94.9, the sum of the last four 95.9, their concatenation 96.1. In the package a layer, or a mix of some, is an option,
# and the six of the slide are these:
#
# > x = h<sub>9</sub> + h<sub>10</sub> + h<sub>11</sub> + h<sub>12</sub> (width D), or [h<sub>9</sub>; h<sub>10</sub>; h<sub>11</sub>; h<sub>12</sub>] (width 4·D)
#
# {{ clearhead.inside.layers.feature_choices }}

# %%
import numpy as np

river, money = "They sat on the bank of the river.", "She put her money in the bank."
other = "The bank lends money to farmers."


def vector(text: str, layers: list[int], combine: str = "mean") -> np.ndarray:
    seen = model.token_vectors(text, layers=layers, combine=combine)
    one = seen.vectors[seen.tokens.index("bank")]
    return one / np.linalg.norm(one)


print("layer   money and lends   money and river")
for layers in ([0], [3], [6], [9], [12], [9, 10, 11, 12]):
    same, different = (vector(money, layers) @ vector(one, layers) for one in (other, river))
    print(f"{layers!s:16} {same:8.3f} {different:17.3f}")
assert vector(money, [9, 10, 11, 12]) @ vector(other, [9, 10, 11, 12]) > vector(money, [9, 10, 11, 12]) @ vector(
    river, [9, 10, 11, 12]
)

# %% [markdown]
# Below, all banks are one; further up they part. What else a context knows: how alike sentences are as a whole, which is
# what search by meaning lives on.

# %%
from clearhead.studio.examples import EXAMPLES

query, notes = (EXAMPLES["/use/search"][0]["values"][name] for name in ("query", "documents"))
print(query)
for hit in model.search(query, notes.split("\n\n"), method="vectors"):
    print(f"{hit.score:.2f}  {hit.text}")

# %% [markdown]
# ## Exercises
#
# **1.** Concatenate the last four layers (`combine="concat"`). How wide is the vector?

# %% tags=["solution"]
wide = vector(river, [9, 10, 11, 12], "concat")
print(wide.shape)
assert wide.shape == (4 * 384,)

# %% [markdown]
# **2.** Does *not* move a sentence's vector as much as it should? Compare "turn the lights on" with "turn the lights off",
# and with "switch on the lamp".

# %% tags=["solution"]
on, off, lamp = model.embed(["turn the lights on", "turn the lights off", "switch on the lamp"], normalise=True)
print(f"on/off {on @ off:.2f}, on/lamp {on @ lamp:.2f}")
assert on @ off > 0.5  # opposites stand in the same places: what word vectors never see, sentence vectors see badly

# %% [markdown]
# **3.** A vector of a sentence is a mean of its tokens' vectors. Compute it yourself for one layer.

# %% tags=["solution"]
encoder = model.skill("similarity")
text = "A river bank"
tokens = encoder.token_vectors(text, layers=[12])
assert tokens.vectors.shape == (3, 384)
assert abs(np.linalg.norm(tokens.vectors.mean(0))) > 0
