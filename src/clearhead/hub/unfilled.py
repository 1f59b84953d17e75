"""Networks without numbers, into which a file's tensors are put: quicker than random ones that nobody needs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class _Unfilled(TorchFunctionMode):
    """Leave every tensor as it is that torch.nn.init would fill."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if getattr(func, "__module__", "") == "torch.nn.init":
            return args[0] if args else given["tensor"]
        return func(*args, **given)


@contextmanager
def unfilled() -> Iterator[None]:
    """Build modules on the device "meta", without filling them.

    Filling there would change nothing, and makes torch import its compiler, which takes two seconds.
    """
    with torch.device("meta"), _Unfilled():
        yield
