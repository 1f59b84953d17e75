"""A person in the studio: opens every page, clicks an example, sees an answer, keeps the link, takes a picture."""

import json
from urllib.parse import quote, urlencode

import pytest

from browser.pages import drawn, here
from built_in import SKILLS
from clearhead.studio.pages import ENTRIES
from studio.runs import add_row

pytestmark = pytest.mark.browser

HEADS = {
    "masked_lm": "words",
    "span": "answers",
    "tags": "tags",
    "classes": "classes",
    "next_sentence": "pairs",
    "causal_lm": "writes",
    None: "words",
}
# the small models have 64 positions and know no [MASK] example by heart
VALUES = {
    "/look/attention": {"text": "the animal was tired", "pair": "it was late"},
    "/look/difference": {"text": "the animal was tired", "other": "the animal was late"},
    "/look/step": {"text": "the animal was tired", "token": "animal"},
    "/look/heads": {"text": "the animal was tired", "model": "classes"},
    "/look/decoding": {"text": "Ein Hund läuft.", "model": "translates", "longest": 8},
    "/use/translate": {"text": "Ein Hund läuft.", "model": "translates"},
    "/look/why": {"text": "the animal was tired", "use": "classify", "model": "classes"},
}


def link(entry, **more):
    values = VALUES.get(entry.path) or (dict(entry.examples[0]["values"]) if entry.examples else {})
    return f"{entry.path}?{urlencode({'model': HEADS[entry.head], **values, **more})}"


def answered(page):
    """Wait for what came back."""
    page.locator("studio-picture:not([aria-busy]) .tools").first.wait_for()
    return page


def test_an_example_takes_its_skill_along(visit, studio_with_skills):
    page = visit(f"{studio_with_skills}/use/classify", studio_with_skills)
    page.locator("#skill option").nth(len(SKILLS)).wait_for(state="attached")
    names = page.locator("#skill option").all_inner_texts()
    assert names[1:] == sorted(SKILLS)
    page.get_by_role("button", name="no spam").click()
    answered(page)
    assert page.locator("#skill").input_value() == "spam"
    assert "ham" in page.locator(".shown").inner_text()
    page.get_by_role("button", name="A warm, funny and clever film.").click()
    page.locator(".shown", has_text="positive").wait_for()
    assert page.locator("#skill").input_value() == "sentiment"
    assert "skill=sentiment" in here(page)


def test_one_click_on_an_example_gives_bars(visit, studio):
    page = visit(f"{studio}/use/fill", studio)
    page.get_by_role("button", name="BERT, lift your [MASK].").click()
    answered(page)
    assert page.locator(".bars li").count() == 5
    found = page.evaluate(
        "fetch('/api/use/fill?text=' + encodeURIComponent('BERT, lift your [MASK].')).then(r => r.json())"
    )
    assert page.locator(".bars .value").first.inner_text() == f"{found['predictions'][0]['score']:.3f}"
    assert "lift+your" in here(page)


def test_an_answer_is_marked_in_its_text(visit, studio):
    context = "the animal 🙂 was too tired to cross the street"
    page = visit(f"{studio}/use/ask", studio)
    page.locator("#model").select_option("answers")
    page.get_by_label("Question").fill("who was tired")
    page.get_by_label("Text to look in").fill(context)
    page.keyboard.press("Control+Enter")
    answered(page)
    page.locator(".token-scores li").first.wait_for()
    assert page.locator("marked-text").inner_text() == context
    if page.locator(".answer").count():
        assert page.locator("marked-text mark").inner_text() == page.locator(".answer").inner_text()


def test_a_link_reproduces_the_picture(visit, studio):
    page = answered(visit(f"{studio}/look/attention?text=the+animal+was+tired", studio))
    layer = page.locator("studio-view #layer")
    other = "1" if layer.input_value() == "0" else "0"  # it opens at the most telling one
    layer.select_option(other)
    page.wait_for_function(f"() => location.hash.includes('layer={other}')")
    again = answered(visit(here(page), studio))
    assert again.locator("studio-view #layer").input_value() == other
    assert again.get_by_label("Text", exact=True).input_value() == "the animal was tired"


def test_the_text_goes_along_to_the_next_page(visit, studio):
    page = answered(visit(f"{studio}/look/attention?text=the+animal+was+tired", studio))
    page.get_by_role("link", name="Layers", exact=True).click()
    page.locator("studio-view .lead", has_text="Each layer rewrites").wait_for()
    assert page.get_by_label("Text", exact=True).input_value() == "the animal was tired"


