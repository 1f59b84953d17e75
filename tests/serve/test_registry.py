"""Which model is meant, what is kept in memory, what is exchanged, and int8."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import clearhead as ch
from clearhead.errors import BadInput
from clearhead.nn.quantisation import is_int8
from clearhead.pipelines.search.stored import StoredIndex
from clearhead.serve import metrics
from clearhead.serve.perform import perform
from clearhead.serve.registry import Registry
from clearhead.serve.settings import Settings, named, size
from clearhead.serve.work import Refusal, Work

TEXTS = ["The animal was tired.", "Be alert!", "He sat on the bank of the river."]


@pytest.fixture(scope="module")
def classifier(folder: Path, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("models") / "classifier"
    ch.load(folder).with_head("classes", 2, labels=["dull", "fine"]).save(path)
    return path


def test_who_is_asked_where_nobody_is_named(built_in, folder, classifier):
    settings = Settings(models={"classifier": str(classifier), "small": str(folder)})
    registry = Registry(settings)
    assert registry.catalogue().default["embed"] == "built-in"
    assert registry.loaded == []  # to look is not to ask
    registry.preload()
    default = registry.catalogue().default
    # a classifier can make vectors and is not meant for them
    assert (default["classify"], default["embed"], default["fill"]) == ("classifier", "small", "small")
    assert (default["tag"], default["compare"], default["answer"]) == ("built-in", "built-in", "built-in")
    assert "translate" not in default  # this box has no translator


def test_models_that_were_not_asked_lately_are_let_go(built_in, folder, classifier):
    registry = Registry(Settings(models={"one": str(classifier), "two": str(folder)}, max_memory=1000))
    registry.preload()
    registry.model("one", "classify")
    assert registry.loaded == ["one", "two"]
    registry.let_go(used=999)
    assert registry.loaded == ["one", "two"]
    registry.let_go(used=1001)
    assert registry.catalogue().default["embed"] == "two"  # who knows it still
    assert registry.loaded == ["one"]
    assert registry.model("two", "embed")[0].embed("a").shape == (32,)
    assert registry.loaded == ["one", "two"]
    unlimited = Registry(Settings(models={"one": str(classifier), "two": str(folder)}))
    unlimited.preload()
    unlimited.let_go(used=10**15)
    assert unlimited.loaded == ["one", "two"]


def test_a_changed_model_that_cannot_be_read_leaves_the_old_one(built_in, folder, tmp_path, caplog):
    import shutil

    path = tmp_path / "mine"
    shutil.copytree(folder, path)
    registry = Registry(Settings(models={"mine": str(path)}, reload=True))
    before = registry.model("mine", "embed")[0]
    registry.reload()
    assert registry.model("mine", "embed")[0] is before
    with (path / "model.safetensors").open("ab") as file:
        file.write(b"damage")
    registry.reload()
    registry.reload()
    assert registry.model("mine", "embed")[0] is before
    assert caplog.text.count("has changed and cannot be read") >= 1
    shutil.rmtree(path)
    shutil.copytree(folder, path)
    registry.reload()
    assert registry.model("mine", "embed")[0] is not before


def test_int8_computes_where_it_comes_out_the_same(built_in, real, tmp_path):
    sample = tmp_path / "sample.txt"
    sample.write_text("\n".join(f"{text} {number}" for number in range(60) for text in TEXTS), encoding="utf-8")
    registry = Registry(Settings(models={"minilm": str(real)}, int8=str(sample)))
    model, name = registry.model("minilm", "embed")
    assert name == "minilm"
    assert is_int8(model.network)
    assert registry.model("minilm", "embed")[0] is model
    exact = ch.load(real).embed(TEXTS)
    cosines = (model.embed(TEXTS) * exact).sum(1) / np.linalg.norm(exact, axis=1) ** 2
    assert (cosines > 0.99).all()
    assert not is_int8(registry.model("minilm", "search")[0].network)


def test_a_sample_that_is_none_is_refused(built_in, tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n")
    for path, said in (("empty.txt", "has no text"), ("nothing.txt", "cannot be read")):
        with pytest.raises(BadInput, match=said):
            Registry(Settings(int8=str(tmp_path / path)))


def test_what_is_not_served_is_not_found(built_in, folder):
    registry = Registry(Settings(models={"small": str(folder)}))
    for name in ("nothing", "small:spam", "built-in:", "built-in:../spam", "builtin:nothing", str(folder), "\0"):
        with pytest.raises(Refusal) as refused:
            registry.model(name, "classify")
        assert refused.value.status == 404
    with pytest.raises(Refusal, match="there is no index"):
        registry.index("notes", registry.model(None, "search")[0])


def test_settings_are_read_from_the_environment(monkeypatch):
    given = {"MODELS": "a=./a,b=./b", "TIMEOUT": "5", "PRELOAD": "false", "API_KEYS": "first of them,second of them"}
    for name, value in {**given, "MAX_MEMORY": "2GB", "MAX_QUEUE_TOKENS": "1000"}.items():
        monkeypatch.setenv(f"CLEARHEAD_SERVE_{name}", value)
    settings = Settings.from_environment()
    assert settings.models == {"a": "./a", "b": "./b"}
    assert (settings.timeout, settings.preload, settings.max_memory) == (5.0, False, 2 * 1024**3)
    assert settings.api_keys == ("first of them", "second of them")
    monkeypatch.setenv("CLEARHEAD_SERVE_TIMEOUT", "soon")
    with pytest.raises(BadInput, match="CLEARHEAD_SERVE"):
        Settings.from_environment()


@pytest.mark.parametrize("name", ["built-in", "builtin:x", "a b", "", "../a", "my-query", "a\nb"])
def test_names_that_cannot_be_ids_are_refused(name):
    with pytest.raises(BadInput, match="cannot be served as"):
        Settings(models={name: "./a"})


def test_sizes_and_names():
    assert [size(one) for one in ("10", "1kB", "1.5 MiB", "4GB")] == [10, 1024, 1572864, 4 * 1024**3]
    with pytest.raises(BadInput, match="stands twice"):
        named(["a=1", "a=2"], "--model")


def test_requests_are_spans_where_opentelemetry_is(monkeypatch):
    from contextlib import contextmanager

    seen = []

    @contextmanager
    def start(name, context, attributes):
        seen.append((name, context, attributes))
        yield

    trace = SimpleNamespace(get_tracer=lambda name: SimpleNamespace(start_as_current_span=start))
    propagate = SimpleNamespace(extract=lambda headers: headers["traceparent"])
    monkeypatch.setattr(metrics, "_tracing", (trace, propagate))
    with metrics.span("clearhead tag", {"traceparent": "00-1"}, use="tag"):
        pass
    assert seen == [("clearhead tag", "00-1", {"use": "tag"})]


def test_an_index_may_lie_in_a_store(folder, tmp_path):
    pytest.importorskip("lancedb")
    url = f"lancedb://{tmp_path / 'store'}"
    with StoredIndex.open(url, ch.load(folder)) as store:
        store.add(TEXTS)
    registry = Registry(Settings(models={"small": str(folder)}, indexes={"notes": url}))
    registry.check()
    registry.preload()
    model, _ = registry.model(None, "search")
    work = Work(use="search", model=None, items=["the bank"], options={"index": "notes", "top_k": 1})
    ((hit,),) = perform(model, work, registry.index)
    assert hit["source"] == "2"
    registry.let_go(used=0)


def test_a_url_without_a_name_shows_no_password():
    for given in ("postgresql://me:secret@host/db", "postgresql://me:secret@host/db?table=x"):
        with pytest.raises(BadInput, match="--index of a URL is not written as NAME=FOLDER") as error:
            named([given], "--index")
        assert "secret" not in str(error.value)
    assert named(["notes=postgresql://me:secret@host/db?table=x"], "--index")["notes"].endswith("table=x")
