# %% [markdown]
# # 9. BERT: its input and how it is pre-trained
#
# BERT (2018) is the encoder alone, and learns from raw text by two tasks: guess masked words from *both* sides, and tell
# whether one sentence follows another. Its input is a sum of three vectors for each token: the piece, its position, its
# segment.
#
# > x<sub>i</sub> = E[token<sub>i</sub>] + P[i] + S[segment<sub>i</sub>]; loss = −Σ log p(true token at i), over the masked i alone
#
# The lectures' example:

# %%
import clearhead as ch

model = ch.load()
encoding = model.tokenizer.encode("Be alert!", "BERT will hurt!")
for token, segment in zip(encoding.tokens, encoding.segments, strict=True):
    print(f"{segment + 1}  {token}")
assert encoding.tokens[0] == "[CLS]"
assert encoding.segments == [0] * 5 + [1] * 5

# %% [markdown]
# (The slide drops the punctuation and has eight tokens.) What is summed, feature by feature; the built-in encoder turns
# queries and keys by their position instead of adding a vector:

# %%
from clearhead import inside

inside.summed_input(model, "Be alert!", "BERT will hurt!")

# %% [markdown]
# ## Masked words
#
# 15 % of the tokens are chosen. Of these, 80 % become [MASK], 10 % a random token, 10 % stay as they are, and the model
# must say what stood there. This is the function that does it:
#
# {{ clearhead.data.masking.mask }}

# %%
import numpy as np

from clearhead.data.batch import Batch
from clearhead.data.masking import Masking, Vocabulary, mask

text = "The animal did not cross the street because it was too tired, so it lay down and slept. "
ids = model.tokenizer.encode(text * 5).ids
vocabulary = Vocabulary.of(model.tokenizer)
batch = mask(Batch.of([ids]), vocabulary, Masking(rate=0.15), np.random.default_rng(0))
where, labels = batch.targets["where"], batch.targets["labels"]
print(" ".join(model.tokenizer.id_to_token(i) for i in batch.ids[:24].tolist()))

fates = {"mask": 0, "random": 0, "stays": 0}
for seed in range(200):
    drawn = mask(Batch.of([ids]), vocabulary, Masking(rate=0.15), np.random.default_rng(seed))
    now, true = drawn.ids[drawn.targets["where"]], drawn.targets["labels"]
    fates["mask"] += int((now == vocabulary.mask_id).sum())
    fates["stays"] += int((now == true).sum())
    fates["random"] += int(((now != vocabulary.mask_id) & (now != true)).sum())
shares = {name: count / sum(fates.values()) for name, count in fates.items()}
print({name: round(share, 2) for name, share in shares.items()})
assert abs(shares["mask"] - 0.8) < 0.03

# %% [markdown]
# The loss is the cross-entropy of the true words at the chosen places, and there alone:

# %%
import torch

from clearhead.objectives.language import masked_lm

with torch.inference_mode():
    hidden = model.encoder(batch.ids, batch.layout)
    logits = model.network.heads["masked_lm"](hidden, batch.layout)[where]
right = logits.argmax(-1) == labels
for at, true, ok in list(zip(where.tolist(), labels.tolist(), right.tolist(), strict=True))[:5]:
    print(f"place {at:3}: {model.tokenizer.id_to_token(true):>10}  {'guessed' if ok else 'missed'}")
loss = masked_lm(logits, labels)
print(f"{right.float().mean():.0%} of {len(labels)} right, mean loss {loss.total.item() / len(labels):.2f}")
assert right.float().mean() > 0.5  # the text says everything five times

# %% [markdown]
# ## Next sentences
#
# The second task: half of the pairs are neighbours, half are not. The head is still there to be asked:

# %%
for first, second in (
    ("She opened the umbrella.", "It had begun to rain."),
    ("She opened the umbrella.", "The Treaty of Utrecht was signed in 1713."),
):
    found = model.follows(first, second)
    print(f"{found.probability:.2f}  {first} / {second}")
assert model.follows("She opened the umbrella.", "It had begun to rain.").follows

# %% [markdown]
# ## Exercises
#
# **1.** Why do 10 % of the chosen tokens stay, and 10 % become random ones?

# %% tags=["solution"]
# in use there is no [MASK]: a model that has only learnt to look at masks would have no reason to
# represent the other words well; so it must reckon with every word being asked for, and with every word being wrong
assert Masking().random_share == 0.1

# %% [markdown]
# **2.** How much does what comes *after* a mask matter? Compare the probability of *knife* in "She cut the bread with a
# [MASK] and put butter on it." and without what stands behind the mask.

# %% tags=["solution"]
both, left = ("She cut the bread with a [MASK] and put butter on it.", "She cut the bread with a [MASK]")
knife = [model.fill(text, candidates=["knife"]).predictions[0].score for text in (both, left)]
print([round(one, 3) for one in knife])
assert knife[0] > knife[1]

# %% [markdown]
# **3.** `whole_words=True` chooses all pieces of a word or none. Why is that harder?

# %% tags=["solution"]
whole = mask(Batch.of([ids]), vocabulary, Masking(whole_words=True), np.random.default_rng(0))
# the rest of a word gives a hidden piece away: after "embed", "##ding" needs no understanding
assert len(whole.targets["where"]) > 0
