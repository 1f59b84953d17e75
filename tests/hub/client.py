"""Two ways to let hub/remote talk to the stand-in."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import huggingface_hub

from clearhead import errors
from hub.stand_in import Hub


def call(function: str, *values: object, home: Path, url: str, settings: dict[str, str], **options: object) -> str:
    """Call a function of hub/remote in a fresh process, since huggingface_hub reads its settings when imported."""
    ours = {name for name in os.environ if name.startswith(("HF_", "HUGGING")) or name.lower().endswith("_proxy")}
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    environment |= {"HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    environment |= {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", **settings}
    script = _SCRIPT.format(function=function, values=values, options=options)
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise getattr(errors, answer["error"])(answer["text"])
    return answer["result"]


@contextmanager
def asking(hub: Hub, home: Path) -> Iterator[None]:
    """Route this process to the hub: quick, and enough where no file is fetched."""
    settings = {"ENDPOINT": hub.url, "HF_HUB_CACHE": str(home), "HF_HUB_OFFLINE": False, "HF_HUB_DISABLE_XET": True}
    with patch.multiple("huggingface_hub.constants", **settings), patch.dict(os.environ, NO_PROXY="*"):
        huggingface_hub.close_session()
        yield
        huggingface_hub.close_session()


_SCRIPT = """
import json
from pathlib import Path, PosixPath, WindowsPath
from clearhead.errors import ClearheadError
from clearhead.hub import remote
try:
    print(json.dumps({{"result": str(remote.{function}(*{values!r}, **{options!r}))}}))
except ClearheadError as error:
    print(json.dumps({{"error": type(error).__name__, "text": str(error)}}))
"""
