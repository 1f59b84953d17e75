"""The models of a service by their ids: loaded when first asked, let go by memory, exchanged without a pause."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic, time
from typing import get_args

from clearhead.errors import BadInput, ClearheadError, near
from clearhead.hub.remote import BUILT_IN, find, in_the_box, unasked
from clearhead.hub.skills import Skill, find_skills
from clearhead.hub.weights import weights_state
from clearhead.models import RECURRENT_FAMILIES
from clearhead.nn.heads import Network
from clearhead.pipelines.model import Model, load
from clearhead.pipelines.search.stored import AnyIndex, StoredIndex, open_index
from clearhead.serve.perform import ABLE
from clearhead.serve.settings import Settings
from clearhead.serve.work import Catalogue, Refusal, Served, Use

log = logging.getLogger(__name__)

BUILT_IN_ID = "built-in"  # the encoder in the package; its skills, and the other models there, after a colon
INT8_USES = ("classify", "embed", "fill", "tag")  # for which texts are sample enough
_READY_BYTES = 1_000_000_000  # of skills that are asked in turns
_SAMPLE = 200  # texts on which 8 bits must agree


class Registry:
    """The built-in models and those that a service was started with. Nothing else can be asked for."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        encoder = unasked()
        built_in = {BUILT_IN_ID if name == encoder else _id(name): name for name in in_the_box()}
        self._given = list(settings.models)
        self._sources = {**settings.models, **built_in}
        self._loaded: dict[str, Model] = {}
        self._asked: dict[str, float] = {}  # when, by id
        self._state: dict[str, str] = {}  # of the weights as they were read
        self._quantised: dict[tuple[str, str], Model] = {}
        self._skills: dict[str, dict[str, Skill]] = {}  # of each model, by name; read once
        self._made_for: dict[str, set[str]] = {}  # the uses of each model that was loaded once
        self._indexes: dict[tuple[str, int], AnyIndex] = {}  # by name and model
        self._locks = {name: threading.Lock() for name in [*self._sources, *settings.indexes]}
        self._sample = _read_sample(settings.int8)
        self._started = int(time())

    def check(self) -> None:
        """Refuse a name that leads to no model, before anything is served."""
        for name in self._given:
            find(self._sources[name])
        for place in self._settings.indexes.values():
            _close(open_index(place))

    def preload(self) -> None:
        """Load what is asked most: the models that were given, else the built-in one."""
        for name in self._given or [BUILT_IN_ID]:
            if name in self._sources:
                self._model(name)
        for name in self._settings.indexes:
            self.index(name, self.model(None, "search")[0])

    @property
    def loaded(self) -> list[str]:
        """The ids of the models that are in memory."""
        return list(self._loaded)

    def model(self, name: str | None, use: str) -> tuple[Model, str]:
        """The model for a use, with the skill that its id names, and the id; without one, the default for the use."""
        chosen = self._default(use) if name is None else self._known(name)
        base, _, skill = chosen.partition(":") if chosen not in self._sources else (chosen, "", "")
        found = self._model(base)
        if skill:
            found = found.skill(skill)
        self._asked[base] = monotonic()
        return self._int8(chosen, found, use), chosen

    def index(self, name: str, model: Model) -> AnyIndex:
        """A saved index, or a store, that the service was started with."""
        folder = self._settings.indexes.get(name)
        if folder is None:
            known = near(name, self._settings.indexes)
            raise Refusal("not_found", f"there is no index {name[:80]!r} here; {known}", field="index")
        with self._locks[name]:
            key = (name, id(model))
            if key not in self._indexes:
                self._indexes[key] = open_index(folder, model)
            return self._indexes[key]

    def catalogue(self) -> Catalogue:
        """All ids, and what is known of each."""
        found: list[Served] = []
        for name in self._sources:
            model = self._loaded.get(name)
            found.append(self._served(name, None, model, list(model_uses(model)) if model else []))
            for skill, about in self._skills_of(name).items():
                learnt = model and model._learnt.get(str(model.skills.get(skill)))
                found.append(self._served(f"{name}:{skill}", name, learnt, list(about.uses)))
        # to look is not to ask: what is not loaded, or was let go, stays so
        default = {use: own for use in get_args(Use) if (own := self._default_or_none(use, load=False)) is not None}
        return Catalogue(
            models=found,
            default=default,
            indexes=list(self._settings.indexes),
            created=self._started,
            max_queue_tokens=self._settings.max_queue_tokens,
        )

    def _served(self, name: str, parent: str | None, model: Model | None, uses: list[str]) -> Served:
        if model is None or model.family in RECURRENT_FAMILIES:
            family = None if model is None else model.family
            return Served(id=name, parent=parent, uses=uses, loaded=model is not None, family=family)
        sentence = model.checkpoint.sentence
        return Served(
            id=name,
            parent=parent,
            uses=uses,
            loaded=True,
            family=model.family,
            parameters=model.parameters,
            max_length=model.encoder.max_length,
            dimensions=int(getattr(model.encoder, "width", 0)) or None,
            pooling=None if sentence is None else sentence.pooling,
            labels=list(model.labels or ()),
        )

    def let_go(self, used: int) -> None:
        """Let models go, those first that were not asked longest, while the process uses more than it may."""
        most = self._settings.max_memory
        if most is None or used <= most or len(self._loaded) < 2:
            return
        oldest = min(self._loaded, key=lambda name: self._asked.get(name, 0.0))
        with self._locks[oldest]:
            self._forget(oldest)
        log.info("let go of model=%s at memory=%d", oldest, used)

    def reload(self) -> None:
        """Take the new files of every model whose weights have changed; requests that are being answered keep the old.

        What cannot be read is left as it is, and said in the log.
        """
        for name in list(self._loaded):
            source = self._sources[name]
            if source.startswith(BUILT_IN):
                continue
            try:
                state = weights_state(find(source))
                if state == self._state.get(name):
                    continue
                fresh = self._read(name)
            except (ClearheadError, OSError) as error:
                log.warning("model=%s has changed and cannot be read: %s", name, error)
                self._state[name] = ""  # said once for each change; looked at again with the next
                continue
            with self._locks[name]:
                self._forget(name)
                self._loaded[name], self._state[name] = fresh, state
                self._made_for[name] = _made_for(fresh)
            log.info("exchanged model=%s", name)

    def _forget(self, name: str) -> None:
        self._loaded.pop(name, None)
        for key in [key for key in self._quantised if key[0].partition(":")[0] == name]:
            del self._quantised[key]
        self._skills.pop(name, None)
        for one in self._indexes.values():
            _close(one)
        self._indexes.clear()  # they hold their model

    def _skills_of(self, name: str) -> dict[str, Skill]:
        if name not in self._skills:
            source = self._sources[name]
            # what is on the hub is looked at when it is loaded
            folder = find(source) if source.startswith(BUILT_IN) or name in self._loaded else Path(source)
            self._skills[name] = {skill: Skill.read(path) for skill, path in find_skills(folder).items()}
        return self._skills[name]

    def _known(self, name: str) -> str:
        """The id that a client means, or a refusal; "builtin:translator" is what Python calls it."""
        if name.startswith(BUILT_IN):
            name = BUILT_IN_ID if name == unasked() else _id(name)
        base, _, skill = name.partition(":")
        if name in self._sources or (base in self._sources and skill in self._skills_of(base)):
            return name
        skills = [f"{source}:{one}" for source in self._sources for one in self._skills_of(source)]
        known = [*self._sources, *skills]
        told = f"there is no model {name[:80]!r} here; {near(name, known)}"
        raise Refusal("unknown_model", told, field="model")

    def _default(self, use: str) -> str:
        name = self._default_or_none(use)
        if name is None:
            told = f"no model here can {use}; start the service with one that can: --model NAME=FOLDER"
            raise Refusal("wrong_task", told, field="model")
        return name

    def _default_or_none(self, use: str, *, load: bool = True) -> str | None:
        """The first of the models that were given which can do it, else the built-in one for the use."""
        for name in self._given:
            if load and name not in self._made_for:
                self._model(name)
            if use in self._made_for.get(name, ()):
                return name
        built_in = unasked(ABLE.get(use, use))
        name = BUILT_IN_ID if built_in == unasked() else _id(built_in)
        return name if name in self._sources else None

    def _model(self, name: str) -> Model:
        with self._locks[name]:
            if name not in self._loaded:
                state = weights_state(find(self._sources[name]))
                self._loaded[name], self._state[name] = self._read(name), state
                self._made_for[name] = _made_for(self._loaded[name])
                self._skills.pop(name, None)
                log.info("loaded model=%s", name)
            return self._loaded[name]

    def _read(self, name: str) -> Model:
        model = load(self._sources[name], device=self._settings.device, dtype=self._settings.dtype)
        model.ready_bytes = _READY_BYTES if self._settings.max_memory is None else self._settings.max_memory // 4
        return model

    def _int8(self, name: str, model: Model, use: str) -> Model:
        if not self._sample or use not in INT8_USES:
            return model
        with self._locks[name if name in self._sources else name.partition(":")[0]]:
            key = (name, use)
            if key not in self._quantised:
                self._quantised[key] = self._quantise(name, model, use)
            return self._quantised[key]

    def _quantise(self, name: str, model: Model, use: str) -> Model:
        """The model for a use in 8 bits, or as it is where they change too much."""
        own = model.able(use)
        checkpoint = own.checkpoint
        sample = self._sample
        if use == "fill":
            sample = [f"{text} {own.tokenizer.mask_token}" for text in sample]
        if use == "embed":  # then vectors are compared, whatever heads stand on the encoder
            checkpoint = replace(checkpoint, network=Network(own.encoder, {}))
        try:
            made = Model(checkpoint).quantise(sample)
        except ClearheadError as error:
            log.warning("model=%s use=%s stays as it is: %s", name, use, error)
            return model
        log.info("model=%s use=%s computes in int8", name, use)
        return made


