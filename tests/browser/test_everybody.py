"""What everybody can use: every door, chapter, view and use, on two screens, in two themes, by the keyboard alone.

The models are the built-in ones, since contrast and widths follow from what is drawn.
"""

import json
from importlib.resources import files
from urllib.parse import urlencode

import pytest

from browser.pages import DEADLINE, drawn
from browser.running import running
from clearhead.studio.app import CHAPTERS, create_app
from clearhead.studio.pages import ENTRIES

pytestmark = pytest.mark.browser

LOOKS = [(1280, 720, "light"), (1280, 720, "dark"), (390, 844, "dark"), (390, 844, "light")]
VIOLATIONS = """axe.run().then(({ violations }) => violations.flatMap(({ id, nodes }) =>
  nodes.map(({ target, failureSummary }) => [id, target.flat().join(" "), failureSummary.slice(0, 200)])))"""
# what the Tab key should reach: a group of radio buttons is one
STOPS = """(() => {
  const found = [];
  const walk = (root) => {
    const groups = new Set();
    for (const one of root.querySelectorAll("*")) {
      if (one.shadowRoot) walk(one.shadowRoot);
      if (one.tabIndex < 0 || !one.matches("a[href], button, input, select, textarea, [tabindex], summary")) continue;
      if (one.disabled || !one.checkVisibility({ visibilityProperty: true })) continue;
      if (one.type === "radio" && groups.has(one.name)) continue;
      groups.add(one.name);
      found.push(one);
    }
  };
  walk(document);
  return (window.stops = found).length;
})()"""
FOCUSED = """(() => {
  let one = document.activeElement;
  while (one?.shadowRoot?.activeElement) one = one.shadowRoot.activeElement;
  if (!one || one === document.body) return null;
  const radio = one.type === "radio";
  const shown = radio ? one.nextElementSibling ?? one : one;
  const grouped = (stop) => stop.name === one.name && stop.getRootNode() === one.getRootNode();
  const number = window.stops.findIndex((stop) => stop === one || (radio && grouped(stop)));
  const { outlineStyle, strokeWidth } = getComputedStyle(shown);
  return [number, one.outerHTML.slice(0, 120), outlineStyle !== "none" || parseFloat(strokeWidth) > 2];
})()"""


def example(entry):
    """The address of a page with the first example that a model here answers."""
    there = [one for one in entry.examples if one.get("model") != "builtin:gpt"]
    chosen = {name: there[0][name] for name in ("model", "skill") if there and there[0].get(name)}
    values = dict(there[0]["values"]) if there else {}
    if entry.path == "/use/generate":
        chosen, values = {"model": "writes"}, {"text": "the animal", "longest": 4}
    return f"{entry.path}?{urlencode(values | chosen)}"


LEARN = [f"/learn/{one['name']}?view={opened['view']}" for one in CHAPTERS for opened in one["views"]]
PATHS = ["/", "/learn", "/compare", *LEARN, *map(example, ENTRIES.values())]


@pytest.fixture(scope="session")
def everything(folders, run_folder):
    """The address of a studio with the built-in models, one that writes, and a run."""
    writes = next(folder for folder in folders if folder.endswith("writes"))
    models = {**{one: one for one in ("builtin:encoder", "builtin:translator")}, "writes": writes}
    with running(create_app(models, [run_folder], deadline=DEADLINE)) as address:
        yield address


@pytest.mark.parametrize("path", PATHS)
def test_every_page_fits_and_axe_finds_nothing(visit, everything, path):
    page = drawn(visit(everything + path, everything))
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    for width, height, scheme in LOOKS:
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        drawn(page)
        assert "".join(page.locator("studio-picture .status").all_inner_texts()) == ""
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (width, scheme)
        assert page.locator("main").count() == page.locator("h1:visible").count() == 1
        assert page.evaluate(VIOLATIONS) == [], (width, scheme)


@pytest.mark.parametrize("path", ["/compare", *(example(one) for one in ENTRIES.values())])
def test_the_tab_key_reaches_everything(visit, everything, path):
    page = drawn(visit(everything + path, everything))
    count = page.evaluate(STOPS)
    reached = set()
    page.keyboard.press("Tab")
    while (found := page.evaluate(FOCUSED)) is not None and found[0] not in reached:
        number, name, outlined = found
        assert outlined, f"{name} does not show that it has the focus"
        reached.add(number)
        page.keyboard.press("Tab")
    missed = [number for number in range(count) if number not in reached]
    told = f"stops => {json.dumps(missed)}.map(i => window.stops[i].outerHTML.slice(0, 120))"
    assert page.evaluate(told) == []
