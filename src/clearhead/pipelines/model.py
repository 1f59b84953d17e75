"""The model a user holds: a network and its tokenizer, with one method per use."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, Unpack, cast

import torch

from clearhead.decoding.config import GenerationOptions, generation_config, with_beams
from clearhead.errors import BadInput, NotFound, WrongTask, require
from clearhead.hub.card import model_card
from clearhead.hub.checkpoint import (
    Checkpoint,
    RecurrentModel,
    build_network,
    fresh_heads,
    read_folder,
    read_model,
    write_folder,
)
from clearhead.hub.config import Description, read_config
from clearhead.hub.remote import builtin_folder, find, publish
from clearhead.hub.skills import DESCRIPTION, SKILLS, Skill, encoder_digest, find_skills, load_skill, tell_capitals
from clearhead.io import Progress
from clearhead.models import ALL_FAMILIES
from clearhead.nn.heads import Network, Pooler, Pooling, SentenceVector
from clearhead.nn.quantisation import is_int8
from clearhead.pipelines.classification import TEMPLATE, Classes, alike, classify, zero_shot
from clearhead.pipelines.clustering import Cluster, Duplicate, cluster, duplicates
from clearhead.pipelines.embedding import (
    Combine,
    Precision,
    Ranges,
    Vectors,
    embed,
    last_layers,
    quantise,
    token_vectors,
)
from clearhead.pipelines.fill_mask import fill
from clearhead.pipelines.generation import Generator, generate, stream_text
from clearhead.pipelines.int8 import calibrated, check_change
from clearhead.pipelines.multiple_choice import choose
from clearhead.pipelines.question_answering import Search, answer
from clearhead.pipelines.runner import as_given, listed, longer, paired
from clearhead.pipelines.search.index import Hit, Index, Method
from clearhead.pipelines.search.passages import Document
from clearhead.pipelines.senses import Senses, senses
from clearhead.pipelines.summarisation import LONGEST, retell, summarise
from clearhead.pipelines.token_classification import Strategy, tag
from clearhead.pipelines.translation import check_reads, rewrite
from clearhead.text import Tokenizer


class Writes:
    """What `Model` and `Recurrent` share."""

    @property
    def writer(self) -> Generator:
        """The network, ready to write."""
        raise NotImplementedError

    def generate(
        self,
        prompts: str | Iterable[str],
        *,
        longest: int = 128,
        progress: Progress | None = None,
        **how: Unpack[GenerationOptions],
    ) -> Any:
        """Write on from a prompt, or anew from a source, `longest` tokens at most; for `how` see `decoding.config`."""
        given = listed(prompts)
        return as_given(prompts, generate(self.writer, given, longest, generation_config(**how), progress))

    def stream(self, prompt: str, *, longest: int = 128, **how: Unpack[GenerationOptions]) -> Iterator[str]:
        """The text of `generate`, piece by piece while it is written."""
        return stream_text(self.writer, prompt, longest, generation_config(**how))

    def translate(
        self,
        texts: str | Iterable[str],
        *,
        prefix: str = "",
        progress: Progress | None = None,
        **how: Unpack[GenerationOptions],
    ) -> Any:
        """A text in the other language, sentence by sentence; four beams, if nothing else is said.

        `prefix` is put before every sentence, such as T5's "translate English to German: ".
        """
        given = listed(texts)
        return as_given(texts, rewrite(self.writer, given, with_beams(how), prefix=prefix, progress=progress))

    def summarise(
        self,
        texts: str | Iterable[str],
        *,
        sentences: int | None = None,
        abstractive: bool = False,
        longest: int | None = None,
        progress: Progress | None = None,
        **how: Unpack[GenerationOptions],
    ) -> Any:
        """A text in the model's own words, `longest` tokens at most; it picks no sentences, and must be told so."""
        check_reads(self.writer)
        if not abstractive:
            raise WrongTask("this model picks no sentences of a text; ask for an abstractive summary")
        require(sentences is None, f"sentences={sentences} are not picked where a summary is abstractive", BadInput)
        most = LONGEST if longest is None else longest
        return as_given(texts, retell(self.writer, listed(texts), how, longest=most, progress=progress))


# where it is not "translate or generate"
_CAN = {
    "elmo": "its vectors are given by pipelines.contextual.ContextualWords",
    "rnnlm": "it can generate",
    "word2vec": "its words are looked up with: clearhead vectors near",
}


