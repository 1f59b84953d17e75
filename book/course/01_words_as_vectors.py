# %% [markdown]
# # 1. Words as vectors
#
# A network computes with numbers, so a word must become some. Counting words (cat is 17, dog is 18) says nothing about
# what they mean. word2vec (2013) gives every word a vector, and learns it from one idea: *words that stand in the same
# places mean similar things*. Skip-gram takes a word and must tell the words around it from random ones:
#
# > log σ(u·v) for a true neighbour u of v, plus log σ(−u·v) for each random word
#
# The whole network is two tables and a dot product:
#
# {{ clearhead.models.word2vec.Word2Vec }}

# %%
import random
import tempfile
from pathlib import Path

from clearhead.data.corpus import Corpus
from clearhead.training.recipes.word2vec import Vectors, train_vectors
from clearhead.training.settings import Every, Settings

# a small world: animals eat and sleep, vehicles drive and park
draw = random.Random(0)
animals, vehicles = ["cat", "dog", "horse", "mouse"], ["car", "bus", "truck", "van"]
lives, moves = ["eats", "sleeps", "drinks"], ["drives", "parks", "brakes"]
lines = [
    f"the {draw.choice(animals)} {draw.choice(lives)} in the barn"
    if draw.random() < 0.5
    else f"the {draw.choice(vehicles)} {draw.choice(moves)} on the road"
    for _ in range(3000)
]
folder = Path(tempfile.mkdtemp())
(folder / "world.txt").write_text("\n".join(lines))
recipe = Vectors(
    vocabulary=60,
    min_frequency=1,
    window=3,
    threshold=1.0,
    train=Settings(epochs=4.0, learning_rate=2e-2, weight_decay=0.0, every=Every(save=10**9, evaluate=10**9)),
)
vectors, _ = train_vectors(Corpus(folder / "world.txt"), folder / "vectors", recipe)
for word in ("cat", "bus"):
    print(word, "is near", ", ".join(f"{one.word} {one.cosine:.2f}" for one in vectors.near(word, top_k=3)))
assert {one.word for one in vectors.near("cat", top_k=3)} == {"dog", "horse", "mouse"}

# %% [markdown]
# Nobody told it what an animal is. The price is in the first line of the table: a word has *one* vector, wherever it
# stands. The bank of a river and the bank that lends money share it. Here are vectors of the built-in encoder, taken
# before and after it has read the sentence:

# %%
import torch

import clearhead as ch

model = ch.load()
river, money = "They sat on the bank of the river.", "She put her money in the bank."


def bank(text: str, layer: int) -> torch.Tensor:
    found = model.token_vectors(text, layers=[layer])
    return torch.as_tensor(found.vectors[found.tokens.index("bank")])


for layer, name in ((0, "out of the table"), (-1, "after the last layer")):
    cosine = torch.cosine_similarity(bank(river, layer), bank(money, layer), dim=0).item()
    print(f"bank and bank, {name}: cosine {cosine:.3f}")
assert torch.allclose(bank(river, 0), bank(money, 0), atol=1e-5)

# %% [markdown]
# **One vector, many meanings**: from the table both are the same, to the last digit; after twelve layers of context
# they are not. Chapter 11 comes back to this. The picture places *bank* of several sentences by its vector in context:

# %%
from clearhead import inside

inside.senses_of(model, "bank")

# %% [markdown]
# ## Exercises
#
# **1.** Train with `kind="cbow"`, which guesses a word from those around it. Are animals still together?

# %% tags=["solution"]
from dataclasses import replace

cbow, _ = train_vectors(Corpus(folder / "world.txt"), folder / "cbow", replace(recipe, kind="cbow"))
print([one.word for one in cbow.near("cat", top_k=3)])
assert {one.word for one in cbow.near("cat", top_k=3)} == {"dog", "horse", "mouse"}

# %% [markdown]
# **2.** Words that are never alike in use are far apart. Compare the cosine of *cat* and *dog* with that of *cat* and *bus*.

# %% tags=["solution"]
cosine = torch.nn.functional.cosine_similarity
near, far = (cosine(vectors.vector("cat"), vectors.vector(other), dim=0).item() for other in ("dog", "bus"))
print(f"cat and dog {near:.2f}, cat and bus {far:.2f}")
assert near > far

# %% [markdown]
# **3.** How many numbers does the network learn? Count them from the vocabulary and the width.

# %% tags=["solution"]
counted = sum(part.numel() for part in vectors.network.parameters())
assert counted == 2 * len(vectors) * 100  # two tables of vectors with 100 numbers
print(counted)
