"""Every row of a run reaches its trackers, once it is known which run it is; none of them costs a run."""

import json
import logging
import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace

import pytest
from typer.testing import CliRunner

from clearhead.cli import app
from clearhead.errors import BadConfig, BadInput, NotFound
from clearhead.training.monitor import Report, read_rows
from clearhead.training.trackers import TRACKERS, MLflow, Trackio, WandB, make_trackers
from training.toy import ToyTask, run


@dataclass
class Service:
    """Stands in for the packages of trackers: the runs that it knows by name, and the rows of each."""

    rows: dict[str, list[dict]] = field(default_factory=dict)
    configs: dict[str, dict] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)

    def begin(self, name: str | None, config: dict) -> SimpleNamespace:
        name = name or f"run-{len(self.rows)}"
        self.rows.setdefault(name, [])
        self.configs.setdefault(name, config)
        return SimpleNamespace(
            id=name,
            log=lambda row, step: self.rows[name].append({"step": step} | row),
            finish=lambda: self.ended.append(name),
        )

    def wandb(self) -> dict[str, ModuleType]:
        module = ModuleType("wandb")
        module.Settings = SimpleNamespace
        module.init = lambda **given: self.begin(given["id"], given["config"] | {"mode": given["mode"]})
        return {"wandb": module}

    def trackio(self) -> dict[str, ModuleType]:
        module, held = ModuleType("trackio"), []

        def init(*, name, config, **_):
            print("the dashboard is at …")  # noqa: T201
            held.append(self.begin(name, config))
            return held[-1]

        module.init, module.finish = init, lambda: held.pop().finish()
        return {"trackio": module}

    def mlflow(self) -> dict[str, ModuleType]:
        whole, module = ModuleType("mlflow"), ModuleType("mlflow.tracking")
        module.MlflowClient = lambda tracking_uri: _Client(self, tracking_uri)
        return {"mlflow": whole, "mlflow.tracking": module}


class _Client:
    def __init__(self, service: Service, place: str) -> None:
        self.service, self.place = service, place

    def get_experiment_by_name(self, name):
        return None

    def create_experiment(self, name):
        return "1"

    def create_run(self, experiment, run_name):
        return SimpleNamespace(info=SimpleNamespace(run_id=self.service.begin(None, {"place": self.place}).id))

    def log_param(self, name, key, value):
        self.service.configs[name][key] = value

    def log_metric(self, name, key, value, step):
        rows = self.service.rows[name]
        if not rows or rows[-1]["step"] != step:
            rows.append({"step": step})
        rows[-1][key] = value

    def update_run(self, name, status):
        assert status == "RUNNING"

    def set_terminated(self, name):
        self.service.ended.append(name)


@pytest.fixture(params=["mlflow", "wandb", "trackio"])
def tracked(request, monkeypatch):
    service = Service()
    for name, module in getattr(service, request.param)().items():
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("MLFLOW_TRACKING_URI", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    return service, TRACKERS[request.param]


def test_a_run_that_goes_on_is_the_same_run(tracked, tmp_path, capsys):
    service, tracker = tracked

    def break_off(passes, _batch):
        if passes == 3 * 5:  # step 4 is logged, step 3 was saved
            raise KeyError

    folder = tmp_path / "model" / "run"
    with pytest.raises(KeyError):
        run(folder, ToyTask(before=break_off), report=Report(folder, trackers=[tracker()], config={"items": 8}))
    run(folder, report=Report(folder, trackers=[tracker()], config={"items": 8}))
    ((name, rows),) = service.rows.items()
    assert [row["step"] for row in rows] in ([2, 4, 6, 8, 10, 12], [2, 4, 4, 6, 8, 10, 12])
    assert rows[-1] == read_rows(folder)[-1]
    assert service.configs[name]["items"] == 8
    assert service.ended == [name, name]
    assert capsys.readouterr().out == ""
    run(folder, report=Report(folder, trackers=[tracker()]), restart=True)
    assert len(service.rows) == 2  # what begins anew is another one


def test_nothing_leaves_the_machine_unasked(tmp_path, monkeypatch):
    service = Service()
    for name, module in (service.wandb() | service.mlflow()).items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run(tmp_path, steps=2, report=Report(tmp_path, trackers=[WandB(), MLflow()]))
    assert service.configs["run-0"]["mode"] == "offline"
    assert service.configs["run-1"]["place"] == f"sqlite:///{tmp_path.resolve() / 'mlflow.db'}"


class Watcher:
    """A tracker of the user's own."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.seen: list[object] = []
        self.fails = fails

    def begin(self, folder, step, config):
        self.seen.append(("begin", step, dict(config)))

    def log(self, row):
        self.seen.append(row["step"])
        if self.fails is not None:
            raise self.fails

    def end(self):
        self.seen.append("end")


def test_a_tracker_of_ones_own(tmp_path):
    watcher = Watcher()
    run(tmp_path, steps=4, report=Report(tmp_path, trackers=make_trackers([watcher]), config={"length": 8}))
    assert watcher.seen == [("begin", 0, {"length": 8}), 2, 4, "end"]


def test_a_tracker_that_fails_costs_no_run_but_may_end_it(tmp_path, caplog):
    failing, other = Watcher(ConnectionError("the server is gone")), Watcher()
    with caplog.at_level(logging.WARNING):
        run(tmp_path / "b", steps=4, report=Report(tmp_path / "b", trackers=[failing, other]))
    assert failing.seen == [("begin", 0, {}), 2]
    assert other.seen == [("begin", 0, {}), 2, 4, "end"]
    assert "the tracker Watcher failed and is told no more of this run: ConnectionError('the server" in caplog.text
    with pytest.raises(BadInput, match="enough"):
        run(tmp_path / "c", steps=4, report=Report(tmp_path / "c", trackers=[Watcher(BadInput("enough"))]))


@pytest.mark.parametrize(("name", "package"), [("mlflow", "mlflow"), ("wandb", "wandb"), ("trackio", "trackio")])
def test_a_package_that_is_missing_is_named(name, package, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NotFound, match=f"is not installed; run: pip install {package}"):
        make_trackers([name])
    with pytest.raises(BadConfig, match="there is no tracker 'wand'; did you mean wandb"):
        make_trackers(["wand"])
    asked = ["finetune", "classify", "--data", "none.csv", "--out", str(tmp_path / "out"), "--track", name]
    done = CliRunner().invoke(app, asked)
    assert isinstance(done.exception, NotFound)
    assert not (tmp_path / "out").exists()


def test_the_command_line_tracks(folder, tmp_path, monkeypatch):
    service = Service()
    for name, module in (service.trackio() | service.wandb()).items():
        monkeypatch.setitem(sys.modules, name, module)
    data = tmp_path / "train.jsonl"
    data.write_text("".join(json.dumps({"text": "a bank", "label": label}) + "\n" for label in "abab"))
    asked = ["finetune", "classify", "--data", data, "--model", folder, "--out", tmp_path / "out", "--json"]
    changes = ["--set", "train.steps=2", "--set", "length=16", "--set", "train.every.log=1", "--device", "cpu"]
    done = CliRunner().invoke(app, [*map(str, asked), *changes, "--track", "trackio", "--track", "wandb"])
    assert json.loads(done.stdout)["task"] == "classify", done.output
    assert [len(rows) for rows in service.rows.values()] == [2, 2]
    assert all(config["train.steps"] == 2 for config in service.configs.values())
    assert next(iter(service.rows)).startswith("out-")
    assert isinstance(make_trackers(["trackio"])[0], Trackio)
