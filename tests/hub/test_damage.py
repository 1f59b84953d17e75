"""A damaged, mismatched or hostile checkpoint folder gives a typed error with advice: no crash, no code run."""

import json
import os
import pickle
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from clearhead.errors import BadCheckpoint, BadConfig, BadInput, ClearheadError, NotFound, UnsafeCheckpoint
from clearhead.hub import checkpoint as folder_module
from clearhead.hub.checkpoint import read_folder, write_folder
from clearhead.hub.config import read_config
from clearhead.hub.weights import read_tensors, write_tensors
from clearhead.models import ALL_FAMILIES
from references import ours

WEIGHTS, CONFIG, INDEX = "model.safetensors", "config.json", "model.safetensors.index.json"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Give a good folder, not to be changed."""
    folder = tmp_path_factory.mktemp("good")
    write_folder(ours("bert", "BertForSequenceClassification"), folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    """Give a copy to damage."""
    return Path(shutil.copytree(saved, tmp_path / "checkpoint"))


def configure(folder: Path, **changes: object) -> None:
    content = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(content | changes))


def reweigh(folder: Path, change) -> None:
    """Rewrite the tensors after a change, without our digest, as any other program would."""
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


# bytes of the weights


@given(share=st.floats(0, 1, exclude_max=True))
@example(share=0.0)
@settings(max_examples=30, deadline=None)
def test_cut_short(saved, tmp_path_factory, share):
    whole = (saved / WEIGHTS).read_bytes()
    path = tmp_path_factory.mktemp("cut") / WEIGHTS
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(BadCheckpoint, match=r"damaged or cut short .*; fetch or save it again"):
        read_tensors(path)


def test_every_flipped_bit_is_noticed(tmp_path):
    path = tmp_path / WEIGHTS
    write_tensors({"norm.weight": torch.randn(3), "dense.weight": torch.randn(2, 2).bfloat16()}, path)
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << bit
            path.write_bytes(flipped)
            with pytest.raises(BadCheckpoint, match="damaged"):
                read_tensors(path)


def test_flipped_bits_in_a_model_are_noticed(saved, tmp_path):
    whole = (saved / WEIGHTS).read_bytes()
    shutil.copy(saved / CONFIG, tmp_path)
    rng = torch.Generator().manual_seed(0)
    for place in torch.randint(len(whole), (40,), generator=rng).tolist():
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        (tmp_path / WEIGHTS).write_bytes(flipped)
        with pytest.raises(BadCheckpoint):
            read_folder(tmp_path)


# code in the weights


class Bomb:
    """Opening a pickle of this creates a file."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self):
        return os.mkdir, (str(self.proof),)


@pytest.mark.parametrize("pack", [pickle.dumps, None], ids=["pickle", "torch.save"])
@pytest.mark.parametrize("name", [WEIGHTS, "pytorch_model.bin"])
def test_a_pickle_is_never_opened(folder, tmp_path, pack, name):
    proof = tmp_path / "proof"
    (folder / WEIGHTS).unlink()
    if pack is None:
        torch.save({"weight": Bomb(proof)}, folder / name)
    else:
        (folder / name).write_bytes(pack(Bomb(proof)))
    with pytest.raises(UnsafeCheckpoint, match="is a pickle"):
        read_folder(folder)
    assert not proof.exists()
    with (folder / name).open("rb") as file:  # the bomb is real
        pickle.load(file) if pack else torch.load(file, weights_only=False)
    assert proof.exists()


def test_a_sharded_pickle_is_named_as_one(folder):
    (folder / WEIGHTS).unlink()
    (folder / "pytorch_model.bin.index.json").write_text("{}")
    with pytest.raises(UnsafeCheckpoint, match=r"pytorch_model\.bin\.index\.json is a pickle"):
        read_folder(folder)


# shards


def shard(folder: Path) -> dict[str, str]:
    """Split the weights into two files with an index, as transformers does."""
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    names = sorted(tensors)
    parts = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for part, held in parts.items():
        write_tensors({name: tensors[name] for name in held}, folder / part)
    weight_map = {name: part for part, held in parts.items() for name in held}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return weight_map


