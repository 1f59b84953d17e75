# %% [markdown]
# # 10. Fine-tuning
#
# A pre-trained encoder knows words in their contexts; a task needs one more layer. Four diagrams are on the slides, and
# each is a small head on the same hidden states: a class for a sentence, a class for a pair, a label for each token, the
# start and the end of an answer. The last two are the same head with another number of outputs:
#
# > class: softmax(W h<sub>[CLS]</sub>)
# >
# > token i: softmax(W h<sub>i</sub>)
# >
# > answer: start softmax<sub>i</sub>(w·h<sub>i</sub>), end softmax<sub>i</sub>(v·h<sub>i</sub>)
#
# {{ clearhead.nn.heads.TokenHead }}

# %%
import clearhead as ch

model = ch.load()
print("sentence ", model.classify("A warm, funny and clever film.").label)
print("pair     ", model.compare("A soccer game with multiple males playing.", "Some men are playing a sport.").label)
print("tokens   ", [(one.text, one.label) for one in model.tag("Ada Lovelace lived in London.").entities])
print("span     ", model.answer("Where did Ada live?", "Ada Lovelace lived in London.").text)
assert model.answer("Where did Ada live?", "Ada Lovelace lived in London.").text == "London"

# %% [markdown]
# Behind each of these four is a *skill* of the built-in encoder: a head and small corrections to its matrices (LoRA),
# trained on the task. A LoRA adapter leaves W as it is and adds a product of two thin matrices, W + B A:
#
# {{ clearhead.nn.lora.LoRA }}
#
# ## A head of your own
#
# The simplest way to use BERT for a task: take its vector of the sentence, and learn a logistic regression on it.
# Twelve sentences about food and about travel are enough to see it work:

# %%
import torch

food = [
    "The soup was too salty.", "Bake the bread for an hour.", "I love ripe mangoes.",
    "Add some pepper and garlic.", "The cake has three layers.", "We ate rice with beans.",
]  # fmt: skip
travel = [
    "The train leaves at nine.", "Our flight was late again.", "Take the second street on the left.",
    "The ferry crosses the bay.", "We drove along the coast.", "Passengers wait at gate twelve.",
]  # fmt: skip
x = torch.as_tensor(model.embed(food + travel))
y = torch.tensor([0.0] * 6 + [1.0] * 6)
weight, bias = torch.zeros(x.shape[1], requires_grad=True), torch.zeros(1, requires_grad=True)
optimizer = torch.optim.AdamW([weight, bias], lr=0.05)
for _ in range(100):
    loss = torch.nn.functional.binary_cross_entropy_with_logits(x @ weight + bias, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

unseen = ["The noodles were delicious.", "The bus stops near the bridge.", "Fry the onions first.", "A ticket to Rome."]
with torch.inference_mode():
    chances = (torch.as_tensor(model.embed(unseen)) @ weight + bias).sigmoid()
for text, chance in zip(unseen, chances.tolist(), strict=True):
    print(f"{'travel' if chance > 0.5 else 'food':7} {text}")
assert (chances > 0.5).tolist() == [False, True, False, True]

# %% [markdown]
# To train all of the encoder, or adapters, on files of your own: `clearhead finetune classify --data train.csv --dev
# dev.csv --out ./mine` (see [training](../training.md)).
#
# What comes of it is on the slides, and of the built-in encoder it was measured by the official scripts. It has a quarter of
# BERT-base's parameters:

# %%
from clearhead import inside

shown = {table["name"]: table for table in inside.lecture_tables().data["tables"]}
for name in ("SQuAD 1.1", "CoNLL-2003"):
    print(name, *shown[name]["columns"], sep="   ")
    for line in shown[name]["lines"]:
        print(f"   {line['model']:20} {line['source']:9} {line['split']:5}", *line["values"])
base = {(line["model"], line["split"]): line["values"] for line in shown["SQuAD 1.1"]["lines"]}
assert base["BERT-base", "dev"] == [80.8, 88.5]

# %% [markdown]
# Which words was a class decided by? Attention does not say; taking words away and looking at the answer does:

# %%
inside.why(model, "A warm, funny and clever film.", use="classify")

# %% [markdown]
# ## Exercises
#
# **1.** How many numbers did you learn, and how many has the encoder?

# %% tags=["solution"]
print(weight.numel() + 1, "of", model.parameters)
assert weight.numel() + 1 < model.parameters / 10_000

# %% [markdown]
# **2.** Do the same with random vectors in the place of BERT's. Does it still know the four unseen sentences?

# %% tags=["solution"]
torch.manual_seed(0)
blind = torch.nn.functional.normalize(torch.randn(12, x.shape[1]), dim=-1)
solved = torch.linalg.lstsq(blind, 2 * y[:, None] - 1).solution
guesses = (torch.randn(1000, x.shape[1]) @ solved).sign()
assert abs(guesses.mean()) < 0.2  # learnt by heart, and blind to anything new

# %% [markdown]
# **3.** A LoRA adapter of rank 8 for a matrix of 384 × 384: how many numbers, and what share of the matrix?

# %% tags=["solution"]
rank, width = 8, 384
print(2 * rank * width, f"{2 * rank * width / width**2:.1%}")
assert 2 * rank * width == 6144
