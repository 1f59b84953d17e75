"""Where requests meet models: which there are, which are loaded, one computation at a time, the last pictures kept."""

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from clearhead.errors import NotFound, require
from clearhead.inside.page import View
from clearhead.pipelines.model import Model, Recurrent, Skilled, load
from clearhead.studio.entry import Answer, Entry, Given, parse

BUILT_IN = "built-in"
KEPT = 4  # pictures; one of a long text takes megabytes


class Registry:
    """The models and runs that a studio was started with. Nothing else can be opened through it."""

    def __init__(self, models: Sequence[str], runs: Sequence[Path]) -> None:
        self.runs = list(runs)
        self._sources: dict[str, str | None] = _named(models) if models else {BUILT_IN: None}
        self._loaded: dict[str, Model] = {}
        self._kept: OrderedDict[str, View] = OrderedDict()
        # a trace watches the modules of a model, so no other computation may run in them meanwhile
        self._lock = threading.Lock()

    @property
    def models(self) -> list[str]:
        """The names of the models, the default first."""
        return list(self._sources)

    def model(self, name: object = None, skill: object = None) -> Model:
        """Load a model, or take the one that was loaded before; of a model with skills, with one of them if named."""
        with self._lock:
            return self._model(name, skill)

    def answer(self, entry: Entry, given: Mapping[str, object]) -> Answer:
        """Do what an entry is for; a picture that was made a moment ago is not made again."""
        wanted = dict(given)
        name, skill = wanted.pop("model", None), wanted.pop("skill", None)
        values = parse(entry.fields, wanted)
        if entry.needs == "runs":
            return entry.call(Given(model=None, runs=self.runs, values=values))
        key = json.dumps([entry.path, name, skill, values])
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            found = entry.call(Given(model=self._model_for(entry, name, skill), runs=self.runs, values=values))
            if isinstance(found, View):
                self._keep(key, found)
            return found

    def _model_for(self, entry: Entry, name: object, skill: object) -> Model | None:
        if entry.needs == "nothing":
            return None
        try:
            return self._model(name, skill)
        except NotFound:
            if entry.needs == "maybe model" and not name and not skill:
                return None
            raise

    def _model(self, name: object, skill: object) -> Model:
        wanted = name or self.models[0]
        require(
            isinstance(wanted, str) and wanted in self._sources,
            f"this studio has no model {str(wanted)[:80]!r}; it was started with {', '.join(self._sources)}",
            NotFound,
        )
        chosen = str(wanted)
        if chosen not in self._loaded:
            self._loaded[chosen] = self._load(self._sources[chosen])
        model = self._loaded[chosen]
        if not skill:
            return model
        known = skills_of(model)
        require(
            skill in known, f"{chosen} has no skill {str(skill)[:80]!r}; it has {', '.join(known) or 'none'}", NotFound
        )
        return cast("Skilled", model).skill(str(skill))

    def _load(self, source: str | None) -> Model:
        try:
            return load(source)
        except NotFound:
            if source is not None:
                raise
            raise NotFound("this copy of clearhead has no built-in model; start the studio with --model") from None

    def _keep(self, key: str, view: View) -> None:
        self._kept[key] = view
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)


def skills_of(model: Model) -> list[str]:
    """The names of its skills, if it has some."""
    return list(model.skills) if isinstance(model, Skilled) else []


def able(model: Model, use: str) -> Model:
    """The model for a use: one with skills takes the one that was made for it."""
    return model.able(use) if isinstance(model, Skilled) else model


def about(name: str, model: Any, skills: Sequence[str]) -> dict[str, Any]:
    """What a page says of a model, and of the skills it may be given."""
    # one from before the Transformer has neither family nor heads
    older = isinstance(model, Recurrent)
    return {
        "name": name,
        "family": model.kind if older else model.checkpoint.description.family,
        "parameters": model.parameters,
        "heads": [] if older else list(model.network.heads),
        "labels": [] if older else list(model.labels or ()),
        "skills": list(skills),
    }


def _named(sources: Sequence[str]) -> dict[str, str | None]:
    """Short names where they differ, else the whole paths."""
    short = [Path(source).resolve().name if Path(source).is_dir() else source for source in sources]
    names = [one if short.count(one) == 1 else source for one, source in zip(short, sources, strict=True)]
    return dict(zip(names, sources, strict=True))
