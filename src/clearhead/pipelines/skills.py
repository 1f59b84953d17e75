"""A model with skills: one encoder, and for each use the correction and the head that were trained for it."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from clearhead.errors import BadInput, NotFound
from clearhead.hub.folder import Checkpoint
from clearhead.hub.skills import DESCRIPTION, Skill, encoder_digest, learn
from clearhead.pipelines.embed import Vectors
from clearhead.pipelines.model import Model


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
            self._learnt[str(folder)] = Model(learn(self.checkpoint, folder, self._digest))
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
