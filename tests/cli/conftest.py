import io
import sys

import pytest

from clearhead.cli import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line; returns exit code, stdout, stderr."""

    def run(*arguments: object, stdin: str | None = None) -> tuple[int, str, str]:
        monkeypatch.setenv("CLEARHEAD_QUIET", "1")  # on a busy machine anything may take long
        monkeypatch.setattr(sys, "argv", ["clearhead", *map(str, arguments)])
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return run
