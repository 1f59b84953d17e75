"""The model a user holds: a network and its tokenizer, with one method per use."""

from __future__ import annotations

import copy
import os
import tempfile
import warnings
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any, Unpack, overload

import torch
from torch import Tensor, nn

from clearhead.data.documents import Document
from clearhead.decoding.config import NEW_TOKENS, GenerationConfig, GenerationOptions, with_beams, with_usual
from clearhead.errors import BadCheckpoint, BadInput, NotFound, WrongTask, keywords, renamed, require
from clearhead.hub.card import model_card
from clearhead.hub.checkpoint import Checkpoint, build_network, fresh_heads, read_folder, write_folder
from clearhead.hub.config import TASKS, Description, read_config
from clearhead.hub.features import FeatureHead
from clearhead.hub.remote import BUILT_IN, find, publish, unasked
from clearhead.hub.skills import DESCRIPTION, SKILLS, Skill, encoder_digest, find_skills, load_skill, tell_capitals
from clearhead.hub.weights import weights_state
from clearhead.io import Progress, html_table
from clearhead.models import ALL_FAMILIES, RECURRENT_FAMILIES
from clearhead.nn.fused import forget
from clearhead.nn.heads import Network, Pooler, Pooling, SentenceVector
from clearhead.nn.hooks import Combine
from clearhead.nn.lora import LoRA
from clearhead.nn.quantisation import is_int8
from clearhead.pipelines.classification import TEMPLATE, Classes, classify, cosines, zero_shot, zero_shot_by_vectors
from clearhead.pipelines.clustering import Cluster, Duplicate, cluster, duplicates
from clearhead.pipelines.embedding import AnyVectors, Precision, Ranges, TokenVectors, embed, quantise, token_vectors
from clearhead.pipelines.fill_mask import Filled, fill
from clearhead.pipelines.generation import Generator, Written, best_or_all, generate, stream_text
from clearhead.pipelines.int8 import quantised
from clearhead.pipelines.multiple_choice import Choice, choose
from clearhead.pipelines.next_sentence import NextSentence, follows
from clearhead.pipelines.question_answering import Answer, Search, answer, answer_from
from clearhead.pipelines.runner import Many, as_given, listed, paired, per_pair, per_prompt, per_question, per_text
from clearhead.pipelines.search.index import Hit, Index, Method
from clearhead.pipelines.search.reranking import Reranked, rerank
from clearhead.pipelines.search.stored import AnyIndex
from clearhead.pipelines.senses import Senses, senses
from clearhead.pipelines.summarisation import (
    SENTENCE_LABELS,
    USUAL_SENTENCES,
    per_summary,
    summarise,
    summarise_abstractive,
    summarise_trained,
)
from clearhead.pipelines.token_classification import Strategy, Tagged, tag
from clearhead.pipelines.translation import Rewritten, check_reads, rewrite, told_languages
from clearhead.text import Tokenizer
from clearhead.text.chat import ChatTemplate, Message

# the generation options that had other names until 0.1
_WRITING = {
    "longest": "max_new_tokens",
    "least": "min_new_tokens",
    "beams": "num_beams",
    "best": "num_return_sequences",
    "no_repeat": "no_repeat_ngram_size",
    "stop": "stop_strings",
}
_MEAN = SentenceVector("mean")  # where a checkpoint does not say how a text becomes a vector
# what a recurrent network can do, where it is not "translate or generate"
_CAN = {
    "elmo": "it gives vectors: clearhead embed, clearhead senses",
    "rnnlm": "it can generate",
    "word2vec": "its words are looked up with: clearhead vectors near",
}
# the uses of an encoder that one has all the same
_GIVES = {"elmo": ("embed", "token_vectors", "senses")}


@keywords
def load(
    source: str | Path | None = None,
    *,
    skill: str | Path | None = None,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | str | None = None,
) -> Model:
    """Load the built-in model, a checkpoint folder, or a model on the Hugging Face hub ("owner/name").

    The other models in the package are "builtin:translator", "builtin:gpt" and "builtin:bert". With a `skill`, the
    model for that skill alone. `device` "auto" is CUDA, else MPS, else the CPU, whichever is there. `dtype` is what it
    computes with: "float32", "float16", "bfloat16", "float64", or torch's own name for one; if nothing is said,
    float32 on a CPU, and on a GPU half precision, which is for use: train and trace in "float32".

    >>> import clearhead
    >>> model = clearhead.load()
    >>> "sentiment" in model.skills
    True
    >>> clearhead.load(skill="spam").labels
    ('ham', 'spam')
    """
    named = unasked() if source is None else source
    folder = find(named)
    device = pick_device(device)
    model = Model(read_folder(folder, usual_precision(folder, device) if dtype is None else precision(dtype)), folder)
    named = named if isinstance(named, str) and named.startswith(BUILT_IN) else folder.resolve()
    model._origin = _Origin(named, weights_state(folder), _Origin.state(model.network))
    return (model if skill is None else model.skill(skill)).to(device)


def pick_device(named: str | torch.device) -> torch.device:
    """The device of this name; "auto" is CUDA, else MPS, else the CPU."""
    if named == "auto":
        there = ("cuda" if torch.cuda.is_available() else None, "mps" if torch.backends.mps.is_available() else None)
        named = next(filter(None, there), "cpu")
    try:
        return torch.device(named)
    except RuntimeError as error:
        raise BadInput(_cannot_go(named, error)) from None


