"""The files of deploy/training/ are what their tools accept, and agree with clearhead and with one another."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from clearhead.cli import app

FOLDER = Path(__file__).parents[1] / "deploy" / "training"
SCRIPTS = [FOLDER / "machine.sh", FOLDER / "slurm.sbatch"]
SHARING = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"


def text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def resources() -> dict[str, dict]:
    return {one["kind"]: one for one in yaml.safe_load_all(text("kubernetes.yaml"))}


def pod() -> dict:
    return resources()["Job"]["spec"]["template"]["spec"]


def options_of(verb: str) -> set[str]:
    told = CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return set(re.findall(r"--[a-z0-9-]+", told.output))


def commands() -> dict[str, list[str]]:
    """What each file asks of clearhead: the verb and its options."""
    arguments = pod()["containers"][0]["args"]
    found = {"kubernetes.yaml": arguments[arguments.index("clearhead") + 1 :]}
    for name in ("machine.sh", "slurm.sbatch", "skypilot.yaml"):
        (line,) = re.findall(r"(?:machine\.sh|slurm\.sbatch) (pretrain .*)", text(name))
        found[name] = shlex.split(line)
    return found


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_the_shell_reads_every_script(path, tmp_path):
    subprocess.run(["bash", "-n", path], check=True)
    if shellcheck := shutil.which("shellcheck"):
        done = subprocess.run([shellcheck, path], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("place", ["kubernetes.yaml", "machine.sh", "slurm.sbatch", "skypilot.yaml"])
def test_every_option_is_one_of_clearhead(place):
    verb, *rest = commands()[place]
    asked = {one.partition("=")[0] for one in rest if one.startswith("--")}
    assert {"--corpus", "--out"} <= asked <= options_of(verb)


def test_who_starts_machines_says_what_they_must_know():
    needed = set(re.findall(r'^: "\$\{(\w+):\?', text("machine.sh"), re.MULTILINE))
    assert needed == {"RENDEZVOUS", "MACHINES"}
    for name in ("slurm.sbatch", "skypilot.yaml"):
        told = set(re.findall(r"\b([A-Z]+)=", text(name)))
        assert needed | {"JOB", "RANKS"} <= told
        assert "deploy/training/machine.sh" in text(name)


def test_a_machine_without_a_meeting_place_says_so():
    done = subprocess.run([FOLDER / "machine.sh", "pretrain"], env={"PATH": "/usr/bin:/bin"}, capture_output=True)
    assert done.returncode != 0
    assert b"name the machine where all meet, as host:port" in done.stderr


def test_a_machine_gives_up_after_its_starts_and_stops_when_it_is_done(tmp_path):
    torchrun = tmp_path / "torchrun"
    starts = tmp_path / "starts"
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "RENDEZVOUS": "a:1", "MACHINES": "2", "RANKS": "1"}
    environment |= {"STARTS": "3", "PAUSE": "0", "JOB": "mine"}
    for ends, expected in (("exit 1", 1), (f'[ "$(wc -l < {starts})" -eq 2 ]', 0)):
        starts.write_text("")
        torchrun.write_text(f'#!/bin/sh\necho "${SHARING} $*" >> {starts}\n{ends}\n')
        torchrun.chmod(0o755)
        command = [FOLDER / "machine.sh", "pretrain", "--out", "a folder"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == expected, done.stderr
        lines = starts.read_text().splitlines()
        assert len(lines) == (3 if expected else 2)
        assert lines[0].startswith("1 --nnodes 2 --nproc-per-node 1 --max-restarts 3")
        assert lines[0].endswith("--rdzv-endpoint a:1 --rdzv-id mine -m clearhead pretrain --out a folder")


def test_the_pods_find_one_another():
    job, service = resources()["Job"], resources()["Service"]
    name, (port,) = service["metadata"]["name"], service["spec"]["ports"]
    (container,) = pod()["containers"]
    count = job["spec"]["completions"]
    assert job["spec"]["completionMode"] == "Indexed"
    assert job["spec"]["parallelism"] == count
    assert f"--nnodes={count}" in container["args"]
    # the name of a pod of an indexed job is that of the job and its index, in the domain of the service
    assert f"--rdzv-endpoint={job['metadata']['name']}-0.{name}:{port['port']}" in container["args"]
    assert pod()["subdomain"] == name
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"].items() <= job["spec"]["template"]["metadata"]["labels"].items()
    assert {"name": SHARING, "value": "1"} in container["env"]
    assert "--rdzv-id=$(JOB)" in container["args"]
    assert "JOB" in [one["name"] for one in container["env"]]


def test_all_pods_share_the_folder_of_the_run():
    claim = resources()["PersistentVolumeClaim"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    volumes = {one["name"]: one for one in pod()["volumes"]}
    (container,) = pod()["containers"]
    mounts = {one["mountPath"]: volumes[one["name"]] for one in container["volumeMounts"]}
    assert mounts["/shared"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert {"--corpus=/shared/corpus", "--out=/shared/my-bert"} <= set(container["args"])
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    # of pods that are replaced, those that a machine took with it are not counted
    assert pod()["restartPolicy"] == "Never"
    (rule,) = resources()["Job"]["spec"]["podFailurePolicy"]["rules"]
    assert rule == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}


def test_the_manifests_fit_the_schema_of_kubernetes():
    for tool, strict in (("kubeconform", "-strict"), ("kubernetes-validate", "--strict")):
        if path := shutil.which(tool):
            done = subprocess.run([path, strict, FOLDER / "kubernetes.yaml"], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            return
    pytest.skip("neither kubeconform nor kubernetes-validate is here")


def test_skypilot_starts_as_many_machines_as_meet():
    task = yaml.safe_load(text("skypilot.yaml"))
    assert task["num_nodes"] > 1
    assert "MACHINES=$SKYPILOT_NUM_NODES" in task["run"]
    assert list(task["volumes"]) == ["/shared"]


def test_the_page_names_every_file():
    page = (FOLDER.parents[1] / "docs" / "multi-machine.md").read_text(encoding="utf-8")
    for path in FOLDER.iterdir():
        assert f"deploy/training/{path.name}" in page, path.name
