"""The parts of a trace reproduce what the model computes on its fast path, for every kind of block and every family."""

import copy
from dataclasses import replace

import pytest
import torch
import transformers
from torch.testing import assert_close

from clearhead.errors import BadInput, InputTooLong
from clearhead.hub.checkpoint import read_folder
from clearhead.hub.config import NAMES
from clearhead.inside.trace import trace, trace_ids
from clearhead.nn.lora import add_lora
from generators import GPT, their_decoder
from inside.encoders import HEADS, KINDS, VOCABULARY, WIDTH, encoder, model
from references import MODELS, randomised, save_theirs, theirs

IDS = torch.randint(0, VOCABULARY, (13,), generator=torch.Generator().manual_seed(1))
close = {"atol": 1e-5, "rtol": 1e-5}
every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_shapes_and_sums_of_weights(kind):
    found = trace_ids(encoder(kind), IDS)
    assert found.embeddings.shape == found.output.shape == (13, WIDTH)
    for layer in found.layers:
        assert layer.q.shape == layer.k.shape == layer.v.shape == layer.head_output.shape == (HEADS, 13, WIDTH // HEADS)
        assert layer.raw_scores.shape == layer.scores.shape == layer.weights.shape == (HEADS, 13, 13)
        assert_close(layer.scores, layer.raw_scores / (WIDTH // HEADS) ** 0.5, **close)
        assert_close(layer.weights.sum(-1), torch.ones(HEADS, 13), **close)


@every_kind
def test_weights_times_values_are_the_head_outputs_of_the_fast_path(kind):
    for layer in trace_ids(encoder(kind), IDS).layers:
        assert_close(layer.weights @ layer.v, layer.head_output, **close)


@every_kind
def test_heads_side_by_side_times_the_output_matrix_are_the_attention_output(kind):
    module = encoder(kind)
    for layer, block in zip(trace_ids(module, IDS).layers, module.blocks, strict=True):
        bias = 0.0 if block.attention.output.bias is None else block.attention.output.bias.detach()
        joined = layer.head_output.transpose(0, 1).flatten(1)
        assert_close(joined @ layer.output_matrix.mT + bias, layer.attention_output, **close)
        parts = sum(layer.contribution(head) for head in range(HEADS))
        assert_close(parts + bias, layer.attention_output, **close)


@every_kind
def test_the_parts_add_up_to_each_hidden_state_and_the_last_is_the_encoders(kind):
    module = encoder(kind)
    found = trace_ids(module, IDS)
    stream = found.embeddings
    for layer, block in zip(found.layers, module.blocks, strict=True):
        assert_close(layer.before, stream, **close)
        assert_close(layer.before + layer.attention_output, layer.attention_sum, **close)
        assert_close(layer.middle + layer.feedforward_output, layer.feedforward_sum, **close)
        if kind.startswith("pre-norm"):
            assert_close(layer.middle, layer.attention_sum)
            stream = layer.feedforward_sum
        else:
            assert_close(layer.middle, block.norm_1(layer.attention_sum).detach(), **close)
            stream = block.norm_2(layer.feedforward_sum).detach()
        assert_close(layer.hidden, stream, **close)
    output = module.norm(stream).detach() if hasattr(module, "norm") else stream
    assert_close(found.output, output, **close)
    assert_close(found.output, module(IDS[None]).detach()[0], **close)


def test_outside_the_window_weights_are_zero():
    layer = trace_ids(encoder("post-norm, rotary, window"), IDS).layers[0]
    far = (torch.arange(13)[:, None] - torch.arange(13)).abs() > 2
    assert layer.weights[:, far].eq(0).all()
    assert layer.weights[:, ~far].gt(0).all()


def test_a_shared_layer_appears_as_often_as_it_is_called():
    first, second, third = trace_ids(encoder("shared"), IDS).layers
    assert (first.index, second.index, third.index) == (0, 1, 2)
    assert not torch.equal(first.q, second.q)


def test_one_pass_in_evaluation_mode_and_no_trace_left_behind():
    module = encoder().train()
    module.blocks[1].eval()
    module.requires_grad_(True)
    modes = [part.training for part in module.modules()]
    calls = []
    handle = module.register_forward_hook(lambda *_: calls.append(1))
    found = trace_ids(module, IDS)
    handle.remove()
    assert len(calls) == 1
    assert [part.training for part in module.modules()] == modes
    assert not any(part._forward_hooks for part in module.modules())
    assert not found.output.requires_grad
    assert_close(found.output, module.eval()(IDS[None])[0].detach(), **close)


def test_an_error_leaves_hooks_and_modes_as_they_were():
    module = encoder().train()
    with pytest.raises(InputTooLong, match="Input has 65 tokens, the model has 64 positions"):
        trace_ids(module, [1] * 65)
    assert all(part.training for part in module.modules())
    assert not any(part._forward_hooks for part in module.modules())


def test_training_on_does_not_change_a_trace():
    module = encoder()
    found = trace_ids(module, IDS)
    layer = found.layers[0]
    weights, contribution = layer.weights.clone(), layer.contribution(2).clone()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(1.0)
    again = copy.copy(layer)  # without what the first access kept
    again.__dict__.pop("weights")
    assert torch.equal(again.weights, weights)
    assert torch.equal(again.contribution(2), contribution)


@pytest.mark.parametrize("merged", [False, True])
def test_adapters_belong_to_the_output_matrix(merged):
    module = encoder()
    for adapter in add_lora(module, ["output"], rank=2):
        torch.nn.init.normal_(adapter.up)
        if merged:
            adapter.merge()
    layer = trace_ids(module, IDS).layers[1]
    bias = module.blocks[1].attention.output.base.bias.detach()
    parts = sum(layer.contribution(head) for head in range(HEADS))
    assert_close(parts + bias, layer.attention_output, **close)


def test_half_precision_is_traced_in_float32():
    layer = trace_ids(encoder().bfloat16(), IDS).layers[0]
    assert layer.weights.dtype == layer.hidden.dtype == torch.float32
    assert_close(layer.weights @ layer.v, layer.head_output, atol=0.05, rtol=0.05)


def test_a_text_and_its_pair():
    whole = model()
    found = trace(whole, "where is it", "it is here")
    assert found.tokens == ["[CLS]", "where", "is", "it", "[SEP]", "it", "is", "here", "[SEP]"]
    assert found.segments == found.sides == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    ids, segments = torch.tensor([found.ids]), torch.tensor([found.segments])
    assert_close(found.output, whole.encoder(ids, None, segments)[0].detach(), **close)
    assert trace(whole, "where is it").segments == [0] * 5


def test_it_says_what_it_is():
    found = trace(model(), "one two three four five six seven eight")
    assert repr(found) == "Trace(10 tokens, 3 layers × 4 heads: [CLS] one two three four five six seven …)"
    assert repr(found.layers[1]) == "Layer(1: 10 tokens × 16, 4 heads × 4)"
    local = trace_ids(encoder("post-norm, rotary, window"), IDS)
    assert repr(local.layers[0]) == "Layer(0: 13 tokens × 16, 4 heads × 4, window 2)"
    assert local.tokens == [str(i) for i in IDS.tolist()]


def test_attention_of_one_head():
    found = trace_ids(encoder(), IDS)
    assert_close(found.attention(2, 3), found.layers[2].weights[3])
    with pytest.raises(BadInput, match="layer 3 does not exist, the model has layers 0 to 2"):
        found.attention(3, 0)
    with pytest.raises(BadInput, match="layer -1 does not exist"):
        found.heads(layer=-1)
    with pytest.raises(BadInput, match="head 4 does not exist, layer 1 has heads 0 to 3"):
        found.attention(1, 4)
    with pytest.raises(BadInput, match="head 9 does not exist"):
        found.layers[0].contribution(9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), r"ids must be one sequence \(T,\), got shape \(0,\)"),
        (([[1, 2]],), r"got shape \(1, 2\)"),
        (([1, 2, 3], [0, 0]), "3 ids need as many segments, tokens and sides, got 2, 3 and 2"),
        (([1, 2, 3], None, ["a"]), "got 3, 1 and 3"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(BadInput, match=message):
        trace_ids(encoder(), *arguments)


def test_which_heads_link_two_tokens():
    found = trace(model(), "the animal was tired because it slept")
    links = found.links("it", "animal")
    assert len(links) == 3 * HEADS
    assert links == sorted(links, key=lambda link: -link.weight)
    row, column = found.tokens.index("it"), found.tokens.index("animal")
    for layer, head, weight in links:
        assert weight == pytest.approx(float(found.layers[layer].weights[head, row, column]))
    assert found.links(row, column) == links


def test_one_head_step_by_step():
    found = trace(model(), "the animal was tired")
    data = found.step("animal", 1, 2).data
    layer = found.layers[1]
    assert (data["layer"], data["head"], data["token"]) == (1, 2, 2)
    for name in ("q", "k", "v"):
        assert_close(torch.tensor(data[name]), getattr(layer, name)[2], atol=6e-4, rtol=0)
    assert_close(torch.tensor(data["scores"]), layer.raw_scores[2], atol=6e-4, rtol=0)
    assert_close(torch.tensor(data["scaled"]), layer.scores[2], atol=6e-4, rtol=0)
    assert_close(torch.tensor(data["weights"]), layer.weights[2], atol=6e-5, rtol=0)
    assert_close(torch.tensor(data["output"]), layer.head_output[2], atol=6e-4, rtol=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda found: found.links("it", "cat"), "the token 'it' is not there"),
        (
            lambda found: found.links("the", "cat"),
            "the token 'the' stands at 1, 3, counted from 0; give the number of one",
        ),
        (lambda found: found.step(9, 0, 0), "token 9 does not exist, the text has tokens 0 to 5"),
        (lambda found: found.step("cat", 0, 9), "head 9 does not exist"),
        (lambda found: found.step("cat", 9, 0), "layer 9 does not exist"),
    ],
)
def test_tokens_that_are_not_there_are_refused(call, message):
    with pytest.raises(BadInput, match=message):
        call(trace(model(), "the cat the mat"))


def test_a_text_too_long_to_be_followed_is_refused():
    with pytest.raises(BadInput, match="the text has 129 tokens, this page shows at most 128"):
        replace(trace_ids(encoder(), [1]), tokens=["a"] * 129).step(0, 0, 0)


@pytest.mark.parametrize("model", MODELS)
def test_weights_are_the_attentions_of_transformers(model, tmp_path):
    reference = theirs(model, next(iter(NAMES[MODELS[model][0]].architectures)))
    encoder = read_folder(save_theirs(reference, tmp_path)).network.encoder
    reference.set_attn_implementation("eager")  # the only one that gives its weights out
    ids = torch.randint(5, 64, (17,), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = reference(ids[None], output_attentions=True).attentions
    layers = trace_ids(encoder, ids).layers
    assert len(layers) == len(expected)
    for layer, wanted in zip(layers, expected, strict=True):
        assert_close(layer.weights, wanted[0], atol=1e-5, rtol=1e-5)


def test_a_decoder_sees_nothing_of_what_comes_later(tmp_path):
    reference = randomised(transformers.GPT2Model(transformers.GPT2Config(**GPT)), 0).eval()
    encoder = read_folder(save_theirs(reference, tmp_path)).network.encoder
    reference.set_attn_implementation("eager")
    ids = torch.randint(5, 64, (17,), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = reference(ids[None], output_attentions=True).attentions
    for layer, wanted in zip(trace_ids(encoder, ids).layers, expected, strict=True):
        assert_close(layer.weights, wanted[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", ["marian", "t5"])
def test_a_translator_shows_the_attentions_of_its_encoder(family, tmp_path):
    reference = their_decoder(family)
    encoder = read_folder(save_theirs(reference, tmp_path)).network.encoder
    reference.set_attn_implementation("eager")
    ids = torch.randint(5, 64, (17,), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        read = reference.get_encoder()(ids[None], output_attentions=True)
    found = trace_ids(encoder, ids)
    assert_close(found.output, read.last_hidden_state[0], atol=1e-5, rtol=1e-5)
    for layer, wanted in zip(found.layers, read.attentions, strict=True):
        assert_close(layer.weights, wanted[0], atol=1e-5, rtol=1e-5)


def test_a_step_opens_where_a_head_tells_most():
    found = trace(model(), "the cat sat on the mat , it was warm")
    told = found.heads().data["telling"]
    data = found.step().data
    assert (data["layer"], data["head"], data["token"]) == (told["layer"], told["head"], told["token"])
    assert found.step("cat", layer=1).data["token"] == 2
    assert found.step("cat", layer=1).data["layer"] == 1
    one = found.layers[data["layer"]]
    assert_close(torch.tensor(data["added"]), one.contribution(data["head"]), atol=5.1e-4, rtol=0)
    assert_close(torch.tensor(data["x"]), one.attention_input, atol=5.1e-4, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_queries_are_made_of_the_attentions_input(kind):
    found = trace_ids(encoder(kind), [1, 2, 3, 4])
    for layer in found.layers:
        assert layer.attention_input.shape == layer.before.shape
        if torch.equal(layer.middle, layer.attention_sum) is False:  # post-norm: what enters the block is what is read
            assert torch.equal(layer.attention_input, layer.before)
