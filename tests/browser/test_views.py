"""A real browser opens every view, changes an input, and sees what a person would see."""

import json
from importlib.resources import files

import pytest
import torch

import clearhead as ch
from browser.pages import here, new_page
from clearhead.inside import (
    bottleneck,
    by_hand,
    decoding,
    heads_on_top,
    lecture_tables,
    live,
    one_block,
    position_tables,
    pretraining,
    senses_of,
    summed_input,
    through_layers,
    training_runs,
    whole_model,
    why,
)
from clearhead.inside.trace import trace
from inside.models import small, telling
from pipelines.writers import TEXTS, translator

pytestmark = pytest.mark.browser

TEXT = "The animal didn't cross the street because it was too tired <b>bold</b>"
LABELS = ("no", "yes")
VIEWS = {
    "model": lambda: whole_model(small(), TEXT, "it was late"),
    "model that translates": lambda: whole_model(translator("transformer"), TEXTS[0]),
    "decoding": lambda: decoding(
        translator(), TEXTS[0], num_beams=3, max_new_tokens=6, beside=translator("seq2seq-gru")
    ),
    "pretraining": lambda: pretraining(small(), TEXT),
    "heads": lambda: heads_on_top(telling(), TEXT),
    "block": lambda: one_block(small(), TEXT),
    "tables": lecture_tables,
    "bottleneck": lambda: bottleneck("43 27", steps=10),
    "by-hand": by_hand,
    "input": lambda: summed_input(small(), "Be alert!", "BERT will hurt!"),
    "capitals": lambda: summed_input(telling(), "Be alert!", "BERT will hurt!"),
    "positions": lambda: position_tables(small(), text=TEXT),
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
    page.get_by_role("button", name="Reset").click()
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
    again = visit(here(page), "file:")
    assert table(again, "steps", "softmax") == table(page, "steps", "softmax")
    assert again.locator("#word").input_value() == "1"
    page.get_by_role("button", name="Reset").click()
    assert here(page).endswith("#word=1")


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
    assert here(page).endswith("#across=elapsed")


def test_no_number_beside_a_curve_is_cut_off(opened, run_folder):
    page = opened(training_runs([run_folder]))
    cut = page.evaluate("""() => [...document.querySelectorAll("#charts svg")].flatMap((one) => {
      const { left, right } = one.getBoundingClientRect();
      const outside = (box) => box.left < left - 0.5 || box.right > right + 0.5;
      return [...one.querySelectorAll("text")].filter((text) => outside(text.getBoundingClientRect()));
    }).map((text) => text.textContent)""")
    assert cut == []


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
    page = opened(senses_of(small("modernbert"), "bank", ["the bank", "he sat on the bank", "a bank of the river"]))
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
    assert f"block {best.layer + 1}, head {best.head + 1}" in first
    page.locator("#found button").first.click()
    assert page.locator("#layer").input_value() == str(best.layer)
    # a link reproduces what was found
    again = visit(here(page), "file:")
    again.locator("#found li").first.wait_for()
    assert again.locator("#found li").first.inner_text() == first
    again.locator("#find-to").select_option("")
    assert again.locator("#found li").count() == 0


def test_a_view_runs_in_a_notebooks_frame(browser):
    page = new_page(browser)
    page.set_content(by_hand()._repr_html_())
    frame = page.frame_locator("iframe")
    frame.locator("#width").fill("256")
    assert frame.locator("#steps .weights td:not(:empty)").first.inner_text() == "0.731"
    page.close()


def test_a_field_in_a_notebook_asks_python(browser):
    page = new_page(browser)
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


def test_blocks_open_and_tokens_are_followed(opened, visit):
    view = whole_model(small("modernbert"), TEXT)
    page = opened(view)
    assert page.evaluate("document.querySelector('#drawing').getBoundingClientRect().bottom <= 900")
    page.get_by_role("button", name="Block 3", exact=True).click()
    page.get_by_role("button", name="token 3, animal").click()
    step = view.data["sides"][0]["blocks"][2][3]
    assert page.locator("#open-title").inner_text() == "Block 3, “animal”"
    assert page.locator("#numbers tr").nth(3).locator("td").first.inner_text() == f"{step['norms'][2]:.2f}"
    weights = view.data["sides"][0]["blocks"][2][0]["weights"][2]
    assert page.locator("#drawing .link").count() == sum(weight >= 0.01 for weight in weights)
    again = visit(here(page), "file:")
    assert again.locator("#open-title").inner_text() == "Block 3, “animal”"
    page.keyboard.press("ArrowUp")
    assert page.locator("#open-title").inner_text() == "Block 4, “animal”"
    page.keyboard.press("Escape")
    assert page.locator("#drawing .frame").count() == 0


def test_attention_opens_where_it_tells_most_and_says_why(opened):
    traced = trace(small(), TEXT)
    view = traced.heads()
    page = opened(view)
    told = view.data["telling"]
    assert page.locator("#layer").input_value() == str(told["layer"])
    assert page.locator("#head").input_value() == str(told["head"])
    sentence = page.locator("#telling").inner_text()
    assert f"block {told['layer'] + 1}, head {told['head'] + 1}" in sentence
    assert f"{told['weight']:.2f} of its attention" in sentence
    assert page.locator(".tokens.from .chosen .word").inner_text() == traced.tokens[told["token"]]


def test_small_weights_and_special_tokens_are_hidden_on_demand(opened, visit):
    traced = trace(small(), TEXT)
    page = opened(traced.heads(1, 2))
    page.locator(".tokens.from li").nth(3).click()
    row = [round(float(weight), 3) for weight in traced.attention(1, 2)[3]]
    values = page.locator(".tokens.to .value")
    page.wait_for_function("() => document.querySelectorAll('.tokens.to .value')[0].textContent")
    assert values.all_inner_texts() == [f"{weight:.3f}" if weight else "" for weight in row]
    page.locator("#least").fill("50")
    page.locator("#plain").check()
    page.wait_for_function("() => !document.querySelectorAll('.tokens.to .value')[0].textContent")
    kept = [f"{w:.3f}" if w >= 0.05 and traced.spans[i] else "" for i, w in enumerate(row)]
    assert values.all_inner_texts() == kept
    assert "least=50&plain=1" in here(page)


def test_heads_are_drawn_beside_one_another(opened):
    page = opened(trace(small(), TEXT).heads(1, 2))
    picture = "document.querySelector('.between canvas').toDataURL()"
    before = page.evaluate(picture)
    page.get_by_label("draw head 1, too").check(force=True)
    page.wait_for_function(f"(before) => {picture} !== before", arg=before)
    assert "more=0" in here(page)


def test_a_double_click_masks_the_word_and_asks_again(opened):
    page = opened(trace(small(), TEXT, "it was late").heads())
    page.evaluate("document.addEventListener('clearhead:ask', (e) => { window.asked = e.detail; e.preventDefault(); })")
    page.locator(".tokens.from li", has_text="animal").dblclick()
    masked = TEXT.replace("animal", "[MASK]")
    assert page.evaluate("asked") == {"text": masked, "pair": "it was late"}
    assert page.locator("#masked").inner_text() == ""


def test_a_file_alone_says_how_to_run_it_again(opened):
    page = opened(trace(small(), "the animal's bank").heads())
    page.locator(".tokens.from li", has_text="bank").dblclick()
    told = page.locator("#masked").inner_text()
    assert told == "To run it again with the word masked: clearhead look attention 'the animal'\\''s [MASK]'"
    page.locator(".tokens.from li").first.dblclick()
    assert "no word that could be masked" in page.locator("#masked").inner_text()


def test_a_mask_and_the_division_are_switched(opened, visit):
    page = opened(by_hand())
    page.locator("#causal").check()
    assert table(page, "steps", "softmax") == [1, 0]
    page.locator("#causal").uncheck()
    page.locator("#padding").check()
    assert table(page, "steps", "softmax") == [1, 0]
    page.locator("#padding").uncheck()
    page.locator("#divide").uncheck()
    assert table(page, "steps", "not divided") == [112, 96]
    assert table(page, "steps", "softmax") == [1, 0]
    assert visit(here(page), "file:").locator("#divide").is_checked() is False
    assert table(page, "steps", "q × k, by feature") == [64, 32, 16, 64, 16, 16]


def test_wide_vectors_need_the_division(opened):
    page = opened(by_hand())
    page.get_by_text("Why ÷ √d").click()
    facts = json.loads(page.locator("#facts").text_content())["drawn"]
    q, k = torch.tensor(facts["q"]), torch.tensor(facts["k"])
    for choice, width in ((0, 1), (6, 64), (9, 512)):
        page.locator("#drawn-width").fill(str(choice))
        scores = k[:, :width] @ q[:width]
        largest = [float(s.softmax(0).max()) for s in (scores, scores / width**0.5)]
        said = page.locator("#division .note").first.inner_text()
        assert (
            said
            == f"d = {width}: the largest weight is {largest[0]:.3f} without the division, {largest[1]:.3f} with it."
        )


def test_a_real_head_is_masked_and_left_undivided(opened):
    traced = trace(small(), TEXT)
    view = traced.step("it", 1, 2)
    page = opened(view)
    cells = page.locator(".steps tbody td:last-child")
    it = traced.position("it")
    page.locator("#causal").check()
    scores = traced.layers[1].scores[2][it].clone()
    scores[it + 1 :] = -torch.inf
    assert [float(t) for t in cells.all_inner_texts()] == pytest.approx(scores.softmax(-1).tolist(), abs=2e-3)
    page.locator("#divide").uncheck()
    assert [float(t) for t in cells.all_inner_texts()] != pytest.approx(scores.softmax(-1).tolist(), abs=2e-3)
    page.get_by_text("By hand").click()
    assert page.locator("#steps").is_visible()


def test_a_step_follows_temperature_and_top_k(opened, visit):
    view = decoding(translator(), TEXTS[0], num_beams=3, max_new_tokens=6, top_k=5)
    page = opened(view)
    cells = page.locator(".candidates td")
    assert [float(t) for t in cells.all_inner_texts()] == [share for _, share in view.data["nodes"][0]["candidates"]]
    page.locator("#temperature").fill("20")
    spread = view.data["spread"][0]
    logs = torch.tensor(spread["log_probs"])
    hot = (logs / 2.0 - spread["normalisers"][19]).exp()
    assert [float(t) for t in cells.all_inner_texts()] == pytest.approx(hot[:8].tolist(), abs=1e-3)
    page.locator("#top-k").fill("3")
    kept = (hot[:3] / hot[:3].sum()).tolist()
    assert [float(t) for t in cells.all_inner_texts()][:4] == pytest.approx([*kept, 0], abs=1e-3)
    page.locator("#top-k").fill("33")
    page.locator("#top-p").fill("1")
    assert float(cells.first.inner_text()) <= 1
    page.get_by_role("button", name="Draw a token").click()
    assert "Drawn: " in page.locator("#spread-note").inner_text()
    assert visit(here(page), "file:").locator("#temperature").input_value() == "20"
    scores = [text for text in page.locator("#tree .number").all_text_contents() if text.startswith("Σ")]
    assert scores[0] == f"Σ {view.data['nodes'][1]['score']:.2f}".replace("-", "−")
    assert page.locator("#tree .greedy").count() == len(view.data["greedy"]["nodes"])


def test_the_dice_are_rolled(opened, visit):
    view = pretraining(small(), TEXT)
    page = opened(view)
    page.get_by_role("button", name="Roll the dice").click()
    page.keyboard.press("r")
    roll = view.data["rolls"]["pieces"][2]
    losses = page.locator(".losses td:nth-child(4)").all_inner_texts()
    assert losses == [f"{loss:.3f}" for loss in roll["losses"]]
    assert page.locator("#sentence li[data-fate]").count() == len(roll["where"])
    page.get_by_text("Spans", exact=True).click()
    again = visit(here(page), "file:")
    spans = view.data["rolls"]["spans"][2]["where"]
    begun = [place for place in spans if place - 1 not in spans]
    assert again.locator("#corrupted em").count() == len(begun)


def test_a_head_is_seen_before_and_after(opened):
    view = heads_on_top(ch.load())
    page = opened(view)
    assert page.locator("#diagrams svg").count() == 4
    page.get_by_text("Before fine-tuning").click()
    shown = page.locator(".answers").first.locator("li span").first.inner_text()
    assert shown == f"{view.data['diagrams'][0]['before']['answer']['items'][0][1]:.3f}"
    assert here(page).endswith("#when=before")


def test_a_block_is_walked_through_by_keys(opened, visit):
    view = one_block(small(), TEXT)
    page = opened(view)
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    lengths = page.locator("#stages .length").all_inner_texts()
    parts = reversed(view.data["blocks"][1].values())
    assert lengths == [f"{part['norms'][2]:.2f}" for part in parts]
    assert visit(here(page), "file:").locator("#layer").input_value() == "1"


def test_the_slides_positions_are_drawn(opened, visit):
    page = opened(position_tables(length=8, width=8))
    page.get_by_role("button", name="The slide, d = 4").click()
    rows = [
        [float(text.replace("−", "-")) for text in row.locator("td").all_inner_texts()]
        for row in page.locator("#first tr").all()[:3]
    ]
    assert rows == [[0, 0, 1, 1], [0.8415, 0.0001, 0.5403, 1], [0.9093, 0.0002, -0.4161, 1]]
    page.locator("#wide").fill("3")
    page.locator("#base").fill("2")
    assert page.locator("#curves path").count() == 4
    assert visit(here(page), "file:").locator("#wide-shown").inner_text() == "16"
