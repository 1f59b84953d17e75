"""A student learns from its teacher: its distributions (DistilBERT), attention relations (MiniLM-v2), or vectors."""

# N packed tokens · D width · V vocabulary · R sequences in a run · A relation heads · T length

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.errors import BadInput, require
from clearhead.nn.attention import scaled_scores
from clearhead.nn.heads import Network
from clearhead.nn.layout import Packed
from clearhead.objectives.classification import anchor_cosines
from clearhead.objectives.loss import Loss

# of the published training run
WEIGHTS = {"soft_targets": 5.0, "masked_lm": 2.0, "cosine": 1.0}
TEMPERATURE = 2.0
# of vectors: the teacher knows more than pairs do, whose negatives are only likely to be some
VECTOR_WEIGHTS = {"vectors": 1.0, "similarities": 1.0, "pairs": 0.1}


def soft_targets(student: Tensor, teacher: Tensor, temperature: float = TEMPERATURE) -> Loss:
    """Compare distributions, KL(teacher || student), from logits (N, V) of all tokens, masked or not, as published.

    Times T², so that the gradient stays as large whatever the temperature (Hinton et al. 2015).
    """
    ours, theirs = ((logits.float() / temperature).log_softmax(-1) for logits in (student, teacher))
    total = F.kl_div(ours, theirs, reduction="sum", log_target=True) * temperature**2
    return Loss(total, student.shape[0])


def cosine_distance(student: Tensor, teacher: Tensor) -> Loss:
    """Compare hidden states (N, D) of all tokens: 1 - cosine."""
    total = (1 - F.cosine_similarity(student.float(), teacher.float(), dim=-1)).sum()
    return Loss(total, student.shape[0])


def soft_similarities(student: Tensor, teacher: Tensor, *, texts: int = 2, scale: float = 20.0) -> Loss:
    """Compare how near each anchor is to all others, KL(teacher || student), from vectors (texts·P, D) of both."""
    ours, theirs = ((scale * anchor_cosines(vectors, texts)).log_softmax(-1) for vectors in (student, teacher))
    return Loss(F.kl_div(ours, theirs, reduction="sum", log_target=True), ours.shape[0])


@torch.no_grad()
def alternate_layers(teacher: Network, student: Network) -> list[int]:
    """Start a student from its teacher: embeddings, heads they both have, and layers spread evenly from first to last.

    Returns the teacher's layer for each of the student's; half of 12 are 0, 2, 4, 7, 9, 11, as published.
    """
    layers = spread(len(teacher.encoder.blocks), len(student.encoder.blocks))
    source = dict(teacher.named_parameters(remove_duplicate=False))
    for name, parameter in student.named_parameters():
        parts = name.split(".")
        if parts[:2] == ["encoder", "blocks"]:
            parts[2] = str(layers[int(parts[2])])
        origin = ".".join(parts)
        if parts[0] == "heads" and parts[1] not in teacher.heads:
            continue
        require(origin in source, f"the teacher has no {origin}; choose a student of its family", BadInput)
        theirs, ours = tuple(source[origin].shape), tuple(parameter.shape)
        message = f"{origin} is {theirs} in the teacher and {ours} in the student; only the number of layers may differ"
        require(theirs == ours, message, BadInput)
        parameter.copy_(source[origin])
    return layers


def spread(teacher_layers: int, student_layers: int) -> list[int]:
    """Choose layers of the teacher evenly, the first and the last among them."""
    require(
        student_layers <= teacher_layers,
        f"the student has {student_layers} layers and the teacher {teacher_layers}; give the student fewer",
        BadInput,
    )
    gaps = max(student_layers - 1, 1)
    # rounded to the nearest in whole numbers: no layer is chosen twice
    return [(2 * layer * (teacher_layers - 1) + gaps) // (2 * gaps) for layer in range(student_layers)]


def relations(student: Tensor, teacher: Tensor, layout: Packed, relation_heads: int) -> Loss:
    """Compare two packed sets of vectors, (N, …) each: KL(teacher || student) of every token's relation to the others.

    One item is one token; its loss is the mean over the relation heads.
    """
    for who, x in (("student", student), ("teacher", teacher)):
        width = x.flatten(1).shape[1]
        fits = width % relation_heads == 0
        require(fits, f"{relation_heads} relation heads do not divide the {who}'s width {width}", BadInput)
    total = torch.zeros((), device=student.device)
    with torch.autocast(student.device.type, enabled=False):  # which would make the products half precision
        for start, count, length in layout.runs:
            run = slice(start, start + count * length)
            ours, theirs = (_log_relations(x[run], count, relation_heads) for x in (student, teacher))
            total = total + F.kl_div(ours, theirs, reduction="sum", log_target=True)
    return Loss(total / relation_heads, student.shape[0])


def _log_relations(x: Tensor, sequences: int, relation_heads: int) -> Tensor:
    """Relate the tokens of sequences of one length: (R·T, …) -> (R, A, T, T)."""
    x = x.float().flatten(1).unflatten(1, (relation_heads, -1)).unflatten(0, (sequences, -1)).transpose(1, 2)
    return scaled_scores(x, x).log_softmax(-1)
