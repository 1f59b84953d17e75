"""Translating on a CPU with the Transformer (base) shape: ours beside transformers' generate and CTranslate2.

Random weights, a vocabulary of 32,000, sources of 10 to 30 tokens, and the same number of new tokens for everybody: an
end is forbidden before the limit. Each engine is a process of its own, which gives its peak memory, and what of it is
its own after the work: not pages of files, such as mapped weights, which the system takes back when it needs the room.
The engines take turns, and the middle of the rounds counts. CPU seconds are those of all threads, which a busy machine
changes less than the wall clock.

usage: python benchmarks/cpu_decode.py [--texts 16] [--new 32] [--threads 2] [--rounds 5] [--engines …] [--json FILE]
                                       [--record NAME]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch

import clearhead
from clearhead.models.transformer import PRESETS
from record import record

Engine = Callable[[list[list[int]], int, int], list[int]]  # sources, beams, new tokens -> lengths of what was written
VOCABULARY = 32_000
END, PAD = 0, VOCABULARY - 1  # as OPUS-MT has them
COLUMNS = {
    "Beams": "{}",
    "Engine": "{}",
    "tokens/s": "{:,.0f}",
    "per CPU second": "{:,.0f}",
    "peak memory": "{:,.0f} MB",
    "own": "{:,.0f} MB",
}
ENGINES = ("clearhead", "clearhead-int8", "transformers", "ctranslate2", "ctranslate2-int8")


def save_model(folder: Path) -> None:
    """A base Transformer that all engines read, with the files that converters ask for."""
    torch.manual_seed(0)
    config = replace(PRESETS["base"], vocab_size=VOCABULARY, eos_token_id=END, pad_token_id=PAD)
    clearhead.Model.create(config, heads={"causal_lm": VOCABULARY}).save(folder, overwrite=True)
    content = json.loads((folder / "config.json").read_text())
    content |= {"decoder_vocab_size": VOCABULARY, "decoder_start_token_id": PAD, "forced_eos_token_id": None}
    (folder / "config.json").write_text(json.dumps(content))


def sources(count: int) -> list[list[int]]:
    chance = torch.Generator().manual_seed(1)
    lengths = torch.randint(9, 30, (count,), generator=chance).tolist()
    return [[*torch.randint(2, PAD, (length,), generator=chance).tolist(), END] for length in lengths]


def ours(folder: Path, threads: int, *, int8: bool) -> Engine:
    from clearhead.decoding.beam import beam_search
    from clearhead.decoding.config import Controls
    from clearhead.decoding.decoder import as_decoder
    from clearhead.decoding.generate import greedy
    from clearhead.pipelines.int8 import in_int8

    torch.set_num_threads(threads)
    network = clearhead.load(folder).network
    writer = as_decoder(in_int8(network) if int8 else network)

    def write(given: list[list[int]], beams: int, new: int) -> list[int]:
        rules = Controls(end=(END,), max_new_tokens=new, min_new_tokens=new, banned=(PAD,))
        if beams == 1:
            return [len(one.tokens) for one in greedy(writer, given, rules)]
        return [len(one.tokens) for one, *_ in beam_search(writer, given, rules, num_beams=beams)]

    return write


def theirs(folder: Path, threads: int) -> Engine:
    import transformers

    torch.set_num_threads(threads)
    model = transformers.MarianMTModel.from_pretrained(folder).eval()

    def write(given: list[list[int]], beams: int, new: int) -> list[int]:
        longest = max(map(len, given))
        ids = torch.tensor([one + [PAD] * (longest - len(one)) for one in given])
        with torch.inference_mode():
            out = model.generate(
                ids,
                attention_mask=(ids != PAD).long(),
                num_beams=beams,
                do_sample=False,
                max_length=None,
                max_new_tokens=new,
                min_new_tokens=new,
                bad_words_ids=[[PAD]],
                forced_eos_token_id=None,
            )
        return [out.shape[1] - 1] * len(given)

    return write


def fast(folder: Path, threads: int, kind: str) -> Engine:
    import ctranslate2

    converted = folder.with_name(f"ctranslate2-{kind}")
    model = ctranslate2.Translator(str(converted), device="cpu", compute_type=kind, intra_threads=threads)
    names = json.loads((converted / "shared_vocabulary.json").read_text())

    def write(given: list[list[int]], beams: int, new: int) -> list[int]:
        batch = [[names[token] for token in one] for one in given]
        limits = {"max_decoding_length": new, "min_decoding_length": new, "disable_unk": False}
        found = model.translate_batch(batch, beam_size=beams, max_batch_size=0, **limits)
        return [len(one.hypotheses[0]) for one in found]

    return write


def convert(folder: Path, converted: Path, kind: str) -> None:
    """Write CTranslate2's files; its converter for Marian wants a tokenizer only for the names of the tokens."""
    import transformers
    from ctranslate2.converters.transformers import MarianMTLoader, TransformersConverter

    class Named(MarianMTLoader):
        def get_vocabulary(self, model: object, tokenizer: object) -> list[str]:
            return ["</s>", "<unk>", *(f"t{token}" for token in range(2, PAD))]

        def set_config(self, config: object, model: object, tokenizer: object) -> None:
            config.eos_token, config.unk_token, config.decoder_start_token = "</s>", "<unk>", "</s>"

    class Converter(TransformersConverter):
        def load_tokenizer(self, *_: object, **__: object) -> object:
            return None

        def load_model(self, _: object, name: str, **__: object) -> object:
            return transformers.MarianMTModel.from_pretrained(name)

    from ctranslate2.converters import transformers as loaders

    loaders._MODEL_LOADERS["MarianConfig"] = Named()
    Converter(str(folder)).convert(str(converted), quantization=None if kind == "float32" else kind)