@pytest.mark.parametrize("path", ["/look/attention", "/look/why", "/look/by-hand", "/look/senses", "/use/fill"])
def test_a_picture_is_taken_along(visit, studio, path, tmp_path):
    page = drawn(visit(studio + link(ENTRIES[path]), studio))
    for kind, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg"), ("HTML", b"<!doctype html>")):
        if kind == "HTML" and path.startswith("/use"):
            continue
        with page.expect_download() as download:
            page.locator(".tools").get_by_text(kind, exact=True).click()
        assert download.value.suggested_filename == f"{path.split('/')[-1]}.{kind.lower()}"
        taken = tmp_path / kind
        download.value.save_as(taken)
        assert taken.read_bytes().startswith(start)
        assert taken.stat().st_size > 4000


def test_the_json_twin_is_one_click_away(visit, studio):
    page = answered(visit(f"{studio}/look/input?text=Be+alert!", studio))
    twin = page.locator(".tools").get_by_text("JSON").get_attribute("href")
    data = json.loads(page.evaluate(f"fetch({json.dumps(twin)}).then(r => r.text())"))
    assert "vectors" in data


def test_a_run_moves_while_it_trains(visit, studio, run_folder):
    page = answered(visit(f"{studio}/look/runs", studio))
    steps = page.locator("studio-view .standing td").first
    before = int(steps.inner_text())
    add_row(run_folder, before + 10)
    page.locator("studio-view .standing td", has_text=str(before + 10)).first.wait_for()


HOSTILE = "</script><img src=x onerror=alert(1)><b>bank</b> [MASK]"


@pytest.mark.parametrize("path", ["/use/fill", "/use/summarise", "/look/input", "/look/attention", "/look/layers"])
def test_hostile_text_is_text(visit, studio, path):
    page = visit(f"{studio}{path}?text={quote(HOSTILE)}", studio)
    page.on("dialog", lambda dialog: pytest.fail("a script of the text has run"))
    drawn(page)
    assert page.locator("img, b").count() == 0


def test_what_is_wrong_is_said(visit, studio):
    page = visit(f"{studio}/use/fill?text=no+sign", studio)
    page.locator(".status.failed", has_text="mask").wait_for()
    assert any("400" in one for one in visit.complaints)
    visit.complaints.clear()  # the browser itself notes that the studio refused
    page = visit(f"{studio}/look/layers?text={'animal+' * 200}", studio)
    page.locator(".status.failed", has_text="tokens").wait_for()
    assert page.locator(".tools").count() == 0
    visit.complaints.clear()
    page = visit(f"{studio}/use/ask", studio)
    page.locator("#about", has_text="It has no head for this (answers)").wait_for()
    page = visit(f"{studio}/nowhere/<b>", studio)
    assert page.locator("code").inner_text() == "/nowhere/%3Cb%3E"
    visit.complaints.clear()


def test_a_text_that_is_too_long_for_an_address_is_still_used(visit, studio):
    page = visit(f"{studio}/use/summarise", studio)
    page.get_by_label("Text", exact=True).fill("The animal was tired. " * 3000)
    page.locator(".go").click()
    answered(page)
    assert page.locator(".answer").inner_text().startswith("The animal was tired.")
    assert here(page) == f"{studio}/use/summarise"
    assert "too long for an address" in page.locator("studio-picture .status").inner_text()
    page = visit(f"{studio}/look/attention", studio)
    page.get_by_label("Text", exact=True).fill("The animal was tired. " * 3000)
    page.locator(".go").click()
    page.locator(".status.failed", has_text="too long for a picture").wait_for()


def test_the_keyboard_is_enough(visit, studio):
    page = visit(f"{studio}/use/fill", studio)
    page.locator("#about", has_text="parameters").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "text"
    page.keyboard.type("the [MASK] was tired")
    page.keyboard.press("Control+Enter")
    answered(page)
    assert page.locator(".bars li").count() == 5


def test_every_field_and_frame_has_a_name(visit, studio):
    page = answered(visit(studio + link(ENTRIES["/look/step"]), studio))
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input, textarea, select')].filter(e => !e.labels.length).map(e => e.name)"
    )
    assert unnamed == []
    assert page.locator(".views [aria-current=page]").inner_text() == "One token"
    assert page.locator("h1:visible, .brand:visible").count() == 2
    assert page.locator("main").count() == 1
