"""Files in the layouts of published data sets; the texts are ours."""

import json

import pytest

from clearhead.data.examples import ChoiceExample, QuestionExample, WordsExample
from clearhead.data.formats import parse_score, read_pairs, read_texts
from clearhead.data.published import open_choices, open_columns, open_questions, read_asked
from clearhead.data.seq2seq import read_parallel
from clearhead.errors import BadInput, NotFound
from clearhead.training.recipes.finetune import find_reader


@pytest.fixture
def write(tmp_path):
    def write(name, *lines):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    return write


def tabs(*fields):
    return "\t".join(fields)


MNLI = [
    "index",
    "promptID",
    "pairID",
    "genre",
    *(f"sentence{i}_{kind}parse" for kind in ("binary_", "") for i in (1, 2)),
]
SNLI = ["index", "captionID", "pairID", *MNLI[4:]]
FILLED = ["0", "1p", "1e", "fiction", "( a )", "( b )", "(ROOT a)", "(ROOT b)"]
GLUE = {  # header, row, and what is read: text, pair, label
    "CoLA": ([], ["x1", "0", "*", "Dogs the bark."], ("Dogs the bark.", None, "0")),
    "SST-2": (["sentence", "label"], ["a fine film ", "1"], ("a fine film ", None, "1")),
    "MRPC": (
        ["\ufeffQuality", "#1 ID", "#2 ID", "#1 String", "#2 String"],
        ["1", "1", "2", 'He said " no .', "He refused ."],
        ('He said " no .', "He refused .", "1"),
    ),
    "QQP": (
        ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"],
        ["7", "1", "2", "Who barks?", "What barks?", "0"],
        ("Who barks?", "What barks?", "0"),
    ),
    "MNLI": (
        [*MNLI, "sentence1", "sentence2", "label1", "gold_label"],
        [*FILLED, "It rains.", "It is wet.", "neutral", "entailment"],
        ("It rains.", "It is wet.", "entailment"),
    ),
    "SNLI": (
        [*SNLI, "sentence1", "sentence2", "label1", "label2", "gold_label"],
        [*FILLED[:3], *FILLED[4:], "It rains.", "It is dry.", "neutral", "contradiction", "contradiction"],
        ("It rains.", "It is dry.", "contradiction"),
    ),
    "QNLI": (
        ["index", "question", "sentence", "label"],
        ["0", "Who barks?", "Dogs bark.", "entailment"],
        ("Who barks?", "Dogs bark.", "entailment"),
    ),
    "RTE": (
        ["index", "sentence1", "sentence2", "label"],
        ["0", "Dogs bark.", "Cats bark.", "not_entailment"],
        ("Dogs bark.", "Cats bark.", "not_entailment"),
    ),
    "WNLI": (
        ["index", "sentence1", "sentence2", "label"],
        ["0", "The cup fell on the plate and it broke.", "The cup broke.", "1"],
        ("The cup fell on the plate and it broke.", "The cup broke.", "1"),
    ),
    "AX": (
        ["Lexical Semantics", "Logic", "Domain", "Premise", "Hypothesis", "Label"],
        ["", "Negation", "News", "It rains.", "It does not rain.", "contradiction"],
        ("It rains.", "It does not rain.", "contradiction"),
    ),
}


@pytest.mark.parametrize("task", GLUE)
def test_the_official_files_of_glue_are_read(write, task):
    header, row, (text, pair, label) = GLUE[task]
    path = write(f"{task}.tsv", *([tabs(*header)] if header else []), tabs(*row))
    (found,) = read_texts(path)
    assert (found.text, found.pair, found.label) == (text, pair, label)


def test_sts_b_has_scores(write):
    header = tabs(
        "index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2", "score"
    )
    row = tabs("0", "news", "a", "2012", "1", "none", "none", "Dogs bark.", "A dog barks.", "4.200")
    (found,) = read_texts(write("dev.tsv", header, row), parse=parse_score)
    assert (found.text, found.pair, found.label) == ("Dogs bark.", "A dog barks.", 4.2)


@pytest.mark.parametrize(
    "header", [["index", "sentence"], ["index", "sentence1", "sentence2"], ["id", "question1", "question2"]]
)
def test_the_test_sets_of_glue_have_no_labels(write, header):
    path = write("test.tsv", tabs(*header), tabs("0", *(["Dogs bark."] * (len(header) - 1))))
    assert [one.label for one in read_texts(path)] == [None]


