"""A lecturer gives the hour: chapters, doors, the history, and what stays chosen."""

from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from browser.pages import DEADLINE, TOGETHER, drawn, here
from browser.running import running
from clearhead.studio.app import create_app

pytestmark = pytest.mark.browser

TIRED = "the animal was tired"


@pytest.fixture(scope="session")
def lectures(writing_box):
    """The address of a studio that has the three built-in models, as stand-ins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clearhead.hub.remote.FOLDER", writing_box)
        models = {f"builtin:{name}": str(writing_box / name) for name in ("encoder", "translator", "gpt")}
        with running(create_app(models, deadline=DEADLINE)) as address:
            yield address


def attention(visit, studio, hash_=""):
    return drawn(visit(f"{studio}/look/attention?text={quote(TIRED)}{hash_}", studio))


def test_a_picture_is_above_the_fold(visit, studio):
    page = attention(visit, studio)
    page.set_viewport_size({"width": 1280, "height": 720})
    box = page.locator("studio-view .picture").bounding_box()
    assert box["y"] < 400
    assert page.locator(".brand:visible").count() == 1


def test_what_is_chosen_survives_another_text_another_view_and_another_model(visit, studio):
    page = attention(visit, studio, "#layer=2&head=1&token=2&view=lines")
    page.get_by_label("Text", exact=True).fill("the animal was alert")
    page.locator(".go").click()
    page.wait_for_url("**alert**")
    drawn(page)
    assert page.locator("token-strip [aria-pressed=true]").inner_text() == "animal"
    assert page.locator("studio-view #layer").input_value() == "2"
    page.get_by_label("Text", exact=True).fill("now the animal was alert")
    page.locator(".go").click()
    page.wait_for_url("**now**")
    drawn(page)
    assert page.locator("token-strip [aria-pressed=true]").inner_text() == "animal"
    page.locator("#model").select_option("answers")
    page.wait_for_url("**model=answers**")
    drawn(page)
    assert page.locator("studio-view #head").input_value() == "1"
    page.get_by_role("link", name="Layers", exact=True).click()
    page.wait_for_url("**/look/layers**")
    drawn(page)
    assert page.locator("token-strip [aria-pressed=true]").inner_text() == "animal"
    assert page.locator("studio-view #layer").input_value() == "3"  # what the block with the number 2 gave


def test_every_state_is_an_entry_of_the_history(visit, studio):
    page = attention(visit, studio)
    layer = page.locator("studio-view #layer")
    first = layer.input_value()  # the most telling one
    other = "1" if first == "0" else "0"
    layer.select_option(other)
    page.wait_for_url(f"**layer={other}**")
    page.wait_for_timeout(TOGETHER)
    chosen = 2 if "token=1" in here(page) else 1
    page.locator("token-strip button").nth(chosen).click()
    page.wait_for_url(f"**token={chosen}**")
    page.get_by_role("link", name="Input", exact=True).click()
    page.wait_for_url("**/look/input**")
    drawn(page)
    page.go_back()
    page.wait_for_url(f"**/look/attention**token={chosen}**")
    drawn(page)
    page.go_back()
    page.wait_for_function(f"() => !location.hash.includes('token={chosen}')")
    expect(layer).to_have_value(other)
    page.go_back()
    page.wait_for_function(f"() => !location.hash.includes('layer={other}')")
    expect(layer).to_have_value(first)
    page.go_forward()
    page.wait_for_url(f"**layer={other}**")
    expect(layer).to_have_value(other)


def test_a_picture_one_comes_back_to_is_alive(visit, studio):
    page = drawn(visit(f"{studio}/look/block?text={quote(TIRED)}", studio))
    page.get_by_role("link", name="Learn", exact=True).click()
    page.wait_for_url("**/learn")
    page.go_back()
    page.wait_for_url("**/look/block**")
    drawn(page)
    page.locator("studio-view #legend").click()
    page.keyboard.press("ArrowUp")
    page.wait_for_url("**layer=1**")


def test_a_double_click_masks_a_token(visit, studio):
    page = attention(visit, studio, "#layer=2&head=1&token=3&view=lines")
    page.locator("token-strip button", has_text="animal").dblclick()
    page.wait_for_url("**MASK**")
    assert page.get_by_label("Text", exact=True).input_value() == "the [MASK] was tired"
    drawn(page)
    assert page.locator("token-strip [aria-pressed=true]").inner_text() == "was"  # as before the double click


def test_a_double_click_in_the_picture_masks_too(visit, studio):
    page = attention(visit, studio, "#layer=2&head=1&token=3&view=lines")
    page.locator("studio-view .tokens.from li", has_text="animal").dblclick()
    page.wait_for_url("**MASK**")
    drawn(page)
    assert page.get_by_label("Text", exact=True).input_value() == "the [MASK] was tired"
    assert page.locator("token-strip [aria-pressed=true]").inner_text() == "was"
    assert page.locator("studio-view #layer").input_value() == "2"


def test_a_difference_leads_both_sides(visit, studio):
    page = drawn(visit(f"{studio}/compare?text={quote(TIRED)}&text_b=the+animal+was+alert", studio))
    page.get_by_role("button", name="block 2, head 3:").click()
    page.wait_for_url("**layer=1**head=2**")
    page.wait_for_function(
        "() => [...document.querySelectorAll('studio-view')].map((one) => one.shadowRoot.querySelector('#layer'))"
        " .filter(Boolean).map((one) => one.value).join() === '1,1'"
    )
    again = drawn(visit(here(page), studio))
    assert again.locator("studio-view #layer").first.input_value() == "1"


def test_p_presents_and_page_down_goes_on(visit, lectures):
    page = drawn(visit(f"{lectures}/learn/words", lectures))
    page.keyboard.press("p")
    assert page.locator(".top").is_hidden()
    assert page.evaluate("getComputedStyle(document.querySelector('.chapter')).fontSize") == "18px"
    page.keyboard.press("PageDown")
    page.wait_for_url("**/learn/recurrent*")  # a picture that is drawn writes its layer into the address
    page.keyboard.press("PageUp")
    page.wait_for_url("**/learn/words*")
    page.keyboard.press("p")
    assert page.locator(".top").is_visible()


def test_page_down_goes_through_all_views_of_a_chapter(visit, lectures):
    page = drawn(visit(f"{lectures}/learn/bert", lectures))
    assert page.get_by_label("Second text (if any)").input_value() == "BERT will hurt!"
    page.keyboard.press("PageDown")
    page.wait_for_url("**/learn/bert?view=pretraining*")
    drawn(page)
    page.get_by_label("Text", exact=True).fill(TIRED)
    page.locator(".go").click()
    page.wait_for_url("**/learn/bert?view=pretraining*tired*")
    drawn(page)
    page.get_by_role("button", name="Roll the dice").wait_for()
    assert page.locator(".chapter .views [aria-current=page]").inner_text() == "Pre-training"
    page.locator(".chapter h1").click()
    page.keyboard.press("PageDown")
    page.wait_for_url("**/learn/fine-tuning*")


def test_the_bar_counts_blocks_and_heads_from_1_as_the_picture_does(visit, studio):
    page = drawn(visit(f"{studio}/look/qkv?text={quote(TIRED)}&token=animal&layer=1&head=2", studio))
    assert [page.locator(f"#field-{name}").input_value() for name in ("layer", "head")] == ["2", "3"]
    page.locator("studio-view .lead", has_text="Block 2, head 3").wait_for()
    page.locator("#field-head").fill("1")
    page.locator(".go").click()
    page.wait_for_url("**layer=1&head=0*")
    page.locator("studio-view .lead", has_text="Block 2, head 1").wait_for()


def test_the_keyboard_goes_through_a_workspace(visit, studio):
    page = attention(visit, studio)
    page.locator("token-strip button").first.focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url("**token=2**")
    page.locator(".views a", has_text="Layers").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/look/layers**")


def test_slow_work_can_be_cancelled(visit, studio):
    page = visit(f"{studio}/look/attention", studio)
    page.route("**/picture/attention**", lambda route: None)  # it never answers
    page.get_by_label("Text", exact=True).fill(TIRED)
    page.keyboard.press("Control+Enter")
    page.get_by_role("progressbar").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.locator(".status", has_text="Cancelled.").wait_for()
    page.unroute("**/picture/attention**")
    page.locator(".go").click()
    page.locator("studio-picture:not([aria-busy]) .tools").wait_for()
    visit.complaints.clear()


def test_the_beginning_of_a_long_text_is_one_click_away(visit, studio):
    page = visit(f"{studio}/look/block", studio)
    field = page.get_by_label("Text", exact=True)
    expect(page.locator("label[for=field-text]")).to_have_attribute("data-limit", "at most 64 tokens")
    field.fill("the animal was tired " * 30)
    page.keyboard.press("Control+Enter")
    page.locator(".status.failed", has_text="the model has 64 positions").wait_for()
    visit.complaints.clear()
    page.get_by_role("button", name="Show the beginning").click()
    page.locator("studio-picture:not([aria-busy]) .tools").wait_for()
    assert field.input_value().startswith("the animal was tired the")
    assert len(field.input_value()) < 21 * 30


def test_exports_are_vectors_that_say_what_they_show(visit, studio):
    page = attention(visit, studio)
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG").click()
    text = Path(download.value.path()).read_text(encoding="utf-8")
    assert "foreignObject" not in text
    assert f"“{TIRED}”" in text
    assert text.count("<path") > 5
    assert ">animal</text>" in text


def test_where_a_model_errs_the_page_says_so(visit, studio):
    page = visit(f"{studio}/use/fill?text={quote('BERT, lift your [MASK].')}", studio)
    page.locator(".errs", has_text="The model errs here").wait_for()
