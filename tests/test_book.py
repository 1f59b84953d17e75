"""The site's pages: every public name, verb, key, route and error has its entry, and links lead somewhere."""

import doctest
import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

import clearhead
import course
import reference
import website
from clearhead.pipelines import results
from clearhead.pipelines.search.index import Index


def unrun(path: Path, _: Path) -> str:
    """A chapter's text, whose code has a test of its own."""
    return "\n\n".join(cell.text for cell in course.read(path) if not cell.is_code)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(course, "page", unrun)
        return folder, website.write_pages(folder)


def headings(page: str) -> list[str]:
    return re.findall(r"^##+ (.+)$", page, re.MULTILINE)


def test_every_public_name_and_method_has_an_entry():
    found = set(headings(reference.python()))
    assert set(clearhead.__all__) - {"__version__"} <= found
    public = [name for name in vars(clearhead.Model) if not name.startswith("_")]
    assert {f"Model.{name}" for name in public if name not in clearhead.Model.__annotations__} <= found
    assert {"Trace.links", "View.save", "Index.search"} <= found


def test_a_use_has_the_signature_that_it_has_when_it_runs():
    text = reference.python()
    shown = text.split("### Model.tag\n")[1].split("###")[0]
    assert "-> Tagged | list[Tagged] | Iterator[Tagged]" in shown
    assert ") -> View\n" in text.split("### Trace.heads\n")[1].split("###")[0]
    assert "```pycon\n>>> " in shown


def test_every_verb_and_option_has_an_entry():
    text = reference.command_line()
    paths = [path for path, _ in reference.commands()]
    assert {"ask", "look attention", "tokenizer train", "serve", "finetune"} <= set(paths)
    for path, command in reference.commands():
        entry = text.split(f"\n## clearhead {path}\n")[1].split("\n## ")[0]
        for one in command.params:
            assert (
                getattr(one, "hidden", False) or one.name == "help" or one.opts[0].strip("-").upper() in entry.upper()
            )


def test_every_json_key_route_and_error_has_an_entry():
    keys = reference.json_keys()
    for spec in fields(results.Answer):
        assert f"`{spec.name}`" in keys.split("\n## Answer\n")[1].split("\n## ")[0]
    routes = headings(reference.http())
    assert {f"POST /v1/{use}" for use in ("fill", "classify", "answer", "embed", "search", "rerank")} <= set(routes)
    http = reference.http()
    others = {one.path for dialect in reference.DIALECTS for one in (*dialect.posts, *dialect.gets)}
    assert {"/v1/embeddings", "/rerank"} <= others
    assert [path for path in others if f"`{path}`" not in http and f" {path}\n" not in http] == []
    assert [kind.__name__ for kind in reference.error_kinds() if kind not in reference.REMEDIES] == []


def test_every_verb_with_a_recipe_has_its_keys():
    able = {path for path, command in reference.commands() if any("--set" in one.opts for one in command.params)}
    assert able - set(reference.RECIPES) == {"glue"}  # whose recipe is that of finetune


def test_every_key_of_a_recipe_has_its_default():
    text = reference.recipes()
    assert "| `train.learning_rate` | `float` | `5e-05` |" in text.split("\n## finetune\n")[1]
    assert "| `length` | `int` | `256` | longest input in tokens; answers and tags use windows of it |" in text


def test_every_key_of_a_recipe_says_what_it_is():
    rows = re.findall(r"^\| `(\S+)` \| .* \| (.*) \|$", reference.recipes(), re.MULTILINE)
    assert {"frozen.layers", "frozen.combine", "frozen.lstm", "train.seed", "window"} <= {name for name, _ in rows}
    assert [name for name, said in rows if not said and not name.startswith("model.")] == []
    assert "\\|" not in reference.recipes() + reference.json_keys()


def test_every_page_is_in_the_menu(site):
    _, pages = site
    assert len(pages) > 20
    assert website.not_in_the_menu(pages) == []
    assert website.not_in_the_menu(["nothing.md"]) == ["nothing.md"]


def test_links_lead_to_pages_and_headings_of_the_site(site):
    folder, pages = site
    for name in pages:
        text = re.sub(r"^```.*?^```$", "", (folder / name).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target, anchor in re.findall(r"\]\(([^)\s#:]*)(?:#([^)\s]*))?\)", text):
            at = (folder / name).parent / target if target else folder / name
            assert at.is_file(), f"{name} links to {target}"
            if anchor:
                slugs = [slug(one) for one in re.findall(r"^#+ (.+)$", at.read_text(encoding="utf-8"), re.MULTILINE)]
                assert anchor in slugs, f"{name} links to {target}#{anchor}"


def slug(heading: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain.lower())).strip("-")


