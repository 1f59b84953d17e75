import pytest
import torch

import clearhead as ch
from clearhead.errors import BadInput, NotFound
from clearhead.nn.lora import add_lora


def test_save_and_load_give_the_same_model(model, folder):
    again = ch.load(folder)
    assert list(again.network.heads) == ["masked_lm", "pooled", "next_sentence"]
    assert again.config == model.config
    assert (again.embed("a mask") == model.embed("a mask")).all()
    assert repr(again).startswith("Model(bert, 0.0 M parameters, heads: masked_lm")


def test_half_precision_on_request(folder):
    assert next(ch.load(folder, dtype=torch.bfloat16).encoder.parameters()).dtype == torch.bfloat16


@pytest.mark.parametrize("device", ["cuda:77", "toaster"])
def test_a_device_that_is_not_there(folder, device):
    with pytest.raises(BadInput, match=f"cannot go to device '{device}'"):
        ch.load(folder, device=device)


def test_no_model_named(no_built_in):
    with pytest.raises(NotFound, match="has no built-in model; name a checkpoint folder"):
        ch.load()


def test_a_configuration_of_no_family_is_refused():
    with pytest.raises(BadInput, match="dict is no configuration of a model family"):
        ch.Model.create({"hidden_size": 3})


def test_a_model_without_a_tokenizer_says_so(tmp_path, model):
    bare = ch.Model.create(model.config)
    bare.save(tmp_path / "bare")
    with pytest.raises(NotFound, match="came without a tokenizer"):
        ch.load(tmp_path / "bare").embed("text")


def test_adapters_are_merged_by_hand_before_saving(tmp_path, folder):
    wrapped = ch.load(folder)
    add_lora(wrapped.encoder, ["qkv"], rank=2)
    with pytest.raises(BadInput, match="merge them and call remove_lora"):
        wrapped.save(tmp_path / "wrapped")
    assert not (tmp_path / "wrapped").exists()


def test_a_new_head_keeps_the_trained_pooler(model):
    new = model.with_head("classes", 3, labels=["a", "b", "c"], problem="single_label_classification")
    assert list(new.network.heads) == ["classes"]
    assert new.labels == ("a", "b", "c")
    trained = model.network.heads["next_sentence"].pooler.dense.weight
    assert torch.equal(new.network.heads["classes"].pooler.dense.weight, trained)
    assert new.encoder is model.encoder
