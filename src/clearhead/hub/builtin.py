"""Where the model that comes with clearhead lies."""

from pathlib import Path

from clearhead.errors import NotFound

FOLDER = Path(__file__).parents[1] / "builtin"


def builtin_folder() -> Path:
    """The folder of the built-in model, with its skills."""
    if not (FOLDER / "config.json").is_file():
        raise NotFound(
            "this copy of clearhead has no built-in model; name a checkpoint folder or a hub model, "
            "or make it with: make model"
        )
    return FOLDER
