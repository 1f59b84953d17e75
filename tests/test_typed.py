"""What a user's tools know: types of every use, signatures, documents, and old names of keywords."""

import contextlib
import doctest
import inspect
import json
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import clearhead as ch
import typed_example
from clearhead.errors import BadInput
from pipelines.peers import TAGS, peers
from pipelines.writers import gpt_folder, translator

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "tests" / "typed_example.py"
USES = [name for name in vars(ch.Model) if not name.startswith("_") and callable(getattr(ch.Model, name))]


def test_a_users_script_is_typed(tmp_path):
    """The script says by assert_type what it expects; what is misspelt is found."""
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import clearhead\nmodel = clearhead.load()\nmodel.fill('a', topk=3)\nmodel.answer('a')\n")
    command = [sys.executable, "-m", "mypy", str(EXAMPLE), str(wrong)]  # strict, as pyproject.toml says
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    errors = [line for line in found.splitlines() if ": error:" in line]
    # by the file's name: mypy's cache may know the same script from another folder, where a run before this one had it
    assert {Path(line.partition(": error:")[0]).name for line in errors} == {"wrong.py:3", "wrong.py:4"}, found
    assert 'did you mean "top_k"' in found


@pytest.mark.parametrize(
    ("run", "model"),
    [
        (typed_example.write, lambda: ch.load(gpt_folder())),
        (typed_example.write, translator),
        (typed_example.rewrite, lambda: translator("seq2seq-gru")),
        (typed_example.rerank, lambda: peers("BertForSequenceClassification", ("no", "yes")).ours),
        (typed_example.choose, lambda: peers("BertForMultipleChoice").ours),
    ],
)
def test_the_script_runs(run, model):
    run(model())


def test_types_are_true_at_run_time():
    model = peers("BertForMaskedLM").ours
    one = model.fill("wear a [MASK]")
    pandas = pytest.importorskip("pandas")
    datasets = pytest.importorskip("datasets")
    column = datasets.Dataset.from_dict({"text": ["wear a [MASK]"]})["text"]
    for given in (
        ["wear a [MASK]"],
        ("wear a [MASK]",),
        np.array(["wear a [MASK]"]),
        pandas.Series(["wear a [MASK]"]),
        column,
    ):
        assert model.fill(given) == [one], type(given)
    stream = model.fill(text for text in ["wear a [MASK]"])
    assert isinstance(stream, Iterator)
    assert list(stream) == [one]
    assert list(model.fill(texts=iter([]))) == []
    ways = ch.load(gpt_folder()).generate("a", num_return_sequences=1, max_new_tokens=2)
    assert isinstance(ways, list)


@pytest.mark.parametrize("use", USES)
def test_every_use_is_documented_and_says_what_it_takes(use):
    function = getattr(ch.Model, use)
    assert inspect.isroutine(function)
    assert ">>> " in function.__doc__
    signature = inspect.signature(function)
    assert signature.return_annotation not in ("Any", inspect.Parameter.empty)
    assert function.__qualname__ == f"Model.{use}"


def test_signatures_show_one_and_many():
    signature = str(inspect.signature(ch.Model.fill))
    assert signature.startswith("(self, texts: 'str | Iterable[str]', *, top_k: 'int' = 5, ")
    assert signature.endswith("-> 'Filled | list[Filled] | Iterator[Filled]'")


def test_old_keywords_warn_for_one_release():
    model, bert = ch.load(gpt_folder()), peers("BertForMaskedLM").ours
    with warnings.catch_warnings(record=True, category=DeprecationWarning) as seen:
        warnings.simplefilter("always")
        old = model.generate(prompts=["a"], longest=3, least=3, beams=2)
    assert old == model.generate(["a"], max_new_tokens=3, min_new_tokens=3, num_beams=2)
    assert {one.filename for one in seen} == {__file__}
    assert "longest is now called max_new_tokens; the old name goes with the next release" in {
        str(w.message) for w in seen
    }
    with pytest.warns(DeprecationWarning, match="top is now called top_k"):
        assert len(bert.fill("[MASK]", top=2).predictions) == 2
    with pytest.raises(BadInput, match="top and top_k are one option; give top_k"):
        bert.fill("[MASK]", top=2, top_k=3)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_hasattr_works_on_everything():
    for model in (translator("seq2seq-gru"), ch.load(gpt_folder())):
        for name in dir(model):
            assert hasattr(model, name) or name == "encoder"
        assert not hasattr(model, "colour")
    assert not hasattr(translator("seq2seq-gru"), "encoder")


@pytest.fixture(scope="module")
def at_home(tmp_path_factory) -> Iterator[dict[str, object]]:
    """A folder with the models that the examples name, and the names they begin with."""
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(gpt_folder(), home / "my-gpt")
    translator().save(home / "de-en")
    with contextlib.chdir(home):
        yield {"clearhead": ch, "model": ch.load()}


EXAMPLES = {name: getattr(ch, name) for name in ch.__all__ if name != "__version__"}
EXAMPLES |= {f"Model.{use}": getattr(ch.Model, use) for use in USES}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name, at_home):
    assert ">>> " in EXAMPLES[name].__doc__, f"the docstring of {name} has no example"
    test = doctest.DocTestParser().get_doctest(EXAMPLES[name].__doc__, dict(at_home), name, None, None)
    told: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=told.append)
    assert not told, "".join(told)


def test_results_are_records_that_json_holds():
    found = peers("BertForQuestionAnswering").ours.answer("what?", "a mask, a bank", top_k=2).to_dict()
    assert list(found) == ["answer", "start", "end", "score", "null_score", "candidates"]
    assert [list(one) for one in found["candidates"]] == [["text", "start", "end", "score", "logit"]] * 2
    assert json.loads(json.dumps(found)) == found


def test_what_is_shown_is_short_and_what_a_notebook_shows_is_no_markup():
    reader = peers("BertForQuestionAnswering").ours
    found = reader.answer("what?", "<b>a mask</b>, a bank", threshold=float("inf"), top_k=2)
    shown = found._repr_html_()
    assert shown.count("<tr>") == 3
    assert "<b>" not in shown
    tagged = peers("BertForTokenClassification", TAGS).ours.tag("a mask " * 100)
    assert "… 170 more" in tagged._repr_html_()
    classes = peers("BertForSequenceClassification", ("no", "yes")).ours
    assert "<td>yes</td>" in classes.classify("a mask")._repr_html_()
    assert "<td>bert</td>" in reader._repr_html_()
    assert repr(ch.pipeline("text-classification", classes)).startswith("TextClassification(Model(bert, ")
