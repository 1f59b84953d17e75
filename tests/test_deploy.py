"""The files of deploy/ are what their tools accept, and agree with one another and with the service."""

import configparser
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from clearhead.cli import app
from clearhead.serve.metrics import Metrics
from clearhead.serve.settings import Settings
from clearhead.serve.work import Done, Refusal

DEPLOY = Path(__file__).parents[1] / "deploy"
MANIFESTS = sorted(path for path in (DEPLOY / "kubernetes").glob("*.yaml") if path.name != "kustomization.yaml")
PORT = 8643
KEY_FILE = "--api-key-file"
COUNTED = ("counter", "histogram")
LABELS = {
    "clearhead_requests_total": {"use", "status"},
    "clearhead_request_seconds": {"use"},
    "clearhead_queue_seconds": {"use"},
    "clearhead_compute_seconds": {"use"},
    "clearhead_rejected_total": {"reason"},
    "clearhead_tokens_total": {"kind"},
}
PLACE = {"job", "instance", "pod", "namespace"}  # labels that Prometheus adds


def text(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def manifest(name: str) -> dict:
    return yaml.safe_load(text(f"kubernetes/{name}.yaml"))


def container() -> dict:
    (one,) = manifest("deployment")["spec"]["template"]["spec"]["containers"]
    return one


def compose() -> dict:
    return yaml.safe_load(text("docker-compose.yml"))


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read_string(text("clearhead.service"))
    return parser


def instructions(name: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, continued lines joined."""
    lines = "\n".join(line for line in text(name).splitlines() if line.strip() and not line.startswith("#"))
    return [tuple(line.split(maxsplit=1)) for line in re.sub(r"\\\n\s*", "", lines).splitlines()]


def last(name: str) -> str:
    return [rest for word, rest in instructions("Dockerfile") if word == name][-1]


def commands() -> dict[str, list[str]]:
    """The arguments of `clearhead`, wherever it is started."""
    return {
        "Dockerfile": json.loads(last("CMD")),
        "docker-compose.yml": compose()["services"]["clearhead"]["command"],
        "deployment.yaml": container()["args"],
        "clearhead.service": unit()["Service"]["ExecStart"].split()[1:],
    }


def value(arguments: list[str], option: str) -> str:
    joined = " ".join(arguments).replace("=", " ").split()
    return joined[joined.index(option) + 1]


def metrics() -> dict[str, str]:
    """The metrics of the service under our names, and their types; `up` is Prometheus' own."""
    told = re.findall(r"^# TYPE (clearhead_\w+) (\w+)$", Metrics().text().decode(), re.MULTILINE)
    return {"up": "gauge", **{name: kind for name, kind in told if not name.endswith("_created")}}


def expressions() -> list[str]:
    rules = [rule["expr"] for group in yaml.safe_load(text("alerts.yml"))["groups"] for rule in group["rules"]]
    board = json.loads(text("grafana-dashboard.json"))
    return rules + [target["expr"] for panel in board["panels"] for target in panel["targets"]]


# options, ports, paths


def test_every_option_is_one_of_the_service():
    told = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    if not (DEPLOY.parent / "src" / "clearhead" / "cli" / "serve.py").is_file():
        pytest.skip("this copy has no command serve")
    assert told.exit_code == 0, told.output
    known = set(re.findall(r"--[a-z0-9-]+", told.output))
    for place, arguments in commands().items():
        assert arguments[0] == "serve", place
        asked = {one.split("=")[0] for one in arguments if one.startswith("--")}
        assert asked <= known, f"{place}: {sorted(asked - known)}"
    page = (DEPLOY.parent / "docs" / "serving.md").read_text(encoding="utf-8")
    shown = {
        option
        for block in re.findall(r"clearhead serve[^\n`]*", page)
        for option in re.findall(r"(?<= )--[a-z0-9-]+", block)
    }
    assert shown
    assert shown <= known, f"docs/serving.md: {sorted(shown - known)}"


def test_every_place_speaks_of_one_port():
    assert last("EXPOSE") == str(PORT)
    assert compose()["services"]["clearhead"]["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    (port,) = container()["ports"]
    assert port == {"name": "http", "containerPort": PORT}
    assert value(container()["args"], "--port") == str(PORT)
    assert value(commands()["clearhead.service"], "--port") == str(PORT)
    (served,) = manifest("service")["spec"]["ports"]
    assert (served["port"], served["targetPort"]) == (PORT, port["name"])
    (rule,) = manifest("networkpolicy")["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": PORT}]
    annotations = manifest("deployment")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(PORT)
    assert annotations["prometheus.io/path"] == "/metrics"
    (job,) = yaml.safe_load(text("prometheus.yml"))["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"clearhead:{PORT}"]}]
    for check in (last("HEALTHCHECK"), compose()["services"]["clearhead"]["healthcheck"]["test"][-1]):
        assert f"http://127.0.0.1:{PORT}/" in check


def test_no_place_but_loopback_is_without_a_key():
    for place, arguments in commands().items():
        if value(arguments, "--host") != "127.0.0.1":
            # the image has no key of its own, and refuses to start until one is given
            assert place == "Dockerfile" or KEY_FILE in " ".join(arguments), place
            assert "--insecure" not in arguments


def test_the_key_lies_where_the_service_looks_for_it():
    asked = compose()["services"]["clearhead"]
    assert value(asked["command"], KEY_FILE) == f"/run/secrets/{asked['secrets'][0]}"
    assert set(asked["secrets"]) == set(compose()["secrets"])

    folder, name = value(container()["args"], KEY_FILE).rsplit("/", 1)
    (mount,) = [one for one in container()["volumeMounts"] if one["mountPath"] == folder]
    volumes = manifest("deployment")["spec"]["template"]["spec"]["volumes"]
    (volume,) = [one for one in volumes if one["name"] == mount["name"]]
    secret = manifest("secret.example")
    assert volume["secret"]["secretName"] == secret["metadata"]["name"]
    assert list(secret["stringData"]) == [name]

    credential = unit()["Service"]["LoadCredential"].split(":")[0]
    assert value(commands()["clearhead.service"], KEY_FILE) == f"${{CREDENTIALS_DIRECTORY}}/{credential}"


def seconds(written: str) -> int:
    return int(written.removesuffix("s"))


def test_who_ends_the_service_waits_longer_than_its_grace():
    spec = manifest("deployment")["spec"]["template"]["spec"]
    before = int(container()["lifecycle"]["preStop"]["exec"]["command"][-1])
    assert spec["terminationGracePeriodSeconds"] > before + int(value(container()["args"], "--grace"))
    asked = compose()["services"]["clearhead"]
    assert seconds(asked["stop_grace_period"]) > int(value(asked["command"], "--grace"))
    service = unit()["Service"]
    assert int(service["TimeoutStopSec"]) > int(value(commands()["clearhead.service"], "--grace"))
    assert service["KillSignal"] == last("STOPSIGNAL") == "SIGTERM"


def test_models_are_let_go_before_the_limit_of_memory():
    limits = {
        "docker-compose.yml": compose()["services"]["clearhead"]["mem_limit"],
        "deployment.yaml": container()["resources"]["limits"]["memory"],
        "clearhead.service": unit()["Service"]["MemoryMax"],
    }
    for place, limit in limits.items():
        assert int(value(commands()[place], "--max-memory").removesuffix("GB")) < int(re.match(r"\d+", limit)[0]), place


# Docker


def test_the_image_runs_as_nobody_and_checks_itself():
    words = instructions("Dockerfile")
    stages = [rest for word, rest in words if word == "FROM"]
    assert stages == ["python:3.12-slim AS build", "python:3.12-slim"]
    number, group = map(int, last("USER").split(":"))
    assert min(number, group) > 0
    context = manifest("deployment")["spec"]["template"]["spec"]["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == (number, group)
    check = re.fullmatch(r".*CMD (\[.*\])", last("HEALTHCHECK"))
    assert check is not None
    program = json.loads(check[1])
    assert program[:2] == ["python", "-c"]
    compile(program[2], "HEALTHCHECK", "exec")
    assert "/health'" in program[2]
    assert json.loads(last("ENTRYPOINT")) == ["clearhead"]


def test_the_image_is_made_of_files_that_are_there_and_not_ignored():
    kept = {line[1:] for line in text("Dockerfile.dockerignore").splitlines() if line.startswith("!")}
    copied = {
        name
        for word, rest in instructions("Dockerfile")
        if word == "COPY" and not rest.startswith("--from")
        for name in rest.split()[:-1]
    }
    assert copied == kept
    assert all((DEPLOY.parent / name).exists() for name in copied)


def test_the_containers_of_compose_may_do_little():
    for name, one in compose()["services"].items():
        assert one["cap_drop"] == ["ALL"], name
        assert one["security_opt"] == ["no-new-privileges:true"], name
        assert one["mem_limit"], name
        assert all(port.startswith("127.0.0.1:") for port in one["ports"]), name
        for volume in one.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).exists(), f"{name}: {source}"
                assert volume.endswith(":ro"), f"{name}: {volume}"
            else:
                assert source in compose()["volumes"]
    assert compose()["services"]["clearhead"]["read_only"] is True
    assert [name for name, one in compose()["services"].items() if "profiles" not in one] == ["clearhead"]


def test_what_is_installed_is_there_to_be_installed():
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    files = [*DEPLOY.glob("*"), DEPLOY.parent / "docs" / "serving.md"]
    asked = {
        name
        for path in files
        if path.is_file()
        for found in re.findall(r"(?:clearhead|'\.)\[([a-z,]+)\]", path.read_text(encoding="utf-8"))
        for name in found.split(",")
    }
    assert asked == {"serve", "scale", "client"}
    assert asked <= set(project["optional-dependencies"])
    torch = re.search(r"ARG TORCH=(\S+)", text("Dockerfile"))
    assert torch is not None
    assert f"TORCH ?= torch=={torch[1]}" in (DEPLOY.parent / "Makefile").read_text(encoding="utf-8")


def test_hadolint_has_nothing_to_say():
    run(found("hadolint"), DEPLOY / "Dockerfile")


def test_compose_reads_its_file(tmp_path):
    folder = tmp_path / "deploy"
    shutil.copytree(DEPLOY, folder)
    (folder / "api-keys").write_text("a-key-for-this-test\n")
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) and subprocess.run([*command, "version"], capture_output=True).returncode == 0:
            profile = ["-f", str(folder / "docker-compose.yml"), "--profile", "monitoring"]
            told = run(*command, *profile, "config", "--services")
            assert set(told.split()) == set(compose()["services"])
            return
    pytest.skip("docker compose is not here")


# Kubernetes


def test_the_kustomization_names_every_manifest_but_the_example():
    listed = manifest("kustomization")["resources"]
    assert sorted(listed) == [path.name for path in MANIFESTS if not path.name.endswith(".example.yaml")]
    assert manifest("kustomization")["images"][0]["name"] == container()["image"]


def test_the_manifests_mean_the_same_pods():
    pods = manifest("deployment")["spec"]["template"]["metadata"]["labels"]
    for chosen in (
        manifest("deployment")["spec"]["selector"]["matchLabels"],
        manifest("service")["spec"]["selector"],
        manifest("pdb")["spec"]["selector"]["matchLabels"],
        manifest("networkpolicy")["spec"]["podSelector"]["matchLabels"],
    ):
        assert chosen.items() <= pods.items()
    target = manifest("hpa")["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", manifest("deployment")["metadata"]["name"])
    # an apply must not undo what the autoscaler did
    assert "replicas" not in manifest("deployment")["spec"]
    (metric,) = manifest("hpa")["spec"]["metrics"]
    assert (metric["type"], metric["pods"]["metric"]["name"]) == ("Pods", "clearhead_queue_tokens")
    assert manifest("hpa")["spec"]["minReplicas"] > manifest("pdb")["spec"]["maxUnavailable"]


def test_probes_ask_the_model_only_for_readiness():
    paths = {name: container()[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert {name: one["path"] for name, one in paths.items()} == {
        "startup": "/health",
        "readiness": "/ready",
        "liveness": "/health",
    }
    assert {one["port"] for one in paths.values()} == {"http"}


def test_a_pod_may_do_little_and_writes_only_to_tmp():
    spec = manifest("deployment")["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [one["mountPath"] for one in container()["volumeMounts"] if not one.get("readOnly")] == ["/tmp"]
    assert {one["name"] for one in container()["volumeMounts"]} == {one["name"] for one in spec["volumes"]}


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_the_manifests_fit_the_schema_of_kubernetes(path):
    if kubeconform := shutil.which("kubeconform"):
        run(kubeconform, "-strict", path)
    elif validate := shutil.which("kubernetes-validate"):
        run(validate, "--strict", path)
    else:
        pytest.skip("neither kubeconform nor kubernetes-validate is here")


# systemd


def test_the_unit_is_locked_in():
    service = unit()["Service"]
    for name, wanted in {
        "DynamicUser": "yes",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "ProtectHome": "yes",
        "Restart": "on-failure",
        "CapabilityBoundingSet": "",
    }.items():
        assert service[name] == wanted, name


def test_systemd_reads_the_unit(tmp_path):
    program = unit()["Service"]["ExecStart"].split()[0]
    (tmp_path / "clearhead.service").write_text(text("clearhead.service").replace(program, sys.executable))
    assert run(found("systemd-analyze"), "verify", tmp_path / "clearhead.service") == ""


# Ray


def test_ray_gets_settings_that_the_service_knows(monkeypatch):
    (application,) = yaml.safe_load(text("ray-serve.yaml"))["applications"]
    variables = application["runtime_env"]["env_vars"]
    named = set(re.findall(r"CLEARHEAD_SERVE_(\w+):", text("ray-serve.yaml")))
    assert {name.lower() for name in named} <= set(Settings.__struct_fields__)
    for name, given in variables.items():
        monkeypatch.setenv(name, given)
    settings = Settings.from_environment()
    (deployment,) = application["deployments"]
    assert deployment["graceful_shutdown_timeout_s"] > settings.grace
    assert yaml.safe_load(text("ray-serve.yaml"))["http_options"]["request_timeout_s"] > settings.timeout
    module, name = application["import_path"].split(":")
    source = (DEPLOY.parent / "src" / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")
    assert re.search(rf"^{name}\b.* = ", source, re.MULTILINE)
    assert f'name="{deployment["name"]}"' in source


# Prometheus and Grafana


def test_every_metric_and_label_is_one_of_the_service():
    known, seen = metrics(), set()
    for expression in expressions():
        bare = re.sub(r'"[^"]*"', '""', expression)
        names = set(re.findall(r"\b(?:clearhead|te|process)_\w+|\bup\b", bare))
        assert names, expression
        for name in names:
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            assert base in known, expression
            assert (name != base) == (known[base] == "histogram"), f"{name} in {expression}"
            # a counter only grows: what is of interest is how fast
            assert (f"rate({name}" in bare or f"increase({name}" in bare) == (known[base] in COUNTED), expression
            seen.add(base)
        labels = PLACE | {"le"} | set().union(*(LABELS.get(re.sub(r"_bucket$", "", name), set()) for name in names))
        grouped = {one.strip() for by in re.findall(r"by \(([^)]*)\)", bare) for one in by.split(",")}
        chosen = {
            one for inner in re.findall(r"\{([^}]*)\}", bare) for one in re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", inner)
        }
        assert grouped | chosen <= labels, expression
    assert seen == set(known)


def test_labels_are_those_of_the_service():
    own = Metrics()
    own.done("embed", Done(results=[], model="built-in", read=1), items=1)
    own.refused("embed", Refusal("overloaded", "too much"), 429)
    found: dict[str, set[str]] = {}
    for name, inner in re.findall(r"^(clearhead_\w+(?<!_created))\{(.*)\}", own.text().decode(), re.MULTILINE):
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        found.setdefault(base, set()).update(set(re.findall(r'(\w+)="', inner)) - {"le"})
    assert {name: labels for name, labels in found.items() if labels} == LABELS


def test_panels_stand_beside_one_another():
    panels = json.loads(text("grafana-dashboard.json"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
        assert panel["datasource"]["uid"] == "${datasource}"
    variables = {one["name"] for one in json.loads(text("grafana-dashboard.json"))["templating"]["list"]}
    used = set(re.findall(r"\$(?!__)\{?(\w+)", " ".join(expressions()))) | {"datasource"}
    assert used == variables


def test_grafana_finds_its_dashboard_and_its_source():
    (provider,) = yaml.safe_load(text("grafana/provisioning/dashboards/clearhead.yml"))["providers"]
    mounts = [volume.split(":") for volume in compose()["services"]["grafana"]["volumes"]]
    assert [place for source, place, *_ in mounts if source == "./grafana-dashboard.json"] == [
        f"{provider['options']['path']}/clearhead.json"
    ]
    (source,) = yaml.safe_load(text("grafana/provisioning/datasources/prometheus.yml"))["datasources"]
    assert source["url"] == "http://prometheus:9090"


def test_promtool_reads_the_configuration_and_every_expression(tmp_path):
    promtool = found("promtool")
    run(promtool, "check", "config", DEPLOY / "prometheus.yml")
    run(promtool, "check", "rules", DEPLOY / "alerts.yml")
    rules = [
        {"record": f"panel:{number}", "expr": expression.replace("$__rate_interval", "1m").replace("$__range", "1h")}
        for number, expression in enumerate(expressions())
    ]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    run(promtool, "check", "rules", tmp_path / "panels.yml")


QUIET = [
    ('up{job="clearhead"}', "1x60"),
    ('clearhead_ready{job="clearhead"}', "1x60"),
    ('clearhead_requests_total{job="clearhead",use="embed",status="200"}', "0+600x60"),
    ('clearhead_rejected_total{job="clearhead",reason="overloaded"}', "0x60"),
    ('clearhead_requests_total{job="clearhead",use="embed",status="504"}', "0x60"),
    ('clearhead_requests_total{job="clearhead",use="embed",status="500"}', "0x60"),
    ('clearhead_worker_restarts_total{job="clearhead"}', "0x60"),
    ('clearhead_request_seconds_bucket{job="clearhead",use="embed",le="1"}', "0+600x60"),
    ('clearhead_request_seconds_bucket{job="clearhead",use="embed",le="10"}', "0+600x60"),
    ('clearhead_request_seconds_bucket{job="clearhead",use="embed",le="+Inf"}', "0+600x60"),
    ('clearhead_queue_tokens{job="clearhead"}', "100x60"),
]
TROUBLE = {
    "ClearheadDown": {0: "0x60"},
    "ClearheadNotReady": {1: "0x60"},
    "ClearheadRejecting": {3: "0+60x60"},
    "ClearheadDeadlinesMissed": {4: "0+60x60"},
    "ClearheadFailing": {5: "0+1x60"},
    "ClearheadWorkerRestarts": {6: "0+1x60"},
    "ClearheadSlow": {7: "0+500x60"},
    "ClearheadQueueStaysFull": {10: "60000x60"},
}


@pytest.mark.parametrize("alert", [None, *TROUBLE])
def test_an_alert_is_raised_by_its_trouble_and_by_nothing_else(tmp_path, alert):
    promtool = found("promtool")
    shutil.copy(DEPLOY / "alerts.yml", tmp_path)
    values = {series: TROUBLE.get(alert, {}).get(number, quiet) for number, (series, quiet) in enumerate(QUIET)}
    rules = [rule for group in yaml.safe_load(text("alerts.yml"))["groups"] for rule in group["rules"]]
    assert {rule["alert"] for rule in rules} == set(TROUBLE)
    raised = 'count by (alertname) (ALERTS{alertstate="firing"})'
    expected = [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else []
    case = {
        "rule_files": ["alerts.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": series, "values": given} for series, given in values.items()],
                "promql_expr_test": [{"expr": raised, "eval_time": "45m", "exp_samples": expected}],
            }
        ],
    }
    (tmp_path / "case.yml").write_text(yaml.safe_dump(case))
    run(promtool, "test", "rules", tmp_path / "case.yml")


def found(tool: str) -> str:
    path = shutil.which(tool)
    if path is None:
        pytest.skip(f"{tool} is not here")
    return path


def run(*command: object) -> str:
    done = subprocess.run([str(one) for one in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
