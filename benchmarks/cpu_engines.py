"""Other engines on a CPU: all-MiniLM-L6-v2 in torchao, ONNX Runtime and OpenVINO, length-sorted padded batches.

Thousand real tokens per second of the processor, tokenising left out, and the mean cosine to fp32; ours and CTranslate2
are in cpu_embed.py. An engine that is not installed is left out. Compiling torchao's model wants a C++ compiler.

usage: python benchmarks/cpu_engines.py --texts FILE [--count 150] [--threads 1] [--rounds 3]
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import onnxruntime
import torch
import transformers

from cpu_latency import save_models
from real_weights import minilm

BATCH = 16
Engine = Callable[[dict[str, np.ndarray]], np.ndarray]  # ids, mask and segments of a batch -> hidden states


def in_torch(model: Any) -> Engine:
    def run(batch: dict[str, np.ndarray]) -> np.ndarray:
        with torch.inference_mode():
            found: np.ndarray = model(**{name: torch.from_numpy(x) for name, x in batch.items()})[0].numpy()
        return found

    return run


def engines(folder: Path, scratch: Path, threads: int) -> Iterator[tuple[str, Engine]]:
    """Each engine that is installed."""
    yield "transformers, fp32", in_torch(transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval())
    if find_spec("torchao"):
        from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_

        small = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
        quantize_(small, Int8DynamicActivationInt8WeightConfig())
        yield "torchao, int8, eager", in_torch(small)
        yield "torchao, int8, compiled", in_torch(torch.compile(small))
    save_models(scratch, ["embed"])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    for name, file in (("fp32", "embed.onnx"), ("int8, dynamic", "embed-int8.onnx")):
        session = onnxruntime.InferenceSession(scratch / file, options, providers=["CPUExecutionProvider"])
        names = {one.name for one in session.get_inputs()}
        yield (
            f"ONNX Runtime, {name}",
            lambda batch, run=session.run, names=names: run(None, {n: batch[n] for n in names})[0],
        )
    if find_spec("openvino"):
        import openvino

        core = openvino.Core()
        for name, more in (("f32 asked for", {"INFERENCE_PRECISION_HINT": "f32"}), ("as it comes", {})):
            settings = {"INFERENCE_NUM_THREADS": threads, **more}
            compiled = core.compile_model(scratch / "embed.onnx", "CPU", settings)
            names = {one.any_name for one in compiled.inputs}
            yield (
                f"OpenVINO, {name}",
                lambda batch, run=compiled, names=names: run({n: batch[n] for n in names})[0],
            )


def vectors(engine: Engine, batches: list[dict[str, np.ndarray]]) -> np.ndarray:
    """Unit vectors of all texts, the mean of their tokens."""
    found = []
    for batch in batches:
        real = batch["attention_mask"][..., None]
        mean = (engine(batch) * real).sum(1) / real.sum(1)
        found.append(mean / np.linalg.norm(mean, axis=1, keepdims=True))
    return np.concatenate(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    folder = minilm()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = options.texts.read_text("utf-8").splitlines()[: options.count]
    texts.sort(key=lambda text: len(tokenizer(text)["input_ids"]))
    cut = {"padding": True, "truncation": True, "max_length": 256, "return_tensors": "np"}
    batches = [dict(tokenizer(texts[at : at + BATCH], **cut)) for at in range(0, len(texts), BATCH)]
    tokens = sum(int(batch["attention_mask"].sum()) for batch in batches)
    exact: np.ndarray | None = None
    with tempfile.TemporaryDirectory() as scratch:
        for name, engine in engines(folder, Path(scratch), options.threads):
            found = vectors(engine, batches)  # compiles, too
            exact = found if exact is None else exact
            rates = []
            for _ in range(options.rounds):
                start = time.process_time()
                vectors(engine, batches)
                rates.append(tokens / (time.process_time() - start) / 1e3)
            cosine = float((found * exact).sum(-1).mean())
            print(f"{name}: {statistics.median(rates):.2f} thousand tokens/s, mean cosine {cosine:.5f}", flush=True)


if __name__ == "__main__":
    main()
