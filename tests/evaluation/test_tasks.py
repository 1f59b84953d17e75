"""Every evaluation tells of each example once, whatever its model works through."""

import pytest

import clearhead as ch
from clearhead.data.examples import ChoiceExample, PairExample, QuestionExample, TextExample, WordsExample
from clearhead.evaluation.tasks import EVALUATIONS
from clearhead.io import in_wholes
from pipelines.peers import LONG, SENTENCES, TAGS, peers
from pipelines.writers import TEXTS, gpt_folder, translator

LABELS = ("no", "yes")
EXAMPLES = {
    "classify": [TextExample(text, label="yes") for text in SENTENCES],
    "label": [TextExample(text, label=("yes",)) for text in SENTENCES],
    "regress": [TextExample(text, label=float(n)) for n, text in enumerate(SENTENCES)],
    "tag": [WordsExample(tuple(text.split()), ("O",) * len(text.split())) for text in SENTENCES],
    "answer": [QuestionExample(str(n), "Who?", text, ((text[:3], 0),)) for n, text in enumerate([*SENTENCES, LONG])],
    "choose": [ChoiceExample(text, ("so", "not so", "or so"), 1) for text in SENTENCES],
    "similar": [PairExample(text, SENTENCES[0], float(n)) for n, text in enumerate(SENTENCES)],
    "search": [TextExample(query, text, label=n) for query in SENTENCES[:2] for n, text in enumerate(SENTENCES[:3])],
    "instruct": [PairExample(text, "so") for text in SENTENCES],
    "summaries": [PairExample(LONG, text) for text in SENTENCES],
    "summarise": [PairExample(LONG, text) for text in SENTENCES],
    "translation": [PairExample(text, text) for text in TEXTS],
}


def able(task, model):
    match task:
        case "classify" | "label":
            return peers("BertForSequenceClassification", LABELS).ours
        case "regress":
            return peers("BertForSequenceClassification", ("score",), "regression").ours
        case "tag":
            return peers("BertForTokenClassification", TAGS).ours
        case "answer":
            return peers("BertForQuestionAnswering").ours
        case "choose":
            return peers("BertForMultipleChoice").ours
        case "instruct":
            return ch.load(gpt_folder())
        case "translation":
            return translator()
    return model


@pytest.mark.parametrize("task", EVALUATIONS)
def test_each_example_is_told_once(task, model):
    chosen, examples, told = able(task, model), EXAMPLES[task], []
    watched = EVALUATIONS[task](chosen, examples, progress=told.append)
    assert sum(told) == len(examples)
    assert watched == EVALUATIONS[task](chosen, examples)


def test_parts_of_examples_add_up():
    told = []
    tell = in_wholes(told.append, parts=7, wholes=3)
    for more in (1, 2, 0, 3, 1):
        tell(more)
    assert told == [0, 1, 0, 1, 1]
    assert in_wholes(None, 7, 3) is None
