"""The model a user holds: an encoder, its heads and its tokenizer, with one method per use."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch

from clearhead.errors import BadInput, NotFound, require
from clearhead.hub.builtin import builtin_folder
from clearhead.hub.capitals import tell_capitals
from clearhead.hub.card import model_card
from clearhead.hub.config import Description, read_config
from clearhead.hub.folder import Checkpoint, build_network, fresh_heads, read_folder, write_folder
from clearhead.hub.recurrent import RecurrentModel, is_recurrent
from clearhead.hub.remote import find, publish
from clearhead.hub.skills import encoder_digest, find_skills
from clearhead.models import EVERY
from clearhead.nn.heads import Pooler
from clearhead.nn.network import Network
from clearhead.nn.quantised import is_int8
from clearhead.pipelines.alike import alike
from clearhead.pipelines.answer import Search, answer
from clearhead.pipelines.by_vectors import ByVectors
from clearhead.pipelines.choose import choose
from clearhead.pipelines.classify import Classes, classify
from clearhead.pipelines.engine import Progress
from clearhead.pipelines.fill import fill
from clearhead.pipelines.inputs import as_given, listed, longer, paired
from clearhead.pipelines.int8 import calibrated, check_change
from clearhead.pipelines.recurrent import Recurrent
from clearhead.pipelines.tag import Strategy, tag
from clearhead.pipelines.write import Writer
from clearhead.pipelines.zero_shot import TEMPLATE, zero_shot
from clearhead.text import Tokenizer


def load(
    source: str | Path | None = None,
    *,
    skill: str | Path | None = None,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Model:
    """Load the built-in model, a checkpoint folder, or a model on the Hugging Face hub ("owner/name").

    With a `skill`, the model for that skill alone. A checkpoint from before the Transformer comes as a `Recurrent`,
    which translates or generates and refuses other uses.
    """
    folder = builtin_folder() if source is None else find(source)
    if is_recurrent(folder):
        # told to be a Model all the same, so that nobody must ask which before a use that both have
        return cast("Model", Recurrent(RecurrentModel.load(folder)).to(device))
    from clearhead.pipelines.skills import Skilled

    skills = find_skills(folder)
    checkpoint = read_folder(folder, dtype)
    if not skills and skill is None:
        return Model(checkpoint).to(device)
    # a skill knows its encoder by the numbers as they are, not as another type rounds them
    known = None if dtype == torch.float32 else encoder_digest(read_folder(folder).network.encoder)
    skilled = Skilled(checkpoint, skills, known)
    return (skilled if skill is None else skilled.skill(skill)).to(device)


class Model(ByVectors):
    """A loaded checkpoint, ready to use.

    Every use takes one input and gives one result, or takes many and gives a list; of an iterator, an iterator, which
    holds no more than it needs. A result does not depend on what runs beside it.
    """

    # a use is typed as its result or anything, so that one result needs no check and many are not forbidden

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.network = checkpoint.network

    @classmethod
    def create(
        cls,
        config: Any,
        tokenizer: Tokenizer | None = None,
        *,
        heads: Mapping[str, int] | None = None,
        labels: Sequence[str] | None = None,
    ) -> Model:
        """Make a model with fresh random weights from a configuration such as `BertConfig`.

        `heads` names the heads to build, each with its number of outputs: {"masked_lm": 30522, "classes": 2}.
        """
        families = [name for name, family in EVERY.items() if type(config) is family.config]
        require(bool(families), f"{type(config).__name__} is no configuration of a model family", BadInput)
        description = Description(family=families[0], config=config, labels=tuple(labels) if labels else None)
        network = build_network(description, dict(heads or {})).eval()
        checkpoint = Checkpoint(description=description, network=network, tokenizer=tokenizer)
        return cls(tell_capitals(checkpoint) if tokenizer is not None and tokenizer.tells_capitals else checkpoint)

    def with_head(
        self, name: str, outputs: int, *, labels: Sequence[str] | None = None, problem: str | None = None
    ) -> Model:
        """The same encoder under one new head, to be fine-tuned; a pooler that was trained before is kept."""
        # a threshold is for the head that it was found with
        description = replace(
            self.checkpoint.description,
            labels=tuple(labels) if labels else None,
            problem=problem,
            architecture=None,
            threshold=0.0,
        )
        heads = fresh_heads(description.family, self.encoder, {name: outputs})
        trained = [head for head in self.network.modules() if isinstance(head, Pooler)]
        for fresh in heads[name].modules():
            if isinstance(fresh, Pooler) and trained:
                fresh.load_state_dict(trained[0].state_dict())
        network = Network(self.encoder, heads).to(self.device).eval()
        # one vector per text is no longer what this model is for
        return Model(replace(self.checkpoint, description=description, network=network, sentence=None))

    @property
    def encoder(self) -> Any:
        """The encoder: ids to hidden states."""
        return self.network.encoder

    @property
    def config(self) -> Any:
        """The encoder's configuration."""
        return self.encoder.config

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that came with the checkpoint."""
        if self.checkpoint.tokenizer is None:
            raise NotFound("this checkpoint came without a tokenizer; put a tokenizer.json or vocab.txt in its folder")
        return self.checkpoint.tokenizer

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Names of the classes or tags, if the checkpoint has such a head."""
        return self.checkpoint.description.labels

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return next(self.encoder.parameters()).device

    def to(self, device: str | torch.device) -> Model:
        """Move the model to a device."""
        try:
            self.network.to(device)
        except (AssertionError, RuntimeError) as error:  # as torch puts it where there is no such device
            reason = str(error).partition("\n")[0]
            raise BadInput(f"the model cannot go to device {str(device)!r} ({reason}); choose another") from None
        return self

    @property
    def writer(self) -> Writer:
        """What writes, where the model is a decoder."""
        return Writer.of(self.network, self.tokenizer)

    def fill(
        self,
        texts: str | Iterable[str],
        *,
        top: int = 5,
        candidates: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """Which words stand behind the masks of a text? With `candidates`, which of these."""
        given = listed(texts)
        found = fill(self.network, self.tokenizer, given, top=top, candidates=candidates, progress=progress)
        return as_given(texts, found)

    def classify(
        self, texts: str | Iterable[str | tuple[str, str]], *, top: int | None = None, progress: Progress | None = None
    ) -> Any:
        """Which class does a text belong to? Scores of all labels, or of the `top`; documents of any length."""
        given = listed(texts)
        return as_given(texts, self._classify(given, top, progress))

    def zero_shot(
        self,
        texts: str | Iterable[str],
        labels: Sequence[str],
        *,
        template: str = TEMPLATE,
        multi: bool = False,
        top: int | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """Which of these labels fits a text? Needs a checkpoint trained on inference; `multi`: several may fit."""
        given = listed(texts)
        found = zero_shot(
            self.network,
            self.tokenizer,
            given,
            labels,
            known=self.labels,
            template=template,
            multi=multi,
            top=top,
            progress=progress,
        )
        return as_given(texts, found)

    def compare(
        self,
        first: str | Iterable[str],
        second: str | Iterable[str],
        *,
        top: int | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """How do two texts relate? Classes of a pair, such as entailment; one text may be compared with many.

        A model for sentence vectors gives their cosine, under the label "similarity".
        """
        pairs = paired(first, second)
        if self.checkpoint.sentence is not None and "classes" not in self.network.heads:
            found = alike(pairs, lambda texts: self.embed(texts, normalise=True, progress=progress))
        else:
            found = self._classify(pairs, top, progress)
        return as_given(longer(first, second), found)

    def tag(
        self,
        texts: str | Iterable[str | Sequence[str]],
        *,
        strategy: Strategy = "first",
        progress: Progress | None = None,
    ) -> Any:
        """Words with their labels, and entities, as slices of the text.

        One string is one text; each of many is a string or a list of words. For `strategy` see `pipelines.tag`.
        """
        given = listed(texts)
        found = tag(self.network, self.tokenizer, given, labels=self.labels, strategy=strategy, progress=progress)
        return as_given(texts, found)

    def answer(
        self,
        questions: str | Iterable[str],
        contexts: str | Iterable[str],
        *,
        top: int = 1,
        threshold: float | None = None,
        longest: int = 30,
        whole_words: bool = True,
        progress: Progress | None = None,
    ) -> Any:
        """Where in a text of any length is the answer? Many questions about one text, one about many, or pairs.

        For the options see `pipelines.answer.Search`; without a threshold, the model's own holds, if it has one.
        """
        least = self.checkpoint.description.threshold if threshold is None else threshold
        search = Search(top=top, threshold=least, longest=longest, whole_words=whole_words)
        pairs = paired(questions, contexts)
        found = answer(self.network, self.tokenizer, pairs, search, progress=progress)
        return as_given(longer(questions, contexts), found)

    def choose(
        self,
        contexts: str | Iterable[tuple[str, Sequence[str]]],
        candidates: Sequence[str] | None = None,
        *,
        progress: Progress | None = None,
    ) -> Any:
        """Which candidate fits the context best? One context with its candidates, or many (context, candidates)."""
        single = isinstance(contexts, str)
        require(single == (candidates is not None), "give a context and its candidates, or a list of both", BadInput)
        given = [(contexts, candidates or ())] if isinstance(contexts, str) else contexts
        return as_given(contexts, choose(self.network, self.tokenizer, given, progress=progress))

    def _classify(
        self, given: Iterable[str | tuple[str, str]], top: int | None, progress: Progress | None
    ) -> Iterator[Classes]:
        problem = self.checkpoint.description.problem
        return classify(
            self.network, self.tokenizer, given, labels=self.labels, problem=problem, top=top, progress=progress
        )

    def quantise(self, sample: Sequence[Any], *, loss: float = 0.005) -> Model:
        """The same model in int8 for a CPU, if it changes no more than `loss` on a sample of what it will read.

        The sample is what the use takes: texts; (question, context) or (text, text) pairs; (context, candidates). The
        loss is 1 - cosine of vectors, or the share of answers that differ: see `pipelines.int8`.
        """
        small = Model(replace(self.checkpoint, network=calibrated(self, sample)))
        check_change(self, small, sample, loss)
        return small

    def save(self, folder: str | Path, heads: Sequence[str] | None = None) -> None:
        """Write a folder that `clearhead.load` and transformers read; whole or not at all."""
        require(not is_int8(self.network), "an int8 model is for use alone; save the fp32 one it was made of", BadInput)
        write_folder(self.checkpoint, Path(folder), heads)

    def publish(self, name: str, *, heads: Sequence[str] | None = None, private: bool = False) -> str:
        """Upload the model with its card to the Hugging Face hub as "owner/name"; returns its address."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "model"
            self.save(folder, heads)
            sentences = self.checkpoint.sentence is not None
            card = model_card(read_config(folder), name=name, parameters=self.parameters, sentences=sentences)
            return publish(folder, name, private=private, card=card)

    @property
    def parameters(self) -> int:
        """How many numbers the model has learnt, heads included."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    def __repr__(self) -> str:
        heads = ", ".join(self.network.heads) or "none"
        return f"Model({self.checkpoint.description.family}, {self.parameters / 1e6:.1f} M parameters, heads: {heads})"
