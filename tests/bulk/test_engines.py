"""Engines of others: every example runs and gives what the model gives; a real Ray does the shards of `bulk`."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import clearhead as ch
from bulk.rows import parts, records, write_parquet, written
from clearhead.bulk.run import run_bulk

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of what is imported
EXAMPLES = Path(__file__).parents[2] / "examples"
ROWS = 120


def needs(module):
    return pytest.mark.skipif(find_spec(module) is None, reason=f"{module} is not installed; see `make test-scale`")


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    return write_parquet(tmp_path_factory.mktemp("in") / "a.parquet", records(ROWS), groups=30)


# a token for these clusters alone: without one, Ray would write its own into the home folder
TOKEN = secrets.token_hex(32)


def environment():
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN, "DO_NOT_TRACK": "true", "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**os.environ, **own, "PYTHONPATH": str(EXAMPLES.parent / "src")}


@pytest.mark.parametrize(
    ("name", "module"),
    [
        pytest.param("ray", "ray", marks=needs("ray")),
        pytest.param("daft", "daft", marks=needs("daft")),
        pytest.param("dask", "dask", marks=needs("dask")),
        pytest.param(
            "spark",
            "pyspark",
            marks=[needs("pyspark"), pytest.mark.skipif(shutil.which("java") is None, reason="there is no JDK")],
        ),
    ],
)
def test_an_example_gives_what_the_model_gives(name, module, given, stand_in, tmp_path):
    out = tmp_path / ("out.parquet" if name == "dask" else "out")
    command = [sys.executable, EXAMPLES / f"bulk_{name}.py", given, out, stand_in]
    subprocess.run(list(map(str, command)), env=environment(), check=True, cwd=tmp_path)
    rows = records(ROWS)
    found = {row["id"]: row for row in pq.read_table(out).to_pylist()}
    assert found.keys() == {row["id"] for row in rows}
    missing = {row["id"] for row in rows if row["text"] is None}
    assert {name for name, row in found.items() if row["error"]} == missing
    model = ch.load(stand_in)
    good = [row for row in rows if row["id"] not in missing]
    if name == "ray":
        vectors = np.array([found[row["id"]]["vector"] for row in good])
        assert np.allclose(vectors, model.embed([row["text"] for row in good]), atol=1e-5)
    else:
        labels = [one.label for one in model.classify([row["text"] for row in good])]
        assert [found[row["id"]]["label"] for row in good] == labels


@pytest.fixture(scope="module")
def cluster():
    """A Ray of two workers on this machine, which ends with its process; the driver finds it by RAY_ADDRESS."""
    script = "import ray; ray.init(address='local', num_cpus=2, include_dashboard=False)\n"
    script += "print(ray.get_runtime_context().gcs_address, flush=True); input(); ray.shutdown()"
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", script], env=environment(), stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    ) as head:
        yield {**environment(), "RAY_ADDRESS": head.stdout.readline().strip()}
        head.communicate("\n")


def start(out, given, stand_in, variables, *more):
    command = [sys.executable, "-m", "clearhead", "bulk", "embed", given, "--out", out, "--model", stand_in]
    command += ["--shard-rows", 10, "--keep", "stars", "--on", "ray", "--workers", 2, *more]
    pipe = subprocess.PIPE
    return subprocess.Popen(list(map(str, command)), env=variables, stdout=pipe, stderr=pipe, text=True)


def actors() -> list[int]:
    """The processes of our actors."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            named = (folder / "cmdline").read_text().startswith("ray::Actor.")
            if named and TOKEN.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


@pytest.fixture(scope="module")
def undisturbed(given, stand_in, tmp_path_factory):
    """What processes of this machine give."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    run_bulk("embed", given, out, model=str(stand_in), shard_rows=10, keep=["stars"], workers=1)
    return parts(out)


@needs("ray")
def test_ray_gives_the_bytes_of_local(cluster, given, stand_in, undisturbed, tmp_path):
    with start(tmp_path / "out", given, stand_in, cluster) as driver:
        out, err = driver.communicate()
    assert driver.returncode == 0, err
    assert "120 rows in 12 files" in out
    assert parts(tmp_path / "out") == undisturbed


@needs("ray")
def test_actors_and_the_driver_are_killed(cluster, given, stand_in, undisturbed, tmp_path):
    out = tmp_path / "out"
    with start(out, given, stand_in, cluster) as driver:
        while not list(out.glob("part-*")):
            time.sleep(0.01)
        victims = actors()
        for one in victims:
            os.kill(one, signal.SIGKILL)
        seen = len(list(out.glob("part-*")))
        while len(list(out.glob("part-*"))) <= seen and driver.poll() is None:  # others have taken their place
            time.sleep(0.01)
        driver.send_signal(signal.SIGKILL)
        driver.communicate()
    assert victims
    while actors():  # they go with their driver
        time.sleep(0.1)
    finished = {path: written(path) for path in out.glob("part-*")}
    assert all(undisturbed[path.name] == path.read_bytes() for path in finished)
    with start(out, given, stand_in, cluster) as driver:
        _, err = driver.communicate()
    assert driver.returncode == 0, err
    assert parts(out) == undisturbed
    assert {path: written(path) for path in finished} == finished


@needs("ray")
def test_on_ray_a_full_disk_is_one_sentence(cluster, given, stand_in, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=20k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no disk may be mounted here")
    try:
        with start(disk / "out", given, stand_in, cluster) as driver:
            _, err = driver.communicate()
        assert driver.returncode == 2, err
        assert "cannot be written to (No space left on device); make room" in err.splitlines()[-1]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_torchrun_gives_the_bytes_of_local(given, stand_in, undisturbed, tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", 2, "-m", "clearhead", "bulk", "embed"]
    command += [given, "--out", tmp_path / "out", "--model", stand_in, "--shard-rows", 10, "--keep", "stars"]
    subprocess.run(list(map(str, command)), env=environment(), check=True)
    assert parts(tmp_path / "out") == undisturbed
