"""What HTTP costs: embed, classify and answer by 64 clients, beside the same texts given to a `Model` in one call.

Both are the built-in model on the same device. The model computes in a process that ends before the service starts;
then the clients ask, one text a request, for --seconds, and the share is the service's texts a second by the model's.
The first few seconds of each are not counted. Texts are paragraphs of docstrings; a question is about such paragraphs,
put together until they have 150 words.

usage: python benchmarks/serve_bulk.py [--device cpu] [--clients 64] [--texts 1000] [--seconds 20] [--json FILE]
"""

import argparse
import json
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from docstrings import docstring_texts
from serve_load import Connection, Server, clearhead_server, closed_loop, elsewhere, report, run

USES = ("embed", "classify", "answer")
WORDS = 150  # of a passage
WARM_SECONDS = 5.0


def requests(use: str, count: int) -> list[dict[str, str]]:
    """Bodies of the native route, which are also the keywords of the model's method."""
    paragraphs = docstring_texts()
    if use != "answer":
        return [{"text": text} for text in islice(cycle(paragraphs), count)]
    words = cycle(word for text in paragraphs for word in text.split())
    asked = cycle(text.split()[0] for text in paragraphs)
    return [
        {"question": f"What is said of {about}?", "context": " ".join(islice(words, WORDS))}
        for about in islice(asked, count)
    ]


def of_the_model(use: str, count: int, device: str) -> float:
    """Texts a second of one call, strings to results; it needs torch: run it elsewhere."""
    import clearhead as ch

    model = ch.load(device=device)
    asked = requests(use, count)

    def call(some: list[dict[str, str]]) -> None:
        if use == "answer":
            model.answer([one["question"] for one in some], [one["context"] for one in some])
        else:
            getattr(model, use)([one["text"] for one in some])

    call(asked[: count // 4])
    began = time.perf_counter()
    call(asked)
    return count / (time.perf_counter() - began)


def of_the_service(server: Server, use: str, count: int, clients: int, seconds: float) -> dict[str, Any]:
    bodies = [json.dumps(one).encode() for one in requests(use, count)]

    async def ask(connection: Connection, client: int, turn: int) -> tuple[int, int]:
        return (await connection.post(f"/v1/{use}", bodies[(client + turn * clients) % len(bodies)])).status, 1

    run(closed_loop(server.port, clients, WARM_SECONDS, ask))
    return run(closed_loop(server.port, clients, seconds, ask)).row()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    alone = {use: elsewhere(of_the_model, use, options.texts, options.device) for use in USES}
    rows = []
    with clearhead_server("--preload", "--device", options.device) as server:
        for use in USES:
            found = of_the_service(server, use, options.texts, options.clients, options.seconds)
            share = round(found["per_s"] / alone[use], 3)
            rows.append({"use": use, "model_per_s": round(alone[use], 1), "share": share, **found})
            print(rows[-1], flush=True)
    report(rows, options.json)


if __name__ == "__main__":
    main()
