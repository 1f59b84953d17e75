"""The models of a studio: which there are, which are loaded; one computation at a time, the last views cached."""

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clearhead.errors import NotFound, require
from clearhead.hub.remote import find, in_the_box, unasked
from clearhead.inside.page import View
from clearhead.pipelines.model import Model, load
from clearhead.studio.entry import Answer, Entry, parse

CACHED = 4  # views; one of a long text takes megabytes


class Registry:
    """The models and runs that a studio was started with, and the built-in models. Nothing else can be opened."""

    def __init__(self, models: Sequence[str] | Mapping[str, str], runs: Sequence[Path]) -> None:
        self.runs = list(runs)
        if isinstance(models, Mapping):  # with names of their own
            self._sources = {**models, **{name: name for name in in_the_box()}} or {unasked(): unasked()}
        else:
            self._sources = _named(list(dict.fromkeys([*models, *in_the_box()])) or [unasked()])
        self._given = list(self._sources)[: len(dict.fromkeys(models))]
        self._loaded: dict[str, Model] = {}
        self._views: dict[str, View] = {}  # the one used last at the end
        # a trace hooks into the modules of a model, so no other computation may run in them meanwhile
        self._lock = threading.Lock()

    @property
    def models(self) -> list[str]:
        """The names of the models, the default first."""
        return list(self._sources)

    def about(self, name: object = None, skill: object = None, entry: Entry | None = None) -> dict[str, Any]:
        """What a page says of a model, or of one of its skills; of the page's own, if none is named."""
        with self._lock:
            name = name or self._default(entry)
            skills = list(self._model(name, None).skills)
            model = self._model(name, skill)
        return {
            "name": name,
            "family": model.family,
            "parameters": model.parameters,
            "heads": list(getattr(model.network, "heads", ())),  # a recurrent network has none
            "labels": list(model.labels or ()),
            "skills": skills,
        }

    def answer(self, entry: Entry, given: Mapping[str, object]) -> Answer:
        """Call an entry with the values of a request; a view that was made a moment ago is not made again."""
        wanted = dict(given)
        name, skill = wanted.pop("model", None), wanted.pop("skill", None)
        values = parse(entry.fields, wanted)
        if entry.needs == "runs":
            return entry.call(self.runs, **values)
        key = json.dumps([entry.path, name, skill, values])
        with self._lock:
            found: Answer | None = self._views.pop(key, None)
            if found is None:
                model = () if entry.needs == "nothing" else (self._model_for(entry, name, skill),)
                found = entry.call(*model, **values)
            if isinstance(found, View):
                self._views[key] = found
                if len(self._views) > CACHED:
                    del self._views[next(iter(self._views))]
            return found

    def _model_for(self, entry: Entry, name: object, skill: object) -> Model | None:
        try:
            return self._model(name or self._default(entry), skill)
        except NotFound:
            if entry.needs == "maybe model" and not name and not skill:
                return None
            raise

    def _default(self, entry: Entry | None) -> str:
        """The model of a page where none is chosen: the first; where it writes, the first given one that can."""
        if entry is None or entry.use is None:
            return self.models[0]
        for name in self._given:
            model = self._model(name, None)
            if model.writes and (entry.use != "translate" or model.generator.sourced):
                return name
        find(unasked(entry.use))  # says what to do where this copy has none
        return unasked(entry.use)

    def _model(self, name: object, skill: object) -> Model:
        """Load a model, or take the one that was loaded before; if a skill is named, with it."""
        require(
            isinstance(name, str) and name in self._sources,
            f"this studio has no model {str(name)[:80]!r}; it was started with {', '.join(self._sources)}",
            NotFound,
        )
        chosen = str(name)
        if chosen not in self._loaded:
            self._loaded[chosen] = load(self._sources[chosen])
        model = self._loaded[chosen]
        if not skill:
            return model
        known = ", ".join(model.skills) or "none"
        require(str(skill) in model.skills, f"{chosen} has no skill {str(skill)[:80]!r}; it has {known}", NotFound)
        return model.skill(str(skill))


def _named(sources: Sequence[str]) -> dict[str, str]:
    """Short names where they differ, else the whole paths."""
    short = [Path(source).resolve().name if Path(source).is_dir() else source for source in sources]
    names = [one if short.count(one) == 1 else source for one, source in zip(short, sources, strict=True)]
    return dict(zip(names, sources, strict=True))
