import sys
from types import SimpleNamespace

import pytest

from clearhead.data.formats import read_texts, read_words
from clearhead.data.tables import read_hub
from clearhead.errors import BadInput, NotFound


class StandIn:
    """What load_dataset gives back, as far as we use it."""

    def __init__(self, features, records):
        self.features = features
        self._records = records

    def __len__(self):
        return len(self._records)

    def to_list(self):
        return self._records


def classes(*names):
    return SimpleNamespace(names=list(names))


@pytest.fixture
def asked(monkeypatch):
    calls = []
    text = SimpleNamespace()
    texts = StandIn(
        {"sentence": text, "label": classes("bad", "good")},
        [{"sentence": "a", "label": 1}, {"sentence": "b", "label": 0}],
    )
    unlabelled = StandIn(texts.features, [{"sentence": "a", "label": -1}])
    words = StandIn(
        {"tokens": SimpleNamespace(feature=text), "ner_tags": SimpleNamespace(feature=classes("O", "B-PER"))},
        [{"tokens": ["Ada", "ran"], "ner_tags": [1, 0]}],
    )

    def load_dataset(name, config, *, split):
        calls.append((name, config, split))
        if name == "owner/nothing":
            raise ValueError("Unknown split\nand much more")
        return {"words": words, "owner/empty": StandIn({}, [])}.get(name, unlabelled if split == "test" else texts)

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return calls


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("hub:glue", ("glue", None, "train")),
        ("hub:owner/name:sst2", ("owner/name", "sst2", "train")),
        ("hub:owner/name:validation", ("owner/name", None, "validation")),
        ("hub:owner/name:train[:100]", ("owner/name", None, "train[:100]")),
        ("hub:owner/name:sst2:dev", ("owner/name", "sst2", "dev")),
    ],
)
def test_config_and_split(asked, name, call):
    read_hub(name)
    assert asked == [call]


@pytest.mark.parametrize("name", ["hub:", "hub:a:b:c:d", "hub:a::train"])
def test_names_that_are_none(name):
    with pytest.raises(BadInput, match="write hub:owner/name"):
        read_hub(name)


def test_classes_come_by_name(asked):
    assert [example.label for example in read_texts("hub:owner/name")] == ["good", "bad"]
    assert read_words("hub:words")[0].tags == ("B-PER", "O")


def test_no_label_is_none(asked):
    assert read_texts("hub:owner/name:test")[0].label is None


def test_what_cannot_be_had_is_one_line(asked):
    with pytest.raises(NotFound, match=r"'hub:owner/nothing' cannot be had \(Unknown split\); check"):
        read_hub("hub:owner/nothing")
    with pytest.raises(BadInput, match="has no rows"):
        read_hub("hub:owner/empty")