class Recurrent(Writes):
    """An LSTM or GRU that was opened by `clearhead.load`; its uses are those of `Model` by the same names."""

    def __init__(self, held: RecurrentModel) -> None:
        self.held = held

    @property
    def kind(self) -> str:
        """Which model it is, such as seq2seq-lstm-additive."""
        return self.held.kind

    @property
    def network(self) -> Any:
        """The network itself."""
        return self.held.network

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that came with it."""
        return self.held.tokenizer

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return next(self.network.parameters()).device

    @property
    def parameters(self) -> int:
        """How many numbers the model has learnt."""
        return self.held.parameters

    def to(self, device: str | torch.device) -> Recurrent:
        """Move the model to a device."""
        self.network.to(device)
        return self

    @property
    def writer(self) -> Generator:
        """What writes."""
        return Generator.of(self.network, self.tokenizer)

    def save(self, folder: str | Path) -> None:
        """Write a folder that `clearhead.load` reads."""
        self.held.save(Path(folder))

    def __repr__(self) -> str:
        return f"Recurrent({self.kind}, {self.parameters / 1e6:.1f} M parameters)"

    def __getattr__(self, use: str) -> NoReturn:
        if use.startswith("_"):
            raise AttributeError(use)
        can = _CAN.get(self.kind.partition("-")[0], "it can translate or generate")
        raise WrongTask(f"a {self.kind} is from before the Transformer and has no {use!r}; {can}")


class ByVectors(Writes):
    """What a `Model` does with its encoder alone."""

    checkpoint: Checkpoint

    @property
    def encoder(self) -> Any:
        """The encoder: ids to hidden states."""
        return self.checkpoint.network.encoder

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the checkpoint."""
        raise NotImplementedError

    def embed(
        self,
        texts: str | Iterable[str],
        *,
        layers: Sequence[int] = (-1,),
        combine: Combine = "mean",
        pooling: Pooling | None = None,
        normalise: bool | None = None,
        dimensions: int | None = None,
        precision: Precision = "float32",
        ranges: Ranges | None = None,
        batch_tokens: int | None = None,
        progress: Progress | None = None,
    ) -> Vectors:
        """One vector per text, (texts, D); for a single string, (D,).

        `layers` counts from 0, the embeddings, or from -1, the last. Pooling and normalisation are the checkpoint's
        own where it says how (sentence-transformers folders do), else the mean over tokens. `dimensions` keeps the
        first; for `precision` and its `ranges` see `pipelines.embedding`.
        """
        own = self.checkpoint.sentence or SentenceVector("mean")
        vector = SentenceVector(
            own.pooling if pooling is None else pooling,
            normalise=own.normalise if normalise is None else normalise,
        )
        single = isinstance(texts, str)
        vectors = embed(
            self.encoder,
            self.tokenizer,
            listed(texts),
            vector=vector,
            layers=layers,
            combine=combine,
            dimensions=dimensions,
            batch_tokens=batch_tokens,
            progress=progress,
        )
        vectors = quantise(vectors, precision, ranges)
        return vectors[0] if single else vectors

    def token_vectors(
        self,
        texts: str | Iterable[str],
        *,
        layers: Sequence[int] = (-1,),
        combine: Combine = "mean",
        progress: Progress | None = None,
    ) -> Any:
        """A vector for each token of a text, with its characters' offsets, from any layer or mix of layers."""
        given = listed(texts)
        found = token_vectors(self.encoder, self.tokenizer, given, layers=layers, combine=combine, progress=progress)
        return as_given(texts, found)

    def index(
        self, documents: Iterable[str | Document], *, longest: int | None = None, progress: Progress | None = None
    ) -> Index:
        """Build an index to be searched and saved; for its options see `Index.build`."""
        return Index.build(
            documents, cast("Model", self), **({} if longest is None else {"longest": longest}), progress=progress
        )

    def search(
        self, query: str, documents: Iterable[str | Document], *, top: int = 10, method: Method | None = None
    ) -> list[Hit]:
        """The passages of a few documents that fit the query best; to search more than once, keep an `index`."""
        return self.index(documents).search(query, top=top, method=method)

    def cluster(
        self,
        texts: Iterable[str],
        *,
        threshold: float | None = None,
        clusters: int | None = None,
        progress: Progress | None = None,
    ) -> list[Cluster]:
        """Which texts belong together? As near as `threshold`, a cosine, or in a given number of `clusters`."""
        vectors = self.embed(listed(texts), normalise=True, progress=progress)
        return cluster(vectors, threshold=threshold, clusters=clusters)

    def duplicates(
        self, texts: Iterable[str], *, threshold: float = 0.9, progress: Progress | None = None
    ) -> list[Duplicate]:
        """Which texts repeat another, letter for letter or with a cosine of at least `threshold`?"""
        return duplicates(
            list(listed(texts)), lambda one: self.embed(one, normalise=True, progress=progress), threshold
        )

    def summarise(
        self,
        texts: str | Iterable[str],
        *,
        sentences: int | None = None,
        abstractive: bool = False,
        longest: int | None = None,
        progress: Progress | None = None,
        **how: Unpack[GenerationOptions],
    ) -> Any:
        """The sentences that say most of a text, in its order, three unless `sentences` says how many.

        Or `abstractive`, in an encoder–decoder's own words, of `longest` tokens at most; for `how` see
        `decoding.config`.
        """
        if abstractive:
            return super().summarise(
                texts, sentences=sentences, abstractive=True, longest=longest, progress=progress, **how
            )
        written = [*(["longest"] if longest is not None else []), *how]
        require(not written, f"{', '.join(written)}: only abstractive summaries are written", BadInput)
        given, count = listed(texts), 3 if sentences is None else sentences
        found = summarise(given, lambda one: self.embed(one, normalise=True, progress=progress), sentences=count)
        return as_given(texts, found)

    def senses(
        self,
        word: str | Sequence[str],
        texts: Iterable[str],
        *,
        layers: Sequence[int] | None = None,
        threshold: float | None = None,
        count: int | None = None,
    ) -> Senses:
        """What does a word mean in each place? Its forms may be given as a list; see `pipelines.senses`.

        Vectors are the mean of `layers`, by default the last four, which tell senses apart better than the last alone.
        """
        given = list(listed(texts))
        tokens = token_vectors(self.encoder, self.tokenizer, given, layers=layers or last_layers(self.encoder))
        return senses(word, given, tokens, threshold=threshold, count=count)


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
    checkpoint = read_model(folder, dtype)
    if isinstance(checkpoint, RecurrentModel):
        # told to be a Model all the same, so that nobody must ask which before a use that both have
        return cast("Model", Recurrent(checkpoint).to(device))
    skills = find_skills(folder) if (folder / SKILLS).is_dir() else {}
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
        families = [name for name, family in ALL_FAMILIES.items() if type(config) is family.config]
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
    def writer(self) -> Generator:
        """What writes, where the model is a decoder."""
        return Generator.of(self.network, self.tokenizer)

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

        One string is one text; each of many is a string or a list of words. For
        `strategy` see `pipelines.token_classification`.
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

        For the options see `pipelines.question_answering.Search`; without a threshold, the model's own holds.
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


