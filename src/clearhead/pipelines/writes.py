"""The uses that every model which writes has: go on from a prompt, piece by piece too, translate and retell."""

from collections.abc import Iterable, Iterator
from typing import Any, Unpack

from clearhead.errors import BadInput, WrongTask, require
from clearhead.pipelines.engine import Progress
from clearhead.pipelines.generate import generate, stream_text
from clearhead.pipelines.inputs import as_given, listed
from clearhead.pipelines.manner import How, manner, with_beams
from clearhead.pipelines.retell import LONGEST, retell
from clearhead.pipelines.translate import check_reads, rewrite
from clearhead.pipelines.write import Writer


class Writes:
    """What `Model` and `Recurrent` share."""

    @property
    def writer(self) -> Writer:
        """The network, ready to write."""
        raise NotImplementedError

    def generate(
        self,
        prompts: str | Iterable[str],
        *,
        longest: int = 128,
        progress: Progress | None = None,
        **how: Unpack[How],
    ) -> Any:
        """Write on from a prompt, or anew from a source, `longest` tokens at most; for `how` see `pipelines.manner`."""
        given = listed(prompts)
        return as_given(prompts, generate(self.writer, given, longest, manner(**how), progress))

    def stream(self, prompt: str, *, longest: int = 128, **how: Unpack[How]) -> Iterator[str]:
        """The text of `generate`, piece by piece while it is written."""
        return stream_text(self.writer, prompt, longest, manner(**how))

    def translate(
        self, texts: str | Iterable[str], *, prefix: str = "", progress: Progress | None = None, **how: Unpack[How]
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
        **how: Unpack[How],
    ) -> Any:
        """A text in the model's own words, `longest` tokens at most; it picks no sentences, and must be told so."""
        check_reads(self.writer)
        if not abstractive:
            raise WrongTask("this model picks no sentences of a text; ask for an abstractive summary")
        require(sentences is None, f"sentences={sentences} are not picked where a summary is abstractive", BadInput)
        most = LONGEST if longest is None else longest
        return as_given(texts, retell(self.writer, listed(texts), how, longest=most, progress=progress))