def test_the_broken_rows_of_qqp_are_counted_and_left_out(write, caplog):
    header, row, _ = GLUE["QQP"]
    path = write(
        "train.tsv",
        tabs(*header),
        tabs(*row),
        tabs("8", "3", "4", "What is"),
        "",
        tabs("this?", "That?", "0"),
        tabs(*row),
    )
    assert [one.where for one in read_texts(path)] == [f"{path}, line 2", f"{path}, line 6"]
    assert caplog.messages == [f"{path}: 3 broken rows without all columns are left out (lines 3, 4, 5)"]
    other = write("other.tsv", tabs("text", "label"), tabs("a", "b", "c"))
    with pytest.raises(BadInput, match=r"line 2 has 3 columns, not 2 .text, label.; mend the line, or take it out"):
        read_texts(other)


@pytest.mark.parametrize("suffix", ["tsv", "jsonl"])
def test_pairs_of_snli_without_an_agreed_label_are_counted_and_left_out(write, caplog, suffix):
    rows = [("neutral", "It is wet."), ("-", "It is cold."), ("contradiction", "It is dry.")]
    if suffix == "tsv":
        header, row, _ = GLUE["SNLI"]
        lines = [tabs(*header), *(tabs(*row[:8], second, *row[9:-1], label) for label, second in rows)]
    else:
        names = {"annotator_labels": ["neutral"], "captionID": "1", "pairID": "2", "sentence1": "It rains."}
        lines = [json.dumps(names | {"sentence2": second, "gold_label": label}) for label, second in rows]
    path = write(f"snli_1.0_dev.{suffix}", *lines)
    assert [(one.pair, one.label) for one in read_texts(path)] == [
        ("It is wet.", "neutral"),
        ("It is dry.", "contradiction"),
    ]
    assert caplog.messages == [f"{path}: 1 pairs without an agreed label are left out"]
    minus = write("signs.csv", "text,label", "a,-", "b,+")  # of other data, it is a label like any
    assert [one.label for one in read_texts(minus)] == ["-", "+"]


SHORT = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"
FULL = "video-id,fold-ind,startphrase,gold-ending,distractor-0,distractor-1,distractor-2,distractor-3,gold-source,"
FULL += "gold-type,"
FULL += ",".join(f"distractor-{i}-type" for i in range(4)) + ",sent1,sent2"


def test_swag_in_both_forms(write):
    short = write(
        "val.csv", SHORT, '0,a,1,It rains. She,It rains.,She,gold,"opens, at last, it.",eats.,flies.,sings.,2'
    )
    assert open_choices(short) == [
        ChoiceExample("It rains. She", ("opens, at last, it.", "eats.", "flies.", "sings."), 2)
    ]
    end = "gold,likely,unlikely,unlikely,unlikely,,It rains.,She"
    full = write(
        "val_full.csv",
        FULL,
        f"a,1,It rains. She,opens it.,eats.,flies.,sings.,,{end}",
        f"a,2,He,sits.,1.,2.,3.,4.,{end}",
    )
    assert open_choices(full) == [
        ChoiceExample("It rains. She", ("opens it.", "eats.", "flies.", "sings."), 0),
        ChoiceExample("He", ("1.", "sits.", "2.", "3.", "4."), 1),
    ]
    with pytest.raises(BadInput, match=r"line 2 has no distractor; a choice needs one or more"):
        open_choices(write("bad.csv", FULL, f"a,1,It rains. She,opens it.,,,,,{end}"))


def passage(**changes):
    whole = {"article": "It rained.", "questions": ["Why wet?", "Who _ ?"], "options": [["rain", "sun"], ["she", "he"]]}
    return json.dumps(whole | {"answers": ["A", "B"], "id": "high1.txt"} | changes)


