"""What can be trained: each task runs a network on a batch and gives the parts of its loss."""

from clearhead.training.tasks.causal import BothNeighbours, ClassifyAndContinue, NextToken, Translation
from clearhead.training.tasks.distil import Distillation, RelationDistillation
from clearhead.training.tasks.masked import MaskedLM, MaskedLMWithPairs
from clearhead.training.tasks.permuted import GuessInOrder
from clearhead.training.tasks.replaced import ReplacedAndMasked, ReplacedTokens
from clearhead.training.tasks.sequences import Choose, Classify, MultiLabel, Regress
from clearhead.training.tasks.tokens import FindSpans, TagTokens
from clearhead.training.tasks.vectors import Contrast, CosineRegression, SimilarityOrder
from clearhead.training.tasks.words import GuessWord

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
