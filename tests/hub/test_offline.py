"""Nothing here may reach for the network, and importing the package costs and says nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

HEAVY = {"torch", "transformers", "huggingface_hub", "numpy", "tokenizers", "typer", "rich"}

BLOCKED = """
import socket
tried = []
def refuse(*arguments, **_):
    tried.append(repr(arguments))
    raise OSError("this test has no network")
for owner, name in [(socket.socket, "connect"), (socket.socket, "connect_ex"), (socket.socket, "sendto"),
                    (socket, "create_connection"), (socket, "getaddrinfo"), (socket, "gethostbyname")]:
    setattr(owner, name, refuse)
"""

IMPORT_EVERYTHING = """
import importlib, json, pkgutil, clearhead
names = [module.name for module in pkgutil.walk_packages(clearhead.__path__, "clearhead.")]
for name in names:
    if name.endswith("__main__"):
        continue
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name != "ray":  # an extra, and large
            raise
print(json.dumps({"imported": names, "tried": tried}))
"""

WRITE_AND_READ = """
import json, sys
from pathlib import Path
import torch
from clearhead.hub.card import model_card, write_card
from clearhead.hub.config import Description
from clearhead.hub.convert import convert
from clearhead.hub.checkpoint import Checkpoint, build_network, read_folder, write_folder
from clearhead.hub.remote import find
from clearhead.models.bert import BertConfig
from clearhead.text import Tokenizer

home = Path(sys.argv[1])
(home / "vocab.txt").write_text("\\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "wear", "a", "mask"]))
tokenizer = Tokenizer.from_folder(home)
config = BertConfig(
    vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
    max_position_embeddings=16,
)
description = Description(family="bert", config=config, architecture="BertForMaskedLM")
network = build_network(description, {"masked_lm": 8})
write_folder(Checkpoint(description=description, network=network, tokenizer=tokenizer), home / "model")
write_card(model_card(description, name="model"), home / "model")
torch.save({"a": torch.ones(1)}, home / "pytorch_model.bin")
convert(home)
again = read_folder(find(home / "model"))
print(json.dumps({"ids": list(again.tokenizer.encode("wear a mask").ids), "tried": tried}))
"""


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    # whoever runs the tests may have switched the hub off; here nothing but the code keeps it from the network
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_OFFLINE")}
    done = subprocess.run([sys.executable, "-c", script, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def test_import_is_quiet_and_light() -> None:
    done = run("import sys, clearhead, json; sys.stdout.write(json.dumps(sorted(sys.modules)))")
    assert done.stderr == ""
    modules = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert modules & HEAVY == set()


def test_finding_a_folder_does_not_import_the_hub_or_torch(tmp_path: Path) -> None:
    script = "import sys; from clearhead.hub.remote import find; find(sys.argv[1]); print(*sys.modules)"
    done = run(script, str(tmp_path))
    assert done.stderr == ""
    assert set(done.stdout.split()) & HEAVY == set()


def test_the_block_works() -> None:
    script = "import socket\ntry: socket.create_connection(('127.0.0.1', 9))\nexcept OSError as e: print(e, len(tried))"
    assert run(BLOCKED + script).stdout == "this test has no network 1\n"


def test_importing_every_module_prints_nothing_and_opens_no_connection() -> None:
    done = run(BLOCKED + IMPORT_EVERYTHING)
    assert done.stderr == ""
    answer = json.loads(done.stdout)
    assert answer["tried"] == []
    assert {"clearhead.hub.remote", "clearhead.hub.convert", "clearhead.text.tokenizer"} <= set(answer["imported"])


def test_writing_reading_converting_and_tokenising_open_no_connection(tmp_path: Path) -> None:
    done = run(BLOCKED + WRITE_AND_READ, str(tmp_path))
    assert done.stderr == ""
    assert json.loads(done.stdout) == {"ids": [2, 5, 6, 7, 3], "tried": []}
