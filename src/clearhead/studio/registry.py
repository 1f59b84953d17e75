"""The models of a studio: which there are, which are loaded; one computation at a time, the last views cached."""

import json
import threading
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from clearhead.errors import NotFound, require
from clearhead.hub.remote import in_the_box, unasked
from clearhead.inside.decoding import told_target
from clearhead.inside.page import View
from clearhead.pipelines.model import Model, load
from clearhead.studio.entry import MAX_CHARACTERS, Answer, Entry, parse

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
            "positions": _positions(model),
            "heads": list(getattr(model.network, "heads", ())),  # a recurrent network has none
            "labels": list(model.labels or ()),
            "writes": "" if not model.writes else "translate" if model.generator.sourced else "generate",
            "skills": skills,
            "uses": {} if skill else model.uses,  # and the skill that each takes
        }

    def answer(self, entry: Entry, given: Mapping[str, object]) -> Answer:
        """Call an entry with the values of a request; a view that was made a moment ago is not made again."""
        chosen, values = _apart(entry, given)
        if entry.needs == "runs":
            return entry.call(self.runs, **values)
        key = json.dumps([entry.path, chosen, values])
        with self._lock:
            found: Answer | None = self._views.pop(key, None)
            if found is None:
                models = () if entry.needs == "nothing" else (self._model_for(entry, *one) for one in chosen)
                found = entry.call(*models, **values)
            if isinstance(found, View):
                self._views[key] = found
                if len(self._views) > CACHED:
                    del self._views[next(iter(self._views))]
            return found

    def caption(self, entry: Entry, given: Mapping[str, object]) -> str:
        """What a picture shows, in a line: the model with its skill, the texts, the date."""
        chosen, values = _apart(entry, given)
        parts = []
        if entry.needs not in ("nothing", "runs"):
            with self._lock:
                for name, skill in chosen:
                    named = name or self._default(entry)
                    taken = skill or self._model(named, None).uses.get(entry.skilled(values) or "")
                    parts.append(f"{named}{f', skill {taken}' if taken else ''}")
        texts = [field.name for field in entry.fields if field.kind != "number" and not field.choices]
        parts += [f"“{_short(str(values[name]))}”" for name in texts if values[name]]
        return " · ".join([*dict.fromkeys(parts), f"{date.today().isoformat()}", "clearhead"])

    def shorter(self, entry: Entry, given: Mapping[str, object]) -> dict[str, str]:
        """The texts of a request that a picture refused, cut at the end of a word so that it shows them."""
        chosen, values = _apart(entry, given)
        with self._lock:
            model = self._model_for(entry, *chosen[0])
        if model is None or entry.tokens is None:
            return {}
        most = min(entry.tokens, _positions(model))
        sides = [("text", "pair"), ("other", "other_pair")]
        cut = {side: _cut(model, values.get(side[0]), values.get(side[1]), most) for side in sides}
        return {name: text for side in sides for name, text in zip(side, cut[side], strict=True) if text}

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
        if unasked(entry.use) in self._sources:
            return unasked(entry.use)
        # what is written word by word may as well be a translation
        if entry.kind == "look" and unasked("translate") in self._sources:
            return unasked("translate")
        told = f"no model here goes on with a text: this copy of clearhead has no {unasked(entry.use)}"
        if entry.use == "translate":
            told = f"no model here translates: this copy of clearhead has no {unasked(entry.use)}"
        raise NotFound(f"{told}; start the studio with --model and the folder or hub name of one that can")

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


def _apart(entry: Entry, given: Mapping[str, object]) -> tuple[list[tuple[object, object]], dict[str, Any]]:
    """The model and skill of a request, or both of them where two are compared, and the values of its fields."""
    wanted = dict(given)
    chosen = [(wanted.pop("model", None), wanted.pop("skill", None))]
    if entry.needs == "two models":
        chosen.append((wanted.pop("model_b", None), wanted.pop("skill_b", None)))
    return chosen, parse(entry.fields, wanted)


def _positions(model: Model) -> int:
    if not model.writes:
        return int(model.encoder.max_length)
    positions = model.generator.positions
    return MAX_CHARACTERS if positions is None else positions


def _cut(model: Model, first: str | None, second: str | None, most: int) -> tuple[str | None, str | None]:
    """One or two texts with at most so many tokens; of two, the longer loses words."""
    if not first:
        return first, second
    encoding = model.tokenizer.encode(first, second)
    length = len(encoding)
    if model.writes:  # a translator reads the language before the text
        length = len(model.generator.ids([told_target(model.generator, first)])[0])
    if length <= most:
        return first, second
    which = max(range(len(encoding.parts)), key=lambda one: len(encoding.parts[one]))
    part = encoding.parts[which]
    end = part.stop - (length - most)
    while end > part.start and encoding.words[end] == encoding.words[end - 1]:
        end -= 1
    last = encoding.offsets[end - 1] if end > part.start else None
    kept = ((first, second or "")[which])[: last[1]] if last else None
    return (kept, second) if which == 0 else (first, kept)


def _short(text: str, most: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _named(sources: Sequence[str]) -> dict[str, str]:
    """Short names where they differ, else the whole paths."""
    short = [Path(source).resolve().name if Path(source).is_dir() else source for source in sources]
    names = [one if short.count(one) == 1 else source for one, source in zip(short, sources, strict=True)]
    return dict(zip(names, sources, strict=True))
