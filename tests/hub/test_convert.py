import json
import os
import pickle
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from clearhead.errors import BadCheckpoint, BadInput, NotFound, UnsafeCheckpoint
from clearhead.hub.checkpoint import read_folder
from clearhead.hub.convert import convert


class Trap:
    """Leaves a file behind when it is unpickled as pickle would do it."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.marker),)


def state() -> dict[str, Tensor]:
    table = torch.randn(7, 4)
    return {
        "embeddings.weight": table,
        "decoder.weight": table,  # tied
        "dense.weight": torch.randn(4, 6).t(),  # not contiguous
        "flat": table.view(-1),  # the same memory in another shape
        "row": table[2],
        "half": torch.randn(3).to(torch.bfloat16),
        "count": torch.tensor(3),
        "empty_1": torch.empty(0, 2),
        "empty_2": torch.empty(0, 2),
        "parameter": nn.Parameter(torch.randn(2)),
    }


def assert_same(folder: Path, tensors: dict[str, Tensor]) -> None:
    written = load_file(folder / "model.safetensors")
    expected = {name: tensor for name, tensor in tensors.items() if name != "decoder.weight"}
    assert written.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(written[name], tensor.detach(), rtol=0, atol=0)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", ["", "pytorch_model.bin"])
def test_every_tensor_arrives_and_a_tied_one_once(tmp_path: Path, zipped: bool, name: str) -> None:
    tensors = state()
    torch.save(tensors, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    assert convert(tmp_path / name) == tmp_path
    assert_same(tmp_path, tensors)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.safetensors", "pytorch_model.bin"]


@pytest.mark.parametrize("backwards", [True, False])
def test_a_published_model_is_converted_whole(tmp_path: Path, backwards: bool) -> None:
    sizes = {"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(**sizes, intermediate_size=16, max_position_embeddings=9)
    theirs = transformers.BertForMaskedLM(config)
    theirs.config.architectures = ["BertForMaskedLM"]
    theirs.config.save_pretrained(tmp_path)
    weights = theirs.state_dict()
    torch.save(dict(sorted(weights.items(), reverse=backwards)), tmp_path / "pytorch_model.bin")
    folder = convert(tmp_path)
    again = transformers.BertForMaskedLM.from_pretrained(folder, local_files_only=True).state_dict()
    assert all(torch.equal(again[name], weights[name]) for name in weights)
    table = read_folder(folder).network.encoder.embeddings.token.weight
    assert torch.equal(table, weights["bert.embeddings.word_embeddings.weight"])


def test_shards_become_one_file(tmp_path: Path) -> None:
    tensors = {f"layer.{i}": torch.randn(3) for i in range(4)}
    shards = {name: f"pytorch_model-0000{i % 2 + 1}-of-00002.bin" for i, name in enumerate(tensors)}
    for shard in set(shards.values()):
        torch.save({name: tensors[name] for name in tensors if shards[name] == shard}, tmp_path / shard)
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": shards}))
    assert_same(convert(tmp_path), tensors)
    index.write_text(json.dumps({"weight_map": {**shards, "lost": shards["layer.0"]}}))
    with pytest.raises(BadCheckpoint, match="1 tensors are in no shard, such as lost"):
        convert(tmp_path, overwrite=True)
    for weight_map in ({}, {"a": 1}, {"a": "../other.bin"}, {"a": "missing.bin"}):
        index.write_text(json.dumps({"weight_map": weight_map}))
        with pytest.raises(BadCheckpoint, match=r"index\.json (has no usable weight_map|names .*no file beside it)"):
            convert(index, overwrite=True)
    assert_same(tmp_path, tensors)


def test_another_folder_gets_configuration_and_tokenizer_but_no_pickle(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "deep" / "target"
    (source / "1_Pooling").mkdir(parents=True)
    torch.save({"a": torch.ones(2)}, source / "pytorch_model.bin")
    for name in ("config.json", "vocab.txt", "1_Pooling/config.json", "notes.txt", "modeling.py"):
        (source / name).write_text(name)
    assert convert(source, target) == target
    names = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    assert names == {"config.json", "vocab.txt", "1_Pooling/config.json", "model.safetensors"}
    assert (target / "vocab.txt").read_text() == "vocab.txt"


def test_nothing_is_overwritten_unless_told_to(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "pytorch_model.bin")
    save_file({"b": torch.zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(BadInput, match=r"model\.safetensors is there already; .* overwrite=True"):
        convert(tmp_path)
    assert load_file(tmp_path / "model.safetensors").keys() == {"b"}
    convert(tmp_path, overwrite=True)
    assert load_file(tmp_path / "model.safetensors").keys() == {"a"}
    other = tmp_path / "other"
    other.mkdir()
    for folder in (tmp_path, other):
        (folder / "config.json").write_text(folder.name)
    with pytest.raises(BadInput, match=r"other/config\.json is there already"):
        convert(tmp_path, other)


@pytest.mark.parametrize("how", ["zip", "legacy", "protocol 0", "protocol 2", "protocol 5", "nested"])
def test_a_pickle_that_wants_to_run_code_is_refused_and_does_not_run(tmp_path: Path, how: str) -> None:
    marker, file = tmp_path / "marker", tmp_path / "pytorch_model.bin"
    if how.startswith("protocol"):
        file.write_bytes(pickle.dumps(Trap(marker), protocol=int(how[-1])))
    else:
        content = {"a": torch.ones(1), "b": Trap(marker)} if how == "nested" else Trap(marker)
        torch.save(content, file, _use_new_zipfile_serialization=how != "legacy")
    with pytest.raises(UnsafeCheckpoint, match="holds more than tensors, which could run code"):
        convert(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["pytorch_model.bin"]
    # the trap is a real one
    pickle.loads(file.read_bytes()) if how.startswith("protocol") else torch.load(file, weights_only=False)
    assert marker.exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.jit itself
def test_a_program_is_refused(tmp_path: Path) -> None:
    torch.jit.script(nn.Linear(2, 2)).save(tmp_path / "pytorch_model.bin")
    with pytest.raises(UnsafeCheckpoint, match="holds more than tensors"):
        convert(tmp_path)


def test_a_module_is_refused(tmp_path: Path) -> None:
    torch.save(nn.Linear(2, 2), tmp_path / "pytorch_model.bin")
    with pytest.raises(UnsafeCheckpoint, match="holds more than tensors"):
        convert(tmp_path)


@pytest.mark.parametrize("zipped", [True, False])
def test_damaged_files_are_named(tmp_path: Path, zipped: bool) -> None:
    file = tmp_path / "pytorch_model.bin"
    torch.save(state(), file, _use_new_zipfile_serialization=zipped)
    whole = file.read_bytes()
    for content in (
        b"",
        b"garbage" * 100,
        b"PK\x03\x04",
        b"\x80",
        *(whole[: len(whole) * i // 7] for i in range(1, 7)),
    ):
        file.write_bytes(content)
        with pytest.raises(BadCheckpoint, match=r"pytorch_model\.bin"):
            convert(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["pytorch_model.bin"]


@pytest.mark.parametrize(
    "content",
    [
        {},
        [torch.ones(1)],
        torch.ones(1),
        {"epoch": 3, "a": torch.ones(1)},
        {"state_dict": {"a": torch.ones(1)}},
        {0: torch.ones(1)},
        {"sparse": torch.eye(2).to_sparse()},
        {"meta": torch.empty(2, device="meta")},
    ],
)
def test_only_tensors_with_names_are_taken(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "pytorch_model.bin")
    with pytest.raises(BadCheckpoint, match="save a state_dict"):
        convert(tmp_path)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"has no pytorch_model\.bin; there is nothing to convert"):
        convert(tmp_path)
    with pytest.raises(NotFound, match=r"gone\.bin is not there"):
        convert(tmp_path / "gone.bin")
    save_file({"a": torch.ones(1)}, tmp_path / "model.safetensors")
    with pytest.raises(BadInput, match="is safetensors already"):
        convert(tmp_path / "model.safetensors")


def test_a_tensor_that_shows_its_numbers_without_end(tmp_path):
    torch.save({"weight": torch.zeros(1).expand(2**40)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(BadCheckpoint, match=r"its tensors take 4,398,046,511,104 bytes, the file has"):
        convert(tmp_path)
