import json
import shutil
import unicodedata
import warnings

import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

import clearhead as ch
from clearhead.errors import BadConfig, BadInput
from pipelines.alike import alike
from pipelines.peers import LONG, SENTENCES, TAGS, Peers, peers
from text.strategies import any_strings

STRATEGIES = ["none", "simple", "first", "average", "max"]
WORDS = ["Ada", "Lovelace", "didn't", "cross", "the", "river."]
ODD = ["Zürich 中 [MASK] 🙂 Ada's", "", "  Ada\tLovelace\n"]


@pytest.fixture(scope="module")
def bert() -> Peers:
    return peers("BertForTokenClassification", TAGS, seed=1)


def quiet(pipe, *inputs, **options):
    """Call theirs, which warns where it has to guess words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pipe(*inputs, **options)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("family", ["Bert", "Roberta", "MPNet"])
def test_same_as_transformers(family, strategy):
    pair = peers(f"{family}ForTokenClassification", TAGS, seed=0)
    ours = ch.pipeline("token-classification", pair.folder, aggregation_strategy=strategy)
    theirs = pair.pipeline("token-classification", aggregation_strategy=strategy)
    assert alike(ours(SENTENCES), quiet(theirs, SENTENCES))
    assert alike(ours(SENTENCES[0]), quiet(theirs, SENTENCES[0]))
    assert sum(map(len, ours(SENTENCES))) > 8
    assert alike(ours(SENTENCES, ignore_labels=[]), quiet(theirs, SENTENCES, ignore_labels=[]))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("family", ["Albert", "DebertaV2"])
def test_sentencepiece_as_transformers_but_for_spaces(family, strategy):
    """Theirs counts the space before a word to the entity, and forgets the spaces between the words of one."""
    pair = peers(f"{family}ForTokenClassification", TAGS, seed=0)
    ours = ch.pipeline("ner", pair.folder, aggregation_strategy=strategy)
    theirs = pair.pipeline("ner", aggregation_strategy=strategy)
    for text in SENTENCES:
        found, expected = ours(text), quiet(theirs, text)
        for one, other in zip(found, expected, strict=True):
            assert one["word"].replace(" ", "") == other["word"].replace(" ", "")
            assert one["start"] == other["end"] - len(text[other["start"] : other["end"]].lstrip())
            other.update(word=one["word"], start=one["start"])
        assert alike(found, expected)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_odd_texts(bert, strategy):
    ours = ch.pipeline("ner", bert.folder, aggregation_strategy=strategy, ignore_labels=[])
    theirs = bert.pipeline("ner", aggregation_strategy=strategy, ignore_labels=[])
    assert alike([ours(text) for text in ODD], [theirs(text) if text else [] for text in ODD])


def test_labels_without_prefixes_and_with_unusual_ones():
    labels = ("NOUN", "B-PER", "E-PER", "NON-FICTION", "O")
    pair = peers("BertForTokenClassification", labels, seed=2)
    ours, theirs = (make("ner") for make in (lambda task: ch.pipeline(task, pair.folder), pair.pipeline))
    assert alike(ours(SENTENCES, aggregation_strategy="simple"), theirs(SENTENCES, aggregation_strategy="simple"))


def test_words_that_are_given(bert):
    ours, theirs = ch.pipeline("ner", bert.folder), bert.pipeline("ner")
    for words in (WORDS, [WORDS, WORDS[:2]]):
        for options in ({}, {"delimiter": ""}, {"delimiter": " | ", "aggregation_strategy": "simple"}):
            options = {"is_split_into_words": True, "ignore_labels": [], **options}
            assert alike(ours(words, **options), theirs(words, **options))


@pytest.mark.parametrize("strategy", STRATEGIES[1:])
def test_windows_with_a_stride_as_theirs(bert, strategy, tmp_path):
    folder = shutil.copytree(bert.folder, tmp_path / "limited")
    bert.ours.tokenizer.write_files(folder, max_length=bert.ours.encoder.max_length)
    theirs = transformers.pipeline("ner", model=str(folder), device="cpu", stride=10, aggregation_strategy=strategy)
    ours = ch.pipeline("ner", folder, stride=10, aggregation_strategy=strategy)
    assert alike(ours(LONG), theirs(LONG))
    assert alike(ours(SENTENCES), theirs(SENTENCES))


def test_a_long_text_is_read_to_its_end(bert):
    ner = ch.pipeline("ner", bert.folder, ignore_labels=[])
    found = ner(LONG)
    assert [one["index"] for one in found] == list(range(1, len(found) + 1))
    assert "".join(LONG[one["start"] : one["end"]] for one in found) == LONG.replace(" ", "")
    grouped = ner(LONG, aggregation_strategy="first", ignore_labels=["O"])
    expected = bert.ours.tag(LONG).entities
    assert [(one["entity_group"], one["start"], one["end"]) for one in grouped] == [
        (one.label, one.start, one.end) for one in expected
    ]


@given(st.lists(any_strings | st.just(LONG), min_size=1, max_size=4), st.sampled_from(STRATEGIES), st.booleans())
@settings(max_examples=40)
@pytest.mark.parametrize("family", ["Bert", "Albert"])
def test_any_text_has_entities_within_it(family, texts, strategy, striding):
    model = peers(f"{family}ForTokenClassification", TAGS, seed=0).ours
    options = {"stride": 8} if striding and strategy != "none" else {}
    ner = ch.pipeline("ner", model, aggregation_strategy=strategy, ignore_labels=[], **options)
    together = ner(texts)
    for text, found in zip(texts, together, strict=True):
        assert all(0 <= one["start"] <= one["end"] <= len(text) for one in found)
        assert alike(ner(text), found)


def test_older_names_of_the_strategies(bert):
    ner = ch.pipeline("ner", bert.folder)
    text = SENTENCES[-1]
    assert ner(text, grouped_entities=True) == ner(text, aggregation_strategy="simple")
    assert ner(text, grouped_entities=True, ignore_subwords=True) == ner(text, aggregation_strategy="FIRST")
    assert ner(text, grouped_entities=False) == ner(text)


def test_what_is_refused(bert):
    with pytest.raises(BadInput, match="aggregation_strategy='last' is not known; choose none, simple"):
        ch.pipeline("ner", bert.folder, aggregation_strategy="last")
    ner = ch.pipeline("ner", bert.folder)
    with pytest.raises(BadInput, match="stride needs an aggregation_strategy other than none"):
        ner("text", stride=3)
    with pytest.raises(BadInput, match="A text is a string, or a list with is_split_into_words=True"):
        ner([WORDS])


NAMES = """
Ada Lovelace and Wolfgang Amadeus Mozart never met.
Nvidia opened an office in Zürich, and Siemens one in Nürnberg.
Srinivasa Ramanujan left Kumbakonam for Cambridge.
Zinedine Zidane, Kylian Mbappé and Erling Haaland play football.
Satya Nadella of Microsoft wrote to Sundar Pichai.
Angela Merkel met Emmanuel Macron in Strasbourg and Recep Tayyip Erdoğan in Ankara.
Niels Bohr, Werner Heisenberg and Wolfgang Pauli walked through Copenhagen.
Flann O'Brien, J. R. R. Tolkien and Jean-Paul Sartre wrote novels.
Tchaikovsky, Rachmaninoff and Shostakovich lived in St. Petersburg.
AT&T, Coca-Cola and Volkswagen sell in Azerbaijan and Kyrgyzstan.
Guadalajara, Reykjavík, Thessaloniki and Ouagadougou are cities.
Ngũgĩ wa Thiong'o was born in Kamiriithu.
""".strip().splitlines()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_built_in_model_breaks_no_word(strategy):
    """It was taught by the first piece of each word: every strategy gives the entities of `Model.tag`."""
    expected = ch.load().tag(NAMES)
    assert sum(len(one.entities) for one in expected) > 20
    for text, tagged, found in zip(
        NAMES, expected, ch.pipeline("ner", aggregation_strategy=strategy)(NAMES), strict=True
    ):
        if strategy == "none":
            inside = [any(one.start <= piece["start"] < one.end for one in tagged.entities) for piece in found]
            assert all(inside)
            for one in tagged.entities:
                pieces = [piece for piece in found if one.start <= piece["start"] < one.end]
                opened = [piece["start"] for piece in pieces if piece["entity"].startswith("B-")]
                assert opened in ([], [one.start])
                assert {piece["entity"][2:] for piece in pieces} == {one.label}
        else:
            assert [(e["entity_group"], e["start"], e["end"]) for e in found] == [
                (one.label, one.start, one.end) for one in tagged.entities
            ]
            assert [e["score"] for e in found] == pytest.approx([one.score for one in tagged.entities], abs=1e-5)
            assert all(e["word"].replace(" ", "") == plain(text[e["start"] : e["end"]]) for e in found)


def plain(text):
    """As the tokenizer of small letters writes it."""
    flat = unicodedata.normalize("NFD", text.lower())
    return "".join(c for c in flat if not c.isspace() and unicodedata.category(c) != "Mn")


@pytest.fixture(scope="module")
def taught(bert, tmp_path_factory):
    """The same weights, said to have been taught by first pieces."""
    folder = tmp_path_factory.mktemp("taught") / "model"
    shutil.copytree(bert.folder, folder)
    content = json.loads((folder / "config.json").read_text())
    content["task_specific_params"] = {"token-classification": {"whole_words": True}}
    (folder / "config.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize("text", [*SENTENCES, LONG, *ODD])
def test_strategies_agree_where_first_pieces_were_taught(taught, bert, text):
    model = ch.load(taught)
    expected = [(one.label, one.start, one.end) for one in bert.ours.tag(text).entities]
    for strategy in STRATEGIES[1:]:
        found = ch.pipeline("ner", model, aggregation_strategy=strategy)(text)
        assert [(e["entity_group"], e["start"], e["end"]) for e in found] == expected
        assert [(o.label, o.start, o.end) for o in model.tag(text, aggregation_strategy=strategy).entities] == expected
    pieces = ch.pipeline("ner", model, ignore_labels=[])(text)
    firsts = {word.start for word in model.tag(text).words}
    assert not any(piece["entity"].startswith("B-") for piece in pieces if piece["start"] not in firsts)


def test_strides_and_given_words_where_first_pieces_were_taught(taught):
    pipe = ch.pipeline("ner", taught, aggregation_strategy="simple")
    whole = {word.start for word in ch.load(taught).tag(LONG).words}
    found = pipe(LONG, stride=8)
    assert found
    assert all(one["start"] in whole for one in found)
    places = [sum(len(word) + 1 for word in WORDS[:i]) for i in range(len(WORDS))]
    assert all(one["start"] in places for one in pipe(WORDS, is_split_into_words=True)[0])


def test_what_was_taught_is_kept(taught, tmp_path):
    model = ch.load(taught)
    model.save(tmp_path / "again")
    content = json.loads((tmp_path / "again" / "config.json").read_text())
    assert content["task_specific_params"] == {"token-classification": {"whole_words": True}}
    assert ch.load(tmp_path / "again").checkpoint.description.whole_words
    assert not model.with_head("classes", 2).checkpoint.description.whole_words
    content["task_specific_params"]["token-classification"]["whole_words"] = "yes"
    (tmp_path / "again" / "config.json").write_text(json.dumps(content))
    with pytest.raises(BadConfig, match="whole_words = 'yes' is not of type bool"):
        ch.load(tmp_path / "again")
