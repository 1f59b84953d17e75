import math
import sys

import pytest

from clearhead.errors import BadInput, NotFound
from clearhead.evaluation.translation import bleu, chrf

REFERENCE = "the cat sat on the mat today"


def test_bleu_by_hand_and_its_signature():
    # 6 words, all in the reference: precisions 6/6, 5/5, 4/4, 3/3; too short by one: exp(1 - 7/6)
    score, signature = bleu([REFERENCE], ["the cat sat on the mat"])
    assert score == pytest.approx(100 * math.exp(1 - 7 / 6))
    assert signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_chrf():
    score, signature = chrf([REFERENCE], [REFERENCE])
    assert score == pytest.approx(100)
    assert signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")
    assert chrf(["aaaa"], ["bbbb"]).score == 0


def test_several_references_also_in_different_numbers():
    several = [["nothing like it at all", REFERENCE], ["good morning to you all"]]
    result = bleu(several, [REFERENCE, "good morning to you all"])
    assert result.score == pytest.approx(100)
    assert "nrefs:var" in result.signature


@pytest.mark.parametrize(
    ("references", "translations", "message"),
    [
        (["a"], ["a", "b"], "1 gold items and 2 translations"),
        ([], [], "no gold items"),
        ([["a"], []], ["a", "b"], "Translation 1 has no reference"),
        (["a"], "a", "translations is one text"),
    ],
)
def test_bad_input(references, translations, message):
    with pytest.raises(BadInput, match=message):
        bleu(references, translations)


def test_without_sacrebleu(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(NotFound, match=r"pip install 'clearhead\[evaluate\]'"):
        bleu(["a"], ["a"])
