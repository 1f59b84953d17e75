"""The bottleneck: three networks that have learnt numbers, shipped or on the spot; what is shown of them is theirs."""

import pytest
import torch

from clearhead.decoding.config import GenerationConfig
from clearhead.errors import BadInput
from clearhead.inside import bottleneck
from clearhead.inside.bottleneck import train_networks

STEPS = 25


@pytest.fixture(scope="module")
def data():
    return bottleneck("43 27, 81", steps=STEPS).data


def test_numbers_are_written_as_both_languages_have_them(data):
    assert data["source"] == ["drei", "und", "vierzig", "sieben", "und", "zwanzig", "eins", "und", "achtzig"]
    assert data["target"] == ["forty", "three", "twenty", "seven", "eighty", "one"]


def test_what_is_shown_is_what_the_networks_write(data):
    models = train_networks(STEPS)
    assert list(models) == ["GRU", "GRU with attention", "Transformer"]
    for one in data["models"]:
        generator = models[one["name"]].generator
        (ids,) = generator.ids([" ".join(data["source"])])
        ((output,),) = generator.write([ids], [18], GenerationConfig())
        assert one["text"] == generator.tokenizer.decode(output.tokens)
        assert one["read"][:-1] == data["source"]


def test_one_has_a_vector_the_others_have_attention(data):
    alone, attentive, transformer = data["models"]
    assert len(alone["bottleneck"]) == data["width"]
    assert alone["attention"] == []
    for one in (attentive, transformer):
        assert one["bottleneck"] == []
        sums = torch.tensor(one["attention"]).sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums), atol=5e-3, rtol=0)


def test_quality_is_told_by_length(data):
    quality = data["quality"]
    assert [one["family"] for one in quality["scores"]] == ["GRU", "GRU with attention", "Transformer"]
    assert quality["words"] == [[3, 6], [9, 12], [15, 18], [21, 24]]
    assert all(0 <= score <= 100 for one in quality["scores"] for score in one["chrf"])


def test_those_that_are_shipped_show_the_bottleneck():
    found = bottleneck("43 27 81 96").data
    said = {one["name"]: one["text"] for one in found["models"]}
    right = " ".join(found["target"])
    assert said["GRU"] != right
    assert said["GRU with attention"] == said["Transformer"] == right
    alone, attentive, transformer = (one["chrf"] for one in found["quality"]["scores"])
    assert all(one < two for one, two in zip(alone, attentive, strict=True))
    assert all(one < two for one, two in zip(alone, transformer, strict=True))
    assert (found["steps"], found["here"]) == (500, False)


def test_training_leaves_the_random_numbers_of_others_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    bottleneck("43", steps=2)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("43 forty", "'forty' is no number from 21 to 99 that ends in 1 to 9; give 1 to 8 such as 43 27 81"),
        ("40", "'40' is no number"),
        ("٤٣", "is no number from 21 to 99"),
        ("", "0 numbers cannot be shown"),
        ("43 " * 9, "9 numbers cannot be shown; give 1 to 8"),
    ],
)
def test_what_is_no_list_of_numbers_is_said(text, message):
    with pytest.raises(BadInput, match=message):
        bottleneck(text, steps=STEPS)
