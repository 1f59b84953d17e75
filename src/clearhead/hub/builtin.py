"""Where the model that comes with clearhead lies."""

from pathlib import Path

from clearhead.errors import NotFound


def builtin_folder() -> Path:
    """The folder of the built-in model, with its skills."""
    folder = Path(__file__).parents[1] / "builtin"
    if not (folder / "config.json").is_file():
        raise NotFound("clearhead has no built-in model yet; name a checkpoint folder or a hub model")
    return folder
