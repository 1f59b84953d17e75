"""Build a release and try it as a stranger would: python tools/release.py, or `make release`.

The sdist and the wheel are built twice, from copies of what git holds, and must come out the same to the byte; the
wheel must hold the package with its models and nothing else. Then it is installed into an empty environment of each
Python that is found, without the repository, and there the demo runs and the command line answers. What was built is
left in dist/, with its SHA-256, and the man page beside it.

torch is installed first, by TORCH (default torch==2.13.0), since a plain install fetches gigabytes for GPUs.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13")
TORCH = os.environ.get("TORCH", "torch==2.13.0")
ALLOWED = {
    ".py",
    ".json",
    ".md",
    ".safetensors",
    ".svg",
    ".typed",
    ".html",
    ".css",
    ".js",
    ".csv",
    ".tsv",
    ".txt",
    ".toml",
}
# without these an sdist cannot be built, tested, or made a site of
WANTED = (
    ".github/workflows/ci.yml",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "benchmarks/results/gpu_mlm.json",
    "book/website.py",
    "mkdocs.yml",
    "pyproject.toml",
    "tests/conftest.py",
)
SMOKE = {
    ("--version",): r"clearhead \d+\.\d+\.\d+$",
    ("ask", "Where did Ada live?", "Ada Lovelace lived in London."): "London",
    ("tag", "Ada Lovelace lived in London.", "--json"): '"label": "PER"',
    ("translate", "Ich muss auf den Markt gehen."): "market",
}


def run(*command: str | Path, cwd: Path, **options: str) -> str:
    """What a command printed; its end is ours where it fails."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=cwd, env={**clean, **options}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(
            f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
    return done.stdout


def build(folder: Path) -> dict[str, bytes]:
    """Build from a fresh copy of what git holds: each file by its name."""
    copy = folder / "copy"
    run("git", "clone", "--quiet", "--depth", "1", ROOT.as_uri(), copy, cwd=ROOT)
    time = run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()
    run(sys.executable, "-m", "hatchling", "build", "-d", folder / "dist", cwd=copy, SOURCE_DATE_EPOCH=time)
    return {path.name: path.read_bytes() for path in sorted((folder / "dist").iterdir())}


def wrong_in(wheel: Path) -> list[str]:
    """What a wheel holds that it should not, or lacks."""
    with zipfile.ZipFile(wheel) as held:
        names = held.namelist()
    own = [name for name in names if not re.match(r"clearhead-[^/]+\.dist-info/", name)]
    found = [f"holds {name}" for name in own if not name.startswith("clearhead/")]
    found += [f"holds {name}" for name in own if Path(name).suffix not in ALLOWED]
    tracked = run("git", "ls-files", "src/clearhead", cwd=ROOT).splitlines()
    return found + [f"lacks {name}" for name in tracked if name.removeprefix("src/") not in names]


def wrong_in_source(sdist: Path) -> list[str]:
    """What an sdist lacks to be built and tested from."""
    with tarfile.open(sdist) as held:
        names = {name.split("/", 1)[-1] for name in held.getnames()}
    return [f"lacks {name}" for name in WANTED if name not in names]


def pythons() -> list[Path]:
    """One interpreter for each version that is here."""
    found = []
    for version in PYTHONS:
        for name in (
            f"python{version}",
            *(str(path) for path in Path.home().glob(f".pyenv/versions/{version}.*/bin/python")),
        ):
            path = shutil.which(name)
            if path and version in subprocess.run([path, "--version"], capture_output=True, text=True).stdout:
                found.append(Path(path))
                break
    return found


def try_wheel(python: Path, wheel: Path, folder: Path) -> None:
    """Install it into an empty environment, and use it from a folder that has nothing to do with the repository."""
    run(python, "-m", "venv", folder / "env", cwd=folder)
    own = folder / "env" / "bin" / "python"
    pip = (own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, TORCH, cwd=folder)
    run(*pip, wheel, cwd=folder)
    for words, said in SMOKE.items():
        printed = run(folder / "env" / "bin" / "clearhead", *words, cwd=folder)
        if not re.search(said, printed):
            sys.exit(f"clearhead {' '.join(words)} said {printed!r}, without {said!r}")
    asked = {"_CLEARHEAD_COMPLETE": "complete_bash", "COMP_WORDS": "clearhead tokeniz", "COMP_CWORD": "1"}
    completed = run(folder / "env" / "bin" / "clearhead", cwd=folder, **asked).split()
    if completed != ["tokenize", "tokenizer"]:
        sys.exit(f"the shell would complete tokeniz to {completed}")
    run(own, "-m", "clearhead.demo", cwd=folder)
    print(f"  {run(own, '--version', cwd=folder).strip()}: the demo and {len(SMOKE)} verbs work", flush=True)


def main() -> None:
    """Build, compare, look inside, try."""
    with tempfile.TemporaryDirectory() as scratch:
        first, second = (build(Path(scratch) / name) for name in ("first", "second"))
        if changed := [name for name in first if first[name] != second.get(name)]:
            sys.exit(f"built twice, and not the same: {', '.join(changed)}")
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        for name, content in first.items():
            (DIST / name).write_bytes(content)
            print(
                f"{hashlib.sha256(content).hexdigest()}  {name}  {len(content) / 2**20:.1f} MiB, twice the same",
                flush=True,
            )
        (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
        if wrong := [*wrong_in(wheel), *wrong_in_source(sdist)]:
            sys.exit("; ".join(wrong))
        made = (sys.executable, ROOT / "book" / "manual.py", DIST / "clearhead.1")
        run(*made, cwd=ROOT, PYTHONPATH=str(ROOT / "src"))
        found = pythons()
        for python in found:
            with tempfile.TemporaryDirectory() as folder:
                try_wheel(python, wheel, Path(folder))
    missing = len(PYTHONS) - len(found)
    print(f"the release is in dist/{f'; {missing} of {len(PYTHONS)} Pythons were not to be had' if missing else ''}")


if __name__ == "__main__":
    main()