def test_shards_are_read(saved, folder):
    shard(folder)
    whole, again = (dict(read_folder(path).network.named_parameters()) for path in (saved, folder))
    assert whole.keys() == again.keys()
    assert all(torch.equal(whole[name], again[name]) for name in whole)


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "..", "sub/x.safetensors", "model-1.bin", ""])
def test_shards_stay_in_the_folder(folder, name):
    weight_map = shard(folder)
    (folder / INDEX).write_text(json.dumps({"weight_map": weight_map | {"x": name}}))
    with pytest.raises(UnsafeCheckpoint, match=r"a shard is a \.safetensors file in the same folder"):
        read_folder(folder)


@pytest.mark.parametrize("content", ["[]", "{}", '{"weight_map": 1}', '{"weight_map": {"a": 1}}', "{", "\x00"])
def test_a_bad_index(folder, content):
    shard(folder)
    (folder / INDEX).write_text(content)
    with pytest.raises(BadCheckpoint, match=r"JSON|weight_map"):
        read_folder(folder)


def test_a_missing_shard(folder):
    shard(folder)
    (folder / "model-2.safetensors").unlink()
    with pytest.raises(NotFound, match=r"model-2\.safetensors is not there; fetch the checkpoint again"):
        read_folder(folder)


# tensors that do not fit


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"hidden_size": 64}, BadCheckpoint, r"of shape \(64, 32\), the configuration asks .* \(64, 64\)"),
        ({"vocab_size": 65}, BadCheckpoint, "config.json and the weights are from different models"),
        ({"num_hidden_layers": 4}, BadCheckpoint, r"16 tensors are missing, such as bert\.encoder\.layer\.3"),
        ({"num_hidden_layers": 2}, BadCheckpoint, r"16 tensors that its family does not know, such as bert\.encoder"),
        ({"type_vocab_size": 0}, BadCheckpoint, "1 tensors that its family does not know"),
        ({"architectures": ["BertForMaskedLM"]}, BadCheckpoint, "names BertForMaskedLM, but the weights have no cls"),
        (
            {"architectures": ["BertForLunch"]},
            BadConfig,
            r"unknown architecture \['BertForLunch'\]; clearhead",
        ),
        ({"architectures": [["BertModel"]]}, BadConfig, "unknown architecture"),
        ({"architectures": "BertModel"}, BadConfig, "unknown architecture 'BertModel'"),
        ({"model_type": "electra"}, BadConfig, "unknown architecture"),
        ({"model_type": "gpt9"}, BadConfig, "unknown model_type 'gpt9'; clearhead reads albert, bert"),
        ({"model_type": ["bert"]}, BadConfig, "unknown model_type"),
        ({"hidden_act": "swoosh"}, BadConfig, "unknown activation 'swoosh'; known: gelu"),
        ({"hidden_act": 3}, BadConfig, "hidden_act = 3 is not of type str"),
        ({"hidden_size": "32"}, BadConfig, "hidden_size = '32' is not of type int"),
        ({"hidden_size": 32.0}, BadConfig, "hidden_size = 32.0 is not of type int"),
        ({"hidden_size": True}, BadConfig, "hidden_size = True is not of type int"),
        ({"layer_norm_eps": None}, BadConfig, "layer_norm_eps = None is not of type float"),
        ({"layer_norm_eps": 10**400}, BadConfig, "layer_norm_eps"),
        ({"is_decoder": True}, BadConfig, "is_decoder = True is not supported; clearhead computes False"),
        ({"position_embedding_type": "relative_key"}, BadConfig, "'relative_key' is not supported"),
        ({"id2label": {"0": "a", "2": "b"}}, BadCheckpoint, "id2label must number the labels from 0"),
        ({"id2label": ["a", "b"]}, BadCheckpoint, "id2label must number the labels from 0"),
        ({"id2label": {"0": "a", "1": "b"}}, BadCheckpoint, "names 2 labels, but classifier has 3 outputs"),
        ({"problem_type": 5}, BadConfig, "problem_type = 5 is not of type str"),
    ],
)
def test_a_configuration_that_does_not_fit(folder, change, error, message):
    configure(folder, **change)
    with pytest.raises(error, match=message):
        read_folder(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_a_configuration_that_is_no_json_object(folder, content):
    (folder / CONFIG).write_bytes(content)
    with pytest.raises(BadCheckpoint, match=r"is not JSON|not a JSON object|is not UTF-8 text"):
        read_folder(folder)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("family", ALL_FAMILIES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_value_in_a_configuration_is_read_or_refused(tmp_path_factory, family, data):
    known = [
        *ALL_FAMILIES[family].config.__dataclass_fields__,
        "id2label",
        "architectures",
        "problem_type",
        "model_type",
    ]
    known += ["layer_types", "rope_parameters"] if family == "modernbert" else []
    changes = data.draw(st.dictionaries(st.sampled_from(known), json_values, max_size=2))
    folder = tmp_path_factory.mktemp("config")
    (folder / CONFIG).write_text(json.dumps({"model_type": family} | changes))
    with suppress(ClearheadError):
        read_config(folder)


def drop(name):
    return lambda tensors: tensors.pop(name)


def put(name, tensor):
    return lambda tensors: tensors.update({name: tensor})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop("bert.embeddings.word_embeddings.weight"), r"1 tensors are missing, such as bert\.embeddings\.word"),
        (drop("bert.encoder.layer.1.attention.self.key.bias"), r"1 tensors are missing, .*self\.key\.bias"),
        (drop("classifier.weight"), "1 tensors are missing, such as classifier.weight"),
        (drop("classifier.bias"), "1 tensors are missing, such as classifier.bias"),
        (drop("bert.pooler.dense.weight"), r"1 tensors are missing, such as bert\.pooler\.dense\.weight"),
        (put("bert.adapter.weight", torch.ones(2)), r"1 tensors that its family does not know, such as bert\.adapter"),
        (put("bert.encoder.layer.0.attention.self.key.weight", torch.ones(32, 16)), r"key\.weight is .* \(32, 16\)"),
        (put("classifier.weight", torch.tensor(1.0)), r"classifier\.weight is .* shape \(\)"),
        (put("classifier.bias", torch.tensor(1.0)), "names 3 labels, but classifier has 1 outputs"),
        (put("classifier.weight", torch.ones(3, 32, dtype=torch.int8)), "asks for floats"),
        (lambda tensors: tensors.clear(), "the weights have no"),
    ],
)
def test_tensors_that_are_missing_or_odd(folder, change, message):
    reweigh(folder, change)
    with pytest.raises(BadCheckpoint, match=message):
        read_folder(folder)


