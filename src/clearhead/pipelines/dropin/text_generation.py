"""`pipeline("text-generation")`: prompts to the texts that go on from them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.decoding.results import Output
from clearhead.errors import BadInput, WrongTask, require
from clearhead.pipelines.dropin.calls import feed, settle
from clearhead.pipelines.dropin.generation import WriteOptions
from clearhead.pipelines.manner import Manner
from clearhead.pipelines.model import Model

_MOST = 256  # new tokens, if nobody says how many


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationOptions(WriteOptions):
    """`return_full_text`: the prompt with what follows, or only what follows; `prefix` stands before every prompt."""

    return_full_text: bool | None = None
    prefix: str = ""
    add_special_tokens: bool | None = None
    handle_long_generation: str | None = None


class TextGeneration:
    """For each prompt a list of dictionaries with generated_text, or with generated_token_ids for `return_tensors`.

    v5 draws by chance unless told `do_sample=False`; here, as in v4, chance must be asked for. Chats are refused.
    """

    def __init__(self, model: Model, **options: Any) -> None:
        if model.writer.sourced:
            raise WrongTask("this model reads a source; its pipelines are text2text-generation and translation")
        self.model = model
        self._said = options
        settle(GenerationOptions, options)

    def __call__(self, text_inputs: Any, **options: Any) -> Any:
        """Go on from one prompt, from many, or from a stream."""
        chosen = settle(GenerationOptions, self._said, options)
        return feed(text_inputs, lambda prompts: self._results(prompts, chosen), chosen)

    def _results(self, prompts: Sequence[Any], chosen: GenerationOptions) -> Iterator[list[dict[str, Any]]]:
        for prompt in prompts:
            require(
                isinstance(prompt, str), f"A prompt is a text, not {prompt!r}; chats need a chat template.", BadInput
            )
        require(
            chosen.handle_long_generation in (None, "hole"),
            f"handle_long_generation={chosen.handle_long_generation!r} is not known; 'hole' is",
            BadInput,
        )
        writer = self.model.writer
        ids = writer.ids([chosen.prefix + prompt for prompt in prompts])
        limits = [chosen.most(len(one), _MOST) for one in ids]
        if chosen.handle_long_generation == "hole" and writer.positions is not None:
            ids = [one[-max(1, writer.positions - most) :] for one, most in zip(ids, limits, strict=True)]
        ways: dict[Manner, list[int]] = {}
        for place, one in enumerate(ids):
            ways.setdefault(chosen.manner(len(one)), []).append(place)
        found: dict[int, list[Output]] = {}
        for manner, places in ways.items():
            written = writer.write([ids[i] for i in places], [limits[i] for i in places], manner)
            found |= dict(zip(places, written, strict=True))
        for place, (prompt, read) in enumerate(zip(prompts, ids, strict=True)):
            yield [self._dictionary(prompt, read, output, chosen) for output in found[place]]

    def _dictionary(self, prompt: str, read: list[int], output: Output, chosen: GenerationOptions) -> dict[str, Any]:
        if chosen.return_tensors:
            by_end = output.ended and len(output.log_probabilities) > len(output.tokens)
            return {"generated_token_ids": [*read, *output.tokens, *([self.model.writer.end] if by_end else [])]}
        # what the prompt's tokens are decoded to may differ from the prompt, so that the new text is a difference
        before, whole = (self.model.tokenizer.decode(tokens) for tokens in (read, [*read, *output.tokens]))
        text = whole[len(before) :]
        return {"generated_text": text if chosen.return_full_text is False else prompt + text}
