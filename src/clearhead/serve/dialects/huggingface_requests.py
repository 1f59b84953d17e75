"""The request bodies of Hugging Face's Inference API, task by task; what is not known is passed over."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from clearhead.serve.dialects.dialect import Params
from clearhead.serve.dialects.tei import EmbedRequest
from clearhead.serve.work import Refusal, Use, Work

Positive = Annotated[int, msgspec.Meta(ge=1)]
_TOP_K = 50  # tokens that are drawn from where sampling is asked for, and no more said


class Request(msgspec.Struct, kw_only=True):
    """What every task takes beside its inputs; the model is the one of the path, if it has one."""

    model: str | None = None

    def work(self, use: Use, items: list[Any], params: Params, options: Mapping[str, Any]) -> Work:
        """The work on these items, with the options that were given."""
        if not items:
            raise Refusal("invalid", "inputs: the list is empty; give at least one input", field="inputs")
        given = {name: value for name, value in options.items() if value is not None}
        return Work(use=use, items=items, model=params.get("model") or self.model, options=given)


class FillParameters(msgspec.Struct, kw_only=True):
    """How many words for a mask, and among which."""

    top_k: Positive | None = None
    targets: str | list[str] | None = None


class FillRequest(Request, kw_only=True):
    """Texts with masks."""

    inputs: str | list[str]
    parameters: FillParameters | None = None


class ClassParameters(msgspec.Struct, kw_only=True):
    """How many labels, and what makes scores of logits."""

    top_k: Positive | None = None
    function_to_apply: Literal["sigmoid", "softmax", "none"] | None = None


class TextPair(msgspec.Struct, kw_only=True):
    """A text, or two that are read together."""

    text: str
    text_pair: str | None = None

    def item(self) -> str | list[str]:
        """As `Work` has it."""
        return self.text if self.text_pair is None else [self.text, self.text_pair]


class ClassRequest(Request, kw_only=True):
    """Texts, or pairs of texts."""

    inputs: str | TextPair | list[str | TextPair]
    parameters: ClassParameters | None = None


class ZeroShotParameters(msgspec.Struct, kw_only=True):
    """Labels as a list or divided by commas; `multi_label`: several may be true at once."""

    candidate_labels: str | list[str]
    multi_label: bool | None = None
    hypothesis_template: str | None = None


class ZeroShotRequest(Request, kw_only=True):
    """Texts to be labelled without training."""

    inputs: str | list[str]
    parameters: ZeroShotParameters


class TokenParameters(msgspec.Struct, kw_only=True):
    """How labels of words become entities, and which labels are left out; `stride` changes nothing here."""

    aggregation_strategy: Literal["none", "simple", "first", "average", "max"] | None = None
    ignore_labels: list[str] | None = None


class TokenRequest(Request, kw_only=True):
    """Texts whose words get labels."""

    inputs: str | list[str]
    parameters: TokenParameters | None = None


class Question(msgspec.Struct, kw_only=True):
    """A question, and the text that holds its answer."""

    question: str
    context: str


class QuestionParameters(msgspec.Struct, kw_only=True):
    """How answers are looked for; windows are cut as everywhere here, whatever their options say."""

    top_k: Positive | None = None
    max_answer_len: Positive | None = None
    handle_impossible_answer: bool | None = None
    align_to_words: bool | None = None


class QuestionRequest(Request, kw_only=True):
    """Questions with their contexts."""

    inputs: Question | list[Question]
    parameters: QuestionParameters | None = None


class FeatureRequest(EmbedRequest, kw_only=True):
    """Texts, or token ids; the options stand beside them, not below `parameters`."""

    encoding_format: Literal["float", "base64"] | None = None


class RankingParameters(msgspec.Struct, kw_only=True):
    """Whether the texts are to be given back."""

    return_documents: bool | None = None


class RankingRequest(Request, kw_only=True):
    """A query and the texts to be put in order."""

    query: str
    texts: list[str]
    parameters: RankingParameters | None = None


class WritingParameters(msgspec.Struct, kw_only=True):
    """How tokens are chosen, in the words of transformers."""

    max_new_tokens: Positive | None = None
    max_length: Positive | None = None
    min_new_tokens: int | None = None
    min_length: int | None = None
    num_beams: Positive | None = None
    num_return_sequences: Positive | None = None
    length_penalty: float | None = None
    early_stopping: bool | None = None
    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    stop: str | list[str] | None = None

    def options(self) -> dict[str, Any]:
        """The same as `Model.generate` has it; lengths that count a start token or a prompt are left to the task."""
        names = "num_beams num_return_sequences length_penalty early_stopping repetition_penalty no_repeat_ngram_size"
        drawn = {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p, "seed": self.seed}
        given: dict[str, Any] = {name: getattr(self, name) for name in names.split()}
        if self.do_sample is False:  # one beam is what keeps a model from sampling that is used to it
            drawn, given["num_beams"] = {}, self.num_beams or 1
        elif self.do_sample:
            usual = {"temperature": 1.0, "top_k": _TOP_K}
            drawn |= {name: value for name, value in usual.items() if drawn[name] is None}
        given |= {**drawn, "min_new_tokens": self.min_new_tokens, "stop_strings": self.stop or None}
        return {name: value for name, value in given.items() if value is not None}

    def lengths(self) -> dict[str, Any]:
        """How many tokens are written anew: older names count the start token too."""
        given: dict[str, Any] = {}
        if (most := self.max_new_tokens or (self.max_length and max(1, self.max_length - 1))) is not None:
            given["max_new_tokens"] = most
        if self.min_new_tokens is None and self.min_length is not None:
            given["min_new_tokens"] = max(0, self.min_length - 1)
        return given


class RewritingParameters(WritingParameters, kw_only=True):
    """Options of a text that is written anew: here, or in generate_parameters; languages are for translation."""

    generate_parameters: WritingParameters | None = None
    src_lang: str | None = None
    tgt_lang: str | None = None


class RewritingRequest(Request, kw_only=True):
    """Texts to be written anew."""

    inputs: str | list[str]
    parameters: RewritingParameters | None = None

    def options(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """How it is written, and how much."""
        told = self.parameters or RewritingParameters()
        below = told.generate_parameters or WritingParameters()
        return {**told.options(), **below.options()}, {**told.lengths(), **below.lengths()}


class GenerationParameters(WritingParameters, kw_only=True):
    """Options of a text that is gone on with. `truncate`: only the last so many tokens of the prompt are read."""

    return_full_text: bool | None = None
    details: bool | None = None
    truncate: Positive | None = None
    grammar: Any = None
    adapter_id: str | None = None


class GenerationRequest(Request, kw_only=True):
    """Prompts to go on from; of one, `stream` sends the text while it is written."""

    inputs: str | list[str]
    parameters: GenerationParameters | None = None
    stream: bool | None = None


class TaskRequest(msgspec.Struct, kw_only=True):
    """What the task takes."""

    inputs: Any
    parameters: dict[str, Any] | None = None
