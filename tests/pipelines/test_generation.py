"""Models that write: go on from prompts, stream, translate, retell; one door for all of them."""

import pytest

import clearhead as ch
from clearhead.errors import BadCheckpoint, BadInput, ClearheadError, InputTooLong, WrongTask
from clearhead.hub.checkpoint import recurrent_checkpoint, write_folder
from clearhead.models import RECURRENT_FAMILIES
from clearhead.models.gpt import Gpt2Config
from clearhead.pipelines import generation as write
from clearhead.pipelines.generation import STOP, few_shot
from pipelines.peers import peers
from pipelines.writers import TEXTS, gpt_folder, pieces, recurrent_folder, translator
from references import randomised

WRITERS = ["transformer", "t5", "seq2seq-lstm-additive", "seq2seq-gru"]


def test_one_prompt_gives_one_text_many_a_list_and_a_stream_an_iterator():
    model = ch.load(gpt_folder())
    one = model.generate(TEXTS[0], max_new_tokens=8)
    assert str(one) == one.text
    many = model.generate(TEXTS, max_new_tokens=8)
    assert many[0].text == one.text
    assert [str(two) for two in model.generate(iter(TEXTS), max_new_tokens=8)] == [str(two) for two in many]
    assert len(model.generate(TEXTS[0], max_new_tokens=8, num_beams=3, num_return_sequences=2)) == 2
    assert model.generate("", max_new_tokens=4).text


@pytest.mark.parametrize(
    "how", [{}, {"temperature": 1.5, "seed": 7}, {"top_k": 5, "seed": 2}, {"no_repeat_ngram_size": 2}]
)
def test_the_pieces_of_a_stream_are_the_text(how):
    model = ch.load(gpt_folder())
    pieces_ = list(model.stream(TEXTS[0], max_new_tokens=24, **how))
    assert "".join(pieces_) == model.generate(TEXTS[0], max_new_tokens=24, **how).text
    assert len(pieces_) > 1


