"""A real Ray on this machine: two replicas answer as the Python API does, and one may be killed under load."""

import json
import os
import secrets
import signal
import socket
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import clearhead as ch

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed; see `make test-ray`"),
    pytest.mark.filterwarnings("ignore"),  # of Ray and what it imports
]
REPLICAS = 2
TEXTS = [f"A warm, funny and clever film, number {number}." for number in range(5)] + ["A dull one. " * 60]
KEY = "a-key-for-this-test"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Ray Serve with two replicas of the built-in model."""
    import ray
    from ray import serve

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = {"CLEARHEAD_SERVE_API_KEYS": KEY, "CLEARHEAD_SERVE_TIMEOUT": "600"}
    # a token for this cluster alone: without one, Ray would write its own into the home folder
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    ray.init(address="local", num_cpus=2, include_dashboard=False, runtime_env={"env_vars": variables})
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        from clearhead.serve.ray import deployment

        fixed = deployment.options(autoscaling_config=None, num_replicas=REPLICAS, ray_actor_options={"num_cpus": 0.4})
        serve.run(fixed.bind(), name="clearhead", route_prefix="/")
        yield f"http://127.0.0.1:{port}"
    finally:
        serve.shutdown()
        ray.shutdown()
        del os.environ["RAY_AUTH_TOKEN"]


@pytest.fixture(scope="module")
def built_in_model() -> ch.Model:
    return ch.load()


def post(url: str, body: dict[str, Any], key: str = KEY) -> tuple[int, Any]:
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def replicas() -> dict[int, set[int]]:
    """The processes of Ray's replicas, each with its children."""
    parents: dict[int, int] = {}
    found: dict[int, set[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if (folder / "cmdline").read_text().startswith("ray::ServeReplica:clearhead:clearhead"):
                found[int(folder.name)] = set()
        except OSError:  # it has ended meanwhile
            continue
    for child, parent in parents.items():
        if parent in found:
            found[parent].add(child)
    return found


def wait_until(true: Callable[[], bool]) -> None:
    while not true():
        time.sleep(0.2)


def running() -> int:
    from ray import serve

    return serve.status().applications["clearhead"].deployments["clearhead"].replica_states.get("RUNNING", 0)


def test_replicas_answer_as_the_python_api_does(address, built_in_model):
    assert running() == REPLICAS
    assert len(replicas()) == REPLICAS
    said = built_in_model.classify(TEXTS)
    vectors = built_in_model.embed(TEXTS)
    for _ in range(4):  # by whichever replica
        status, answers = post(f"{address}/v1/classify", {"text": TEXTS})
        assert status == 200
        assert [one["label"] for one in answers] == [one.label for one in said]
        assert [one["score"] for one in answers] == pytest.approx([one.score for one in said], abs=1e-5)
        status, answers = post(f"{address}/v1/embed", {"text": TEXTS})
        assert status == 200
        for one, vector in zip(answers, vectors, strict=True):
            assert one["vector"] == pytest.approx(vector.tolist(), abs=1e-5)


def test_errors_are_those_of_the_service(address):
    assert post(f"{address}/v1/classify", {"text": "a"}, key="another-key")[0] == 401
    assert post(f"{address}/v1/classify", {"text": "a", "model": "built-in:nothing"})[0] == 404
    assert post(f"{address}/v1/classify", {"txt": "a"})[0] == 422


def test_a_replica_is_killed_under_load_and_every_request_is_answered_or_refused(address, built_in_model):
    expected = {text: one.label for text, one in zip(TEXTS, built_in_model.classify(TEXTS), strict=True)}
    stop = Event()

    def client(number: int) -> list[tuple[str, int, Any]]:
        seen = []
        while not stop.is_set():
            text = TEXTS[(number + len(seen)) % len(TEXTS)]
            seen.append((text, *post(f"{address}/v1/classify", {"text": text})))
        return seen

    before = replicas()
    with ThreadPoolExecutor(8) as pool:
        clients = [pool.submit(client, number) for number in range(8)]
        try:
            time.sleep(2)
            victim, children = next(iter(before.items()))
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda: victim not in replicas())
            # Ray starts another, and the requests go on meanwhile
            wait_until(lambda: running() == REPLICAS and len(replicas()) == REPLICAS)
        finally:
            stop.set()
        seen = [one for each in clients for one in each.result()]
    statuses = Counter(status for _, status, _ in seen)
    assert set(statuses) <= {200, 429, 500, 502, 503, 504}, statuses
    assert statuses[200] > len(seen) / 2, statuses
    assert all(answer["label"] == expected[text] for text, status, answer in seen if status == 200)
    # the worker of the lost replica has gone with it
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))
    assert children
    assert post(f"{address}/v1/classify", {"text": TEXTS[0]})[0] == 200


def test_the_file_of_deploy_fits_rays_schema():
    import yaml
    from ray.serve.schema import ServeDeploySchema

    from clearhead.serve.ray import deployment

    path = Path(__file__).parents[2] / "deploy" / "ray-serve.yaml"
    (application,) = ServeDeploySchema(**yaml.safe_load(path.read_text(encoding="utf-8"))).applications
    assert [one.name for one in application.deployments] == [deployment.name]
