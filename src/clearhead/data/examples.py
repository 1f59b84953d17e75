"""What fine-tuning learns from, one small record per kind of task. Nothing here knows of tokens."""

from dataclasses import dataclass

Label = str | float | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class TextExample:
    """One text or two, and a class, a number, several classes, or nothing known."""

    text: str
    pair: str | None = None
    label: Label = None


@dataclass(frozen=True, slots=True)
class WordsExample:
    """A sentence as words, each with a tag, or several sentences; no tags where nothing is known."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    opens: bool = False  # whether a document begins with this sentence
    sentences: tuple[int, ...] = ()  # how many words each has, where there are several


@dataclass(frozen=True, slots=True)
class QuestionExample:
    """A question about a context, and the answers: their text and the character where it starts."""

    id: str
    question: str
    context: str
    answers: tuple[tuple[str, int], ...] = ()
    impossible: bool = False


@dataclass(frozen=True, slots=True)
class ChoiceExample:
    """A context, what may follow it, and which of these is right; None where nothing is known."""

    context: str
    choices: tuple[str, ...]
    label: int | None = None


@dataclass(frozen=True, slots=True)
class PairExample:
    """Two texts that mean the same, or the degree to which they do."""

    first: str
    second: str
    score: float | None = None


Example = TextExample | WordsExample | QuestionExample | ChoiceExample | PairExample