def _cannot_go(device: str | torch.device, error: Exception) -> str:
    reason = str(error).partition("\n")[0]
    return f"the model cannot go to device {str(device)!r} ({reason}); choose another"


# their hidden states go beyond what float16 can hold
_WIDE_RANGE = frozenset({"t5"})


def usual_precision(folder: Path, device: torch.device) -> torch.dtype:
    """What a checkpoint computes with if nobody says: float32 on a CPU, half precision on a GPU.

    float16 has three bits more than bfloat16, and so is nearer to float32 by a factor of eight, but a smaller range.
    Recurrent networks were not measured in half precision, and stay as they are.
    """
    if device.type == "cpu" or (family := read_config(folder).family) in RECURRENT_FAMILIES:
        return torch.float32
    return torch.bfloat16 if family in _WIDE_RANGE else torch.float16


def precision(asked: torch.dtype | str, name: str = "dtype") -> torch.dtype:
    """The type of number to compute with; `name` is what the user calls it."""
    found: Any = getattr(torch, asked.removeprefix("torch."), None) if isinstance(asked, str) else asked
    fits = isinstance(found, torch.dtype) and found.is_floating_point and found.itemsize > 1
    told = f"{name}={asked if isinstance(asked, torch.dtype) else repr(asked)} is not known"
    require(fits, f"{told}; choose float32, float16 or bfloat16", BadInput)
    return found


@dataclass(frozen=True)
class _Origin:
    """Where a model was read from, and its parameters as they were then."""

    folder: str | Path  # the name of a built-in model is that of its folder, wherever that is
    weights: str  # what `weights_state` said of the folder
    parameters: tuple[tuple[weakref.ref[Tensor], int, bool], ...]
    skill: Path | None = None
    skill_weights: str = ""

    @staticmethod
    def state(network: nn.Module) -> tuple[tuple[weakref.ref[Tensor], int, bool], ...]:
        """All parameters, how often each was changed, and whether it learns."""
        if any(one.is_inference() for one in network.parameters()):  # of which torch does not tell
            return ()
        return tuple((weakref.ref(one), one._version, one.requires_grad) for one in network.parameters())

    def holds(self, network: nn.Module) -> bool:
        """Whether reading the folder again would give the same network."""
        found = self.state(network)
        return (
            0 < len(found) == len(self.parameters)
            and all(
                one is other and now == then for (one, *now), (other, *then) in zip(found, self.parameters, strict=True)
            )
            and not any(part.training for part in network.modules())
        )


def _read_again(
    folder: str | Path, weights: str, skill: Path | None, skill_weights: str, dtype: torch.dtype, device: str
) -> Model:
    """Make the model that a pickle names; refuse what has become another one meanwhile."""
    there = folder if isinstance(folder, Path) else find(folder)
    same = (
        there.is_dir() and weights_state(there) == weights and (skill is None or weights_state(skill) == skill_weights)
    )
    told = f"a pickled model names its folder, and {there} is not as it was when the model was read"
    require(same, f"{told}; save the model and load it where it is needed", NotFound)
    return load(folder, skill=skill, dtype=dtype, device=device)


_SKILLS_LOCK = Lock()
if hasattr(os, "register_at_fork"):  # not on Windows; a thread of the parent may be reading a skill
    os.register_at_fork(
        before=_SKILLS_LOCK.acquire, after_in_parent=_SKILLS_LOCK.release, after_in_child=_SKILLS_LOCK.release
    )


