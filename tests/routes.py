"""The files of clearhead that data crosses on its journeys, counted by tracing real calls.

Run `python tests/routes.py [journey]`; --json is for programs, --markdown for docs/architecture.md.
"""

import argparse
import contextlib
import io
import itertools
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

import clearhead
from clearhead.cli import app

SOURCE = f"{Path(clearhead.__file__).parent}{os.sep}"
TEXT = "The animal did not cross the street because it was too tired."
MAIN = threading.main_thread().ident
STEPS = range(3, 6)  # traced of a run of 8: the batches of the second are made, in the background, while we look

Call = Callable[[int], object]  # takes its number: 0 is for warming up, others are traced
Route = list[tuple[str, list[str]]]  # files in order of first entry, each with its functions in that order


class Watch:
    """A profiler of all threads: while it is on, it notes the code of clearhead that runs."""

    def __init__(self) -> None:
        self.on = False
        self.seen: dict[tuple[bool, str, str], None] = {}  # in order: on the main thread?, file, function

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if self.on and event == "call":
            self._note(frame.f_back)  # it runs too, even if it was entered before we were on
            self._note(frame)

    def _note(self, frame: FrameType | None) -> None:
        code = frame.f_code if frame else None
        if code and code.co_filename.startswith(SOURCE) and code.co_name != "<module>":
            self.seen[
                threading.get_ident() == MAIN, code.co_filename.removeprefix(SOURCE), code.co_qualname.split(".<")[0]
            ] = None


WATCH = Watch()


def route(call: Call, window: Callable[[], contextlib.AbstractContextManager[None]] | None = None) -> Route:
    """Trace the second of two calls, when imports are done, or the part of it in which a window is on."""
    threading.setprofile(WATCH)  # before the first call, which may start threads that stay
    call(0)
    WATCH.seen = {}
    sys.setprofile(WATCH)
    try:
        with window() if window else contextlib.nullcontext():
            WATCH.on = window is None
            call(1)
    finally:
        WATCH.on = False
        sys.setprofile(None)
    # other threads make ready what the main one takes: named first, whichever was faster
    return joined((file, [function]) for _, file, function in sorted(WATCH.seen, key=lambda seen: seen[0]))


def joined(parts: Iterable[tuple[str, list[str]]]) -> Route:
    files: dict[str, list[str]] = {}
    for file, functions in parts:
        files[file] = list(dict.fromkeys(files.get(file, []) + functions))
    return list(files.items())


@contextlib.contextmanager
def between_steps() -> Iterator[None]:
    """Be on in the middle of a training run, from the end of one update to that of a later one."""
    optimisers: list[object] = []

    def count(optimiser: object, *_: object) -> None:
        optimisers.append(optimiser)  # a step may have several
        WATCH.on = optimisers.count(optimisers[0]) in STEPS

    hook = register_optimizer_step_post_hook(count)
    yield
    hook.remove()


@contextlib.contextmanager
def until_written(raw: Path, out: Path) -> Iterator[None]:
    """Be on from the opening of a raw file to the last write into the folder of `out` that takes what was in it."""
    home, kept, over = "", 0, False

    def hear(event: str, given: tuple[Any, ...]) -> None:
        nonlocal home, kept
        if over or event not in ("open", "os.rename"):
            return
        paths = [Path(str(path)) for path in given[:2]]
        WATCH.on = WATCH.on or paths[0] == raw
        if WATCH.on and (event == "os.rename" or given[2] & (os.O_WRONLY | os.O_RDWR)):
            inside = [path.relative_to(out).parts[0] for path in paths if path.is_relative_to(out)]
            home = home or "".join(inside[:1])
            kept = len(WATCH.seen) if home in inside else kept

    sys.addaudithook(hear)  # which stays for good
    yield
    over = True
    assert kept, f"nothing that was read from {raw} was seen to be written into {out}"
    WATCH.seen = dict.fromkeys(itertools.islice(WATCH.seen, kept))


def command(*arguments: object) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        app([str(argument) for argument in arguments], standalone_mode=False)


def answer(room: Path) -> Route:
    model = clearhead.load()
    return route(lambda _: model.answer("Who was too tired?", TEXT))


def look(room: Path) -> Route:
    return route(lambda turn: command("look", "attention", TEXT, "--out", room / f"{turn}.html"))


def load(room: Path) -> Route:
    import transformers

    transformers.utils.logging.disable_progress_bar()
    (room / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys(TEXT.lower().split())])
    )
    tokenizer = transformers.BertTokenizerFast(str(room / "vocab.txt"))
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    network = transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=len(tokenizer), **sizes))
    for turn in ("0", "1"):
        network.save_pretrained(room / turn)
        tokenizer.save_pretrained(room / turn)
    read = clearhead.load  # the package finds it on first use
    return route(lambda turn: read(room / str(turn)))


def pretrain(room: Path) -> Route:
    return route(pretraining(room), between_steps)


def raw(room: Path) -> Route:
    read = route(pretraining(room), lambda: until_written(room / "raw.txt", room / "1"))
    (room / "then").mkdir()
    return joined([*read, *pretrain(room / "then")])


def pretraining(room: Path) -> Call:
    documents = [f"{TEXT} It saw {n} cars. " * 5 for n in range(400)]
    (room / "raw.txt").write_text("\n\n".join(documents))
    clearhead.train_tokenizer(texts=documents, vocabulary=200).save(room / "words")
    given = ["--corpus", room / "raw.txt", "--tokenizer", room / "words", "--device", "cpu", "--preset", "tiny"]
    sizes = ["--steps", STEPS.stop + 2, "--set", "tokens=256", "--set", "length=32"]
    return lambda turn: command("pretrain", *given, *sizes, "--out", room / str(turn))


# each with the most files it may cross
JOURNEYS = {answer: 16, pretrain: 24, raw: 30, look: 28, load: 17}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("journey", nargs="?", choices=[journey.__name__ for journey in JOURNEYS])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    asked = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    torch.set_num_threads(1)
    found = {}
    for journey, target in JOURNEYS.items():
        if asked.journey in (None, journey.__name__):
            with tempfile.TemporaryDirectory() as room:
                found[journey.__name__] = target, journey(Path(room).resolve())
    if asked.json:
        rows = {name: {"target": target, "files": dict(files)} for name, (target, files) in found.items()}
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
    else:
        sys.stdout.write("\n".join(block(name, *traced, asked.markdown) for name, traced in found.items()))


def block(name: str, target: int, files: Route, markdown: bool) -> str:
    width = max(len(file) for file, _ in files)
    lines = [f"{file:{width}}  {', '.join(functions[: 3 if markdown else None])}" for file, functions in files]
    if markdown:
        return "\n".join([f"```text routes: {name}", f"{len(files)} files", *lines, "```", ""])
    short = [f"  {line if len(line) <= 118 else line[:117] + '…'}" for line in lines]
    verdict = "" if len(files) <= target else f", {len(files) - target} too many"
    return "\n".join([f"{name}: {len(files)} files, at most {target}{verdict}", *short, ""])


if __name__ == "__main__":
    main()
