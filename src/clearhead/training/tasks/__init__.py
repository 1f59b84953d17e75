"""What can be trained: each task runs a network on a batch and gives the parts of its loss."""

from clearhead.training.tasks.distil import Distillation, RelationDistillation
from clearhead.training.tasks.masked import MaskedLM, MaskedLMWithPairs
from clearhead.training.tasks.replaced import ReplacedTokens, share_embeddings
from clearhead.training.tasks.sequences import Choose, Classify, MultiLabel, Regress
from clearhead.training.tasks.tokens import FindSpans, TagTokens
from clearhead.training.tasks.vectors import Contrast, CosineRegression

__all__ = [
    "Choose",
    "Classify",
    "Contrast",
    "CosineRegression",
    "Distillation",
    "FindSpans",
    "MaskedLM",
    "MaskedLMWithPairs",
    "MultiLabel",
    "Regress",
    "RelationDistillation",
    "ReplacedTokens",
    "TagTokens",
    "share_embeddings",
]
