"""What once kept the studio from a class room, and must not come back."""

from pathlib import Path
from urllib.parse import quote

import pytest

from browser.pages import drawn
from clearhead.inside.page import HOME

pytestmark = pytest.mark.browser

TEXT = quote("the animal was tired")


@pytest.mark.parametrize("view", ["attention", "layers", "input", "runs", "model", "block", "positions"])
def test_no_number_is_cut_off(visit, studio, view, tmp_path):
    page = drawn(visit(f"{studio}/look/{view}?text={TEXT}" if view != "runs" else f"{studio}/look/runs", studio))
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG").click()
    download.value.save_as(tmp_path / "picture.svg")
    page.evaluate("markup => document.body.innerHTML = markup", (tmp_path / "picture.svg").read_text(encoding="utf-8"))
    outside = page.evaluate("""() => {
      const paper = document.querySelector("svg").getBoundingClientRect();
      return [...document.querySelectorAll("svg text")].filter((one) => {
        const { top, left, right, bottom } = one.getBoundingClientRect();
        return top < paper.top - 1 || left < paper.left - 1 || right > paper.right + 1 || bottom > paper.bottom + 1;
      }).map((one) => one.textContent);
    }""")
    visit.complaints.clear()
    assert outside == []


@pytest.mark.parametrize("path", ["look/attention", "look/layers", "look/why", "look/model"])
def test_paper_has_the_whole_picture_and_nothing_to_click(visit, studio, path):
    page = drawn(visit(f"{studio}/{path}?text={TEXT}&model={'classes' if 'why' in path else 'words'}", studio))
    page.emulate_media(media="print")
    assert (
        page.locator("body > .top:visible, nav.views:visible, studio-form:visible, .tools button:visible").count() == 0
    )
    assert page.locator(".tools .made").is_visible()
    cut = page.evaluate("""() => [...document.querySelector("studio-view").shadowRoot.querySelectorAll("*")]
      .filter((one) => one.scrollWidth > one.clientWidth + 1 && one.querySelector("canvas, svg, table"))
      .filter((one) => getComputedStyle(one).overflowX !== "visible").map((one) => one.className)""")
    assert cut == []
    assert page.evaluate("getComputedStyle(document.body).printColorAdjust") == "exact"
    assert page.pdf().startswith(b"%PDF")


def test_dark_pages_are_printed_on_white(visit, studio):
    page = drawn(visit(f"{studio}/look/attention?text={TEXT}", studio, scheme="dark"))
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


@pytest.mark.parametrize("view", ["attention", "block", "qkv", "decoding"])
def test_blocks_are_counted_from_1(visit, studio, view):
    model = "translates" if view == "decoding" else "words"
    page = drawn(visit(f"{studio}/look/{view}?text={TEXT}&model={model}", studio))
    first = page.locator("studio-view #layer option:not([value=all])").first
    assert page.locator("studio-view #layer").count() == 0 or first.inner_text() == "1"
    shown = " ".join(page.locator("studio-view .whole-view").all_inner_texts()).lower()
    assert "block 0" not in shown
    assert "head 0" not in shown


def test_the_rest_of_a_wide_vector_is_said_for_every_width(visit, studio):
    page = drawn(visit(f"{studio}/look/by-hand", studio))
    for width in ("64", "256", "16"):
        page.locator("studio-view #width").fill(width)
        shown = page.locator("studio-view .whole-view").inner_text()
        assert "other 61" not in shown
        assert "all others, up to d_k, are 0" in shown


def test_a_view_opens_at_its_most_telling_head_after_the_home_page(visit, studio):
    page = drawn(visit(f"{studio}/?text={TEXT}", studio))
    page.get_by_role("link", name="Attention", exact=True).click()
    page.wait_for_url("**/look/attention**")
    drawn(page)
    said = page.locator("studio-view .whole-view").inner_text()
    block, head = (int(page.locator(f"studio-view #{name}").input_value()) + 1 for name in ("layer", "head"))
    assert f"Most telling is block {block}, head {head}" in said


def test_keys_work_after_a_click_into_a_picture(visit, studio):
    page = drawn(visit(f"{studio}/look/block?text={TEXT}", studio))
    page.locator("studio-view #legend").click()
    page.keyboard.press("ArrowUp")
    page.wait_for_url("**layer=1**")


def test_no_font_is_named_that_is_not_there():
    styles = [Path(str(one)).read_text(encoding="utf-8") for one in Path(str(HOME)).rglob("*.css")]
    assert styles
    assert not any("Inter" in style or "@font-face" in style for style in styles)