class Skilled(Model):
    """Each use goes to the skill made for it, or to the one named by `skill`; masks are filled by the encoder itself.

    A skill is read when it is first used, and keeps a corrected copy of the blocks in memory.
    """

    def __init__(self, checkpoint: Checkpoint, skills: Mapping[str, Path], known: str | None = None) -> None:
        super().__init__(checkpoint)
        self.skills = dict(skills)
        self._made_for = {use: name for name, path in self.skills.items() for use in Skill.read(path).uses}
        self._learnt: dict[str, Model] = {}
        self._digest = known  # of the encoder; computed when it is first asked for

    def skill(self, name: str | Path) -> Model:
        """The model with one skill, by its name or by a folder that holds one."""
        folder = self.skills.get(str(name), Path(name))
        if not (folder / DESCRIPTION).is_file():
            known = ", ".join(self.skills) or "none"
            raise NotFound(f"there is no skill {str(name)!r}; there are {known}, or give a folder")
        if str(folder) not in self._learnt:
            self._digest = self._digest or encoder_digest(self.encoder)
            self._learnt[str(folder)] = Model(load_skill(self.checkpoint, folder, self._digest))
        return self._learnt[str(folder)]

    def able(self, use: str, skill: str | Path | None = None) -> Model:
        """The model for a use: with the skill named, or the one made for it, or as it is."""
        chosen = skill or self._made_for.get(use)
        return self if chosen is None else self.skill(chosen)

    def to(self, device: str | torch.device) -> Model:
        """Move the model; skills are read anew there."""
        self._learnt.clear()
        return super().to(device)

    def quantise(self, sample: Sequence[Any], *, loss: float = 0.005) -> Model:
        """Refuse: each skill corrects the encoder in its own way, and is rounded by itself."""
        raise BadInput("quantise one skill at a time, such as model.skill(name).quantise(sample)")

    def classify(
        self, texts: str | Iterable[str | tuple[str, str]], *, skill: str | None = None, **options: Any
    ) -> Any:
        """See `Model.classify`."""
        return Model.classify(self.able("classify", skill), texts, **options)

    def compare(
        self, first: str | Iterable[str], second: str | Iterable[str], *, skill: str | None = None, **options: Any
    ) -> Any:
        """See `Model.compare`."""
        return Model.compare(self.able("compare", skill), first, second, **options)

    def zero_shot(
        self, texts: str | Iterable[str], labels: Sequence[str], *, skill: str | None = None, **options: Any
    ) -> Any:
        """See `Model.zero_shot`; the skill is the one for comparing."""
        return Model.zero_shot(self.able("compare", skill), texts, labels, **options)

    def tag(self, texts: str | Iterable[str | Sequence[str]], *, skill: str | None = None, **options: Any) -> Any:
        """See `Model.tag`."""
        return Model.tag(self.able("tag", skill), texts, **options)

    def answer(
        self, questions: str | Iterable[str], contexts: str | Iterable[str], *, skill: str | None = None, **options: Any
    ) -> Any:
        """See `Model.answer`."""
        return Model.answer(self.able("answer", skill), questions, contexts, **options)

    def embed(
        self, texts: str | Iterable[str], *, skill: str | None = None, layers: Sequence[int] = (-1,), **options: Any
    ) -> Vectors:
        """See `Model.embed`; whoever asks for inner layers gets those of the encoder itself."""
        inner = skill is None and tuple(layers) != (-1,)
        return Model.embed(self if inner else self.able("embed", skill), texts, layers=layers, **options)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, skills: {', '.join(self.skills)})"
