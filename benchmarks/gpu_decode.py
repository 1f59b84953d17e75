"""Decoding on a GPU: ours with CUDA graphs and without, beside transformers' generate, in one process and in turns.

The Transformer (base) shape translates, and GPT-2's small one writes on; random weights, half precision, and the same
number of new tokens for everybody: an end is forbidden before the limit. The best of the rounds counts, since the first
is for warming up. Texts that differ between ours and theirs are counted: half precision may choose another of two
tokens that are as likely, and from there on all is different.

usage: python benchmarks/gpu_decode.py [--shapes …] [--texts 1 64] [--beams 1 4] [--new 128] [--rounds 4]
                                       [--record NAME]
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import transformers

import clearhead
from clearhead.decoding.beam import beam_search
from clearhead.decoding.config import Controls
from clearhead.decoding.decoder import Decoder, as_decoder
from clearhead.decoding.generate import greedy
from clearhead.models.gpt import PRESETS
from cpu_decode import END, PAD, save_model, sources
from record import record

TARGET = 5  # times transformers' speed, on an H200
COLUMNS = {
    "Shape": "{}",
    "texts": "{:.0f}",
    "beams": "{:.0f}",
    "clearhead, tokens/s": "{:,.0f}",
    "each step computed": "{:,.0f}",
    "transformers": "{:,.0f}",
    "ratio": "{:.1f}",
    "target": "{:.0f}",
}
Write = Callable[[list[list[int]], int], list[list[int]]]  # sources or prompts, beams -> what was written


def ours(writer: Decoder, new: int, end: int, banned: tuple[int, ...]) -> Write:
    rules = Controls(end=(end,), max_new_tokens=new, min_new_tokens=new, banned=banned)

    def write(given: list[list[int]], beams: int) -> list[list[int]]:
        if beams == 1:
            return [one.tokens for one in greedy(writer, given, rules)]
        return [best.tokens for best, *_ in beam_search(writer, given, rules, num_beams=beams)]

    return write


def theirs(model: transformers.PreTrainedModel, new: int, end: int, banned: tuple[int, ...]) -> Write:
    def write(given: list[list[int]], beams: int) -> list[list[int]]:
        longest = max(map(len, given))
        sourced = model.config.is_encoder_decoder
        fill = [[PAD] * (longest - len(one)) for one in given]
        rows = [one + more if sourced else more + one for one, more in zip(given, fill, strict=True)]
        ids = torch.tensor(rows, device=model.device)
        with torch.inference_mode():
            out = model.generate(
                ids,
                attention_mask=(ids != PAD).long(),
                num_beams=beams,
                do_sample=False,
                max_length=None,
                max_new_tokens=new,
                min_new_tokens=new,
                bad_words_ids=[[token] for token in banned] or None,
                forced_eos_token_id=None,
                eos_token_id=end,
                pad_token_id=PAD,
            )
        return out[:, -new:].tolist()

    return write


def engines(shape: str, folder: Path, new: int, device: str, dtype: str) -> dict[str, Write]:
    if shape == "translator":
        save_model(folder)
        kind, end, banned = transformers.MarianMTModel, END, (PAD,)
    else:
        torch.manual_seed(0)
        clearhead.Model.create(PRESETS["small"], heads={"causal_lm": PRESETS["small"].vocab_size}).save(folder)
        kind, end, banned = transformers.GPT2LMHeadModel, PRESETS["small"].eos_token_id, ()
    model = kind.from_pretrained(folder, dtype=getattr(torch, dtype)).to(device).eval()
    network = clearhead.load(folder, device=device, dtype=dtype).network
    writer = as_decoder(network)
    return {
        "clearhead": ours(writer, new, end, banned),
        "clearhead, each step computed": ours(writer.decoder, new, end, banned),
        "transformers": theirs(model, new, end, banned),
    }


def seconds(write: Write, given: list[list[int]], beams: int) -> tuple[float, list[list[int]]]:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    found = write(given, beams)  # lists of numbers: nothing is under way any more
    return time.perf_counter() - start, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--shapes", nargs="+", default=["translator", "gpt2"], choices=["translator", "gpt2"])
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--record", metavar="NAME", help="keep the figures in benchmarks/results/NAME.json")
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    rows = []
    for shape in options.shapes:
        with tempfile.TemporaryDirectory() as scratch:
            found = engines(shape, Path(scratch, "model"), options.new, options.device, options.dtype)
        for texts in options.texts:
            given = sources(texts)
            for beams in options.beams:
                times: dict[str, list[float]] = {name: [] for name in found}
                written: dict[str, list[list[int]]] = {}
                for _ in range(options.rounds):
                    for name, write in found.items():
                        spent, written[name] = seconds(write, given, beams)
                        times[name].append(spent)
                speeds = {name: texts * options.new / min(column) for name, column in times.items()}
                differ = [
                    sum(one != two for one, two in zip(written["clearhead"], written[name], strict=True))
                    for name in list(found)[1:]
                ]
                ratio = speeds["clearhead"] / speeds["transformers"]
                rows.append([shape, texts, beams, *speeds.values(), ratio, TARGET])
                print(rows[-1], f"first {times['clearhead'][0]:.2f} s, {differ=}", flush=True)
    if options.record is not None:
        record(options.record, COLUMNS, rows, threads=torch.get_num_threads())


if __name__ == "__main__":
    main()
