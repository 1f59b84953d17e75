"""transformers v5 has no such pipeline: what v4 (4.53) documents and computes is written down here."""

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

import clearhead as ch
from clearhead.errors import BadInput, WrongTask
from pipelines.alike import alike
from pipelines.peers import LONG, SENTENCES, Peers, peers
from text.strategies import any_strings

QUESTION = "Where did Ada Lovelace live?"
TEXT = SENTENCES[-1]


@pytest.fixture(scope="module", params=["Bert", "Roberta", "Albert", "MPNet", "DebertaV2"])
def pair(request: pytest.FixtureRequest) -> Peers:
    return peers(f"{request.param}ForQuestionAnswering", seed=3)


@pytest.fixture(scope="module")
def bert() -> Peers:
    return peers("BertForQuestionAnswering", seed=3)


class Contract:
    """v4's way from the logits to the dictionaries, with transformers' own model, tokenizer and windows."""

    def __init__(self, pair: Peers) -> None:
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(pair.folder)
        self.model = transformers.AutoModelForQuestionAnswering.from_pretrained(pair.folder).eval()

    def __call__(
        self,
        question,
        context,
        top_k=1,
        doc_stride=16,
        max_answer_len=15,
        max_seq_len=64,
        handle_impossible_answer=False,
        align_to_words=True,
    ):
        encoded = self.tokenizer(
            question,
            context,
            truncation="only_second",
            max_length=max_seq_len,
            stride=doc_stride,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        answers, null = [], 1e6
        for i, ids in enumerate(encoded["input_ids"]):
            inputs = {name: torch.tensor([encoded[name][i]]) for name in self.tokenizer.model_input_names}
            with torch.no_grad():
                out = self.model(**inputs)
            may = np.array([part == 1 for part in encoded.sequence_ids(i)])
            may[np.array(ids) == self.tokenizer.cls_token_id] = True
            start, end = (np.where(may, logits[0].numpy(), -10000.0) for logits in (out.start_logits, out.end_logits))
            start, end = (np.exp(x - x.max()) / np.exp(x - x.max()).sum() for x in (start, end))
            null = min(null, start[0] * end[0])
            start[0] = end[0] = 0
            table = np.tril(np.triu(np.outer(start, end)), max_answer_len - 1)
            for place in np.argsort(-table.flatten(), kind="stable")[:top_k]:
                first, last = np.unravel_index(place, table.shape)
                self._add(
                    answers, encoded, i, (int(first), int(last)), context, float(table[first, last]), align_to_words
                )
        if handle_impossible_answer:
            answers.append({"score": float(null), "start": 0, "end": 0, "answer": ""})
        answers = sorted(answers, key=lambda one: -one["score"])[:top_k]
        return answers[0] if len(answers) == 1 else answers

    def _add(self, answers, encoded, i, tokens, context, score, align_to_words):
        one = encoded[i]
        if align_to_words:
            start, end = (one.word_to_chars(one.token_to_word(token), 1)[side] for side, token in enumerate(tokens))
        else:
            start, end = (one.offsets[token][side] for side, token in enumerate(tokens))
        start = end - len(context[start:end].lstrip())  # ours never counts the space before an answer to it
        for other in answers:
            if other["answer"].lower() == context[start:end].lower():
                other["score"] += score
                return
        answers.append({"score": score, "start": start, "end": end, "answer": context[start:end]})


@pytest.mark.parametrize("context", [TEXT, LONG], ids=["one window", "many windows"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"top_k": 5},
        {"top_k": 3, "handle_impossible_answer": True},
        {"max_answer_len": 2, "top_k": 4},
        {"doc_stride": 8, "max_seq_len": 48, "top_k": 3},
    ],
    ids=lambda options: "-".join(options) or "default",
)
def test_the_contract(pair, context, options):
    ours, theirs = ch.pipeline("question-answering", pair.folder), Contract(pair)
    # the words that transformers knows are not ours where a tokenizer has no words
    given = {"align_to_words": False, "doc_stride": 16, "max_seq_len": 64, **options}
    assert alike(ours(question=QUESTION, context=context, **given), theirs(QUESTION, context, **given))


@pytest.mark.parametrize("top_k", [1, 5, 30])
def test_answers_are_whole_words(bert, top_k):
    ours, theirs = ch.pipeline("question-answering", bert.folder), Contract(bert)
    assert alike(ours(question=QUESTION, context=TEXT, top_k=top_k), theirs(QUESTION, TEXT, top_k=top_k))


def test_ways_to_ask(bert):
    qa = ch.pipeline("question-answering", model=bert.folder, tokenizer=str(bert.folder))
    one = qa(question=QUESTION, context=TEXT)
    assert list(one) == ["score", "start", "end", "answer"]
    assert TEXT[one["start"] : one["end"]] == one["answer"]
    item = {"question": QUESTION, "context": TEXT}
    for same in (
        qa(item),
        qa([item]),
        qa(data=item),
        qa(X=[item]),
        qa(QUESTION, TEXT),
        qa(question=[QUESTION], context=[TEXT]),
        qa(question=[QUESTION], context=TEXT),
        *qa([item, item]),
        *qa(item, item),
        *qa(question=[QUESTION, QUESTION], context=TEXT),
        *qa(question=QUESTION, context=[TEXT, TEXT]),
        *qa(item for _ in range(3)),
    ):
        assert alike(same, one)
    assert len(qa(item, top_k=3)) == len(qa(item, topk=3)) == 3
    assert [len(found) for found in qa([item, item], top_k=2)] == [2, 2]


def test_no_answer_is_an_empty_text(bert):
    qa = ch.pipeline("question-answering", bert.folder)
    assert qa(question=QUESTION, context="\u200b") == {"score": 0.0, "start": 0, "end": 0, "answer": ""}
    found = qa(question=QUESTION, context=TEXT, top_k=1000, handle_impossible_answer=True)
    assert sum(one["answer"] == "" for one in found) == 1
    assert [one["score"] for one in found] == sorted((one["score"] for one in found), reverse=True)


@given(st.lists(any_strings.filter(bool) | st.just(LONG), min_size=1, max_size=3), st.booleans())
@settings(max_examples=40)
def test_answers_to_anything_are_slices(bert, contexts, align_to_words):
    qa = ch.pipeline("question-answering", bert.ours, top_k=3, align_to_words=align_to_words)
    for context in contexts:
        found = qa(question=QUESTION, context=context)
        for one in found if isinstance(found, list) else [found]:
            assert context[one["start"] : one["end"]] == one["answer"]
            assert one["answer"].strip() or one["score"] == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"question": "", "context": TEXT}, "question='' must be a text that is not empty"),
        ({"question": QUESTION, "context": None}, "give question= and context="),
        ({"question": QUESTION}, "give question= and context="),
        ({"data": ["a text"]}, 'A question comes as {"question": …, "context": …}, not'),
        ({"question": [QUESTION], "context": [TEXT, TEXT]}, "two lists must be equally long"),
        ({"data": {"question": QUESTION, "context": TEXT}, "top_k": 0}, "top_k=0 must be 1 or more"),
        ({"data": {"question": QUESTION, "context": TEXT}, "max_answer_len": 0}, "max_answer_len=0 must be 1 or more"),
    ],
)
def test_what_is_refused(bert, wrong, message):
    qa = ch.pipeline("question-answering", bert.folder)
    with pytest.raises(BadInput) as error:
        qa(**wrong)
    assert message in str(error.value)
    with pytest.raises(WrongTask, match="cannot answer"):
        ch.pipeline("question-answering", peers("BertForMaskedLM").folder)
