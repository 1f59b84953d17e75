"""A worker as `clearhead.bulk.engines` starts it, which kills itself at a moment that POISON names.

POISON is shard:moment:times, and POISON_FOLDER counts how often that was.
"""

import os
import signal
from pathlib import Path

from clearhead import io
from clearhead.bulk import engines, job

SHARD, MOMENT, TIMES = os.environ["POISON"].split(":")
FOLDER = Path(os.environ["POISON_FOLDER"])


def die() -> None:
    if len(list(FOLDER.iterdir())) < int(TIMES):
        (FOLDER / f"{len(list(FOLDER.iterdir()))}").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Be a worker, as long as it lasts."""
    real_do, real_sync, real_rows = job.Job.do, io.sync, job.read_rows

    def do(self, number, progress=None):
        if number != int(SHARD):
            return real_do(self, number, progress)
        if MOMENT == "begin":
            die()
        if MOMENT == "compute":
            job.read_rows = lambda *given: (real_rows(*given), die())[0]
        if MOMENT == "written":  # and not yet on disk, under another name
            io.sync = lambda path: (die() if "part-" in path.name else None, real_sync(path))[1]
        found = real_do(self, number, progress)
        if MOMENT == "renamed":  # and not yet told
            die()
        if MOMENT == "error":
            raise RuntimeError("what no sentence was written for")
        io.sync, job.read_rows = real_sync, real_rows
        return found

    job.Job.do = do
    engines.main()
