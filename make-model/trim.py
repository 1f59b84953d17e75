"""Cut a skill's corrections to a smaller rank: the nearest ones of that rank, by singular values.

usage: python make-model/trim.py SKILL RANK
"""

import sys
from pathlib import Path

import torch

from clearhead.hub.skills import ADAPTER
from clearhead.hub.weights import read_tensors, write_tensors


def main() -> None:
    skill, most = Path(sys.argv[1]), int(sys.argv[2])
    tensors = dict(read_tensors(skill / ADAPTER))
    kept = whole = 0.0
    for name in [name.removesuffix(".up") for name in tensors if name.endswith(".up")]:
        correction = tensors[f"{name}.up"] @ tensors[f"{name}.down"]
        rank = min(most, len(tensors[f"{name}.down"]))
        left, values, right = torch.linalg.svd(correction.double(), full_matrices=False)
        roots = values[:rank].sqrt()
        tensors[f"{name}.up"] = (left[:, :rank] * roots).float().contiguous()
        tensors[f"{name}.down"] = (roots[:, None] * right[:rank]).float().contiguous()
        kept, whole = kept + float(values[:rank].square().sum()), whole + float(values.square().sum())
    write_tensors(tensors, skill / ADAPTER, int8=True)
    print(f"{skill.name}: rank {most} keeps {kept / whole:.1%} of the corrections")


if __name__ == "__main__":
    main()