def test_chance_follows_its_seed_and_torchs():
    import torch

    model = ch.load(gpt_folder())
    drawn = [model.generate(TEXTS[0], max_new_tokens=12, temperature=2.0, seed=seed).tokens for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    texts = []
    for _ in range(2):
        torch.manual_seed(5)
        texts.append(model.generate(TEXTS[0], max_new_tokens=12, temperature=2.0).tokens)
    assert texts[0] == texts[1]


def test_chance_is_that_of_the_place_whatever_runs_beside_and_however_much_is_read_at_once(monkeypatch):
    model, how = ch.load(gpt_folder()), {"max_new_tokens": 12, "temperature": 2.0, "seed": 3}
    many = model.generate(TEXTS, **how)
    assert model.generate(TEXTS[0], **how).tokens == many[0].tokens
    assert model.generate([TEXTS[0], "The", TEXTS[2]], **how)[2].tokens == many[2].tokens
    assert model.generate(TEXTS, **how, num_return_sequences=2)[1][0].tokens == many[1].tokens
    same = model.generate(["The"] * 3, **how)
    assert len({one.tokens for one in same}) == 3
    monkeypatch.setattr(write, "_AHEAD", 1)
    assert [one.tokens for one in model.generate(iter(TEXTS), **how)] == [one.tokens for one in many]
    apart = translator().translate(TEXTS, temperature=2.0, seed=3)
    monkeypatch.undo()
    assert [*map(str, translator().translate(TEXTS, temperature=2.0, seed=3))] == [*map(str, apart)]
    assert model.generate("The", max_new_tokens=4, temperature=1.0, seed=10**30).text


@pytest.mark.parametrize("use", ["generate", "translate"])
def test_of_a_stream_the_first_results_come_before_the_last_are_read(monkeypatch, use):
    monkeypatch.setattr(write, "_AHEAD", 5)
    read = []
    found = getattr(translator(), use)(read.append(text) or text for text in TEXTS * 9)
    next(found)
    assert 0 < len(read) < 9


@pytest.mark.parametrize("kind", WRITERS)
def test_several_ways_of_a_translation(kind):
    text = "The animal was tired.\n\nIt sat on the bank!"
    ways = translator(kind).translate(text, num_beams=3, num_return_sequences=3)
    sentences = [translator(kind).translate(one, num_beams=3, num_return_sequences=3) for one in text.split("\n\n")]
    assert ways[0].text == translator(kind).translate(text, num_beams=3).text
    for way, *parts in zip(ways, *sentences, strict=True):
        assert [part.text for part in way.parts] == [part.text for part in parts]
        assert way.text == "\n\n".join(part.text for part in parts)


def test_more_ways_are_written_by_fewer_texts_at_a_time(monkeypatch):
    model = translator()
    wanted = [one.tokens for one in model.generate(TEXTS * 3, num_beams=12, max_new_tokens=3)]
    monkeypatch.setattr(write, "_TOGETHER", 2)
    rows = []
    original = write.beam_search
    monkeypatch.setattr(
        write, "beam_search", lambda m, given, *a, **k: rows.append(len(given)) or original(m, given, *a, **k)
    )
    assert [one.tokens for one in model.generate(TEXTS * 3, num_beams=12, max_new_tokens=3)] == wanted
    assert set(rows) == {1}


@pytest.mark.parametrize("how", [{"temperature": 50.0, "seed": 1}, {"num_beams": 2}, {"no_repeat_ngram_size": 1}])
def test_rows_of_the_table_that_have_no_token_are_never_written(how):
    size = pieces().vocabulary
    config = Gpt2Config(vocab_size=size + 200, n_positions=32, n_embd=8, n_layer=1, n_head=2, eos_token_id=0)
    model = ch.Model.create(config, pieces(), heads={"causal_lm": config.vocab_size})
    randomised(model.network, 0)
    assert all(
        max(one.tokens) < size for one in model.generate(TEXTS[:1] * 8, max_new_tokens=16, min_new_tokens=16, **how)
    )


@pytest.mark.parametrize("kind", WRITERS)
def test_a_translation_is_that_of_its_sentences_in_any_company(kind):
    model = translator(kind)
    text = "The animal was tired.\n\nIt sat on the bank! Ein Hund läuft."
    whole = model.translate(text, num_beams=2)
    parts = model.translate(["The animal was tired.", "It sat on the bank!", "Ein Hund läuft."], num_beams=2)
    assert [part.source for part in whole.parts] == ["The animal was tired.", "It sat on the bank!", "Ein Hund läuft."]
    assert [part.text for part in whole.parts] == [one.text for one in parts]
    assert whole.text == f"{parts[0]}\n\n{parts[1]} {parts[2]}"
    assert model.translate("").text == ""


def test_a_sentence_that_is_too_long_is_cut_between_words_and_read_to_its_end():
    model = translator()
    long = "bank river " * 60 + "x" * 300
    found = model.translate(long, num_beams=1)
    assert " ".join(part.source for part in found.parts).split() == [*["bank", "river"] * 60, *_rest(found)]
    assert "".join(_rest(found)) == "x" * 300
    assert all(len(pieces().ids_batch([part.source])[0]) <= 64 for part in found.parts)


def _rest(found):
    return [word for part in found.parts for word in part.source.split() if word.startswith("x")]


def test_a_summary_in_its_own_words_of_any_length():
    model = translator("t5")
    found = model.summarise([TEXTS[0], " ".join(TEXTS * 40)], abstractive=True)
    assert len(found[0].parts) == 1 < len(found[1].parts)
    assert found[0].parts[0].source == TEXTS[0]


@pytest.mark.parametrize("kind", WRITERS)
def test_a_summary_is_as_long_as_one_asks(kind):
    model = translator(kind)
    short = model.summarise(TEXTS[0], abstractive=True, max_new_tokens=5).text
    assert 0 < len(short) < len(model.summarise(TEXTS[0], abstractive=True, min_new_tokens=30).text)
    assert model.summarise(TEXTS[0], abstractive=True, min_new_tokens=9, max_new_tokens=9, temperature=1.0, seed=1).text
    # only a T5 has settings of its own for summaries
    plain = model.generate(TEXTS[0], num_beams=4, max_new_tokens=200).text
    assert (model.summarise(TEXTS[0], abstractive=True).text == plain) == (kind != "t5")


def test_a_recurrent_model_summarises_in_its_own_words_alone(tmp_path):
    model = translator("seq2seq-gru")
    assert len(model.summarise(TEXTS, abstractive=True)) == len(TEXTS)
    with pytest.raises(WrongTask, match="picks no sentences of a text; ask for an abstractive summary"):
        model.summarise(TEXTS)
    with pytest.raises(WrongTask, match="reads no source; it can generate"):
        ch.load(recurrent_folder("rnnlm-gru", tmp_path)).summarise(TEXTS, abstractive=True)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"num_beams": 2.5}, "num_beams must be a whole number, got 2.5"),
        ({"num_beams": 100_000}, "num_beams must be at most 256, got 100000"),
        ({"num_return_sequences": 1000, "temperature": 1.0}, "num_return_sequences must be at most 256, got 1000"),
        ({"top_k": 2.5}, "top_k must be a whole number, got 2.5"),
        ({"stop_strings": 3}, "stop_strings must be a text or a list of texts, got 3"),
        ({"stop_strings": [3]}, "stop_strings must be a text or a list of texts"),
        ({"seed": "x", "top_k": 3}, "seed must be a whole number, got 'x'"),
        ({"seed": 5}, "seed 5 has nothing to draw; add a temperature, top_k or top_p"),
        ({"wrong": 1}, "wrong is no option of writing; there are num_beams, length_penalty"),
        ({"length_penalty": float("nan"), "num_beams": 2}, "length_penalty must be a finite number, got nan"),
        ({"length_penalty": 2.0}, "length_penalty 2.0 has no beams to weigh"),
        ({"max_new_tokens": 2.5}, "max_new_tokens must be a whole number, got 2.5"),
        ({"min_new_tokens": 9, "max_new_tokens": 8}, "min_new_tokens=9 is more than max_new_tokens=8"),
        ({"temperature": float("inf")}, "temperature must be a finite number, got inf"),
    ],
)
def test_a_manner_that_is_none_is_one_sentence(how, message):
    with pytest.raises(BadInput, match=message):
        ch.load(gpt_folder()).generate("a", **how)