@keywords
class Model:
    """A loaded checkpoint, ready to use: a Transformer, or a recurrent network, which only translates or generates.

    Every use takes one text and gives one result, or takes many and gives a list; of an iterator, an iterator, which
    holds no more than it needs. A result does not depend on what runs beside it.

    Beside the checkpoint in `folder` there may lie `skills`, which are adapters with a head. A use takes the skill
    that was made for it, unless another is named; masks are filled by the encoder itself.

    The examples of the methods begin with these two lines:

    >>> import clearhead
    >>> model = clearhead.load()
    >>> model.classify("Text WIN to 80086 to claim your free prize", skill="spam").label
    'spam'
    """

    def __init__(self, checkpoint: Checkpoint, folder: Path | None = None) -> None:
        self.checkpoint = checkpoint
        self.network: Any = checkpoint.network  # a `Network`, or one of models.RECURRENT_FAMILIES
        self._folder = folder
        # Of so many skills at a time are the corrected matrices kept ready to be multiplied with; the others cost what
        # their adapters do, and a few hundredths of a second when they are used again.
        self.ready_bytes = 250_000_000
        self._learnt: dict[str, Model] = {}  # a skill is read when it is first used, and shares the encoder's numbers
        self._ready: dict[str, int] = {}  # the bytes that skills used lately take beside these, the last one last
        self._digest: str | None = None
        self._origin: _Origin | None = None  # if it was loaded, and is as it was

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

        `heads` names the heads to build, each with its number of outputs.

        >>> from clearhead import BertConfig, Model
        >>> config = BertConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=2)
        >>> Model.create(config, heads={"classes": 2}, labels=["no", "yes"]).labels
        ('no', 'yes')
        """
        families = [name for name, family in ALL_FAMILIES.items() if type(config) is family.config]
        require(bool(families), f"{type(config).__name__} is no configuration of a model family", BadInput)
        description = Description(family=families[0], config=config, labels=tuple(labels) if labels else None)
        network = build_network(description, dict(heads or {})).eval()
        checkpoint = Checkpoint(description=description, network=network, tokenizer=tokenizer)
        return cls(tell_capitals(checkpoint) if tokenizer is not None and tokenizer.tells_capitals else checkpoint)

    def with_head(
        self,
        name: str,
        outputs: int,
        *,
        labels: Sequence[str] | None = None,
        problem: str | None = None,
        module: nn.Module | None = None,
    ) -> Model:
        """The same encoder under one new head, to be fine-tuned; a pooler that was trained before is kept.

        A `module` of your own, called with hidden states and their layout, is a head under a name that no family uses.

        >>> list(model.with_head("classes", 3).network.heads)
        ['classes']
        """
        own, names = self.checkpoint.description, tuple(labels) if labels else None
        # what was measured of answers is for the head that it was found with; what learns tags here is taught words
        description = replace(own, labels=names, problem=problem, architecture=None, threshold=0.0, null_bias=0.0)
        description = replace(description, whole_words=name == "tags")
        if module is not None:
            taken = f"{description.family} has a head {name!r} of its own; give yours another name"
            require(name not in description.names.heads, taken, BadInput)
            heads = {name: module}
        else:
            heads = fresh_heads(description.family, self.encoder, {name: outputs})
            trained = [head for head in self.network.modules() if isinstance(head, Pooler)]
            for fresh in heads[name].modules():
                if isinstance(fresh, Pooler) and trained:
                    fresh.load_state_dict(trained[0].state_dict())
        network = Network(self.encoder, heads).to(self.device).eval()
        # one vector per text is no longer what this model is for
        return Model(replace(self.checkpoint, description=description, network=network, sentence=None))

    # what it is

    @property
    def family(self) -> str:
        """Which model it is, by the model_type of its config.json: "bert", "seq2seq-lstm-additive"."""
        return self.checkpoint.description.family

    @property
    def encoder(self) -> Any:
        """The encoder: ids to hidden states."""
        if self.family in RECURRENT_FAMILIES:
            raise _NoSuchPart(self._lacks("encoder"))
        return self.network.encoder

    @property
    def config(self) -> Any:
        """The configuration of the encoder, or of a recurrent network."""
        return self.network.config if self.family in RECURRENT_FAMILIES else self.network.encoder.config

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
    def parameters(self) -> int:
        """How many numbers the model has learnt, heads included; a matrix is counted once, corrected or not."""
        adapters = {
            id(one) for part in self.network.modules() if isinstance(part, LoRA) for one in (part.up, part.down)
        }
        return sum(one.numel() for one in self.network.parameters() if id(one) not in adapters)

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return next(self.network.parameters()).device

    def to(self, device: str | torch.device) -> Model:
        """Move the model to a device, as it is (`load` chooses half precision on a GPU); skills are read anew there.

        >>> model.to("cpu").device
        device(type='cpu')
        """
        self._learnt.clear()
        self._ready.clear()
        try:
            device = pick_device(device)
            if device != self.device and any(isinstance(part, LoRA) for part in self.network.modules()):
                # the encoder's numbers are others' too, who stay where they are
                self._origin, self.network = None, copy.deepcopy(self.network)
                self.checkpoint = replace(self.checkpoint, network=self.network)
            self.network.to(device)
        except (AssertionError, RuntimeError) as error:  # as torch puts it where there is no such device
            raise BadInput(_cannot_go(device, error)) from None
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """What was loaded is pickled as the name of its folder; what has changed since, with all its numbers."""
        origin = self._origin
        if origin is None or not origin.holds(self.network):
            return type(self), (self.checkpoint, self._folder)
        dtype = next(self.network.parameters()).dtype
        named = (origin.folder, origin.weights, origin.skill, origin.skill_weights)
        return _read_again, (*named, dtype, str(self.device))

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        return type(self)(copy.deepcopy(self.checkpoint, memo), self._folder)

    def __repr__(self) -> str:
        size = f"{self.family}, {self.parameters / 1e6:.1f} M parameters"
        heads = "" if self.family in RECURRENT_FAMILIES else f", heads: {', '.join(self.network.heads) or 'none'}"
        skills = f", skills: {', '.join(self.skills)}" if self.skills else ""
        return f"Model({size}{heads}{skills})"

    def _repr_html_(self) -> str:
        """As a notebook shows it: what the model is, and what it can be asked for."""
        rows = [("family", self.family), ("parameters", f"{self.parameters:,}"), ("device", self.device)]
        rows += [("labels", ", ".join(self.labels))] if self.labels else []
        if self.family not in RECURRENT_FAMILIES:
            rows.append(("heads", ", ".join(self.network.heads) or "none"))
        rows += [(f"skill {name}", ", ".join(Skill.read(path).uses)) for name, path in self.skills.items()]
        return html_table("Model", (), rows)

    # its skills

    @cached_property
    def skills(self) -> dict[str, Path]:
        """The folders of the skills that lie beside the checkpoint, by their names."""
        folder = self._folder
        return find_skills(folder) if folder is not None and (folder / SKILLS).is_dir() else {}

    def skill(self, name: str | Path) -> Model:
        """The model with one skill, by its name or by a folder that holds one.

        >>> model.skill("sentiment").labels
        ('negative', 'positive')
        """
        folder = self.skills.get(str(name), Path(name))
        if not (folder / DESCRIPTION).is_file():
            known = ", ".join(self.skills) or "none"
            raise NotFound(f"there is no skill {str(name)!r}; there are {known}, or give a folder")
        with _SKILLS_LOCK:
            if str(folder) not in self._learnt:
                self._learnt[str(folder)] = self._read_skill(folder)
            found = self._learnt[str(folder)]
            adapters = (part for part in found.network.modules() if isinstance(part, LoRA))
            taken = self._ready.pop(str(folder), 0) or sum(part.base.weight.nbytes for part in adapters)
            self._ready[str(folder)] = taken
            while len(self._ready) > 1 and sum(self._ready.values()) > self.ready_bytes:
                oldest = next(iter(self._ready))
                del self._ready[oldest]
                forget(self._learnt[oldest].network)
        return found

    def _read_skill(self, folder: Path) -> Model:
        found, origin = Model(load_skill(self.checkpoint, folder, self._encoder_digest())), self._origin
        if origin is not None and origin.holds(self.network):
            found._origin = replace(
                origin,
                parameters=_Origin.state(found.network),
                skill=folder.resolve(),
                skill_weights=weights_state(folder),
            )
        return found

    def able(self, use: str, skill: str | Path | None = None) -> Model:
        """The model for a use: with the skill named, or the one made for it, or as it is.

        >>> model.able("tag").labels[:3]
        ('B-LOC', 'B-MISC', 'B-ORG')
        """
        if self.family in RECURRENT_FAMILIES:
            if skill is None and use in _GIVES.get(self.family, ()):
                return self
            raise WrongTask(self._lacks(use if skill is None else f"skill {skill}"))
        chosen = skill or self.uses.get(use)
        return self if chosen is None else self.skill(chosen)

    @cached_property
    def uses(self) -> dict[str, str]:
        """The skill that each use takes when none is named; without one for search, that takes the vectors of embed."""
        made = {use: name for name, path in self.skills.items() for use in Skill.read(path).uses}
        return {"search": made["embed"], **made} if "embed" in made else made

    def _encoder_digest(self) -> str:
        if self._digest is None:
            # a skill knows its encoder by the numbers as they are, not as another type rounds them
            rounded = next(self.encoder.parameters()).dtype != torch.float32
            exact = read_folder(self._folder).network.encoder if rounded and self._folder else self.encoder
            self._digest = encoder_digest(exact)
        return self._digest

    def _lacks(self, use: str) -> str:
        can = _CAN.get(self.family.partition("-")[0], "it can translate or generate")
        return f"a {self.family} is from before the Transformer and has no {use!r}; {can}"

    # what an encoder with a head is for

    @renamed(top="top_k")
    @per_text
    def fill(
        self,
        texts: Iterable[str],
        *,
        top_k: int = 5,
        candidates: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Filled]:
        """Which words stand behind the masks of a text? With `candidates`, which of these.

        >>> model.fill("The capital of France is [MASK].", candidates=["paris", "soup"]).predictions[0].token
        'paris'
        """
        return fill(self.able("fill"), texts, top_k, candidates, progress)

    @renamed(top="top_k")
    @per_text
    def classify(
        self,
        texts: Iterable[str | tuple[str, str]],
        *,
        skill: str | Path | None = None,
        top_k: int | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Classes]:
        """Which class does a text belong to? Scores of all labels, or of the best `top_k`; documents of any length.

        >>> [found.label for found in model.classify(["What a joy!", "A dull film."], skill="sentiment")]
        ['positive', 'negative']
        """
        return classify(self.able("classify", skill), texts, top_k, progress)

    @renamed(top="top_k")
    @per_pair
    def compare(
        self,
        first: Many,
        second: Many,
        *,
        skill: str | Path | None = None,
        top_k: int | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Classes]:
        """How do two texts relate? Classes of a pair, such as entailment; one text may be compared with many.

        A model for sentence vectors gives their cosine, under the label "similarity".

        >>> model.compare("A man is sleeping.", "Nobody is sleeping.").label
        'contradiction'
        """
        one, pairs = self.able("compare", skill), paired(first, second)
        if one.checkpoint.sentence is not None and "classes" not in one.network.heads:
            return cosines(pairs, lambda texts: one.embed(texts, normalise=True, progress=progress))
        only = "next_sentence" in one.network.heads and "classes" not in one.network.heads
        todo = "ask it with follows, or load a checkpoint that was trained on pairs"
        require(not only, f"of two texts this model only tells whether one follows the other; {todo}", WrongTask)
        return classify(one, pairs, top_k, progress)

    @per_pair
    def follows(self, first: Many, second: Many, *, progress: Progress | None = None) -> Iterator[NextSentence]:
        """Does the second text follow the first? As BERT learnt it, by the head for next sentences.

        >>> found = model.follows("She opened the umbrella.", ["It had begun to rain.", "Dividends are taxed twice."])
        >>> [one.follows for one in found]
        [True, False]
        """
        return follows(self.able("follows"), paired(first, second), progress)

    @renamed(template="hypothesis_template", multi="multi_label", top="top_k")
    @per_text
    def zero_shot(
        self,
        texts: Iterable[str],
        labels: Sequence[str],
        *,
        skill: str | Path | None = None,
        hypothesis_template: str = TEMPLATE,
        multi_label: bool = False,
        top_k: int | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Classes]:
        """Which of these labels fits a text? By a checkpoint, or a skill, trained on inference.

        With `multi_label`, several may fit, and each score is a probability by itself. Without such training, a model
        for sentence vectors takes the label whose vector is nearest, as does a skill for vectors that is named.

        >>> model.zero_shot("The bank raised its interest rates.", ["money", "animals"]).label
        'money'
        """
        one, template = self.able("compare", skill), hypothesis_template
        if "classes" not in one.network.heads and (near := self.able("search", skill)).checkpoint.sentence is not None:
            told = (
                "multi_label asks of each label by itself, which vectors do not tell; leave it out, or take inference"
            )
            require(not multi_label, told, BadInput)
            vectors = partial(near.embed, normalise=True)
            return zero_shot_by_vectors(texts, labels, template, vectors, top_k=top_k, progress=progress)
        return zero_shot(one, texts, labels, template, multi_label=multi_label, top_k=top_k, progress=progress)

    @renamed(strategy="aggregation_strategy")
    @per_text
    def tag(
        self,
        texts: Iterable[str | Sequence[str]],
        *,
        skill: str | Path | None = None,
        aggregation_strategy: Strategy = "first",
        progress: Progress | None = None,
    ) -> Iterator[Tagged]:
        """Words with their labels, and entities, as slices of the text.

        One string is one text; each of many is a string or a list of words. For the strategy see
        `pipelines.token_classification`.

        >>> [(one.text, one.label) for one in model.tag("Ada Lovelace lived in London.").entities]
        [('Ada Lovelace', 'PER'), ('London', 'LOC')]
        """
        return tag(self.able("tag", skill), texts, aggregation_strategy, progress)

    @renamed(top="top_k", longest="max_answer_length")
    @per_question
    def answer(
        self,
        questions: Many,
        contexts: Many | AnyIndex,
        *,
        skill: str | Path | None = None,
        top_k: int = 1,
        threshold: float | None = None,
        max_answer_length: int = 30,
        whole_words: bool = True,
        progress: Progress | None = None,
    ) -> Iterator[Answer]:
        """Where in a text of any length is the answer? Many questions about one text, one about many, or pairs.

        Of an `index`, the passages that fit a question are found and read, and the answer names its document. For the
        options see `pipelines.question_answering.Search`; without a threshold, the model's own holds.

        >>> model.answer("Who was tired?", "The animal was tired, so it stopped.").text
        'The animal'
        >>> found = model.answer("Who was tired?", model.index(["Dogs bark.", "The animal was tired, so it stopped."]))
        >>> found.text, found.source
        ('The animal', '1')
        """
        one = self.able("answer", skill)
        known = one.checkpoint.description
        search = Search(
            top_k=top_k,
            threshold=known.threshold if threshold is None else threshold,
            null_bias=known.null_bias,
            max_answer_length=max_answer_length,
            whole_words=whole_words,
        )
        if isinstance(contexts, AnyIndex):
            reader = self if "rerank" in self.uses else None
            return answer_from(one, contexts, listed(questions), search, reader, progress)
        return answer(one, paired(questions, contexts), search, progress)

    @overload
    def choose(self, contexts: str, candidates: Sequence[str], *, progress: Progress | None = None) -> Choice: ...
    @overload
    def choose(
        self, contexts: Collection[tuple[str, Sequence[str]]], *, progress: Progress | None = None
    ) -> list[Choice]: ...
    @overload
    def choose(
        self, contexts: Iterator[tuple[str, Sequence[str]]], *, progress: Progress | None = None
    ) -> Iterator[Choice]: ...

    def choose(
        self,
        contexts: str | Iterable[tuple[str, Sequence[str]]],
        candidates: Sequence[str] | None = None,
        *,
        progress: Progress | None = None,
    ) -> Choice | list[Choice] | Iterator[Choice]:
        """Which candidate fits the context best? One context with its candidates, or many (context, candidates).

        Needs a head for multiple choice or for the next sentence, as BERT's own checkpoints have.

        >>> chooser = model.with_head("choice", 1)  # fresh, and still to be fine-tuned
        >>> chooser.choose("She opened the umbrella because", ["it rained.", "it was Monday."]).index in (0, 1)
        True
        """
        one, single = self.able("choose"), isinstance(contexts, str)
        require(single == (candidates is not None), "give a context and its candidates, or a list of both", BadInput)
        given = [(contexts, candidates or ())] if isinstance(contexts, str) else listed(contexts)
        return as_given(contexts, choose(one, given, progress))

    # what an encoder is for by itself

    def embed(
        self,
        texts: Many,
        *,
        skill: str | Path | None = None,
        layers: Sequence[int] = (-1,),
        combine: Combine = "mean",
        pooling: Pooling | None = None,
        normalise: bool | None = None,
        dimensions: int | None = None,
        precision: Precision = "float32",
        ranges: Ranges | None = None,
        batch_tokens: int | None = None,
        progress: Progress | None = None,
    ) -> AnyVectors:
        """One vector per text, (texts, D); for a single string, (D,).

        `layers` counts from 0, the embeddings, or from -1, the last; inner ones are those of the encoder itself, unless
        a skill is named. Pooling and normalisation are the checkpoint's own where it says how (sentence-transformers
        folders do), else the mean over tokens. `dimensions` keeps the first; for `precision` and its `ranges` see
        `pipelines.embedding`. A batch has at most `batch_tokens`, on a CPU as many as its threads like best.

        >>> model.embed(["A man sleeps.", "Nobody is awake."]).shape
        (2, 384)
        """
        inner = skill is None and tuple(layers) != (-1,)
        one = self if inner and self.family not in RECURRENT_FAMILIES else self.able("embed", skill)
        vector = one.checkpoint.sentence or _MEAN
        if pooling is not None or normalise is not None:
            normalise = vector.normalise if normalise is None else normalise
            vector = SentenceVector(pooling or vector.pooling, normalise=normalise)
        found = embed(one, listed(texts), vector, layers, combine, dimensions, batch_tokens, progress)
        vectors = quantise(found, precision, ranges)
        return vectors[0] if isinstance(texts, str) else vectors

    @per_text
    def token_vectors(
        self,
        texts: Iterable[str],
        *,
        layers: Sequence[int] = (-1,),
        combine: Combine = "mean",
        progress: Progress | None = None,
    ) -> Iterator[TokenVectors]:
        """A vector for each token of a text, with its characters' offsets, from any layer or mix of layers.

        >>> found = model.token_vectors("A river bank")
        >>> found.tokens, found.vectors.shape
        (('a', 'river', 'bank'), (3, 384))
        """
        self.able("token_vectors")
        return token_vectors(self, texts, layers, combine, progress)

    @renamed(longest="max_characters")
    def index(
        self,
        documents: Iterable[str | Document],
        *,
        skill: str | Path | None = None,
        max_characters: int | None = None,
        progress: Progress | None = None,
    ) -> Index:
        """Build an index of passages to be searched and saved; for its options see `Index.build`.

        >>> len(model.index(["Dogs bark.", "Cats meow."]))
        2
        """
        self.able("index")
        options = {} if max_characters is None else {"max_characters": max_characters}
        return Index.build(documents, self, skill=skill, **options, progress=progress)

    @renamed(top="top_k")
    def search(
        self,
        query: str,
        documents: Iterable[str | Document],
        *,
        skill: str | Path | None = None,
        top_k: int = 10,
        method: Method | None = None,
        min_score: float | None = None,
        rerank: bool | None = None,
    ) -> list[Hit]:
        """The passages of a few documents that fit the query best; to search more than once, keep an `index`.

        The options are those of `Index.search`.

        >>> model.search("animals that bark", ["Dogs bark.", "Cats meow."], top_k=1)[0].text
        'Dogs bark.'
        """
        index = self.index(documents, skill=skill)
        return index.search(query, top_k=top_k, method=method, min_score=min_score, rerank=rerank)

    @overload
    def rerank(
        self,
        query: str,
        passages: Iterable[str],
        *,
        skill: str | Path | None = None,
        top_k: int | None = None,
        progress: Progress | None = None,
    ) -> list[Reranked]: ...
    @overload
    def rerank(
        self,
        query: Collection[tuple[str, Iterable[str]]],
        *,
        skill: str | Path | None = None,
        top_k: int | None = None,
        progress: Progress | None = None,
    ) -> list[list[Reranked]]: ...
    @overload
    def rerank(
        self,
        query: Iterator[tuple[str, Iterable[str]]],
        *,
        skill: str | Path | None = None,
        top_k: int | None = None,
        progress: Progress | None = None,
    ) -> Iterator[list[Reranked]]: ...

    def rerank(
        self,
        query: str | Iterable[tuple[str, Iterable[str]]],
        passages: Iterable[str] | None = None,
        *,
        skill: str | Path | None = None,
        top_k: int | None = None,
        progress: Progress | None = None,
    ) -> list[Reranked] | list[list[Reranked]] | Iterator[list[Reranked]]:
        """Which passages are what the query looks for? One query with its passages, or many (query, passages).

        A cross-encoder reads both together: slower than vectors, and better. It is a skill for that, or a model with a
        head of one output or two labels. The best come first, of all passages or the `top_k`, with probabilities.

        >>> reader = model.with_head("classes", 1)  # fresh, and still to be fine-tuned
        >>> sorted(one.index for one in reader.rerank("Who barks?", ["Dogs bark.", "Cats meow."]))
        [0, 1]
        """
        one, single = self.able("rerank", skill), isinstance(query, str)
        require(single == (passages is not None), "give a query and its passages, or a list of both", BadInput)
        given = [(query, passages or ())] if isinstance(query, str) else listed(query)
        return as_given(query, rerank(one, given, top_k, progress))

    def cluster(
        self,
        texts: Iterable[str],
        *,
        skill: str | Path | None = None,
        threshold: float | None = None,
        clusters: int | None = None,
        progress: Progress | None = None,
    ) -> list[Cluster]:
        """Which texts belong together? As near as `threshold`, a cosine, or in a given number of `clusters`.

        >>> texts = ["A dog barks.", "The dog is barking.", "Stocks fell on Monday."]
        >>> [found.members for found in model.cluster(texts, threshold=0.6)]
        [(0, 1), (2,)]
        """
        vectors = self.able("search", skill).embed(listed(texts), normalise=True, progress=progress)
        return cluster(vectors, threshold=threshold, clusters=clusters)

    def duplicates(
        self,
        texts: Iterable[str],
        *,
        skill: str | Path | None = None,
        threshold: float = 0.9,
        progress: Progress | None = None,
    ) -> list[Duplicate]:
        """Which texts repeat another, letter for letter or with a cosine of at least `threshold`?

        >>> model.duplicates(["A dog barks.", "Stocks fell.", "A dog barks."])
        [Duplicate(first=0, second=2, score=1.0, exact=True)]
        """
        embed = partial(self.able("search", skill).embed, normalise=True, progress=progress)
        return duplicates(list(listed(texts)), embed, threshold)

    def senses(
        self,
        word: str | Sequence[str],
        texts: Iterable[str],
        *,
        layers: Sequence[int] | None = None,
        threshold: float | None = None,
        count: int | None = None,
    ) -> Senses:
        """What does a word mean in each place? "bank" is found as banks too; other forms are given as a list.

        Vectors are the mean of `layers`, by default the last four, which tell senses apart better than the last alone.

        >>> texts = ["The bank lends money.", "She got money from the bank.", "We sat on the bank of the river."]
        >>> model.senses("bank", texts, count=2).groups
        [[0, 1], [2]]
        """
        self.able("senses")
        given, depth = list(listed(texts)), self.config.num_hidden_layers
        tokens = token_vectors(self, given, layers or range(-min(4, depth), 0))
        return senses(word, given, tokens, threshold=threshold, count=count)

    # what a decoder or an encoder–decoder is for

    @property
    def generator(self) -> Generator:
        """The network, ready to generate, where it is a decoder or recurrent."""
        return self.generator_for(None)

    def generator_for(self, task: str | None) -> Generator:
        """The same for a task that config.json may have values for, such as "summarization".

        >>> clearhead.load("./my-gpt").generator_for("summarization").sourced
        False
        """
        extra = self.checkpoint.description.extra
        # before there was a generation_config.json, config.json held its values
        said, tasks = self.checkpoint.generation or extra, extra.get(TASKS)
        own = tasks.get(task) if isinstance(tasks, dict) else None
        return Generator.of(self.network, self.tokenizer, {**said, **(own if isinstance(own, dict) else {})})

    @property
    def translation_suffix(self) -> str:
        r"""What stands between a text and its translation, where a decoder alone learnt to translate; else nothing.

        >>> clearhead.load("./my-gpt").translation_suffix
        ''
        """
        tasks = self.checkpoint.description.extra.get(TASKS)
        own = tasks.get("translation") if isinstance(tasks, dict) else None
        suffix = own.get("suffix") if isinstance(own, dict) and not self.generator.sourced else None
        return suffix if isinstance(suffix, str) else ""

    @property
    def writes(self) -> bool:
        """Whether it can generate.

        >>> model.writes
        False
        """
        return self.family in RECURRENT_FAMILIES or "causal_lm" in self.network.heads

    def _writer(self, use: str, task: str | None = None) -> Generator:
        named = f'load("{unasked(use)}"), or --model {unasked(use)}'
        told = f"this {self.family} writes no text and cannot {'write a summary' if task else use}"
        require(self.writes, f"{told}; choose one that does: {named}", WrongTask)
        return self.generator_for(task)

    @property
    def writer(self) -> Generator:
        """The old name of `generator`, for one release."""
        warnings.warn("writer is now called generator", DeprecationWarning, stacklevel=2)
        return self.generator

    @renamed(prompts="texts", **_WRITING)
    @per_prompt
    def generate(
        self,
        texts: Iterable[str],
        *,
        max_new_tokens: int | None = None,
        progress: Progress | None = None,
        **options: Unpack[GenerationOptions],
    ) -> Iterator[Written]:
        """Write on from a prompt, or anew from a source; for the options see `decoding.config.GenerationOptions`.

        What is not said is as the checkpoint's generation_config.json says it, but for its beams; at most 128 new
        tokens, if it does not say how many.

        >>> gpt = clearhead.load("./my-gpt")
        >>> len(gpt.generate("Once upon a time", max_new_tokens=8, min_new_tokens=8).tokens)
        8
        """
        generator, most, config = self._writing(max_new_tokens, options)
        return best_or_all(generate(generator, texts, most, config, progress), options)

    @renamed(**_WRITING)
    def stream(
        self, prompt: str, *, max_new_tokens: int | None = None, **options: Unpack[GenerationOptions]
    ) -> Iterator[str]:
        """The text of `generate`, piece by piece while it is written.

        >>> for piece in clearhead.load("./my-gpt").stream("Once upon a time", max_new_tokens=8):
        ...     assert isinstance(piece, str)
        """
        return stream_text(*self._writing(max_new_tokens, options), prompt)

    def chat(
        self,
        conversations: Iterable[Sequence[Message]],
        *,
        max_new_tokens: int | None = None,
        progress: Progress | None = None,
        **options: Unpack[GenerationOptions],
    ) -> list[Written]:
        """What the model says next in each conversation, by the chat template that came with it.

        A conversation is a list of messages, each with a role (system, user, assistant) and a content.

        >>> asked = [{"role": "user", "content": "Who barks?"}]
        >>> clearhead.load("./my-chat-gpt").chat([asked])[0].text  # doctest: +SKIP
        'Dogs do.'
        """
        single = options.get("num_return_sequences", 1) == 1
        require(single, "a conversation goes on with one message; leave num_return_sequences out", BadInput)
        generator, most, config = self._writing(max_new_tokens, options)
        require(not generator.sourced, "this model reads a source and answers no messages; choose a GPT", WrongTask)
        template = ChatTemplate.of(self.tokenizer)
        prompts = [template.render(messages) for messages in conversations]
        found = generate(replace(generator, templated=True), prompts, most, config, progress)
        return list(best_or_all(found, options))

    def _writing(
        self, max_new_tokens: int | None, options: GenerationOptions
    ) -> tuple[Generator, int, GenerationConfig]:
        """What writes, how many tokens at most, and how: as asked for, and else as the checkpoint says."""
        generator = self._writer("generate")
        # one beam at a time, unless several are asked for: what is printed while it is written has no others
        most = generator.habits.limit(max_new_tokens, NEW_TOKENS)
        habits: GenerationOptions = {**generator.habits.usual(most), "num_beams": 1}
        return generator, most, with_usual(options, habits)

    @renamed(**_WRITING)
    @per_prompt
    def translate(
        self,
        texts: Iterable[str],
        *,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        prefix: str = "",
        progress: Progress | None = None,
        **options: Unpack[GenerationOptions],
    ) -> Iterator[Rewritten]:
        """A text in the other language, sentence by sentence; four beams, unless you or the checkpoint say otherwise.

        A model of many languages is told two of its codes, such as NLLB "eng_Latn" and "deu_Latn", M2M-100 "en" and
        "de"; T5 knows en, de, fr, ro. "builtin:translator" goes by the language of each text, as far as it is not told:
        German and French to English, English to German. `prefix` is put before every sentence, as "translate English
        to German: ".

        >>> found = clearhead.load("./de-en").translate("Ein Hund bellt. Er ist müde.", num_beams=1)
        >>> [part.source for part in found.parts]
        ['Ein Hund bellt.', 'Er ist müde.']
        """
        generator, told = told_languages(self._writer("translate"), src_lang, tgt_lang)
        config = with_beams(options, generator.habits.usual())
        found = rewrite(
            generator,
            texts,
            config,
            prefix=lambda text: told(text) + prefix,
            suffix=self.translation_suffix,
            progress=progress,
        )
        return best_or_all(found, options)

    @renamed(**_WRITING)
    @per_summary
    def summarise(
        self,
        texts: Iterable[str],
        *,
        sentences: int | None = None,
        abstractive: bool = False,
        max_new_tokens: int | None = None,
        progress: Progress | None = None,
        **options: Unpack[GenerationOptions],
    ) -> Iterator[Any]:
        """The sentences that say most of a text, in its order, three unless `sentences` says how many.

        A model that was fine-tuned for `summarise` has learnt which these are, and how many there usually are.
        Or `abstractive`, in the model's own words, with the options of `generate`: an encoder–decoder's, or those of a
        GPT, such as "builtin:gpt", after "TL;DR:". Of every part of the text that is read at once, at most
        `max_new_tokens` are written.

        >>> text = "Dogs bark. Dogs are animals that bark at night. The moon is far away."
        >>> model.summarise(text, sentences=1).text
        'Dogs are animals that bark at night.'
        """
        if abstractive:
            require(sentences is None, f"sentences={sentences} are not picked where a summary is abstractive", BadInput)
            generator = self._writer("generate", "summarization")
            return summarise_abstractive(generator, texts, options, max_new_tokens=max_new_tokens, progress=progress)
        if self.family in RECURRENT_FAMILIES:
            check_reads(self.generator)
            raise WrongTask("this model picks no sentences of a text; ask for an abstractive summary")
        writing = [*([] if max_new_tokens is None else ["max_new_tokens"]), *options]
        require(not writing, f"{', '.join(writing)}: only abstractive summaries are written", BadInput)
        if (usual := self.checkpoint.description.extra.get(USUAL_SENTENCES)) is not None:
            fits = isinstance(usual, int) and usual > 0 and self.labels == SENTENCE_LABELS
            told = f"config.json says {USUAL_SENTENCES} = {usual!r} of a model with the labels {self.labels}"
            require(fits, f"{told}; train it again with: clearhead finetune summarise", BadCheckpoint)
            kept = usual if sentences is None else sentences
            return summarise_trained(texts, lambda one: self.tag(one, progress=progress), sentences=kept)
        count = 3 if sentences is None else sentences
        return summarise(texts, lambda one: self.embed(one, normalise=True, progress=progress), sentences=count)

    # what becomes of it

    def quantise(self, sample: Sequence[Any], *, loss: float = 0.005) -> Model:
        """The same model in int8 for a CPU, if it changes no more than `loss` on a sample of what it will read.

        The sample is what the use takes: texts; (question, context) or (text, text) pairs; (context, candidates). The
        loss is 1 - cosine of vectors, or how much less probable other answers are by the model itself: see
        `pipelines.int8`. Skills are quantised one at a time, since each corrects the encoder in its own way.

        >>> small = model.skill("spam").quantise(["Call now to claim your free prize", "See you at noon"])
        >>> small.classify("Text WIN to 80086 to claim your free prize").label
        'spam'
        """
        self.able("quantise")
        require(not self.skills, "quantise one skill at a time, such as model.skill(name).quantise(sample)", BadInput)
        return quantised(self, sample, loss)

    def save(self, folder: str | Path, heads: Sequence[str] | None = None, *, overwrite: bool = False) -> None:
        """Write a folder that `clearhead.load` reads, and transformers where it knows the model; whole or not at all.

        A folder that holds a model is refused, or with `overwrite` replaced.

        >>> model.skill("spam").save("./spam-model")
        >>> clearhead.load("./spam-model").classify("Text WIN to 80086 to claim your free prize").label
        'spam'
        """
        require(not is_int8(self.network), "an int8 model is for use alone; save the fp32 one it was made of", BadInput)
        write_folder(self.checkpoint, Path(folder), heads, overwrite=overwrite)

    def publish(self, name: str, *, heads: Sequence[str] | None = None, private: bool = False) -> str:
        """Upload the model with its card to the Hugging Face hub as "owner/name"; returns its address.

        >>> model.skill("spam").publish("me/spam-model")  # doctest: +SKIP
        'https://huggingface.co/me/spam-model'
        """
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "model"
            self.save(folder, heads)
            sentences = self.checkpoint.sentence is not None
            card = model_card(
                read_config(folder),
                name=name,
                parameters=self.parameters,
                sentences=sentences,
                features=FeatureHead.of(self.network),
            )
            return publish(folder, name, private=private, card=card)


class _NoSuchPart(WrongTask, AttributeError):
    """A part that a recurrent network has not; `hasattr` says so."""
