"""What every metric asks of its input."""

from collections.abc import Collection, Iterable, Sized

from clearhead.errors import BadInput, require


def same_length(gold: Sized, predicted: Sized, what: str = "predictions") -> None:
    """Refuse inputs of different lengths, and empty ones: a mean over nothing has no value."""
    require(len(gold) > 0, f"There are no gold items to compare the {len(predicted)} {what} with.", BadInput)
    require(
        len(gold) == len(predicted),
        f"There are {len(gold)} gold items and {len(predicted)} {what}; give one for each, in the same order.",
        BadInput,
    )


def all_there(wanted: Iterable[str], given: Collection[str], what: str) -> None:
    """Refuse a mapping that lacks an id."""
    missing = [name for name in wanted if name not in given]
    require(
        not missing,
        f"{len(missing)} ids have no {what}, the first is {missing[0] if missing else ''!r}; give one for each id.",
        BadInput,
    )
