# %% [markdown]
# # 3. Attention
#
# A recurrent translator squeezes a whole sentence into one vector, and long sentences suffer. Attention lets the decoder
# look back: at every step it scores the encoder's states h<sub>i</sub> against its own state s, turns the scores into weights that
# add up to one, and reads the weighted sum.
#
# > α<sub>i</sub> = softmax<sub>i</sub> score(s, h<sub>i</sub>), c = Σ<sub>i</sub> α<sub>i</sub> h<sub>i</sub>
#
# Three scores have names: *dot* s·h, *general* s·W h (both Luong 2015) and *additive* v·tanh(W s + U h) (Bahdanau 2015).
# Two of them are this much code:
#
# {{ clearhead.nn.alignment.DotScore }}
#
# {{ clearhead.nn.alignment.AdditiveScore }}

# %%
import torch

from clearhead.nn.alignment import AdditiveScore, DotScore

states = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])  # three words of a source, two features each
asking = torch.tensor([[[2.0, 0.0]]])  # the decoder looks for the first feature
weights = DotScore()(asking, states).softmax(-1)
print("weights", weights.flatten().numpy().round(3), "sum", round(weights.sum().item(), 6))
context = weights @ states
print("context", context.flatten().numpy().round(3))
assert torch.isclose(weights.sum(), torch.tensor(1.0))

# %% [markdown]
# The first and the third word have the feature, so they share the attention, and the context is close to their mean.
#
# Nothing here is particular to translation. Deck 003's backup slide draws attention as a *soft dictionary*: queries over
# ⟨man, woman, child⟩, two keys, boy and girl, and values over ⟨child, female, male⟩. A query that is near a key brings
# that key's value:
#
# {{ clearhead.nn.attention.key_value }}

# %%
from clearhead.nn.attention import key_value

keys = torch.tensor([[0.7, 0.0, 0.5], [0.0, 0.7, 0.5]])  # boy, girl
values = torch.tensor([[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])  # child, female, male
man, woman = torch.eye(3)[:2]
for word, query in (("man", man), ("woman", woman)):
    near = (query[None] @ keys.T).flatten()
    print(word, "is nearer", ("boy", "girl")[int(near.argmax())], key_value(query[None], keys, values).numpy().round(2))
assert (man @ keys.T).argmax() == 0
assert (woman @ keys.T).argmax() == 1

# %% [markdown]
# ## In a real translator
#
# The translator in the box is a Transformer, whose decoder looks at the source by such weights, in every layer and head.
# Watch it write: for each token the word of the source that it looked at most.

# %%
import clearhead as ch
from clearhead.inside.decoding import watch

translator = ch.load("builtin:translator")
decode = translator.tokenizer.decode
seen = watch(translator.generator, ">>en<< Ein Hund läuft.", max_new_tokens=12, num_beams=1, top_k=1)
for step, looked in zip(seen.steps, seen.attention, strict=True):
    token = step.candidates[0][0]
    print(f"{decode([token]):>10}  looked most at  {decode([seen.read[int(looked.mean(0).argmax())]])}")

# %% [markdown]
# The same as a picture, with the candidates of each step:

# %%
from clearhead import inside

inside.decoding(translator, "Ein Hund läuft.", num_beams=2)

# %% [markdown]
# ## Exercises
#
# **1.** Multiply `asking` by ten. What happens to the weights, and why do Transformers divide their scores by √d?

# %% tags=["solution"]
sharp = DotScore()(10 * asking, states).softmax(-1)
print(sharp.flatten().numpy().round(4))
# the softmax saturates: gradients vanish where a weight is 0 or 1, and long vectors have large dot products
assert sharp.max() > weights.max()

# %% [markdown]
# **2.** Show that dot attention does not care about the order of the source: shuffle `states` and compare the contexts.

# %% tags=["solution"]
order = torch.tensor([2, 0, 1])
shuffled = DotScore()(asking, states[:, order]).softmax(-1) @ states[:, order]
assert torch.allclose(shuffled, context)

# %% [markdown]
# **3.** Give the additive score random weights and check that its weights add up to one as well. How many parameters has
# it for width 2, and how many has the dot score?

# %% tags=["solution"]
torch.manual_seed(0)
additive = AdditiveScore(2)
mixed = additive(asking, additive.keys(states)).softmax(-1)
assert torch.isclose(mixed.sum(), torch.tensor(1.0))
print(sum(part.numel() for part in additive.parameters()), "parameters; the dot score has none")