@pytest.mark.parametrize(
    ("remove", "message"),
    [(CONFIG, r"config\.json is not there"), (WEIGHTS, r"has no model\.safetensors; a checkpoint folder holds")],
)
def test_files_that_are_missing(folder, remove, message):
    (folder / remove).unlink()
    with pytest.raises(NotFound, match=message):
        read_folder(folder)


# saving


def test_a_failed_save_leaves_the_old_folder(folder, monkeypatch):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fail(tensors, path, **_):
        path.write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(folder_module, "write_tensors", fail)
    with pytest.raises(BadInput, match=r"config\.json is there already; .* overwrite=True"):
        write_folder(ours("bert", "BertForMaskedLM"), folder)
    with pytest.raises(BadInput, match=r"checkpoint cannot be written to \(no space left on device\)"):
        write_folder(ours("bert", "BertForMaskedLM"), folder, overwrite=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert read_folder(folder).description.architecture == "BertForSequenceClassification"
    with pytest.raises(BadInput, match=r"new/deep cannot be written to"):
        write_folder(ours("bert", "BertForMaskedLM"), folder / "new" / "deep")
    assert not (folder / "new").exists()


def test_a_save_replaces_the_old_folder_and_keeps_strangers(folder):
    (folder / "modules.json").write_text("[]")
    (folder / "README.md").write_text("of the old one")
    (folder / "notes.txt").write_text("mine")
    write_folder(ours("distilbert", "DistilBertForMaskedLM"), folder, overwrite=True)
    assert read_folder(folder).description.family == "distilbert"
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", CONFIG, WEIGHTS, "notes.txt"]
    (folder / "notes.txt").unlink()
    write_folder(ours("bert", "BertForMaskedLM"), folder, overwrite=True)  # now in one step
    assert sorted(path.name for path in folder.iterdir()) == [CONFIG, WEIGHTS]


def test_a_file_is_no_folder(folder):
    with pytest.raises(BadInput, match=r"config\.json is a file; give a folder to save into"):
        write_folder(ours("bert", "BertModel"), folder / CONFIG)


def test_a_folder_is_no_file(folder):
    (folder / CONFIG).unlink()
    (folder / CONFIG).mkdir()
    with pytest.raises(BadCheckpoint, match=r"config\.json is no plain file; copy the file there"):
        read_folder(folder)
