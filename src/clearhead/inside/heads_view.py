"""The heads page: the four fine-tuning diagrams (sentence, pair, tags, span) live, before fine-tuning and after it."""

# T tokens · D width

from typing import Any

import torch
from torch.nn.functional import cosine_similarity

from clearhead.errors import WrongTask, keywords, require
from clearhead.inside.model_view import head_answer
from clearhead.inside.page import LIMIT, View, check_length, rounded
from clearhead.nn.decoder import EncoderDecoder
from clearhead.nn.hooks import record
from clearhead.pipelines.model import Model

SCRIPTS = ("shared/svg.js", "diagram.js", "main.js")
HEADS = {"sentence": "classes", "pair": "classes", "tags": "tags", "span": "span"}
USES = {"sentence": "classify", "pair": "compare", "tags": "tag", "span": "answer"}  # by which a skill is found
# the lectures' texts, where none are given
TEXTS = {
    "sentence": ("A warm, funny and clever film.", None),
    "pair": ("A soccer game with multiple males playing.", "Some men are playing a sport."),
    "tags": ("Ada Lovelace lived in London.", None),
    "span": ("How many parameters does BERT-large have?", "BERT-large has 24 layers, for a total of 340M parameters!"),
}


@keywords
def heads_on_top(model: Model, text: str | None = None, pair: str | None = None) -> View:
    """Show what stands on top of an encoder for each kind of task, and what it says of a text.

    One text goes to the classifier and the tagger, two to the classifier of pairs and, as a question and its passage,
    to the head for answers; what is not given is the lectures'. Of a model with skills, each diagram has the skill's
    answer and that of a fresh head on the encoder as it was.
    """
    told = f"a {model.family} is no encoder with a head on top; choose one such as builtin:encoder"
    require(hasattr(model, "encoder") and not isinstance(model.encoder, EncoderDecoder), told, WrongTask)
    found = [one for kind in HEADS if (one := _diagram(model, kind, text, pair)) is not None]
    nothing = f"this {model.family} has no head for classes, tags or spans, nor skills; fine-tune it, or load another"
    require(bool(found), nothing, WrongTask)
    blocks = len(getattr(model.encoder, "blocks", ()))
    data = {"family": model.family, "blocks": blocks, "width": model.encoder.width, "diagrams": found}
    return View.of("heads", "Heads on top", SCRIPTS, data)


def _diagram(model: Model, kind: str, text: str | None, pair: str | None) -> dict[str, Any] | None:
    """One kind of task, or None if the model can do nothing of it."""
    head, skill = HEADS[kind], model.uses.get(USES[kind])
    if skill is None and (head not in model.network.heads or (kind == "sentence" and pair is not None)):
        return None
    if skill is None and kind == "pair" and pair is None:
        return None  # whose classes are of single sentences
    paired = TEXTS[kind][1] is not None
    given = (text, pair if paired else None) if text is not None and (pair is not None or not paired) else TEXTS[kind]
    after = model if skill is None else model.skill(skill)
    now = _said(after, head, *given)
    before = None
    if skill is not None:
        outputs = 2 if head == "span" else len(after.labels or ())
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # a fresh head says the same each time
            fresh = model.with_head(head, outputs, labels=after.labels)
        before = _said(fresh, head, *given)
        near = cosine_similarity(now.pop("hidden"), before.pop("hidden"), dim=-1)
        now["kept"] = rounded(near, 3)
    else:
        del now["hidden"]
    return {"kind": kind, "skill": skill, "texts": [one for one in given if one is not None]} | {
        "after": now,
        "before": before,
    }


def _said(model: Model, head: str, text: str, pair: str | None) -> dict[str, Any]:
    encoding = model.tokenizer.encode(text, pair)
    check_length(len(encoding), min(LIMIT, model.encoder.max_length))
    with record(model.encoder) as calls:
        said, answer = head_answer(model, encoding, head)
    hidden = calls[0].output.float().cpu()
    second = encoding.parts[1].start if pair is not None else len(encoding)
    sides = [int(place >= second) for place in range(len(encoding))]
    return {"tokens": encoding.tokens, "sides": sides, "said": said, "answer": answer, "hidden": hidden}
