"""What the scripts of the environments share: the service's addresses, what is expected, and a list of what was tried.

Only the standard library, since it runs beside packages that do not go together with ours.
"""

import json
import math
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

KEY = "key-of-the-acceptance-tests"


class Acceptance:
    """Calls of clients by name, each of which must give what the Python API gave."""

    def __init__(self, environment: str) -> None:
        """Read the command line: the URL of the built-in models, that of the cross-encoder, and the expectations."""
        self.environment = environment
        self.url, self.reranker_url, expected = sys.argv[1:4]
        self.expected: dict[str, Any] = json.loads(Path(expected).read_text(encoding="utf-8"))
        self.passed: list[str] = []
        self.failed: list[str] = []

    def __getitem__(self, name: str) -> Any:
        return self.expected[name]

    def equal(self, name: str, call: Callable[[], Any], expected: Any, tolerance: float = 1e-4) -> None:
        """Call a client; what it gives must be what is expected, numbers to within the tolerance."""
        try:
            found = call()
        except Exception:
            self._failed(name, traceback.format_exc(limit=-3))
            return
        wrong = difference(expected, found, tolerance)
        if wrong:
            self._failed(name, wrong)
        else:
            self._passed(name)

    def refused(self, name: str, call: Callable[[], Any], kind: type[Exception], told: str = "") -> None:
        """Call a client that must raise its own kind of error, with the service's sentence in it."""
        try:
            found = call()
        except kind as error:
            text = str(error)
            if told in text:
                self._passed(name)
            else:
                self._failed(name, f"the error does not say {told!r}: {text[:500]}")
        except Exception:
            self._failed(name, traceback.format_exc(limit=-3))
        else:
            self._failed(name, f"no error, but {str(found)[:300]}")

    def _passed(self, name: str) -> None:
        self.passed.append(name)
        sys.stdout.write(f"{self.environment}: {name}: as expected\n")

    def _failed(self, name: str, why: str) -> None:
        self.failed.append(name)
        sys.stdout.write(f"{self.environment}: {name}: FAILED\n    {why.strip()}\n".replace("\n", "\n    ", 1))

    def end(self) -> None:
        """Say how many calls were as expected, and exit 1 if some were not, or none was tried."""
        sys.stdout.write(f"{self.environment}: {len(self.passed)} as expected, {len(self.failed)} not\n")
        sys.exit(0 if self.passed and not self.failed else 1)


def difference(expected: Any, found: Any, tolerance: float, place: str = "") -> str | None:
    """Where two values differ, in words; None if they do not."""
    if isinstance(expected, Mapping):
        if not isinstance(found, Mapping) or set(expected) != set(found):
            return f"at {place or 'the top'}: expected {_short(expected)}, found {_short(found)}"
        pairs = [(f"{place}.{key}", expected[key], found[key]) for key in expected]
    elif isinstance(expected, list | tuple):
        if not hasattr(found, "__len__") or isinstance(found, str) or len(found) != len(expected):
            return f"at {place or 'the top'}: expected {_short(expected)}, found {_short(found)}"
        pairs = [(f"{place}[{i}]", one, other) for i, (one, other) in enumerate(zip(expected, found, strict=True))]
    elif isinstance(expected, float):
        try:
            close = math.isclose(expected, float(found), rel_tol=tolerance, abs_tol=tolerance)
        except (TypeError, ValueError):
            close = False
        return None if close else f"at {place or 'the top'}: expected {expected}, found {_short(found)}"
    else:
        return None if expected == found else f"at {place or 'the top'}: expected {expected!r}, found {_short(found)}"
    return next((wrong for at, one, other in pairs if (wrong := difference(one, other, tolerance, at))), None)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 300 else f"{text[:300]}…"