def test_weights_that_are_no_numbers_are_named():
    model = ch.load(gpt_folder())
    next(model.network.parameters()).data.fill_(float("nan"))
    for how in ({}, {"temperature": 1.0}, {"num_beams": 2}):
        with pytest.raises(BadCheckpoint, match="its weights are damaged"):
            model.generate("The", **how)


def test_a_recurrent_folder_opens_by_the_same_door_and_knows_its_limits(tmp_path):
    model = translator("seq2seq-lstm-additive")
    assert repr(model).startswith("Model(seq2seq-lstm-additive, ")
    model.save(tmp_path / "again")
    assert ch.load(tmp_path / "again").translate(TEXTS[1]) == model.translate(TEXTS[1])
    with pytest.raises(WrongTask, match="has no 'embed'; it can translate or generate"):
        model.embed("a")


@pytest.mark.parametrize(
    ("kind", "can"),
    [("word2vec", "with: clearhead vectors near"), ("rnnlm-gru", "it can generate")],
)
def test_what_does_not_translate_does_not_say_so(tmp_path, kind, can):
    network = RECURRENT_FAMILIES[kind].network(RECURRENT_FAMILIES[kind].config(vocab_size=400, hidden_size=8))
    write_folder(recurrent_checkpoint(kind, network, pieces()), tmp_path)
    with pytest.raises(WrongTask, match=f"has no 'embed'; .*{can}$"):
        ch.load(tmp_path).embed("a")


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda: ch.load(gpt_folder()).translate("a"), WrongTask, "reads no source; it can generate"),
        (
            lambda: peers("BertForMaskedLM").ours.generate("a"),
            WrongTask,
            "this bert writes no text and cannot generate",
        ),
        (lambda: ch.load(gpt_folder()).generate("a " * 200), InputTooLong, "the model has 96 positions"),
        (lambda: ch.load(gpt_folder()).generate("a", num_beams=2, temperature=1.0), BadInput, "2 beams and sampling"),
        (
            lambda: ch.load(gpt_folder()).generate("a", num_return_sequences=2),
            BadInput,
            "num_return_sequences=2 needs as many num_beams, got 1, or sampling",
        ),
        (lambda: list(ch.load(gpt_folder()).stream("a", num_beams=2)), BadInput, "2 beams cannot be streamed"),
        (
            lambda: ch.load(gpt_folder()).generate("a", max_new_tokens=0),
            BadInput,
            "max_new_tokens must be at least 1, got 0",
        ),
        (lambda: ch.load(gpt_folder()).generate("a", top_p=0.0), BadInput, "top_p must be more than 0 and at most 1"),
        (lambda: ch.load(gpt_folder()).generate("a", top_p=1.5), BadInput, "top_p must be more than 0 and at most 1"),
        (lambda: ch.load(gpt_folder()).generate("a", top_k=-1), BadInput, "top_k must not be negative, got -1"),
        (lambda: translator().summarise("a", abstractive=True, sentences=2), BadInput, "sentences=2 are not picked"),
        (
            lambda: translator("t5").summarise("a", abstractive=True, min_new_tokens="x"),
            BadInput,
            "min_new_tokens must be a whole",
        ),
        (
            lambda: translator("t5").summarise("a", abstractive=True, max_new_tokens="x"),
            BadInput,
            "max_new_tokens must be a whole",
        ),
        (
            lambda: translator("t5").summarise("a", abstractive=True, max_new_tokens=5, min_new_tokens=6),
            BadInput,
            "min_new_tokens=6 is more",
        ),
        (
            lambda: translator().summarise("a", min_new_tokens=2),
            BadInput,
            "min_new_tokens: only abstractive summaries are written",
        ),
    ],
)
def test_bad_input_is_one_sentence(use, error, message):
    with pytest.raises(error, match=message):
        use()
    assert issubclass(error, ClearheadError)


def test_examples_and_query_have_one_form():
    prompt = few_shot([("cheese", "fromage"), ("sea otter", "loutre de mer")], "bread", instruction="Translate.")
    examples = "Input: cheese\nOutput: fromage\n\nInput: sea otter\nOutput: loutre de mer"
    assert prompt == f"Translate.\n\n{examples}\n\nInput: bread\nOutput:"
    assert few_shot([], "2 + 2", names=("Q", "A")) == "Q: 2 + 2\nA:"
    assert prompt.split(STOP)[1:3] == ["Input: cheese\nOutput: fromage", "Input: sea otter\nOutput: loutre de mer"]


def test_what_would_end_an_example_is_refused():
    with pytest.raises(BadInput, match="an empty line would end the example"):
        few_shot([("a\n\nb", "c")], "d")
    with pytest.raises(BadInput, match="an example is a text and its answer"):
        few_shot([("a", "b", "c")], "d")  # type: ignore[list-item]
