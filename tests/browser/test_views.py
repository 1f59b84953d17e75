"""A real browser opens every view, changes an input, and sees what a person would see."""

import json
from importlib.resources import files

import pytest

from clearhead.inside import by_hand, live, position_tables, senses_of, summed_input, through_layers, training_runs, why
from clearhead.inside.trace import trace
from inside.models import small, telling

pytestmark = pytest.mark.browser

TEXT = "The animal didn't cross the street because it was too tired <b>bold</b>"
LABELS = ("no", "yes")
VIEWS = {
    "by-hand": by_hand,
    "input": lambda: summed_input(small(), "Be alert!", "BERT will hurt!"),
    "capitals": lambda: summed_input(telling(), "Be alert!", "BERT will hurt!"),
    "positions": lambda: position_tables(small()),
    "layers": lambda: through_layers(small(), TEXT),
    "senses": lambda: senses_of(small(), "bank"),
    "why": lambda: why(small(head="classes", outputs=2, labels=LABELS), TEXT),
    "step": lambda: trace(small(), TEXT).step("animal", 1, 2),
    "attention": lambda: trace(small(), TEXT, "it was late").heads(),
}


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", [*VIEWS, "runs"])
def test_the_page_opens_and_fits(opened, run_folder, name, width):
    view = training_runs([run_folder]) if name == "runs" else VIEWS[name]()
    page = opened(view, width, "dark" if width == 390 else "light")
    page.locator("h1").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("b").count() == 0


def table(page, section, caption):
    """The numbers of a computed matrix, by its caption."""
    cells = page.locator(f"#{section} table", has=page.locator(f"caption:text-is('{caption}')")).first.locator("td")
    return [float(text.replace("−", "-")) for text in cells.all_inner_texts() if text]


def test_changing_a_number_computes_anew(opened):
    page = opened(by_hand())
    assert table(page, "steps", "softmax") == [0.881, 0.119]
    assert table(page, "steps", "score q · k") == [112, 96]
    page.locator("#width").fill("256")
    assert table(page, "steps", "softmax") == [0.731, 0.269]  # 7 and 6
    page.get_by_label("W^K, row 2, column 1").fill("8")
    assert table(page, "steps", "score q · k") == [112, 128]
    page.get_by_role("button", name="Back to the start").click()
    assert table(page, "steps", "score q · k") == [112, 96]
    page.get_by_text("Keys and values").click()
    assert table(page, "mapping", "Q Kᵀ V") == [0.7, 0, 0.7, 0.7, 0.7, 0]


@pytest.mark.parametrize("section", ["steps", "matrix", "heads", "basic", "mapping"])
def test_the_pages_numbers_are_pythons(opened, section):
    view = by_hand()
    page = opened(view)
    data, head = view.data, view.data["heads"][0]
    expected = {
        "steps": ("z, their sum", [head["z"][0]]),
        "matrix": ("Z", head["z"]),
        "heads": ("output", data["output"]),
        "basic": ("softmax(x xᵀ) x", data["basic"]["z"]),
        "mapping": ("Q Kᵀ", data["mapping"]["scores"]),
    }
    page.locator(f"[name=section][value={section}]").check(force=True)
    caption, values = expected[section]
    assert table(page, section, caption) == pytest.approx([x for row in values for x in row], abs=6e-4)


def test_changed_numbers_are_in_the_address(opened, visit):
    page = opened(by_hand())
    page.locator("#width").fill("256")
    page.locator("#word").select_option("1")
    again = visit(page.url, "file:")
    assert table(again, "steps", "softmax") == table(page, "steps", "softmax")
    assert again.locator("#word").input_value() == "1"
    page.get_by_role("button", name="Back to the start").click()
    assert page.url.endswith("#word=1")


def test_curves_are_read_with_the_arrow_keys(opened, run_folder):
    page = opened(training_runs([run_folder]))
    assert page.locator("#charts svg").count() == 5
    assert "steps" in page.locator("[data-name=loss] svg").text_content()
    page.locator("[data-name=loss] svg").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("[data-name=loss] .reading").inner_text() == "10 steps: first 0.9"
    page.locator("[name=across][value=elapsed]").check(force=True)
    page.locator("[data-name='evaluation/accuracy'] svg").focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator("[data-name='evaluation/accuracy'] .reading").inner_text() == "1 min : first 70"
    assert page.url.endswith("#across=elapsed")


def test_a_slider_moves_through_the_layers(opened):
    view = through_layers(small(), TEXT)
    page = opened(view)
    page.locator("#layer").fill("2")
    said = page.locator(".said tr").nth(1).locator("td").first.inner_text()
    token, share = view.data["said"][2][1][0]
    assert token.removeprefix("##") in said
    assert f"{share:.2f}" in said


