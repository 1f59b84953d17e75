"""The built-in model in fp32 and in int8, in turns, by the processor's time; and what each skill takes of the memory.

Texts are SST-2's dev sentences, CoNLL-2003's (testa) and SQuAD's dev questions, as the data folder has them. The gate
is that of `Model.quantise`, on the first texts; times, and the change that is printed, are of others.

usage: python benchmarks/builtin_speed.py DATA [--texts 300] [--threads 2] [--rounds 5] [--json FILE]
"""

import argparse
import json
import pickle
import statistics
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

import clearhead
from clearhead.pipelines.int8 import _change, _results, _use

SAMPLE = 64


def read_texts(data: Path) -> dict[str, list[Any]]:
    rows = (data / "glue/SST-2/dev.tsv").read_text(encoding="utf-8").splitlines()[1:]
    reviews = [row.split("\t")[0] for row in rows]
    lines = (data / "conll2003/eng.testa").read_text(encoding="utf-8").splitlines()
    groups = (list(group) for held, group in groupby(lines, lambda line: bool(line.strip())) if held)
    news = [" ".join(line.split()[0] for line in group) for group in groups if not group[0].startswith("-DOC")]
    articles = json.loads((data / "squad/dev-v1.1.json").read_text(encoding="utf-8"))["data"]
    asked = [(part["qas"][0]["question"], part["context"]) for one in articles for part in one["paragraphs"]]
    return {"embed": reviews, "classify": reviews, "tag": news, "answer": asked}


def seconds(compute: Callable[[], object]) -> float:
    start = time.process_time()
    compute()
    return time.process_time() - start


def compare(model: clearhead.Model, use: str, texts: list[Any], rounds: int) -> dict[str, Any]:
    """Both in turns, so that other work on the machine meets both."""
    sample, rest = texts[:SAMPLE], texts[SAMPLE:]
    fp32 = model.able(use)
    measure = _use(fp32, sample)
    int8 = fp32.quantise(sample)
    change = _change(measure, *(_results(one, measure, rest) for one in (fp32, int8)))
    turns = [[seconds(lambda one=one: _results(one, measure, rest)) for one in (fp32, int8)] for _ in range(rounds)]
    medians = [statistics.median(column) for column in zip(*turns, strict=True)]
    ratio = statistics.median(before / after for before, after in turns)
    return {
        "use": use,
        "texts": len(rest),
        "fp32_cpu_s": round(medians[0], 2),
        "int8_cpu_s": round(medians[1], 2),
        "times": round(ratio, 2),
        "compared": measure,
        "change": round(change, 5),
    }


def memory() -> float:
    """What the process holds now, in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


def skills(model: clearhead.Model) -> list[dict[str, Any]]:
    """What each skill adds to the memory when it is first used, and at last how long a pickle of all is."""
    rows = []
    for name in model.skills:
        before = memory()
        spent = seconds(lambda name=name: model.skill(name).embed("Ada Lovelace lived in London."))
        rows.append({"skill": name, "adds_mb": round(memory() - before), "first_cpu_s": round(spent, 2)})
    return [*rows, {"skills": len(rows), "holds_mb": round(memory()), "pickle_bytes": len(pickle.dumps(model))}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = clearhead.load()
    rows = [{"loaded_mb": round(memory())}, *skills(model)]
    print(*rows, sep="\n", flush=True)
    for use, texts in read_texts(options.data).items():
        count = SAMPLE + (options.texts if use != "answer" else options.texts // 6)  # which has longer texts
        rows.append(compare(model, use, texts[:count], options.rounds))
        print(rows[-1], flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
