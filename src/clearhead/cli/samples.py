"""A verb for a beginning without data of one's own: samples."""

import shutil
from pathlib import Path

from typer import Argument

from clearhead.cli.options import Verbs
from clearhead.cli.render import Rows

app = Verbs()

FILES = Path(__file__).with_name("sample_files")
HOLDS = {
    "messages.csv": "60 messages to a shop, with one of four labels",
    "messages-dev.csv": "20 others, to measure on",
    "pairs.tsv": "108 German sentences and their translations",
    "pairs-dev.tsv": "12 others, to measure on",
    "encoder.md": "a long document: the card of the built-in encoder",
}


@app.verb
def samples(folder: Path = Argument(Path("samples"), help="The folder to write to.")) -> Rows:
    """Write small files to try things on, which the guides use; files that are there already stay as they are.

    Example: `clearhead samples`
    """
    from clearhead.hub.remote import find
    from clearhead.io import staged_file

    folder.mkdir(parents=True, exist_ok=True)
    for name, held in HOLDS.items():
        path = folder / name
        if new := not path.exists():
            with staged_file(path) as stage:
                shutil.copyfile(find("builtin:encoder") / "README.md" if name == "encoder.md" else FILES / name, stage)
        yield {"file": str(path), "holds": held, "written": new}, [f"{'wrote' if new else 'kept'} {path}: {held}"]