def test_colours_follow_the_layer(opened):
    view = through_layers(small("modernbert"), TEXT)
    page = opened(view)
    assert page.locator("#stream").is_visible()
    for layer in (0, 3):
        page.locator("#layer").fill(str(layer))
        sizes = sorted(abs(value) for row in view.data["hidden"][layer] for value in row)
        assert f"full colour from {sizes[int(0.99 * len(sizes))]:.2f} on" in page.locator("#shown").inner_text()
        least = max(0, min(value for row in view.data["similarity"][layer] for value in row))
        assert f"no colour at {least:.2f}" in page.locator("#alike").inner_text()


def test_equal_vectors_are_said_to_be_equal(opened):
    page = opened(senses_of(small("modernbert"), "bank"))
    page.locator("#layer").fill("0")
    assert page.locator("#shares").inner_text() == "The vectors do not differ here."


def test_heat_maps_are_read_with_the_arrow_keys(opened):
    view = senses_of(small(), "bank")
    page = opened(view)
    page.locator("#cosines canvas").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    shown = page.locator("#cosines .reading").inner_text()
    assert shown.endswith(f"{view.data['cosines'][-1][1][1]:.2f}")


def test_the_verdict_is_pythons(opened):
    view = why(small(head="classes", outputs=2, labels=LABELS), TEXT)
    page = opened(view)
    assert (view.data["faithful"] or "none of them") in page.locator("#verdict").inner_text()
    assert "no explanation" in page.locator("#note").inner_text()
    assert page.locator("#chart polyline").count() == 6


@pytest.mark.parametrize("width", [1280, 390])
def test_no_label_of_a_chart_is_cut_off(opened, width):
    page = opened(why(small(), "the [MASK] was too tired", target="the"), width)
    frame = page.locator("#chart").bounding_box()
    for label in page.locator("#chart text").all():
        box = label.bounding_box()
        assert frame["x"] <= box["x"]
        assert box["x"] + box["width"] <= frame["x"] + frame["width"] + 1


@pytest.mark.parametrize("width", [1280, 390])
def test_a_token_is_followed(opened, width):
    view = trace(small(), TEXT).step("animal", 1, 2)
    page = opened(view, width)
    assert page.evaluate("(box => box.scrollWidth <= box.clientWidth)(document.querySelector('.wide'))")
    page.locator("#token").select_option("3")
    weights = [float(text) for text in page.locator(".steps tbody td:last-child").all_inner_texts()]
    assert weights == view.data["weights"][3]


def test_the_finder_lists_the_heads_that_link_two_tokens(opened, visit):
    traced = trace(small(), TEXT)
    page = opened(traced.heads())
    source, target = traced.position("it"), traced.position("animal")
    page.locator("#find-from").select_option(str(source))
    page.locator("#find-to").select_option(str(target))
    page.locator("#found li").first.wait_for()
    best = traced.links("it", "animal")[0]
    first = page.locator("#found li").first.inner_text()
    assert f"layer {best.layer}, head {best.head}" in first
    page.locator("#found button").first.click()
    assert page.locator("#layer").input_value() == str(best.layer)
    # a link reproduces what was found
    again = visit(page.url, "file:")
    again.locator("#found li").first.wait_for()
    assert again.locator("#found li").first.inner_text() == first
    again.locator("#find-to").select_option("")
    assert again.locator("#found li").count() == 0


def test_a_view_runs_in_a_notebooks_frame(browser):
    page = browser.new_page()
    page.set_content(by_hand()._repr_html_())
    frame = page.frame_locator("iframe")
    frame.locator("#width").fill("256")
    assert frame.locator("#steps .weights td").first.inner_text() == "0.731"
    page.close()


def test_a_field_in_a_notebook_asks_python(browser):
    page = browser.new_page()
    widget = live(lambda text: trace(small(), text).heads(), "the animal")
    page.expose_function("draw", lambda text: setattr(widget, "text", text) or widget.page)
    source = (files("clearhead.inside") / "widget.js").read_text(encoding="utf-8")
    model = """
      const state = { text: "the animal", page: PAGE, problem: "" }, heard = {};
      const model = {
        get: (name) => state[name], set: (name, value) => (state[name] = value), on: (name, f) => (heard[name] = f),
        save_changes: async () => { state.page = await draw(state.text); heard["change:page"](); },
      };
      render({ model, el: document.body });
    """
    page.set_content("<!doctype html><body></body>")
    page.add_script_tag(content=source + model.replace("PAGE", json.dumps(widget.page)), type="module")
    words = page.frame_locator("iframe").locator(".tokens.to .word")
    words.nth(1).wait_for()
    page.get_by_label("Text").fill("it was tired")
    page.frame_locator("iframe").locator(".tokens.to .word", has_text="tired").first.wait_for()
    page.close()


def test_the_theme_may_change_while_a_page_is_open(opened):
    page = opened(senses_of(small(), "bank"))
    colour = "getComputedStyle(document.querySelector('#map circle')).fill"
    before = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"before => {colour} !== before", arg=before)