def _close(index: AnyIndex) -> None:
    if isinstance(index, StoredIndex):
        index.close()


def model_uses(model: Model) -> Sequence[str]:
    """The uses of a service that a model can do, by its heads and skills."""
    if model.family in RECURRENT_FAMILIES:
        return _writing(model)
    heads = set(model.network.heads)
    found = ["tokenise", "detokenise"]
    found += ["fill"] * ("masked_lm" in heads) + ["choose"] * bool(heads & {"choice", "next_sentence"})
    found += ["follows"] * ("next_sentence" in heads)
    found += ["tag"] * ("tags" in heads) + ["answer"] * ("span" in heads)
    if "classes" in heads:
        found += ["classify", "compare", "rerank"]
        found += ["zero-shot"] * any(label.lower().startswith("entail") for label in model.labels or ())
    if model.writes:
        found += _writing(model)
    else:
        found += _VECTORS
    made = set(model.uses)
    found += [use for use in get_args(Use) if ABLE.get(use, use) in made and use not in found]
    return found


_VECTORS = ("embed", "embed-tokens", "search", "summarise")


def _made_for(model: Model) -> set[str]:
    """The uses that a model takes where nobody names one: a classifier can make vectors, and is not meant for them."""
    uses, labels = set(model_uses(model)), model.labels or ()
    if model.family in RECURRENT_FAMILIES or not set(model.network.heads) & {"classes", "tags", "span", "choice"}:
        return uses
    reads_pairs = len(labels) == 1 or "entailment" in map(str.lower, labels)
    only = {"classify"} if reads_pairs else {"compare", "rerank"}
    return uses - (set(_VECTORS) | only if "classes" in model.network.heads else set(_VECTORS))


def _writing(model: Model) -> list[str]:
    if not model.writes:
        return []
    translates = model.generator.sourced or model.translation_suffix
    return ["generate", *(["translate", "summarise"] if translates else ["summarise"])]


def _id(name: str) -> str:
    return f"{BUILT_IN_ID}:{name.removeprefix(BUILT_IN)}"


def _read_sample(path: str | None) -> list[str]:
    if path is None:
        return []
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--int8 {path} cannot be read ({error}); give a text file with a text a line") from None
    found = [line for line in lines if line.strip()][:_SAMPLE]
    if not found:
        raise BadInput(f"--int8 {path} has no text; give a file with a text a line, of the kind that will be read")
    return found