def engine_of(name: str, folder: Path, threads: int) -> Engine:
    if name.startswith("clearhead"):
        return ours(folder, threads, int8=name.endswith("int8"))
    if name == "transformers":
        return theirs(folder, threads)
    return fast(folder, threads, "int8" if name.endswith("int8") else "float32")


def serve(name: str, folder: Path, threads: int) -> None:
    """Be an engine: for each line with texts, beams and new tokens, write, and answer with what it took."""
    engine = engine_of(name, folder, threads)
    print("ready", flush=True)
    for line in sys.stdin:
        texts, beams, new = json.loads(line)
        given = sources(texts)
        wall, cpu = time.perf_counter(), time.process_time()
        lengths = engine(given, beams, new)
        took = time.perf_counter() - wall, time.process_time() - cpu
        answer = {"tokens": sum(lengths), "wall": took[0], "cpu": took[1]}
        print(json.dumps({**answer, "peak_mb": held_mb("VmHWM"), "own_mb": held_mb("RssAnon")}), flush=True)


def held_mb(kind: str) -> float:
    """Memory of this process as the system counts it; getrusage would count what its parent held, too."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith(f"{kind}:")) / 1024


def start(name: str, folder: Path, threads: int) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--serve", name, "--folder", str(folder), "--threads", str(threads)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    engine = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    while engine.stdout.readline().strip() != "ready":
        if engine.poll() is not None:
            raise SystemExit(f"{name} did not start")
    return engine


def ask(engine: subprocess.Popen[str], *question: int) -> dict[str, float]:
    engine.stdin.write(json.dumps(question) + "\n")
    engine.stdin.flush()
    return json.loads(engine.stdout.readline())


def measure(options: argparse.Namespace, folder: Path) -> list[dict[str, object]]:
    save_model(folder)
    for kind in ("float32", "int8"):  # here, so that the work does not count as an engine's memory
        convert(folder, folder.with_name(f"ctranslate2-{kind}"), kind)
    rows: list[dict[str, object]] = []
    for beams in options.beams:
        engines = {name: start(name, folder, options.threads) for name in options.engines}
        found: dict[str, list[dict[str, float]]] = {name: [] for name in engines}
        for turn in range(options.rounds + 1):  # the first warms up
            for name, engine in engines.items():
                answer = ask(engine, options.texts, beams, options.new)
                found[name] += [answer] if turn else []
        for name, engine in engines.items():
            engine.stdin.close()
            engine.wait()
            speeds = {
                kind: statistics.median(one["tokens"] / one[kind] for one in found[name]) for kind in ("wall", "cpu")
            }
            memory = {kind: max(one[kind] for one in found[name]) for kind in ("peak_mb", "own_mb")}
            rows.append({"beams": beams, "engine": name, **speeds, **memory})
    return rows


def table(rows: list[dict[str, object]]) -> str:
    lines = [
        "| beams | engine | tokens/s | tokens per CPU second | clearhead is | peak memory | own memory |",
        "|---|---|---|---|---|---|---|",
    ]
    mine = {row["beams"]: row["cpu"] for row in rows if row["engine"] == "clearhead"}
    for row in rows:
        times = f"{mine[row['beams']] / row['cpu']:.2f} × as fast" if row["beams"] in mine else "–"
        speeds = f"{row['wall']:.0f} | {row['cpu']:.0f}"
        memory = f"{row['peak_mb']:.0f} MB | {row['own_mb']:.0f} MB"
        lines.append(f"| {row['beams']} | {row['engine']} | {speeds} | {times} | {memory} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=16, help="sources in a batch")
    parser.add_argument("--new", type=int, default=32, help="tokens to write for each")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--record", metavar="NAME", help="keep the figures in benchmarks/results/NAME.json")
    parser.add_argument("--serve", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.folder, options.threads)
        return
    with tempfile.TemporaryDirectory() as scratch:
        rows = measure(options, Path(scratch) / "model")
    print(f"{date.today()}, {options.threads} threads, {options.texts} texts, {options.new} new tokens each\n")
    print(table(rows))
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if options.record is not None:
        record(options.record, COLUMNS, [list(row.values()) for row in rows], threads=options.threads)


if __name__ == "__main__":
    main()
