"""Passes recorded as CUDA graphs: shapes and fillers anywhere, the passes themselves on a GPU."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.batch import Batch
from clearhead.data.examples import PairExample
from clearhead.models import ALL_FAMILIES
from clearhead.models.bert import Bert, BertConfig
from clearhead.models.transformer import Transformer, TransformerConfig
from clearhead.nn.heads import Network
from clearhead.nn.layout import Packed
from clearhead.training.cuda_graphs import Shape, fill_offsets, graphed, is_recordable
from clearhead.training.recipes.translate import NEW, Translate, prepare

CONFIG = BertConfig(
    vocab_size=50,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)

READS = TransformerConfig(
    vocab_size=50,
    d_model=64,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=2,
    decoder_attention_heads=2,
    encoder_ffn_dim=64,
    decoder_ffn_dim=64,
    dropout=0.0,
    max_position_embeddings=128,
    pad_token_id=0,
)


@given(st.lists(st.integers(1, 512), min_size=1, max_size=40))
def test_a_filled_batch_holds_the_batch_and_no_sequence_too_long(lengths: list[int]) -> None:
    layout, tokens = Packed.of(lengths), sum(lengths)
    shape = Shape.of(layout, tokens, 512)
    offsets = torch.zeros(shape.sequences + 1, dtype=torch.int32)
    fill_offsets(offsets, layout, tokens, shape)
    assert offsets[: len(lengths) + 1].tolist() == layout.offsets.tolist()
    assert int(offsets[-1]) == shape.tokens >= tokens
    assert 0 <= int(offsets.diff().min()) <= int(offsets.diff().max()) <= shape.longest <= 512


@given(st.integers(64, 200_000))
def test_at_most_an_eighth_is_filler(tokens: int) -> None:
    layout = Packed.of([tokens])
    assert Shape.of(layout, tokens, 512).tokens <= tokens * 9 / 8


def test_few_shapes_serve_batches_of_many_sizes() -> None:
    shapes = {Shape.of(Packed.of([n // 32] * 32), n // 32 * 32, 512) for n in range(256, 1024)}
    assert len(shapes) <= 24


def test_without_a_gpu_nothing_is_recorded() -> None:
    network = Network(Bert(CONFIG), {})
    with graphed(network, wanted=True) as replays:
        assert not replays
    assert "forward" not in network.encoder.__dict__


def test_recurrent_networks_are_left_alone() -> None:
    recipe = Translate(model=NEW["seq2seq-lstm-additive"], vocabulary=300)
    network = prepare("seq2seq-lstm-additive", [PairExample("ein Hund", "a dog")] * 4, recipe).network.train()
    assert not is_recordable(network)
    with graphed(network.cuda() if torch.cuda.is_available() else network, wanted=True) as replays:
        assert not replays


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_every_family_that_keeps_texts_packed_can_be_recorded(family: str) -> None:
    with torch.device("meta"):
        encoder = ALL_FAMILIES[family].encoder(ALL_FAMILIES[family].config())
    assert is_recordable(Network(encoder, {})) == (family not in ("deberta-v2", "mpnet", "t5", "xlnet"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
def test_replayed_gradients_are_those_of_the_usual_way() -> None:
    torch.manual_seed(0)
    usual = Network(Bert(CONFIG), {}).cuda().train()
    replayed = copy.deepcopy(usual)
    chance = torch.Generator().manual_seed(0)
    with graphed(replayed, wanted=True) as replays:
        assert replays
        for lengths in ([5, 9, 30], [60, 3], [5, 9, 31], [300] * 12):  # also accumulated, also a shape seen before
            ids = torch.randint(0, 50, (sum(lengths),), generator=chance).cuda()
            layout = Packed.of(lengths, "cuda")
            weight = torch.randn(sum(lengths), 64, generator=chance).cuda()
            for network in (usual, replayed):
                with torch.autocast("cuda", torch.bfloat16):
                    hidden = network.encoder(ids, layout)
                (hidden * weight).sum().backward()
        for (name, one), other in zip(usual.named_parameters(), replayed.parameters(), strict=True):
            assert one.grad is not None
            assert other.grad is not None
            error = (one.grad - other.grad).norm() / one.grad.norm().clamp(min=1e-3)
            assert float(error) < 0.02, name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
def test_an_encoder_and_its_decoder_are_replayed_together() -> None:
    torch.manual_seed(0)
    usual = Network(Transformer(READS), {}).cuda().train()
    replayed = copy.deepcopy(usual)
    chance = torch.Generator().manual_seed(0)

    def text(lengths: list[int]) -> Batch:
        ids = torch.randint(0, 50, (sum(lengths),), generator=chance)
        return Batch(ids, Packed.of(lengths)).to("cuda")

    with graphed(replayed, wanted=True) as replays:
        assert replays
        for written, read in (
            ([5, 9, 30], [7, 3, 40]),
            ([60, 3], [9, 90]),
            ([5, 9, 31], [7, 3, 39]),
            ([40] * 9, [2] * 9),
        ):
            target, source = text(written), text(read)
            weight = torch.randn(sum(written), 64, generator=chance).cuda()
            for network in (usual, replayed):
                with torch.autocast("cuda", torch.bfloat16):
                    hidden = network.encoder(target.ids, target.layout, source)
                (hidden * weight).sum().backward()
        for (name, one), other in zip(usual.named_parameters(), replayed.parameters(), strict=True):
            assert one.grad is not None
            assert other.grad is not None
            error = (one.grad - other.grad).norm() / one.grad.norm().clamp(min=1e-3)
            assert float(error) < 0.02, name