def test_race_has_a_file_for_each_passage(write, tmp_path):
    path = write("RACE/train/high/1.txt", passage())
    write("RACE/train/middle/2.txt", passage(answers=[]))
    first = ChoiceExample("It rained.", ("Why wet? rain", "Why wet? sun"), 0)
    assert open_choices(path) == [first, ChoiceExample("It rained.", ("Who _ ? she", "Who _ ? he"), 1)]
    assert open_choices(path)[1].where == f"{path}, question 2"
    assert [one.label for one in open_choices(tmp_path / "RACE" / "train")] == [0, 1, None, None]
    assert find_reader("choose")(path, {}) == open_choices(path)
    with pytest.raises(BadInput, match="2 questions, 2 lists of options and 1 answers; there must be as many of each"):
        open_choices(write("3.txt", passage(answers=["A"])))
    with pytest.raises(BadInput, match="question 1 is no text with a list of options"):
        open_choices(write("4.txt", passage(options=["rain", ["she"]])))
    with pytest.raises(BadInput, match="no text under 'article'"):
        open_choices(write("5.txt", "{}"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match=r"has no .txt files, of which RACE has one for each passage"):
        open_choices(tmp_path / "empty")


def test_triples_of_ms_marco_have_a_passage_that_does_not_fit(write):
    path = write("triples.train.small.tsv", tabs("who barks", "Dogs bark.", "Cats sleep."))
    (found,) = read_pairs(path)
    assert (found.first, found.second, found.negative) == ("who barks", "Dogs bark.", "Cats sleep.")
    with pytest.raises(
        BadInput, match=r"numbers of queries and passages, not their texts; give triples.train.small.tsv"
    ):
        read_pairs(write("qidpidtriples.train.full.2.tsv", tabs("1", "2", "3")))


@pytest.mark.parametrize("columns", [("article", "highlights"), ("document", "summary")])
def test_summaries_of_cnn_dailymail_and_xsum(write, columns):
    path = write("train.csv", ",".join(("id", *columns)), '1,"Dogs bark.\nCats sleep.",Animals.')
    (found,) = read_parallel([path])
    assert (found.first, found.second) == ("Dogs bark.\nCats sleep.", "Animals.")


CONLLU = [
    "# newdoc id = a",
    "# text = Don't bark.",
    tabs("1-2", "Don't", *"_" * 8),
    tabs("1", "Do", "do", "AUX", "VB", "_", "3", "aux", "_", "_"),
    tabs("2", "n't", "not", "PART", "RB", "_", "3", "advmod", "_", "_"),
    tabs("3", "bark", "bark", "VERB", "VB", "_", "0", "root", "_", "SpaceAfter=No"),
    tabs("3.1", "loud", "_", "_", "_", "_", "_", "_", "3:x", "_"),
    tabs("4", ".", ".", "PUNCT", ".", "_", "3", "punct", "_", "_"),
    "",
    tabs("1", "Yes", "yes", "INTJ", "UH", "_", "0", "root", "_", "_"),
]


def test_conllu_and_every_column_of_conll(write):
    path = write("en.conllu", *CONLLU)
    words = ("Do", "n't", "bark", ".")
    first, second = open_columns(path)
    assert first == WordsExample(words, ("AUX", "PART", "VERB", "PUNCT"), opens=True)
    assert (second.words, second.opens, second.where) == (("Yes",), False, f"{path}, line 10")
    assert open_columns(path, tag="XPOS")[0].tags == ("VB", "RB", "VB", ".")
    assert find_reader("tag")(path, {"label": "8"})[0].tags == ("aux", "advmod", "root", "punct")
    conll = write("eng.train", "EU NNP B-NP B-ORG", "rejects VBZ B-VP O")
    assert open_columns(conll)[0].tags == ("B-ORG", "O")
    for name, tags in {"pos": ("NNP", "VBZ"), "chunk": ("B-NP", "B-VP"), "2": ("NNP", "VBZ")}.items():
        assert open_columns(conll, tag=name)[0].tags == tags
    with pytest.raises(BadInput, match="no column 'colour'; give a number from 1 on, or one of word, pos, chunk, ner"):
        open_columns(conll, tag="colour")
    with pytest.raises(BadInput, match="line 1 has 2 columns, not CoNLL-U's 10"):
        open_columns(write("bad.conllu", tabs("1", "Do")))


def tydi(**changes):
    article = "Größe. Dogs bark at night."
    start = len("Größe. ".encode())
    span = {"plaintext_start_byte": start, "plaintext_end_byte": start + 4}
    said = {"minimal_answer": span, "yes_no_answer": "NONE", "passage_answer": {"candidate_index": 0}}
    record = {"document_plaintext": article, "question_text": "Who barks?", "example_id": 17, "language": "english"}
    return json.dumps(record | {"annotations": [said], "passage_answer_candidates": []} | changes)


def test_the_primary_task_of_tydiqa_counts_bytes(write, caplog):
    nothing = {"minimal_answer": {"plaintext_start_byte": -1, "plaintext_end_byte": -1}}
    path = write(
        "tydiqa-v1.0-dev.jsonl",
        tydi(),
        tydi(example_id=18, annotations=[nothing | {"yes_no_answer": "NONE"}]),
        tydi(example_id=19, annotations=[nothing | {"yes_no_answer": "YES"}]),
    )
    article = "Größe. Dogs bark at night."
    assert open_questions(path) == [
        QuestionExample("17", "Who barks?", article, (("Dogs", 7),)),
        QuestionExample("18", "Who barks?", article, (), True),
    ]
    assert caplog.messages == [f"{path}: 1 questions are answered by yes or no and have no span; they are left out"]
    assert find_reader("answer")(path, {}) == open_questions(path)
    far = {"minimal_answer": {"plaintext_start_byte": 90, "plaintext_end_byte": 99}, "yes_no_answer": "NONE"}
    with pytest.raises(BadInput, match="line 1 has an answer outside of its article"):
        open_questions(write("far.jsonl", tydi(annotations=[far])))
    with pytest.raises(BadInput, match="line 1 has no text under 'question_text'"):
        open_questions(write("bad.jsonl", json.dumps({"document_plaintext": "a"})))


def test_hotpotqa_is_one_long_context(write, caplog):
    paragraphs = [["Cats", ["Cats sleep in Rome.", " They purr."]], ["Dogs", ["Dogs bark.", " They live in Rome."]]]
    asked = {"_id": "a", "question": "Where do they live?", "answer": "Rome", "context": paragraphs, "type": "bridge"}
    asked["supporting_facts"] = [["Dogs", 1], ["Dogs", 0]]
    path = write("hotpot_dev.json", json.dumps([asked, asked | {"_id": "b", "answer": "yes"}]))
    (found,) = open_questions(path)
    ((text, start),) = found.answers
    assert found.context == "Cats\nCats sleep in Rome. They purr.\nDogs\nDogs bark. They live in Rome.\n"
    assert found.context[start:] == "Rome.\n"  # where it is supported, not where it stands first
    assert (found.id, text) == ("a", "Rome")
    assert "1 questions have an answer that is no part of their paragraphs; they are left out" in caplog.messages[0]
    blind = write("test.json", json.dumps([{name: asked[name] for name in ("_id", "question", "context")}]))
    assert open_questions(blind)[0].answers == ()
    with pytest.raises(BadInput, match=r"record 1 has a paragraph that is not .title, .sentences.. as HotpotQA has it"):
        open_questions(write("bad.json", json.dumps([asked | {"context": ["Cats sleep."]}])))


def test_questions_to_ask_need_no_id(write):
    path = write("questions.csv", "question,passage", "Who barks?,Dogs bark.")
    assert read_asked(path) == [QuestionExample(f"{path}, line 2", "Who barks?", "Dogs bark.")]
    assert read_asked(write("q.jsonl", '{"question": "Who?", "id": 7}'), contexts=False)[0] == QuestionExample(
        "7", "Who?", ""
    )
    some = write("some.jsonl", '{"query": "Who?", "id": 7}', '{"query": "What?"}')
    assert [one.id for one in read_asked(some, contexts=False)] == ["7", f"{some}, line 2"]
    flat = write("flat.json", json.dumps([{"question": "Who barks?", "context": "Dogs bark.", "id": "x"}]))
    assert read_asked(flat) == [QuestionExample("x", "Who barks?", "Dogs bark.")]
    squad = {"context": "Dogs bark.", "qas": [{"id": "s", "question": "Who?"}]}
    assert read_asked(write("squad.json", json.dumps({"data": [{"paragraphs": [squad]}]})))[0].id == "s"
    with pytest.raises(BadInput, match="no column with a usual name for the context; its columns are 'question'"):
        read_asked(write("alone.csv", "question", "Who?"))
