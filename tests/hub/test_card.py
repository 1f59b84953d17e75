from pathlib import Path

from huggingface_hub import ModelCard

from clearhead.hub.card import model_card, write_card
from clearhead.hub.config import Description
from clearhead.models.bert import BertConfig

TAGGER = Description(
    family="bert", config=BertConfig(), architecture="BertForTokenClassification", labels=("O", "B-`odd`\nname")
)


def test_card_says_what_is_known() -> None:
    card = model_card(TAGGER, name="me/tagger", parameters=1234567, base_model="a/b")
    data = ModelCard(card).data
    assert (data.library_name, data.pipeline_tag) == ("clearhead", "token-classification")
    assert (data.base_model, data.tags) == ("a/b", ["clearhead", "transformers", "safetensors", "bert"])
    for fact in ("1,234,567 parameters", "heads: tags", "| hidden_size | 768 |", "Labels (2): `O`, `B-'odd' name`"):
        assert fact in card
    assert 'clearhead.load("me/tagger")' in card
    assert 'BertForTokenClassification.from_pretrained("me/tagger")' in card


def test_card_leaves_out_what_is_not_known() -> None:
    bare = Description(family="bert", config=BertConfig(), labels=("LABEL_0", "LABEL_1"))
    card = model_card(bare, name="plain")
    data = ModelCard(card).data
    assert (data.license, data.base_model, data.pipeline_tag) == (None, None, "feature-extraction")
    assert not any(word in card for word in ("parameters", "Labels", "from transformers import"))
    assert 'pipeline_tag: "sentence-similarity"' in model_card(bare, name="plain", sentences=True)


def test_a_card_that_is_there_stays(tmp_path: Path) -> None:
    write_card("first", tmp_path)
    write_card("second", tmp_path)
    assert (tmp_path / "README.md").read_text() == "first"
