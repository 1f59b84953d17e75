"""The attention page: its numbers are the trace's, its texts stay texts, and it asks for nothing."""

import re
import zlib
from base64 import b64decode, b64encode
from hashlib import sha256

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import BadInput
from clearhead.inside import attention_view as heads
from clearhead.inside.attention_view import SCALE, pack_weights
from clearhead.inside.trace import trace, trace_ids
from inside.encoders import HEADS, encoder, model
from inside.models import small
from inside.pages import NASTY, Page


def unpack_weights(data: bytes) -> torch.Tensor:
    """Undo `pack_weights`, as the page does: thousandths, int16, flat."""
    low, high = torch.frombuffer(bytearray(zlib.decompress(data)), dtype=torch.uint8).view(2, -1).to(torch.int16)
    return low | high << 8


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=50))
def test_packed_weights_are_those_written_with_three_decimals(values):
    counts = unpack_weights(pack_weights(torch.tensor(values)))
    assert [f"{count / SCALE:.3f}" for count in counts.tolist()] == [f"{value:.3f}" for value in values]


def test_the_page_holds_every_weight_of_the_trace_and_the_averages():
    found = trace(model(), "the cat sat on the mat", "it was warm")
    page = Page(found.heads(layer=2, head=None).html)
    size = len(found.tokens)
    assert page.facts == {
        "tokens": found.tokens,
        "segments": found.sides,
        "layers": 3,
        "heads": HEADS,
        "scale": SCALE,
        "small": size,
        "layer": 2,
        "head": None,
        "telling": None,
        "texts": ["the cat sat on the mat", "it was warm"],
        "spans": [],
        "mask": None,
    }
    for index, layer in enumerate(found.layers):
        stored = unpack_weights(b64decode(page.scripts[f"layer-{index}"])).view(HEADS + 1, size, size) / SCALE
        assert (stored[:HEADS] - layer.weights).abs().max() <= 0.5 / SCALE + 1e-6
        assert (stored[HEADS] - layer.weights.mean(0)).abs().max() <= 0.5 / SCALE + 1e-6


def test_small_pictures_of_long_texts_stay_small():
    page = Page(trace_ids(encoder(), [1, 2, 3, 4] * 16).heads().html)
    assert page.facts["small"] == heads.SMALL
    raw = zlib.decompress(b64decode(page.scripts["small"]))
    assert len(raw) == 3 * (HEADS + 1) * heads.SMALL**2


def test_a_text_that_is_too_long_for_a_page_is_refused(monkeypatch):
    monkeypatch.setattr(heads, "LIMIT", 4)
    with pytest.raises(BadInput, match="the text has 5 tokens, this page shows at most 4"):
        trace_ids(encoder(), [1] * 5).heads()


def test_any_token_is_text_and_never_markup():
    tokens = [*NASTY, "日本語", "שלום", "\ud800", "👩‍🚀"]
    plain = Page(trace_ids(encoder(), [1] * len(tokens)).heads().html)
    page = Page(trace_ids(encoder(), [1] * len(tokens), tokens=tokens).heads().html)
    assert page.facts["tokens"] == tokens
    assert page.elements == plain.elements
    assert page.scripts["code"] == plain.scripts["code"]


def test_the_page_may_load_nothing_and_run_only_its_own_script():
    html = trace(model(), "one two").heads().html
    page = Page(html)

    def digest(text):
        return "'sha256-" + b64encode(sha256(text.encode()).digest()).decode() + "'"

    assert page.policy.split("; ") == [
        "default-src 'none'",
        f"style-src {digest(page.style)}",
        f"script-src {digest(page.scripts['code'])}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    for tag, attributes in page.elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert not {"src", "href", "style", "onload", "onclick"} & set(attributes)
    assert not re.search(r"https?://|@import|url\(|innerHTML|insertAdjacentHTML|document\.write|eval\(", html)


def test_the_page_says_that_weights_are_no_explanation():
    text = re.sub(r"\s+", " ", trace(model(), "one two").heads().html)
    assert "Attention weights alone are no explanation of what a model decides." in text


@pytest.mark.parametrize("name", heads.SCRIPTS)
def test_scripts_are_short_files_without_an_end_tag(name):
    source = (heads_folder() / name).read_text(encoding="utf-8")
    assert "</script" not in source
    assert len(source.splitlines()) <= 300


def test_every_script_file_is_used():
    assert {path.name for path in heads_folder().glob("*.js")} == set(heads.SCRIPTS)


def heads_folder():
    from importlib.resources import files

    return files("clearhead.inside") / "pages" / "attention"


def test_a_page_opens_at_the_head_that_links_a_pronoun_to_a_word():
    found = trace(model(), "the cat sat on the mat , it was warm")
    told = found.heads().data["telling"]
    it = found.position("it")
    links = [
        link
        for place, token in enumerate(found.tokens[:it])
        if token in ("cat", "sat", "mat") and it - place >= 2
        for link in found.links(it, place)
    ]
    best = max(links, key=lambda link: link.weight)
    assert (told["layer"], told["head"], told["token"], told["pronoun"]) == (best.layer, best.head, it, True)
    assert told["weight"] == pytest.approx(best.weight, abs=1e-3)
    page = Page(found.heads().html)
    assert (page.facts["layer"], page.facts["head"]) == (best.layer, best.head)


def test_without_a_pronoun_it_is_the_strongest_link_between_words_that_stand_apart():
    found = trace(model(), "cat , cat house tree")
    told = found.heads().data["telling"]
    places = [1, 3, 4, 5]
    best = max(
        float(layer.attention(head)[i, j])
        for layer in found.layers
        for head in range(HEADS)
        for i in places
        for j in places
        if abs(i - j) >= 2
    )
    assert told["weight"] == pytest.approx(best, abs=1e-3)
    assert told["pronoun"] is False


def test_what_is_said_of_the_opening_stays_and_the_rest_is_chosen():
    found = trace(model(), "cat house tree bird")
    assert found.heads(1).data["telling"]["layer"] == 1
    assert found.heads(head=2).data["telling"]["head"] == 2
    assert found.heads(1, 2).data["telling"] is None
    assert found.heads(2, None).data["telling"] is None
    nothing = trace(model(), "hello").heads().data["telling"]
    assert (nothing["layer"], nothing["head"], nothing["token"]) == (0, 0, None)
    with pytest.raises(BadInput, match="head 9 does not exist"):
        found.heads(head=9)


def test_a_word_can_be_found_again_in_its_text():
    text, pair = "The animal was tired", "it slept"
    found = trace(small(), text, pair)
    facts = Page(found.heads().html).facts
    assert facts["mask"] == "[MASK]"
    for token, span in zip(facts["tokens"], facts["spans"], strict=True):
        if span is None:
            assert token.startswith("[")
        else:
            which, start, end = span
            assert facts["texts"][which][start:end].lower() == token.removeprefix("##")