def test_links_out_of_the_site_become_names():
    known = {"docs/a.md": "a.md", "SECURITY.md": "security.md"}
    text = "[safe](../SECURITY.md#tls), [files](../deploy/x.yaml), [web](https://example.org)\n"
    text += "```\n[as it is](../x)\n```\n"
    turned = website.turned(text, "docs/a.md", known)
    assert turned.startswith(
        "[safe](security.md#tls), files (`deploy/x.yaml`), [web](https://example.org)\n```\n[as it"
    )


def test_a_picture_that_is_not_in_the_site_ends_the_build():
    with pytest.raises(SystemExit, match=r"docs/a\.md shows docs/b\.gif, which is not in the site"):
        website.turned("![b](b.gif)", "docs/a.md", {"docs/a.md": "a.md"})


def test_what_a_page_would_fetch_is_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<script src="https://example.org/x.js"></script><a href="https://example.org/y">y</a><img src="z.png">'
    )
    assert website.fetched_elsewhere(tmp_path) == ["https://example.org/x.js"]


@pytest.mark.parametrize("path", course.chapters(), ids=lambda path: path.stem)
def test_a_chapter_runs_and_teaches(path, tmp_path):
    cells = course.read(path)
    page = course.page(path, tmp_path)
    assert sum(cell.is_solution for cell in cells) == 3
    assert page.count('??? success "A solution"') == 3
    assert all("assert " in cell.text for cell in cells if cell.is_solution)
    assert page.startswith(f"# {int(path.stem[:2])}. ")
    assert "```python\n# " in page, "no source of the package is shown"
    assert re.search(r"^> .*[=∝:σ]", page, re.MULTILINE), "no formula"
    assert len(list(tmp_path.glob("*.html"))) >= 1, "no picture"


def test_the_course_has_twelve_chapters():
    assert [path.stem[:2] for path in course.chapters()] == [f"{number:02}" for number in range(1, 13)]


def test_a_notebook_holds_the_cells_of_its_chapter():
    path = course.chapters()[0]
    made = course.notebook(path)
    assert made["nbformat"] == 4
    first, install, *others = ("".join(cell["source"]) for cell in made["cells"])
    assert [first, *others] == [cell.text for cell in course.read(path)]
    assert "%pip install" in install
    assert len({cell["id"] for cell in made["cells"]}) == len(made["cells"])
    hidden = [cell for cell in made["cells"] if cell["metadata"].get("jupyter") == {"source_hidden": True}]
    assert len(hidden) == 3


def test_a_notebook_links_to_nothing_that_is_not_beside_it():
    (path,) = (one for one in course.chapters() if one.stem == "10_fine_tuning")
    told = json.dumps(course.notebook(path))
    assert "(see training)" in told
    assert ".md)" not in told


def test_a_cell_shows_what_it_prints_and_its_last_value(tmp_path):
    path = tmp_path / "01_x.py"
    path.write_text('# %% [markdown]\n# # 1. X\n\n# %%\nprint("a")\n1 + 1\n\n# %% tags=["solution"]\nassert True\n')
    shown = course.page(path, tmp_path)
    assert "```text\na\n2\n```" in shown
    assert '??? success "A solution"\n\n    ```python\n    assert True\n    ```' in shown


def test_a_chapter_that_is_wrong_fails(tmp_path):
    path = tmp_path / "01_x.py"
    path.write_text("# %%\nassert 1 == 2\n")
    with pytest.raises(AssertionError):
        course.page(path, tmp_path)


TOKENIZER = (
    "from_folder",
    "save",
    "encode",
    "encode_batch",
    "pieces",
    "words_batch",
    "ids_batch",
    "decode",
    "token_to_id",
    "id_to_token",
)
CALLED = {
    **{f"Tokenizer.{name}": clearhead.Tokenizer for name in TOKENIZER},
    **{f"Index.{name}": Index for name in ("build", "load", "passage", "save", "search")},
}


@pytest.fixture(scope="module")
def model() -> clearhead.Model:
    return clearhead.load()


@pytest.mark.parametrize("name", CALLED)
def test_what_a_user_calls_has_an_example_that_runs(name, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    described = getattr(CALLED[name], name.partition(".")[2]).__doc__
    assert ">>> " in described
    names = {"clearhead": clearhead, "model": model}
    test = doctest.DocTestParser().get_doctest(described, names, name, None, None)
    told: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=told.append)
    assert not told, "".join(told)
