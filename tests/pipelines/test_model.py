import copy
import pickle
import shutil

import numpy as np
import pytest
import torch

import clearhead as ch
from clearhead.errors import BadInput, NotFound
from clearhead.nn import fused
from clearhead.nn.lora import LoRA, add_lora
from clearhead.pipelines.model import pick_device, usual_precision
from conftest import SENTENCES as TEXTS
from pipelines.peers import SENTENCES, peers
from pipelines.writers import recurrent_folder, translator


def test_save_and_load_give_the_same_model(model, folder):
    again = ch.load(folder)
    assert list(again.network.heads) == ["masked_lm", "pooled", "next_sentence"]
    assert again.config == model.config
    assert (again.embed("a mask") == model.embed("a mask")).all()
    assert repr(again).startswith("Model(bert, 0.0 M parameters, heads: masked_lm")


def test_half_precision_on_request(folder):
    assert next(ch.load(folder, dtype=torch.bfloat16).encoder.parameters()).dtype == torch.bfloat16


@pytest.mark.parametrize(("cuda", "mps", "found"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")])
def test_auto_is_the_first_device_that_is_there(monkeypatch, cuda, mps, found):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert pick_device("auto") == torch.device(found)
    assert pick_device("cpu") == torch.device("cpu")


def test_a_gpu_uses_half_precision_unless_told_otherwise(folder):
    assert usual_precision(folder, torch.device("cpu")) == torch.float32
    for gpu in ("cuda", "mps"):
        assert usual_precision(folder, torch.device(gpu)) == torch.float16
    auto = ch.load(folder, device="auto", dtype="float32")
    assert next(auto.encoder.parameters()).dtype == torch.float32
    assert ch.load(folder).embed(TEXTS).dtype == np.float32


def test_half_precision_is_near(folder):
    half, whole = ch.load(folder, dtype="float16"), ch.load(folder)
    np.testing.assert_allclose(half.embed(TEXTS, normalise=True), whole.embed(TEXTS, normalise=True), atol=1e-3)


@pytest.mark.parametrize("device", ["cuda:77", "toaster"])
def test_a_device_that_is_not_there(folder, device):
    with pytest.raises(BadInput, match=f"cannot go to device '{device}'"):
        ch.load(folder, device=device)


def test_no_model_named(no_built_in):
    with pytest.raises(NotFound, match="has no built-in model 'encoder'; name a checkpoint folder"):
        ch.load()


def test_a_configuration_of_no_family_is_refused():
    with pytest.raises(BadInput, match="dict is no configuration of a model family"):
        ch.Model.create({"hidden_size": 3})


def test_a_model_without_a_tokenizer_says_so(tmp_path, model):
    bare = ch.Model.create(model.config)
    bare.save(tmp_path / "bare")
    with pytest.raises(NotFound, match="came without a tokenizer"):
        ch.load(tmp_path / "bare").embed("text")


def test_adapters_are_saved_in_the_matrices(tmp_path, folder):
    wrapped = ch.load(folder)
    for adapter in add_lora(wrapped.encoder, ["qkv"], rank=2):
        torch.nn.init.normal_(adapter.up)
    wrapped.save(tmp_path / "wrapped")
    np.testing.assert_allclose(ch.load(tmp_path / "wrapped").embed(TEXTS), wrapped.embed(TEXTS), atol=1e-5)


def test_a_new_head_keeps_the_trained_pooler(model):
    new = model.with_head("classes", 3, labels=["a", "b", "c"], problem="single_label_classification")
    assert list(new.network.heads) == ["classes"]
    assert new.labels == ("a", "b", "c")
    trained = model.network.heads["next_sentence"].pooler.dense.weight
    assert torch.equal(new.network.heads["classes"].pooler.dense.weight, trained)
    assert new.encoder is model.encoder


def again(model):
    return pickle.loads(pickle.dumps(model))


def test_a_pickle_names_the_folder_of_what_was_loaded(stand_in):
    model = ch.load(stand_in)
    for name in model.skills:
        model.skill(name)  # which are not sent along
    assert len(pickle.dumps(model)) < 1000
    np.testing.assert_allclose(again(model).embed(TEXTS), model.embed(TEXTS), atol=1e-6)
    spam = model.skill("spam")
    assert len(pickle.dumps(spam)) < 1000
    assert again(spam).classify(TEXTS[0]) == spam.classify(TEXTS[0])
    half = again(ch.load(stand_in, dtype=torch.bfloat16))
    assert next(half.network.parameters()).dtype == torch.bfloat16


def test_a_pickle_of_a_built_in_model_names_it(built_in, monkeypatch, tmp_path):
    model = ch.load()
    assert model._origin.folder == ch.load("builtin:encoder")._origin.folder == "builtin:encoder"
    shutil.copytree(built_in, tmp_path / "encoder")
    pickled = pickle.dumps(model)
    monkeypatch.setattr("clearhead.hub.remote.FOLDER", tmp_path)  # as where the package lies elsewhere
    np.testing.assert_allclose(pickle.loads(pickled).embed(TEXTS), model.embed(TEXTS), atol=1e-6)


@pytest.mark.parametrize("change", ["number", "parameter", "frozen", "head", "copy", "folder"])
def test_a_pickle_of_what_has_changed_holds_all_numbers(stand_in, tmp_path, change):
    folder = shutil.copytree(stand_in, tmp_path / "model")
    model = ch.load(folder)
    table = model.encoder.embeddings.token
    match change:
        case "number":
            torch.nn.init.normal_(table.weight)
        case "parameter":
            table.weight = torch.nn.Parameter(torch.randn_like(table.weight))
        case "frozen":
            model.network.requires_grad_(False)
        case "head":
            model = model.with_head("classes", 2)
        case "copy":
            model = copy.deepcopy(model)
        case "folder":
            ch.Model.create(model.config, model.tokenizer).save(tmp_path / "other")
            pickled = pickle.dumps(model)
            shutil.copy(tmp_path / "other" / "model.safetensors", folder)
            with pytest.raises(NotFound, match="is not as it was when the model was read; save the model and load it"):
                pickle.loads(pickled)
            return
    assert len(pickle.dumps(model)) > 4 * model.parameters
    found = again(model)
    for one, other in zip(found.network.parameters(), model.network.parameters(), strict=True):
        assert torch.equal(one, other)
        assert one.requires_grad == other.requires_grad
    assert len(pickle.dumps(found)) > 4 * model.parameters


def test_skills_share_the_numbers_of_the_encoder(stand_in):
    model = ch.load(stand_in)
    own = {one.data_ptr() for one in model.encoder.parameters()}
    for name in model.skills:
        adapters = [one for one in model.skill(name).encoder.parameters() if one.data_ptr() not in own]
        assert 0 < sum(one.numel() for one in adapters) < model.parameters / 2
    assert all(part.requires_grad for part in model.network.parameters())


def test_matrices_are_kept_ready_for_the_skills_used_last(stand_in):
    model = ch.load(stand_in)
    each = sum(part.base.weight.nbytes for part in model.skill("spam").network.modules() if isinstance(part, LoRA))
    model.ready_bytes = 2 * each

    wanted = {name: model.skill(name).embed(TEXTS[0]) for name in ("spam", "sentiment", "entities")}
    kept = {name: model._learnt[str(model.skills[name])].network for name in wanted}
    warm = [name for name, network in kept.items() if any(part in fused._KEPT for part in network.modules())]
    assert warm == ["sentiment", "entities"]
    for name in wanted:
        np.testing.assert_allclose(model.skill(name).embed(TEXTS[0]), wanted[name], atol=1e-6)
    assert list(model._ready) == [str(model.skills[name]) for name in ("sentiment", "entities")]


def test_a_skill_that_goes_elsewhere_leaves_the_encoder_where_it_is(stand_in):
    model = ch.load(stand_in)
    before = model.embed(TEXTS[0])
    spam = model.skill("spam")
    spam.to("meta")
    assert spam.device.type == "meta"
    assert model.device.type == "cpu"
    np.testing.assert_allclose(model.embed(TEXTS[0]), before, atol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "torch.float16", torch.float64])
def test_loaded_as_precisely_as_asked(tmp_path, dtype):
    wanted = dtype if isinstance(dtype, torch.dtype) else getattr(torch, dtype.removeprefix("torch."))
    folders = [peers(f"{name}ForMaskedLM").folder for name in ("Bert", "MPNet", "DebertaV2")]
    for folder in folders:
        found, exact = ch.load(folder, dtype=dtype), ch.load(folder)
        assert next(found.network.parameters()).dtype == wanted
        np.testing.assert_allclose(found.embed(SENTENCES), exact.embed(SENTENCES), atol=0.2)
        assert found.fill(f"wear a {found.tokenizer.mask_token}").predictions
    translator("seq2seq-lstm-additive").save(tmp_path / "translator")
    for folder, use in (
        (tmp_path / "translator", lambda model: model.translate("the animal was tired")),
        (recurrent_folder("rnnlm-gru", tmp_path / "rnnlm"), lambda model: model.generate("the", max_new_tokens=3)),
    ):
        model = ch.load(folder, dtype=dtype)
        assert {parameter.dtype for parameter in model.network.parameters()} == {wanted}
        assert use(model).text
    with pytest.raises(BadInput, match="dtype='bf16' is not known; choose float32, float16 or bfloat16"):
        ch.load(folder, dtype="bf16")
    with pytest.raises(BadInput, match=r"dtype=torch\.int8 is not known"):
        ch.load(folder, dtype=torch.int8)
