"""The plainest service of vectors there is, for serve_closed.py to measure the queue against: a model and one lock.

usage: python benchmarks/serve_lock.py --model FOLDER --port PORT
"""

import argparse
import base64
import threading

import msgspec
import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import clearhead


def application(folder: str) -> Starlette:
    """POST /v1/embeddings for one text or a list, vectors in base64, and GET /ready."""
    model, lock = clearhead.load(folder), threading.Lock()

    def compute(texts: list[str]) -> bytes:
        with lock:
            found = np.asarray(model.embed(texts), "<f4")
        data = [
            {"object": "embedding", "index": i, "embedding": base64.b64encode(vector.tobytes()).decode()}
            for i, vector in enumerate(found)
        ]
        return msgspec.json.encode({"object": "list", "data": data})

    async def embeddings(request: Request) -> Response:
        given = msgspec.json.decode(await request.body())["input"]
        texts = [given] if isinstance(given, str) else given
        return Response(await run_in_threadpool(compute, texts), media_type="application/json")

    async def ready(_: Request) -> Response:
        return Response(b"{}", media_type="application/json")

    return Starlette(routes=[Route("/v1/embeddings", embeddings, methods=["POST"]), Route("/ready", ready)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    uvicorn.run(application(options.model), host="127.0.0.1", port=options.port, access_log=False, log_level="warning")


if __name__ == "__main__":
    main()
