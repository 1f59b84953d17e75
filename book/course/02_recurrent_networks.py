# %% [markdown]
# # 2. Recurrent networks and their bottleneck
#
# A recurrent network reads a sentence word by word and keeps one state. A translator of 2014 has two of them. The encoder's
# last state is all that the decoder ever hears of the source: a whole sentence in one vector, however long it is. That
# is the bottleneck.
#
# > h<sub>t</sub> = f(h<sub>t−1</sub>, x<sub>t</sub>), s<sub>t</sub> = g(s<sub>t−1</sub>, y<sub>t−1</sub>, c), and c is the last h for every t
#
# In the package this is a part with one line, beside the part that attention puts in its place (chapter 3):
#
# {{ clearhead.nn.alignment.FixedContext }}
#
# {{ clearhead.nn.alignment.AttentionContext }}
#
# To see it hurt, let both networks say a line of letters again, backwards. A model of 48 numbers must keep up to twelve
# letters of 12 kinds in its head.

# %%
import torch
from torch import nn

from clearhead.nn.alignment import AttentionContext, DotScore, FixedContext
from clearhead.nn.layout import Packed

LETTERS, WIDTH, START = 12, 48, 12
torch.set_num_threads(1)  # with matrices as small as these, several would mostly wait for one another


class Repeats(nn.Module):
    """Reads letters (B, T) and says them again, with one vector or with attention."""

    def __init__(self, context: nn.Module) -> None:
        super().__init__()
        self.read = nn.Embedding(LETTERS + 1, WIDTH)
        self.encoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.decoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.context, self.say = context, nn.Linear(2 * WIDTH, LETTERS)

    def forward(self, letters: torch.Tensor, said: torch.Tensor) -> torch.Tensor:
        hidden, last = self.encoder(self.read(letters))
        memory = self.context.memory(hidden.flatten(0, 1), Packed.of([letters.shape[1]] * len(letters)), last[-1])
        states, _ = self.decoder(self.read(said), last)
        return self.say(torch.cat([states, self.context(states, memory)], -1))


def batch(length: int, count: int, draw: torch.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    letters = torch.randint(0, LETTERS, (count, length), generator=draw)
    target = letters.flip(1)
    return letters, torch.cat([torch.full((count, 1), START), target[:, :-1]], 1), target


def learn(context: nn.Module, steps: int = 500) -> Repeats:
    torch.manual_seed(0)
    network, draw = Repeats(context), torch.Generator().manual_seed(1)
    optimizer = torch.optim.AdamW(network.parameters(), lr=5e-3)
    for step in range(steps):
        letters, said, target = batch(2 + step % 11, 48, draw)
        loss = nn.functional.cross_entropy(network(letters, said).flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network


def right(network: Repeats, length: int) -> float:
    letters, said, target = batch(length, 200, torch.Generator().manual_seed(2))
    with torch.inference_mode():
        return (network(letters, said).argmax(-1) == target).float().mean().item()


squeezed, attending = learn(FixedContext()), learn(AttentionContext(DotScore()))
print("letters   one vector   with attention")
for length in (3, 6, 9, 12):
    print(f"{length:7}   {right(squeezed, length):10.2f}   {right(attending, length):14.2f}")
assert right(attending, 12) > right(squeezed, 12) + 0.1

# %% [markdown]
# With few letters both are good; with many, one vector is not enough. The same curve was measured on real translation:
# `docs/benchmarks.md` has the ladder from the LSTM to the Transformer, where an LSTM reaches 25.9 BLEU on Multi30k and the
# same network with additive attention more than 40.
#
# There is a second price: h<sub>t</sub> needs h<sub>t−1</sub>, so that words are read one after the other, however many processors there are. Watch
# how a decoder goes on, one word at a time (this one is a Transformer; chapter 8):

# %%
import clearhead as ch
from clearhead import inside

inside.decoding(ch.load("builtin:translator"), "Je suis étudiant", num_beams=1)

# %% [markdown]
# ## Exercises
#
# **1.** Which letters does the network with one vector get wrong: those said first or last? Measure by place.

# %% tags=["solution"]
letters, said, target = batch(12, 200, torch.Generator().manual_seed(3))
with torch.inference_mode():
    by_place = (squeezed(letters, said).argmax(-1) == target).float().mean(0)
print([round(one, 2) for one in by_place.tolist()])
assert by_place[0] > by_place[-1]  # said first is what was read last, and is still fresh

# %% [markdown]
# **2.** The gradient of the last state with respect to a letter gets smaller the further back it stands. Show it.

# %% tags=["solution"]
vectors = squeezed.read(letters[:1]).detach().requires_grad_()
_, last = squeezed.encoder(vectors)
last.norm().backward()
by_letter = vectors.grad.norm(dim=-1).flatten()
print([round(one, 3) for one in by_letter.tolist()])
assert by_letter[-1] > by_letter[0]

# %% [markdown]
# **3.** How many parameters does attention by dot products add to this network?

# %% tags=["solution"]
count = [sum(part.numel() for part in network.parameters()) for network in (squeezed, attending)]
print(count)
assert count[0] == count[1]  # none: the scores are dot products of states that are there anyway
