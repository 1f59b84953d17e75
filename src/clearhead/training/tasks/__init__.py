"""What can be trained: each task runs a network on a batch and gives the parts of its loss."""

from clearhead.training.tasks.classification import (
    Choose,
    Classify,
    Contrast,
    CosineRegression,
    FindSpans,
    MultiLabel,
    Regress,
    SimilarityOrder,
    TagTokens,
)
from clearhead.training.tasks.distillation import Distillation, RelationDistillation
from clearhead.training.tasks.language import (
    BothNeighbours,
    ClassifyAndContinue,
    GuessInOrder,
    GuessWord,
    MaskedLM,
    MaskedLMWithPairs,
    NextToken,
    ReplacedAndMasked,
    ReplacedTokens,
    Translation,
)

__all__ = [
    "BothNeighbours",
    "Choose",
    "Classify",
    "ClassifyAndContinue",
    "Contrast",
    "CosineRegression",
    "Distillation",
    "FindSpans",
    "GuessInOrder",
    "GuessWord",
    "MaskedLM",
    "MaskedLMWithPairs",
    "MultiLabel",
    "NextToken",
    "Regress",
    "RelationDistillation",
    "ReplacedAndMasked",
    "ReplacedTokens",
    "SimilarityOrder",
    "TagTokens",
    "Translation",
]
