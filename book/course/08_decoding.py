# %% [markdown]
# # 8. Decoding
#
# A decoder gives a probability to every word that could come next. Which one is written is a choice:
#
# - *greedy*: the best, every time;
# - *beam search*: keep the best few beginnings, by the sum of their log-probabilities, until they end;
# - *sampling*: draw, with a temperature, from the best k (top-k), or from the fewest that hold p of the probability (top-p).
#
# > log p(y<sub>1</sub> … y<sub>n</sub>) = Σ<sub>t</sub> log p(y<sub>t</sub> | y<sub>1</sub> … y<sub>t−1</sub>), and with temperature τ: p ∝ exp(z / τ)
#
# The last is this much code:
#
# {{ clearhead.decoding.config.Sampling.probabilities }}

# %%
import clearhead as ch

model = ch.load("builtin:translator")
source = ">>en<< Ich muss auf den Markt gehen."  # the tag says the target; `translate` puts it there by itself
print("greedy  ", model.generate(source, num_beams=1))
for one in model.generate(source, num_beams=4, num_return_sequences=3):
    print(f"beams    {one.score:.2f}  {one}")
for seed in (1, 2, 3):
    print("sampled ", model.generate(source, temperature=1.0, top_p=0.9, seed=seed))
assert "market" in str(model.translate("Ich muss auf den Markt gehen.").text)

# %% [markdown]
# The lecture translates "I must go to the Market."; look whether it is among the beams.
#
# Every step is there to be watched: what was written so far, and what could have come next.

# %%
import math

from clearhead.inside.decoding import watch

seen = watch(model.generator, source, max_new_tokens=12, num_beams=1, top_k=3)
decode = model.tokenizer.decode
total = 0.0
for step in seen.steps:
    token, probability = step.candidates[0]
    total += math.log(probability)
    others = ", ".join(f"{decode([other])} {p:.2f}" for other, p in step.candidates[1:3])
    print(f"{decode([token]):>9} {probability:.2f}   log so far {total:6.2f}   or {others}")

# %% [markdown]
# A decoder need not read its own words again at every step: the keys and values of what was written are kept (the KV cache),
# so that each step computes one token. As a page, with three beams:

# %%
from clearhead import inside

inside.decoding(model, "Ich muss auf den Markt gehen.", num_beams=3)

# %% [markdown]
# ## Exercises
#
# **1.** A temperature of 0.1 is nearly greedy, one of 3 nearly blind. Compute softmax(z / t) for z = (2, 1, 0) and t = 0.1, 1, 3.

# %% tags=["solution"]
import torch

z = torch.tensor([2.0, 1.0, 0.0])
for t in (0.1, 1.0, 3.0):
    print(t, [round(one, 3) for one in (z / t).softmax(-1).tolist()])
assert (z / 0.1).softmax(-1)[0] > 0.99
assert (z / 3).softmax(-1)[0] < 0.5

# %% [markdown]
# **2.** Why is a beam's score divided by its length? Compare the sums of a short and a long translation.

# %% tags=["solution"]
# every further word multiplies by a probability below 1, so that the sum alone likes short texts
short, long = [-0.5] * 3, [-0.4] * 6
assert sum(short) > sum(long)
assert sum(long) / len(long) > sum(short) / len(short)

# %% [markdown]
# **3.** The same seed gives the same text. Show it, also when it is written in company.

# %% tags=["solution"]
other = ">>en<< Ein Hund läuft."
alone = str(model.generate(source, temperature=1.0, seed=5))
assert alone == str(model.generate([source, other], temperature=1.0, seed=5)[0])
