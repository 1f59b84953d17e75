"""The examples of the lectures by name, as the pages of the studio have them."""

from clearhead.studio.examples import EXAMPLES


def values(path: str) -> list[tuple[str, ...]]:
    return [tuple(one["values"].values()) for one in EXAMPLES[path]]


ANIMAL = values("/look/step")[0][0]
(_, NUS), _, BERT_LARGE = values("/use/ask")
(SPAM,), (HAM,), *_reviews = values("/use/classify")
REVIEWS = [text for (text,) in _reviews]
PAIRS = [(one["label"], *pair) for one, pair in zip(EXAMPLES["/use/compare"], values("/use/compare"), strict=True)]
(PHARMACY,) = values("/use/search")
