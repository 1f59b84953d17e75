"""torchao's int8 on a CPU: transformers' all-MiniLM-L6-v2 in length-sorted padded batches, eager and compiled.

Thousand real tokens per second of the processor, and the mean cosine to fp32; ours are in cpu_embed.py. Compiling wants
a C++ compiler. torchao is not a dependency: pip install torchao.

usage: python benchmarks/cpu_torchao.py --texts FILE [--count 150] [--threads 1] [--rounds 3]
"""

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from torch import Tensor
from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_

from real_weights import minilm

BATCH = 16


def vectors(model: Any, batches: list[Any]) -> Tensor:
    """Unit vectors of all texts, the mean of their tokens."""
    found = []
    with torch.inference_mode():
        for batch in batches:
            real = batch["attention_mask"].unsqueeze(-1)
            mean = (model(**batch).last_hidden_state * real).sum(1) / real.sum(1)
            found.append(torch.nn.functional.normalize(mean, dim=-1))
    return torch.cat(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    folder = str(minilm())
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    texts = options.texts.read_text("utf-8").splitlines()[: options.count]
    texts.sort(key=lambda text: len(tokenizer(text)["input_ids"]))
    cut = {"padding": True, "truncation": True, "max_length": 256, "return_tensors": "pt"}
    batches = [tokenizer(texts[at : at + BATCH], **cut) for at in range(0, len(texts), BATCH)]
    tokens = sum(int(batch["attention_mask"].sum()) for batch in batches)
    exact = vectors(model, batches)

    def measure(name: str, network: Any) -> None:
        found = vectors(network, batches)  # compiles, too
        rates = []
        for _ in range(options.rounds):
            start = time.process_time()
            vectors(network, batches)
            rates.append(tokens / (time.process_time() - start) / 1e3)
        cosine = float((found * exact).sum(-1).mean())
        print(f"{name}: {statistics.median(rates):.2f} thousand tokens/s, mean cosine {cosine:.5f}", flush=True)

    measure("transformers, fp32", model)
    quantize_(model, Int8DynamicActivationInt8WeightConfig())
    measure("torchao, int8, eager", model)
    measure("torchao, int8, compiled", torch.compile(model))


if __name__ == "__main__":
    main()
