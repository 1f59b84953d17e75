"""Ray Data: vectors for the rows of parquet files, by actors that each hold the model.

usage: python examples/bulk_ray.py INPUT.parquet OUT MODEL
"""

import sys

import ray

from clearhead import Worker

# together the actors leave a core free: what reads and writes the files wants one, and Ray waits for it for ever where
# actors take them all (ray#44687)
CPUS, ACTORS = 0.4, 2


def main(source: str, out: str, model: str) -> None:
    """Read, compute, write."""
    worker = Worker("embed", model=model, keep=["id"])
    rows = ray.data.read_parquet(source)

    class Embed:
        """What an actor is made of: Ray wants a class, and the worker is small to pickle."""

        def __call__(self, batch: dict) -> dict:
            """Columns in, columns out."""
            return worker(batch)

    found = rows.map_batches(Embed, batch_size=256, compute=ray.data.ActorPoolStrategy(size=ACTORS), num_cpus=CPUS)
    found.write_parquet(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
