"""DeBERTa's distances are those of transformers as far as they reach, and its files are read under either name."""

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.testing import assert_close
from transformers.models.deberta_v2.modeling_deberta_v2 import build_relative_position

from clearhead.errors import BadConfig
from clearhead.hub.checkpoint import read_folder, write_folder
from clearhead.models.deberta import DebertaV2Config
from clearhead.nn.layout import Packed, Padded
from clearhead.nn.relative import Distances
from references import batch_for, our_answers, randomised, save_theirs, their_answers, theirs


@pytest.mark.parametrize(
    ("buckets", "longest"), [(256, 512), (256, 1024), (32, 128), (0, 40), (4, 512), (256, 64), (128, 65)]
)
def test_every_distance_has_the_row_of_transformers(buckets, longest):
    reach = buckets or longest
    query = torch.empty(1, longest, 1)
    expected = build_relative_position(query, query, buckets or -1, longest if buckets else -1)[0]
    vectors, rows = Distances(buckets, longest, 8, 1e-7)(Packed.of([longest]))
    wanted = (expected + reach).clamp(0, 2 * reach - 1)
    assert torch.equal(rows, wanted - wanted.min())
    assert len(vectors) == wanted.max() - wanted.min() + 1


def test_only_the_rows_that_short_texts_ask_for():
    distances = Distances(256, 512, 8, 1e-7)
    vectors, rows = distances(Packed.of([3, 5]))
    assert vectors.shape == (9, 8)
    assert rows.tolist() == [[4 + i - j for j in range(5)] for i in range(5)]
    assert_close(vectors, distances.norm(distances.table.weight[252:261]))


def test_far_distances_as_in_transformers(tmp_path):
    config = {"vocab_size": 64, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48}
    settings = {"relative_attention": True, "position_buckets": 16, "norm_rel_ebd": "layer_norm", "share_att_key": True}
    kinds = {"pos_att_type": "p2c|c2p", "position_biased_input": False, "attention_head_size": 16}
    reference = transformers.DebertaV2Model(
        transformers.DebertaV2Config(**config, **settings, **kinds, num_hidden_layers=2)
    )
    encoder = read_folder(save_theirs(randomised(reference, 0).eval(), tmp_path)).network.encoder
    ids = torch.randint(5, 64, (1, 500), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        got = encoder(ids[0], Packed.of([500]))
        assert_close(got, reference(ids).last_hidden_state[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("model", ["deberta-v2", "mpnet"])
def test_padding_between_tokens_changes_nothing(model, tmp_path):
    """Neighbours of a convolution and distances are counted without it."""
    bare = {"deberta-v2": "DebertaV2Model", "mpnet": "MPNetModel"}[model]
    encoder = read_folder(save_theirs(theirs(model, bare), tmp_path)).network.encoder
    ids = torch.arange(10, 20)
    keep = torch.ones(1, 16, dtype=torch.bool)
    keep[0, [0, 4, 5, 9, 14, 15]] = False
    spread = torch.ones(1, 16, dtype=torch.long).masked_scatter(keep, ids)
    with torch.no_grad():
        assert_close(encoder(spread, Padded.of(keep))[keep], encoder(ids, Packed.of([10])), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("model", "legacy"), [("deberta-v2", False), ("deberta-v3", True)])
def test_the_head_that_fills_masks_is_found_under_its_other_name(model, legacy, tmp_path):
    """As in the published files of version 3, which say nothing of it."""
    reference, batch = theirs(model, "DebertaV2ForMaskedLM"), batch_for(model)
    folder = save_theirs(reference, tmp_path / "theirs")
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**content, "legacy": legacy}))
    tensors = load_file(folder / "model.safetensors")
    # positions that nothing reads, as old files have them
    tensors["deberta.embeddings.position_embeddings.weight"] = torch.zeros(40, 32)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    checkpoint = read_folder(folder)
    expected = their_answers(reference, model, "DebertaV2ForMaskedLM", batch)["masked_lm"][batch.keep]
    assert_close(our_answers(checkpoint.network, model, batch, packed=True)["masked_lm"], expected)
    write_folder(checkpoint, tmp_path / "ours")
    again = transformers.DebertaV2ForMaskedLM.from_pretrained(tmp_path / "ours", local_files_only=True).eval()
    assert again.legacy is legacy
    assert_close(their_answers(again, model, "DebertaV2ForMaskedLM", batch)["masked_lm"][batch.keep], expected)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"relative_attention": False}, "relative_attention = False is not supported; clearhead computes True"),
        ({"share_att_key": None}, "share_att_key = False is not supported"),
        ({"norm_rel_ebd": "none"}, "norm_rel_ebd = 'none' is not supported; clearhead computes 'layer_norm'"),
        ({"position_biased_input": True}, "position_biased_input = True is not supported"),
        ({"pos_att_type": ["c2p"]}, "pos_att_type = ['c2p'] is not supported; clearhead computes 'p2c|c2p'"),
        ({"pos_att_type": 5}, "pos_att_type = 5 is not supported"),
        ({"type_vocab_size": 2}, "type_vocab_size = 2 is not supported"),
        ({"conv_act": "tanh"}, "conv_act = 'tanh' with conv_groups = 1 is not supported"),
        ({"attention_head_size": 64}, "attention_head_size = 64 is not supported; clearhead computes 32 / 4"),
        ({"max_relative_positions": 9}, "max_relative_positions = 9 is not supported; clearhead computes 40"),
        ({"embedding_size": 9}, "embedding_size = 9 is not supported; clearhead computes 32"),
        ({"position_buckets": "all"}, "position_buckets = 'all' is not of type int"),
    ],
)
def test_what_is_computed_otherwise_is_refused(changed, message, tmp_path):
    folder = save_theirs(theirs("deberta-v2", "DebertaV2Model"), tmp_path)
    content = {**json.loads((folder / "config.json").read_text()), **changed}
    content = {name: value for name, value in content.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(content))
    with pytest.raises(BadConfig) as caught:
        read_folder(folder)
    assert message in str(caught.value)


def test_what_published_files_say_is_read(tmp_path):
    """microsoft/deberta-v3-base, word for word, but smaller."""
    folder = save_theirs(theirs("deberta-v3", "DebertaV2Model"), tmp_path)
    content = {
        "model_type": "deberta-v2",
        "attention_probs_dropout_prob": 0.1,
        "hidden_act": "relu",
        "hidden_dropout_prob": 0.1,
        "hidden_size": 32,
        "initializer_range": 0.02,
        "intermediate_size": 48,
        "max_position_embeddings": 40,
        "relative_attention": True,
        "position_buckets": 8,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "pos_att_type": "p2c|c2p",
        "layer_norm_eps": 1e-7,
        "max_relative_positions": -1,
        "position_biased_input": False,
        "num_attention_heads": 4,
        "num_hidden_layers": 3,
        "type_vocab_size": 0,
        "vocab_size": 64,
    }
    (folder / "config.json").write_text(json.dumps(content))
    assert read_folder(folder).description.config == DebertaV2Config(
        **{name: value for name, value in content.items() if name in DebertaV2Config.__dataclass_fields__}
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"conv_kernel_size": 2}, "conv_kernel_size must be odd, or 0 for no convolution, got 2"),
        ({"position_buckets": 2}, "position_buckets must be at least 4, or 0 for none, got 2"),
    ],
)
def test_bad_configurations_are_refused(values, message):
    with pytest.raises(BadConfig, match=message):
        DebertaV2Config(**values)
