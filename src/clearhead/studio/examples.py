"""The examples of the lectures, one click away: by the page they are on, with the values of its fields."""

from itertools import chain
from pathlib import Path
from typing import Any

from clearhead.inside.senses import EXAMPLES as SENSES
from clearhead.io import read_json

# A label, the values, and for a model with skills perhaps the skill, "" being the use's own.
# The layer and head of /look/step are those at which the built-in model links "it" to "animal".
_READ: dict[str, list[dict[str, Any]]] = read_json(Path(__file__).with_name("examples.json"))
_ANIMAL = _READ["/look/step"][0]["values"]["text"]
EXAMPLES = {
    **_READ,
    "/look/difference": [
        {"label": "tired, wide", "values": {"text": _ANIMAL, "other": _ANIMAL.replace("tired", "wide")}},
    ],
    # a question and its passage are two texts that look at one another
    "/look/attention": [
        *_READ["/look/layers"],
        *(
            {"label": one["label"], "values": {"text": one["values"]["question"], "pair": one["values"]["context"]}}
            for one in _READ["/use/ask"]
        ),
    ],
    "/use/senses": [
        {"label": word, "values": {"word": word, "texts": "\n".join(chain.from_iterable(texts.values()))}}
        for word, texts in SENSES.items()
    ],
}
