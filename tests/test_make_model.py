"""The card of the built-in model says what its making left behind, and what the model itself says."""

import json
import lzma
import math
import os
import shutil
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.testing import assert_close

import clearhead as ch
from clearhead.data.formats import read_conll, read_pairs, read_squad, read_texts
from clearhead.hub.weights import read_tensors, write_tensors

TOOLS = Path(__file__).parents[1] / "make-model"
GLUE = {"SST-2": "accuracy", "CoLA": "matthews", "MRPC": "f1", "STS-B": "spearman", "RTE": "accuracy"}


@pytest.fixture
def tool(monkeypatch):
    """Import one of the scripts."""
    monkeypatch.syspath_prepend(str(TOOLS))
    yield import_module
    for name in (
        "biases",
        "calibrate",
        "card",
        "documentation",
        "everyday",
        "figures",
        "first_contact",
        "generator",
        "judge",
        "made",
        "measured",
        "question_data",
        "rerank_data",
        "search_data",
        "skill_data",
        "translation_data",
        "translator_card",
        "trim",
        "wordnet",
    ):
        sys.modules.pop(name, None)


@pytest.fixture
def work(tmp_path, tool):
    """What four short runs, one from which nothing was kept, and five measured tasks leave behind."""
    for name, steps in {"short": 20, "more": 5, "more2": 5, "long": 20, "aside/long": 4}.items():
        (tmp_path / name / "run").mkdir(parents=True)
        rows = [
            {"step": step, "tokens": 1_000_000 * step, "elapsed": 60.0 * step, "loss": 9.0, "masked_lm": 5 - step / 10}
            for step in range(1, steps + 1)
        ]
        (tmp_path / name / "run" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with (tmp_path / "figures.jsonl").open("w") as file:
        for value, (name, figure) in enumerate(GLUE.items(), 70):
            result = {"seeds": 3, "figures": {figure: value}, "deviations": {figure: 0.25}}
            for row in tool("figures").rows_of(result, name, f"clearhead finetune {name}"):
                file.write(json.dumps(row) + "\n")
    return tmp_path


def test_the_card_has_facts_curve_figures_and_leanings(work, stand_in, tmp_path, tool, monkeypatch):
    folder = tmp_path / "model"
    shutil.copytree(stand_in, folder)
    monkeypatch.setattr(tool("card"), "FIGURES", tmp_path / "kept" / "figures.jsonl")
    (tmp_path / "kept").mkdir()
    monkeypatch.setattr(sys, "argv", ["card.py", str(work), str(folder)])
    tool("card").main()
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "50 steps and 50 million tokens in 50.0 minutes of one GPU" in card
    assert "Another 4.0 minutes went into runs that it does not come from." in card
    assert "| 50 | 50.0 | 50.0 | 3.000 |" in card
    assert "| SST-2, accuracy | 70.00 ± 0.25 | 3 | 1 |" in card
    assert "RTE, accuracy | 72.00 | 3 |  |" in card
    assert "1. `clearhead finetune SST-2`" in card
    assert 'optimiser = "muon"' in card
    assert "| `spam` | ham, spam | none |" in card
    assert "CC BY-SA" in card
    assert card.count("| nurse | ") == 1
    assert "the names alone move it by" in card
    assert "What it must not be used for" in card
    assert (folder / "curve.svg").read_text(encoding="utf-8").startswith("<svg")

    # of what is not made again, the card keeps what it said
    monkeypatch.setattr(sys, "argv", ["card.py", str(tmp_path / "nothing"), str(folder)])
    tool("card").main()
    assert (folder / "README.md").read_text(encoding="utf-8") == card


def test_a_figure_measured_again_counts_once(tmp_path, tool):
    rows = [{"figure": "SST-2, accuracy", "value": value, "seeds": 3, "command": "x"} for value in (1, 2)]
    path = tmp_path / "figures.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [row["value"] for row in tool("figures").read_figures(path).values()] == [2]


def test_sentiment_has_names_for_its_labels(tmp_path, tool):
    folder = tmp_path / "glue" / "SST-2"
    folder.mkdir(parents=True)
    (folder / "train.tsv").write_text("sentence\tlabel\na fine film \t1\nno wit\t0\n")
    (folder / "dev.tsv").write_text("sentence\tlabel\na fine film \t1\n")
    with lzma.open(_made_folder(tmp_path / "imdb") / "train-part.jsonl.xz", "wt") as file:
        file.write(json.dumps({"text": "Long.<br />Very long. A bore!", "label": "neg"}))
    made = tool("skill_data")
    made.write(made.sentiment(tmp_path), tmp_path / "out")
    read = {name: (tmp_path / "out" / f"{name}.jsonl").read_text() for name in ("train", "dev")}
    learnt = [json.loads(line) for line in read["train"].splitlines()]
    assert learnt[:3] == [
        {"text": "no wit", "label": "negative"},
        {"text": "Long. Very long. A bore!", "label": "negative"},
        {"text": "Very long. A bore!", "label": "negative"},
    ]
    assert 11_000 < len(learnt) <= 3 + made.MADE["sentiment"], "by rule, less those that are measured"
    assert json.loads(read["dev"]) == {"text": "a fine film ", "label": "positive"}


def _made_folder(path):
    path.mkdir()
    return path


def test_a_misplaced_question_has_no_answer_in_its_passage(tool):
    data = tool("question_data")
    asked = [data.Asked(str(n), "Anna", "Who ruled?", "Anna ruled.", (("Anna", 0),)) for n in range(50)]

    def beside(context):
        return list(data.misplaced([*asked, data.Asked("x", "Anna", "", context)], 0.2))

    assert beside("The rule of ANNA was long.") == [], "the answer is there too, in other letters"
    found = beside("Nobody knows.")
    assert 0 < len(found) < len(asked)
    assert {(row.context, row.answers) for row in found} == {("Nobody knows.", ())}
    assert found[0].id.endswith("-misplaced")


def test_a_passage_loses_the_sentences_that_answer(tool):
    data = tool("question_data")
    row = data.Asked("1", "Anna", "Who ruled?", "It was late. Anna ruled. The town slept.", (("Anna", 13),))
    (left,) = data.removed([row], 1.0)
    assert left.context == "It was late. The town slept."
    assert left.answers == ()


def test_an_epoch_has_each_kind_of_question_as_often_as_it_says(tool):
    data = tool("question_data")
    rows = [data.Asked(str(n), "x", "Who?", "Anna ruled.") for n in range(400)]
    found = [row.id for row in data.mixed({"plain": rows, "real": rows[:3]}, {"plain": 0.25, "real": 2, "other": 0})]
    assert found[-6:] == ["0/0", "1/0", "2/0", "0/1", "1/1", "2/1"]
    assert 60 < len(found) - 6 < 140
    assert len(list(data.mixed({"plain": rows}, {"plain": 1.5}))) > 500


def test_a_changed_passage_still_has_its_answer_in_place(tool):
    data = tool("question_data")
    text = "In 1905 Lise Meitner came to Vienna. Meitner left in 1907."
    row = data.Asked("1", "x", "When did Lise Meitner come?", text, (("1905", 3),))
    change = data.Change("name", "Lise Meitner", 9, None, "Otto Hahn")
    made = data._rewritten(row, change)
    assert made.context == "In 1905 Otto Hahn came to Vienna. Meitner left in 1907."
    assert made.right
    assert made.answers == row.answers
    assert data._rewritten(row, data.Change("number", "1905", 0, None, "1911")) is None, "that is the answer"


@pytest.mark.parametrize(
    ("before", "short", "full"),
    [
        ("He joined the Bank of New England ", "BNE", "Bank of New England"),
        ("a graphics processing unit ", "GPU", "graphics processing unit"),
        ("a graphics processing unit", "GPU", None),  # nothing between
        ("the society of friends ", "ABC", None),
    ],
)
def test_words_before_an_abbreviation_are_its_meaning(tool, before, short, full):
    assert tool("question_data")._full_name(before, short) == full


def test_abbreviations_are_asked_for_and_sometimes_no_longer_explained(tmp_path, tool):
    data = tool("question_data")
    names = [f"{a}{b}" for a in "ABDEFG" for b in "HIKLM"]
    text = "\n".join(f"The {a}abel {b}abel ({a}{b}) opened in May. " + "It was small and loud. " * 10 for a, b in names)
    with lzma.open(tmp_path / "part-0.jsonl.xz", "wt", encoding="utf-8") as file:
        file.write(json.dumps({"source": "wikipedia-2015", "text": f"Title\n{text}"}) + "\n")
    found = list(data.meanings(tmp_path))
    assert len(found) == len(names)
    assert all(row.right for row in found)
    silent = [row for row in found if not row.answers]
    assert 0 < len(silent) < len(found) / 2
    assert not any("abel" in row.context for row in silent)
    full = [row for row in found if row.answers and len(row.answers[0][0]) > 2]
    assert all("".join(word[0] for word in row.answers[0][0].split()) in row.question for row in full)


def test_what_shares_eight_words_with_a_measured_text_is_not_learnt(tool):
    data = tool("question_data")
    unmeasured = data.Unmeasured(["One two three, four five SIX seven eight nine."])
    kept = data.Asked("1", "x", "Why?", "One two three four five six seven.")
    lost = data.Asked("2", "x", "Why?", "And two three four five six seven eight nine.")
    assert list(unmeasured([kept, lost])) == [kept]


def test_a_short_question_that_is_measured_is_not_learnt_of_another_passage(tool):
    data = tool("question_data")
    unmeasured = data.Unmeasured(["What does NUS mean?", "A passage of more than eight words, which nobody else has."])
    kept = data.Asked("1", "x", "What does NUS stand for?", "It is far away.")
    assert list(unmeasured([kept, data.Asked("2", "x", "what does NUS mean", "It is far away.")])) == [kept]


def test_a_skill_learns_when_to_give_no_answer(stand_in, tmp_path, tool, monkeypatch):
    folder, line = tmp_path / "model", "the red stone lay under the old bridge where we met"
    shutil.copytree(stand_in, folder)
    words = line.split()
    contexts = [" ".join(words[place:] + words[:place]) for place in range(10)]
    paragraphs = [
        {
            "context": text,
            "qas": [
                {"id": text, "question": "which ?", "answers": [{"text": "red", "answer_start": text.index("red")}]},
                {"id": f"not {text}", "question": "who ?", "answers": [], "is_impossible": True},
            ],
        }
        for text in contexts
    ]
    (tmp_path / "dev.json").write_text(json.dumps({"data": [{"title": "x", "paragraphs": paragraphs}]}))
    monkeypatch.setattr(sys, "argv", ["calibrate.py", str(folder), "questions", str(tmp_path / "dev.json")])
    tool("calibrate").main()
    model = ch.load(folder)
    known = model.skill("questions").checkpoint.description
    found = model.answer("which ?", contexts, threshold=math.inf)
    assert known.null_bias != 0
    assert sum(math.exp(one.margin) * one.score for one in found) / len(found) == pytest.approx(0.5, abs=0.15), "half"
    assert [one.text is None for one in model.answer("which ?", contexts)] == [
        one.margin > known.threshold for one in found
    ]
    assert not any(one.text is None for one in model.answer("which ?", contexts, threshold=math.inf))


def test_silence_may_cost_a_few_points(tool):
    margins = [(float(margin), worth) for margin, worth in enumerate([1.0] * 20 + [0.0, 0.5, 1.0, 0.5, 1.0])]
    assert tool("calibrate").LOST == 4.0, "one of these 25"
    assert tool("calibrate").most_silent(margins) == 23, "only the last is lost: half a point more is too much"


def test_entities_are_learnt_from_documents_and_from_single_sentences(tmp_path, tool):
    start, first, second, third = (
        "-DOCSTART- -X- O O",
        "EU NNP I-NP I-ORG\n. . O O",
        "Peter NNP I-NP I-PER",
        "no DT I-NP O",
    )
    (tmp_path / "conll2003").mkdir()
    whole = "\n\n".join([start, first, second, start, third])
    (tmp_path / "conll2003" / "eng.train").write_text(whole + "\n\n", encoding="utf-8")
    alone = "\n\n".join([start, first, start, second, start, third])
    (tmp_path / "test").write_text(f"{start}\n\nnobody NN I-NP O\n")
    measured = tool("overlaps").Runs(tool("overlaps").read(tmp_path / "test"))
    learnt = tool("skill_data").entities(tmp_path, measured)
    renamed = "\n\n".join([start, first, start, second])  # each kind has one name here, so that nothing changes
    assert learnt == f"{whole}\n\n{alone}\n\n{renamed}\n\n{renamed}\n"
    measured = tool("overlaps").Runs(["Peter"])
    assert "Peter" not in tool("skill_data").entities(tmp_path, measured)


SAID = "the quick brown fox jumps over the lazy dog"


@pytest.mark.parametrize(
    ("learnt", "shares"),
    [
        (f"They say: {SAID.upper()}!", True),
        (SAID.removeprefix("the quick "), False),  # seven words of it
        ("It's over", True),
        ("so it 's over", False),
        ("", False),
    ],
)
def test_a_text_shares_eight_words_in_a_row_or_all_it_has(tool, learnt, shares):
    runs = tool("overlaps").Runs
    measured = runs([SAID, "it 's over", ""])
    assert runs(["another text", learnt]).shared(measured) == [1] * shares
    assert runs([learnt]).shared(runs([])) == []


def test_a_mail_loses_the_lines_that_a_measured_one_has(tool):
    measured = tool("overlaps").Runs([SAID])
    mail = f"Dear all,\nthis is new, and long enough to be worth learning.\n{SAID}\nBye"
    left = "Dear all,\nthis is new, and long enough to be worth learning.\nBye"
    rows = [{"text": mail, "label": "ham"}, {"text": SAID, "label": "spam"}, {"first": SAID, "second": "no"}]
    assert list(tool("skill_data").unlike(rows, measured)) == [{"text": left, "label": "ham"}]


@pytest.fixture
def learnt(tmp_path, tool, monkeypatch):
    """A skill with a training file and a set that it is measured on."""
    overlaps = tool("overlaps")
    monkeypatch.setattr(overlaps, "LEARNT", {"spam": "train*.jsonl", "tags": "*.txt"})
    monkeypatch.setattr(overlaps, "REPORTED", {"spam": ("dev.jsonl",), "tags": ("eng.testa",)})
    monkeypatch.setattr(sys, "argv", ["overlaps.py", str(tmp_path), str(tmp_path)])
    (tmp_path / "dev.jsonl").write_text(json.dumps({"text": SAID, "label": "ham"}))
    (tmp_path / "train.jsonl").write_text(json.dumps({"text": "nothing of the kind", "label": "ham"}))
    (tmp_path / "eng.testa").write_text("-DOCSTART- O\n\nall O\nwent O\nwell O\n")
    (tmp_path / "words.txt").write_text("-DOCSTART- O\n\n" + "\n".join(f"{word} O" for word in SAID.split()))
    return tmp_path


def test_what_is_measured_for_another_is_counted(learnt, tool, capsys):
    tool("overlaps").main()
    assert "| tags | 1 | 1 | 0 | 0 |" in capsys.readouterr().out
    assert "| spam | 1 | 0 | 0 | 0 |" in (learnt / "overlaps.md").read_text()


def test_what_is_measured_and_learnt_fails_the_build(learnt, tool):
    (learnt / "train-more.jsonl").write_text(json.dumps({"text": f"And {SAID}.", "label": "ham"}))
    with pytest.raises(SystemExit, match="spam learns what spam measures: 'And the quick brown fox"):
        tool("overlaps").main()


def test_no_rule_makes_a_lecture_or_a_first_contact(tool):
    made, overlaps = tool("made"), tool("overlaps")
    measured = overlaps.Runs(overlaps.shown_to_all())
    texts = {row["text"] for row in (*made.spam(300), *made.sentiment(300))}
    assert len(texts) > 400
    assert len(overlaps.Runs(texts).shared(measured)) < 3, "skill_data.py leaves these out"
    assert {row["label"] for row in made.spam(4)} == {"ham", "spam"}


@pytest.mark.skipif("CLEARHEAD_DATA" not in os.environ, reason="the unpacked public sets are not there")
@pytest.mark.slow
def test_no_skill_learns_what_it_is_measured_on(tmp_path, tool, monkeypatch):
    data = os.environ["CLEARHEAD_DATA"]
    monkeypatch.setattr(sys, "argv", ["skill_data.py", data, str(tmp_path / "skills")])
    tool("skill_data").main()
    wrong, _ = tool("overlaps").compare(Path(data), tmp_path)
    assert wrong == []


def test_a_question_and_its_answer_make_a_statement(tool):
    state = tool("skill_data").state
    assert state("Who founded Rome?", "Romulus") == "Romulus founded Rome."
    assert state("What is the capital of Italy?", "Rome") == "The capital of Italy is Rome."
    assert state("How many people live in Rome?", "2.8 million") == "2.8 million people live in Rome."
    assert state("Why did it fall?", "lead") is None


def test_a_renamed_sentence_has_names_of_the_same_kinds(tool):
    made = tool("skill_data")
    sentences = [f"{name} I-PER\nleft O\n{place} I-LOC" for name, place in zip("ABCDEF", "uvwxyz", strict=True)]
    found = list(made.renamed([*sentences, "nobody O"]))
    assert len(found) == len(sentences), "a sentence without names stays as it is, and is there already"
    assert found != sentences
    for sentence in found:
        assert [kind for kind, _ in made.entity_runs(sentence)] == ["PER", "O", "LOC"]


def test_a_text_meets_those_that_share_its_rare_words(tool):
    known = [
        {"first": "A man plays the violin.", "second": "A woman eats a mango.", "score": 0.1},
        {"first": "The violin is played.", "second": "A man eats the mango.", "score": 0.2},
    ]
    found = tool("judge").neighbours(known)
    assert ("A man plays the violin.", "The violin is played.") in found
    assert ("A man plays the violin.", "A woman eats a mango.") not in found, "people have judged this pair"
    assert all(first < second for first, second in found)


def test_a_judge_gives_pairs_a_score_from_0_to_1(tool):
    judge = SimpleNamespace(classify=lambda pairs: [SimpleNamespace(score=score) for score in (5.2, 2.5, -0.1)])
    rows = tool("judge").judge_pairs(judge, [("a", "b"), ("a", "c"), ("b", "c")])
    assert [row["score"] for row in rows] == [1.0, 0.5, 0.0]
    assert rows[1] == {"first": "a", "second": "c", "score": 0.5}


def test_a_trimmed_skill_is_the_nearest_of_its_rank(stand_in, tmp_path, tool, monkeypatch, capsys):
    skill = tmp_path / "spam"
    shutil.copytree(stand_in / "skills" / "spam", skill)
    name = "encoder.blocks.0.attention.qkv"
    torch.manual_seed(0)
    up, down = torch.randn(48, 4) * torch.tensor([8.0, 4.0, 0.1, 0.1]), torch.linalg.qr(torch.randn(64, 4))[0].T
    write_tensors({f"{name}.up": up, f"{name}.down": down, "head.bias": torch.ones(2)}, skill / "adapter.safetensors")
    monkeypatch.setattr(sys, "argv", ["trim.py", str(skill), "2"])
    tool("trim").main()
    assert "spam: rank 2 keeps 100.0%" in capsys.readouterr().out
    found = read_tensors(skill / "adapter.safetensors")
    assert found[f"{name}.down"].shape == (2, 64)
    assert_close(found[f"{name}.up"] @ found[f"{name}.down"], up @ down, atol=1.0, rtol=0)
    assert_close(found["head.bias"], torch.ones(2))


def test_what_evaluate_says_is_a_figure_of_one_seed(tool):
    rows = tool("figures").rows_of({"task": "tag", "examples": 9, "f1": 80.5}, "names", "clearhead evaluate tag")
    assert rows == [
        {"figure": "names, f1", "value": 80.5, "deviation": None, "seeds": 1, "command": "clearhead evaluate tag"}
    ]


def test_rows_by_rule_have_known_labels_and_are_the_same_each_time(tool):
    made = tool("made")
    pairs, verdicts = list(made.inference(3000)), list(made.sentiment(3000))
    assert {row["label"] for row in pairs} == {"entailment", "neutral", "contradiction"}
    assert {row["label"] for row in verdicts} == {"positive", "negative"}
    assert pairs == list(made.inference(3000))
    assert verdicts == list(made.sentiment(3000))


def test_no_row_of_first_contact_is_learnt(tool, tmp_path):
    made, contact = tool("skill_data"), tool("first_contact")
    for name, rows in (("sentiment", tool("made").sentiment(20_000)), ("inference", tool("made").inference(3000))):
        measured = list(made.table(contact.ROWS / contact.FILES[name]))
        made.write([{**row, "held_out": False} for row in [*rows, *measured]], tmp_path / name)
        learnt = [json.loads(line) for line in (tmp_path / name / "train.jsonl").read_text("utf-8").splitlines()]
        assert len(learnt) > 2000
        texts = {text for row in measured for text in made.texts(row)}
        assert texts.isdisjoint({text for row in learnt for text in made.texts(row)}), name


@pytest.mark.parametrize("skill", ["sentiment", "spam", "inference", "entities", "questions", "similarity"])
def test_first_contact_has_100_rows_for_each_skill_and_its_labels(tool, skill):
    contact = tool("first_contact")
    path = contact.ROWS / contact.FILES[skill]
    read = {"entities": read_conll, "questions": read_squad, "similarity": read_pairs}.get(skill, read_texts)
    rows = read(path)
    assert len(rows) == 100
    known = {name for row in rows for name in (row.tags if skill == "entities" else [getattr(row, "label", None)])}
    if skill not in ("questions", "similarity"):
        assert known <= set(ch.load(skill=skill).labels)


def test_first_contact_says_what_is_right_and_how_sure_it_was(tool, monkeypatch, capsys):
    contact = tool("first_contact")
    monkeypatch.setattr(
        sys, "argv", ["first_contact.py", str(Path(ch.__file__).parent / "builtin" / "encoder"), "sentiment"]
    )
    contact.main()
    told = capsys.readouterr()
    figures = {row["figure"]: row["value"] for row in map(json.loads, told.out.splitlines())}
    wrong = told.err.count("sentiment, wrong with")
    assert figures["sentiment, first contact, accuracy"] == 100 - wrong
    assert wrong < 25, "better than one in four: it is the built-in model"
    assert 0 <= figures["sentiment, first contact, calibration error"] < 15


def test_a_temperature_makes_a_sure_skill_as_sure_as_it_is_right(stand_in, tmp_path, tool, monkeypatch, capsys):
    folder = tmp_path / "model"
    shutil.copytree(stand_in, folder)
    path = folder / "skills" / "spam" / "adapter.safetensors"
    tensors = dict(read_tensors(path))
    sure = {name: tensors[name] * 40 for name in tensors if name.startswith("head.classifier")}
    write_tensors(tensors | sure, path)
    labels = ch.load(folder, skill="spam").labels
    rows = [{"text": f"word {place} and more", "label": labels[place % 2]} for place in range(20)]
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    before = ch.load(folder, skill="spam").classify([row["text"] for row in rows])
    monkeypatch.setattr(sys, "argv", ["calibrate.py", str(folder), "spam", str(tmp_path / "dev.jsonl")])
    tool("calibrate").main()
    after = ch.load(folder, skill="spam").classify([row["text"] for row in rows])
    assert "spam: temperature 5.0" in capsys.readouterr().out, "half of it is wrong, at full confidence"
    assert [one.label for one in after] == [one.label for one in before]
    assert sum(one.score for one in after) < sum(one.score for one in before)


def _pairs(data):
    for name, rows in {
        "tatoeba/deu.txt": [(f"Word {n} is here.", f"Wort {n} ist hier.") for n in range(400)],
        "tatoeba/fra.txt": [(f"Word {n} is here.", f"Le mot {n} est ici !") for n in range(400)],
    }.items():
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    with (data / "tatoeba/deu.txt").open("a", encoding="utf-8") as file:
        file.write("I must go to the market!\tIch muss auf den Markt gehen.\nWe go.\tWir gehen.\n")
        file.write("So a man in a red coat sits on a bench.\tEin Mann sitzt.\n")
    (data / "multi30k").mkdir()
    for part, text in {
        "train": "Two dogs.",
        "val": "Three dogs.",
        "test_2016_flickr": "A man in a red coat sits on it.",
    }.items():
        for code in ("en", "de", "fr"):
            (data / "multi30k" / f"{part}.{code}").write_text(f"{text if code == 'en' else code + text}\n", "utf-8")


def test_pairs_are_learnt_both_ways_but_those_that_are_measured_or_asked(tmp_path, tool, monkeypatch):
    _pairs(tmp_path)
    out = tmp_path / "out"
    monkeypatch.setattr(sys, "argv", ["translation_data.py", str(tmp_path), str(out)])
    made = tool("translation_data")
    monkeypatch.setattr(made, "SHARE", 0.05)
    made.main()
    read = {path.stem: path.read_text("utf-8").splitlines() for path in out.rglob("*.tsv")}
    learnt = {row for row in read["train"] if row.count(" ") < 8}
    assert {">>en<< Wir gehen.\tWe go.", ">>de<< We go.\tWir gehen.", ">>fr<< Two dogs.\tfrTwo dogs."} <= learnt
    assert not any("Markt" in row or "market" in row for row in read["train"])
    assert not any("red coat" in row for row in read["train"]), "eight words in a row are measured"
    for direction in ("de-en", "en-de", "fr-en", "en-fr"):
        measured = read[f"tatoeba.{direction}"]
        assert 5 < len(measured) < 60
        assert len(read[f"multi30k.{direction}"]) == 1
        assert not learnt & set(measured)
    held = {made.plain(row.split("\t")[1]) for row in read["tatoeba.de-en"] + read["tatoeba.fr-en"]}
    assert not any(made.plain(side.partition("<<")[2] or side) in held for row in learnt for side in row.split("\t"))


def test_a_docstring_is_found_by_what_it_does(tool, monkeypatch):
    documentation = tool("documentation")
    said = "Sort the rows of a table by one column.\n\nRows that are equal stay in order.\n\n>>> sort_rows(1)\n1"
    assert documentation.prose(said) == (
        "Sort the rows of a table by one column.",
        "Rows that are equal stay in order.",
    )
    other = "Count what a column holds, and leave out what is missing there."
    monkeypatch.setattr(documentation, "docstrings", lambda package: [[("sort_rows", said), ("countValues", other)]])
    rows = list(documentation.rows("any", documentation.random.Random(0)))
    assert [row["first"] for row in rows if row["first"] in ("sort rows", "count values")] == [
        "sort rows",
        "count values",
    ]
    asked = next(row for row in rows if "sort the rows of a table by one column" in row["first"])
    assert "equal stay in order" in asked["second"]
    assert asked["negative"].startswith("Count what")


def test_a_wrong_passage_does_not_hold_the_answer(tool, monkeypatch):
    rerank = tool("rerank_data")
    passages = [[f"Rome was founded by {name}.", "It lies on a river."] for name in ("Romulus", "Remus", "Evander")]
    monkeypatch.setattr(rerank, "_PASSAGES", passages)
    monkeypatch.setattr(rerank, "_WORDS", rerank.Bm25.build([" ".join(one) for one in passages]), raising=False)
    asked = rerank.Question("Who founded Rome?", "Romulus", passages[0], 0)
    right, *wrong = rerank.rows([asked], seed=1, count=2)
    assert right["label"] == "relevant"
    assert "Romulus" in right["second"]
    assert wrong
    assert all(row["label"] == "irrelevant" and "Romulus" not in row["second"] for row in wrong)


def test_an_encoder_goes_on_with_its_first_layers_for_a_generator(tool, tmp_path, stand_in, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["generator.py", str(stand_in), str(tmp_path / "start")])
    tool("generator").main()
    encoder, generator = (ch.load(tmp_path / "start" / part).encoder for part in ("", "generator"))
    assert len(generator.blocks) == max(1, len(encoder.blocks) // 4)
    ours, theirs = (one.embeddings.token.weight for one in (generator, encoder))
    assert torch.equal(ours, theirs)
