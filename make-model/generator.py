"""An encoder to go on from whose generator was not kept: its own first layers are the generator (ELECTRA).

usage: python make-model/generator.py ENCODER OUT
"""

import sys
from dataclasses import replace
from pathlib import Path

import clearhead
from clearhead.hub.checkpoint import build_network, write_folder
from clearhead.training.recipes.pretrain import GENERATOR, generator_config


def main() -> None:
    source, out = sys.argv[1], Path(sys.argv[2])
    checkpoint = clearhead.load(source).checkpoint
    write_folder(checkpoint, out, own=True)
    description = replace(checkpoint.description, config=generator_config(checkpoint.description.config))
    smaller = build_network(description, {"masked_lm": description.config.vocab_size})
    known = checkpoint.network.state_dict()
    smaller.load_state_dict({name: known[name] for name in smaller.state_dict()})
    write_folder(replace(checkpoint, description=description, network=smaller), out / GENERATOR, own=True)


if __name__ == "__main__":
    main()
