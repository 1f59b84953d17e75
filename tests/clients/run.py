"""Acceptance tests with the real clients from PyPI: `make test-clients`, or python tests/clients/run.py.

Their requirements contradict one another, and ours, so each group has an environment of its own under .venv-clients/,
made once. Two services are started: the built-in models with a small GPT, and a cross-encoder; both want a key. What
the clients must be told is computed by the Python API before (expected.py). Exits 1 if one is told anything else.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "benchmarks")]

from acceptance import KEY  # noqa: E402

from serve_load import Server, clearhead_server  # noqa: E402

# what each environment has; versions are pinned where later ones are known not to go together
ENVIRONMENTS = {
    "a": ["huggingface_hub>=2", "numpy", "openai", "cohere>=7,<8"],
    "b": [
        "cohere<6",
        "haystack-ai",
        "huggingface-api-haystack",
        "huggingface_hub<2",
        "langchain-cohere",
        "langchain-openai",
        "llama-index-embeddings-openai-like",
        "llama-index-embeddings-text-embeddings-inference",
        "llama-index-postprocessor-tei-rerank",
    ],
    "c": ["litellm==1.106.2"],
}
# no client may ask anyone but the service: nothing of a hub, no counting of users
OFFLINE = {
    "HF_HUB_OFFLINE": "0",  # it would also refuse the service
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LANGCHAIN_TRACING_V2": "false",
    "ANONYMIZED_TELEMETRY": "false",
}


def environment(name: str, folder: Path, python: str) -> Path:
    """The interpreter of an environment, which is made where it is missing or other packages are wanted."""
    place, wanted = folder / name, "\n".join(ENVIRONMENTS[name]) + "\n"
    made = place / "installed"
    if not made.is_file() or made.read_text(encoding="utf-8") != wanted:
        subprocess.run([python, "-m", "venv", "--clear", str(place)], check=True)
        pip = [str(place / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *ENVIRONMENTS[name]], check=True)
        made.write_text(wanted, encoding="utf-8")
    return place / "bin" / "python"


def service(*options: str) -> Server:
    """A service that wants the key, told by a variable, so that it stands in no list of processes."""
    server = clearhead_server("--preload", *options)
    server.environment["CLEARHEAD_API_KEY"] = KEY
    return server


def main() -> int:
    """Make the environments, start the services, run the clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="a,b,c", help="some of the environments, by commas")
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv-clients")
    parser.add_argument("--python", default=sys.executable, help="what the environments are made with")
    parser.add_argument("--install", action="store_true", help="make the environments, and no more")
    options = parser.parse_args()
    chosen = {name: environment(name, options.folder, options.python) for name in options.only.split(",")}
    if options.install:
        return 0
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, str(HERE / "expected.py"), scratch], check=True)
        with (
            service("--model", f"gpt={scratch}/gpt") as built_in,
            service("--model", f"reranker={scratch}/reranker") as reranker,
        ):
            for name, python in chosen.items():
                command = [str(python), str(HERE / f"env_{name}.py"), built_in.url, reranker.url]
                done = subprocess.run(
                    [*command, f"{scratch}/expected.json"], env={**os.environ, **OFFLINE}, cwd=scratch
                )
                failed += [name] * (done.returncode != 0)
    sys.stdout.write(f"not as expected: {', '.join(failed)}\n" if failed else "all clients are told what Python is\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
