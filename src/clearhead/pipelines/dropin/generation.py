"""What may be said to the pipelines that write: the arguments of transformers' `generate`, as far as they are ours."""

from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.decoding.sampling import Sampling
from clearhead.errors import BadInput, require
from clearhead.pipelines.dropin.calls import Options, at_least_one
from clearhead.pipelines.manner import Manner

_TOP_K = 50  # what `generate` draws among unless told otherwise


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteOptions(Options):
    """As in v4: `max_length` counts the prompt too, `max_new_tokens` does not and goes first.

    `num_beams` and `do_sample` choose the way; `stop_sequence` is an older name of `stop_strings`. Beams stop when no
    beginning can be better, so that `early_stopping` changes nothing; neither does `pad_token_id`.
    """

    max_new_tokens: int | None = None
    max_length: int | None = None
    min_new_tokens: int | None = None
    min_length: int | None = None
    num_beams: int | None = None
    num_return_sequences: int = 1
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    length_penalty: float = 1.0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    stop_strings: str | Sequence[str] | None = None
    stop_sequence: str | Sequence[str] | None = None
    early_stopping: bool | str | None = None
    pad_token_id: int | None = None
    return_tensors: bool = False
    return_text: bool | None = None
    clean_up_tokenization_spaces: bool | None = None

    def most(self, prompt: int, default: int) -> int:
        """How many new tokens after a prompt of so many; of a source, none count."""
        if self.max_new_tokens is not None:
            at_least_one("max_new_tokens", self.max_new_tokens)
            return self.max_new_tokens
        if self.max_length is None:
            return default
        free = self.max_length - prompt
        require(free > 0, f"max_length={self.max_length} leaves no room after {prompt} tokens; add to it", BadInput)
        return free

    def manner(self, prompt: int, *, beams: int = 1) -> Manner:
        """The same as `Model.generate` has it; `beams` are those of a pipeline that nobody told how many."""
        at_least_one("num_return_sequences", self.num_return_sequences)
        usual = 1 if self.do_sample else beams
        wide = usual if self.num_beams is None else self.num_beams
        at_least_one("num_beams", wide)
        several = self.num_return_sequences
        require(
            self.do_sample or several <= wide,
            f"num_return_sequences={several} needs num_beams={several} or more, or do_sample=True",
            BadInput,
        )
        least = self.min_new_tokens or max(0, (self.min_length or 0) - prompt)
        stop = self.stop_strings or self.stop_sequence or ()
        top_k = _TOP_K if self.top_k is None else self.top_k
        return Manner(
            beams=wide,
            best=self.num_return_sequences,
            length_penalty=self.length_penalty,
            sampling=Sampling(temperature=self.temperature, top_k=top_k, top_p=self.top_p) if self.do_sample else None,
            least=least,
            repetition_penalty=self.repetition_penalty,
            no_repeat=self.no_repeat_ngram_size,
            stop=(stop,) if isinstance(stop, str) else tuple(stop),
        )
