"""Writing files so that a reader sees the old content or the new, never half of one."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clearhead.errors import BadInput


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Give an empty folder to write files into; at the end each is moved into `folder`, complete and on disk.

    If anything fails before that, `folder` is as it was. Files of other names in it stay.
    """
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file; give a folder to save into")
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=".saving-", dir=folder))
    except OSError as error:
        raise BadInput(f"{folder} cannot be written to ({error.strerror}); choose another folder") from None
    try:
        yield stage
        written = sorted(path for path in stage.rglob("*") if path.is_file())
        for path in written:
            _check_replaceable(folder / path.relative_to(stage))
            sync(path)
        for path in written:
            target = folder / path.relative_to(stage)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
        sync(folder)
    except BaseException:
        shutil.rmtree(created[-1] if created else stage, ignore_errors=True)
        raise
    shutil.rmtree(stage, ignore_errors=True)


def _check_replaceable(target: Path) -> None:
    """Refuse to put a file in the place of a folder, or of a device such as /dev/null."""
    if target.exists() and not target.is_file():
        raise BadInput(f"{target} is no plain file; give another name to write to")


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
