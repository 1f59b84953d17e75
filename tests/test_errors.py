"""A wrong option is one sentence that names the right one, wherever the user is."""

import pytest

import clearhead as ch
from clearhead.errors import BadInput, UnknownOption, keywords, near, renamed
from clearhead.inside import why
from clearhead.models.gpt import Gpt2Config
from pipelines.peers import SENTENCES, peers
from pipelines.writers import gpt_folder


@keywords
def said(text, *, loud=False):
    return text.upper() if loud else text


@keywords
class Speaker:
    def __init__(self, name="Ada"):
        self.name = name

    @renamed(loudly="loud")
    def speak(self, *, loud=False):
        return said(self.name, loud=loud)

    @classmethod
    def called(cls, *, name):
        return cls(name=name)

    def silent(self):
        return ""


def test_functions_and_classes_name_the_option_that_was_meant():
    assert (
        said("a", loud=True) == Speaker(name="a").speak(loud=True) == Speaker.called(name="a").speak(loud=True) == "A"
    )
    assert (said.__name__, Speaker.speak.__name__) == ("said", "speak")
    with pytest.raises(UnknownOption, match=r"^lod is no option of said; did you mean loud\?$"):
        said("a", lod=True)
    with pytest.raises(UnknownOption, match=r"^nam is no option of Speaker; did you mean name\?$"):
        Speaker(nam="a")
    with pytest.raises(TypeError, match=r"zebra is no option of Speaker\.speak; there are loud"):
        Speaker().speak(zebra=1)
    with pytest.raises(UnknownOption, match=r"is no option of Speaker\.called"):
        Speaker.called(title="a")
    with pytest.warns(DeprecationWarning, match="loudly is now called loud"):
        assert Speaker("a").speak(loudly=True) == "A"
    with pytest.raises(TypeError):  # Python's own: too many of them
        said("a", "b")
    assert not hasattr(Speaker.silent, "__wrapped__")  # nothing to misspell, nothing to pay


def test_near():
    assert near("Top_K", ["top_k", "top_p"]) == "did you mean top_k?"
    assert near("zebra", ["top_k", "top_p"]) == "there are top_k, top_p"
    assert near("zebra", []) == "there are none"


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda model: ch.load(dtyp="float16"), "dtype"),
        (lambda model: ch.pipeline("fill-mask", model, topk=3), "top_k"),
        (lambda model: model.fill("a [MASK]", topk=3), "top_k"),
        (lambda model: model.tag("Ada", agregation_strategy="simple"), "aggregation_strategy"),
        (lambda model: model.answer("Who?", "Ada", treshold=1), "threshold"),
        (lambda model: model.compare("a", "b", skil="similarity"), "skill"),
        (lambda model: model.embed("a", normalize=True), "normalise"),
        (lambda model: model.zero_shot("a", ["b"], multilabel=True), "multi_label"),
        (lambda model: model.index(SENTENCES).search("a", topk=3), "top_k"),
        (lambda model: model.save("nowhere", heds=["tags"]), "heads"),
        (lambda model: model.tokenizer.encode("a", pairs="b"), "pair"),
        (lambda model: ch.Model.create(ch.BertConfig(), head={}), "heads"),
        (lambda model: ch.train_tokenizer(texts=["a"], vocab=40), "vocabulary"),
        (lambda model: ch.windows(model.tokenizer, "a", lenght=8), "length"),
        (lambda model: ch.trace(model, "a", pairs="b"), "pair"),
        (lambda model: why(model, "a", pairs="b"), "pair"),
        (lambda model: ch.load(gpt_folder()).generate("a", max_new_token=3), "max_new_tokens"),
        (lambda model: ch.BertConfig(hiden_size=32), "hidden_size"),
        (lambda model: Gpt2Config(n_heads=2), "n_head"),
    ],
)
def test_every_public_call_names_what_was_meant(call, meant):
    with pytest.raises(BadInput, match=rf"did you mean {meant}\?$") as caught:
        call(peers("BertForMaskedLM", seed=2).ours)
    assert isinstance(caught.value, ch.ClearheadError)
