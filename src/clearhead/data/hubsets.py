"""Data sets of the Hugging Face hub as tables, by names such as hub:owner/name:config:train."""

import re
from typing import Any

from clearhead.data.tables import Table, from_records
from clearhead.errors import BadInput, NotFound, require
from clearhead.text.streams import optional

_PART = re.compile(r":(?![^\[]*\])")  # a colon, but not the one of train[:100]
_SPLIT = re.compile(r"(train|validation|valid|dev|test)\w*(\[.*\])?")


def open_hub(name: str, *, streaming: bool = False) -> Any:
    """Open "hub:owner/name[:config][:split]": the split is train unless said.

    One word after the name is a split if it starts like one (train, validation, dev, test), and a config if not.
    """
    prefix, _, rest = name.partition(":")
    owner, *more = _PART.split(rest)
    require(
        prefix == "hub" and bool(owner) and len(more) <= 2 and all(more),
        f"{name!r} is not a data set of the hub; write hub:owner/name, hub:owner/name:config:split.",
        BadInput,
    )
    config, split = None, "train"
    if len(more) == 2:
        config, split = more
    elif more:
        config, split = (None, more[0]) if _SPLIT.fullmatch(more[0]) else (more[0], "train")
    datasets: Any = optional("datasets", f"reading {name}")
    options = {"streaming": True} if streaming else {}
    try:
        return datasets.load_dataset(owner, config, split=split, **options)
    except Exception as error:  # the library raises many kinds
        reason = str(error).partition("\n")[0]
        raise NotFound(f"The data set {name!r} cannot be had ({reason}); check name, config and split.") from None


def read_hub(name: str) -> Table:
    """Read a data set of the hub whole; classes come by name, not by number."""
    found = open_hub(name)
    require(len(found) > 0, f"{name} has no rows.", BadInput)
    spelled = {column: _class_names(feature) for column, feature in found.features.items()}
    records = [
        {column: _spell(value, spelled[column]) for column, value in record.items()} for record in found.to_list()
    ]
    return from_records(name, records, [f"row {i}" for i in range(1, len(records) + 1)])


def _class_names(feature: Any) -> list[str] | None:
    names = getattr(getattr(feature, "feature", feature), "names", None)
    return names if isinstance(names, list) else None


def _spell(value: Any, names: list[str] | None) -> Any:
    if names is None or value is None:
        return value
    if isinstance(value, list):
        return [_spell(item, names) for item in value]
    return names[value] if value >= 0 else None  # -1 is the hub's way to say that there is no label
