"""Models that write: go on from prompts, stream, translate, retell; one door for all of them."""

import pytest

import clearhead as ch
from clearhead.errors import BadInput, ClearheadError, InputTooLong, WrongTask
from clearhead.hub.recurrent import RecurrentModel
from clearhead.models import RECURRENT
from clearhead.models.gpt import Gpt2Config
from clearhead.pipelines.recurrent import Recurrent
from pipelines.peers import peers
from pipelines.writers import TEXTS, gpt_folder, pieces, translator
from references import randomised

WRITERS = ["transformer", "t5", "seq2seq-lstm-additive", "seq2seq-gru"]


def test_one_prompt_gives_one_text_many_a_list_and_a_stream_an_iterator():
    model = ch.load(gpt_folder())
    one = model.generate(TEXTS[0], longest=8)
    assert str(one) == one.text
    many = model.generate(TEXTS, longest=8)
    assert many[0].text == one.text
    assert [str(two) for two in model.generate(iter(TEXTS), longest=8)] == [str(two) for two in many]
    assert len(model.generate(TEXTS[0], longest=8, beams=3, best=2)) == 2
    assert model.generate("", longest=4).text


@pytest.mark.parametrize("how", [{}, {"temperature": 1.5, "seed": 7}, {"top_k": 5, "seed": 2}, {"no_repeat": 2}])
def test_the_pieces_of_a_stream_are_the_text(how):
    model = ch.load(gpt_folder())
    pieces_ = list(model.stream(TEXTS[0], longest=24, **how))
    assert "".join(pieces_) == model.generate(TEXTS[0], longest=24, **how).text
    assert len(pieces_) > 1


def test_chance_follows_its_seed_and_torchs():
    import torch

    model = ch.load(gpt_folder())
    drawn = [model.generate(TEXTS[0], longest=12, temperature=2.0, seed=seed).tokens for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    texts = []
    for _ in range(2):
        torch.manual_seed(5)
        texts.append(model.generate(TEXTS[0], longest=12, temperature=2.0).tokens)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("how", [{"temperature": 50.0, "seed": 1}, {"beams": 2}, {"no_repeat": 1}])
def test_rows_of_the_table_that_have_no_token_are_never_written(how):
    size = pieces().vocabulary
    config = Gpt2Config(vocab_size=size + 200, n_positions=32, n_embd=8, n_layer=1, n_head=2, eos_token_id=0)
    model = ch.Model.create(config, pieces(), heads={"causal_lm": config.vocab_size})
    randomised(model.network, 0)
    assert all(max(one.tokens) < size for one in model.generate(TEXTS[:1] * 8, longest=16, least=16, **how))


@pytest.mark.parametrize("kind", WRITERS)
def test_a_translation_is_that_of_its_sentences_in_any_company(kind):
    model = translator(kind)
    text = "The animal was tired.\n\nIt sat on the bank! Ein Hund läuft."
    whole = model.translate(text, beams=2)
    parts = model.translate(["The animal was tired.", "It sat on the bank!", "Ein Hund läuft."], beams=2)
    assert [part.source for part in whole.parts] == ["The animal was tired.", "It sat on the bank!", "Ein Hund läuft."]
    assert [part.text for part in whole.parts] == [one.text for one in parts]
    assert whole.text == f"{parts[0]}\n\n{parts[1]} {parts[2]}"
    assert model.translate("").text == ""


def test_a_sentence_that_is_too_long_is_cut_between_words_and_read_to_its_end():
    model = translator()
    long = "bank river " * 60 + "x" * 300
    found = model.translate(long, beams=1)
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


def test_a_recurrent_folder_opens_by_the_same_door_and_knows_its_limits(tmp_path):
    model = translator("seq2seq-lstm-additive")
    assert isinstance(model, Recurrent)
    assert repr(model).startswith("Recurrent(seq2seq-lstm-additive, ")
    model.save(tmp_path / "again")
    assert ch.load(tmp_path / "again").translate(TEXTS[1]) == model.translate(TEXTS[1])
    with pytest.raises(WrongTask, match="has no 'embed'; it can translate or generate"):
        model.embed("a")


@pytest.mark.parametrize(
    ("kind", "can"), [("word2vec", "with: clearhead vectors near"), ("rnnlm-gru", "it can generate"), ("elmo", "Words")]
)
def test_what_does_not_translate_does_not_say_so(tmp_path, kind, can):
    network = RECURRENT[kind].network(RECURRENT[kind].config(vocab_size=400, hidden_size=8))
    RecurrentModel(kind, network, pieces()).save(tmp_path)
    with pytest.raises(WrongTask, match=f"has no 'embed'; .*{can}$"):
        ch.load(tmp_path).embed("a")


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda: ch.load(gpt_folder()).translate("a"), WrongTask, "reads no source; it can generate"),
        (lambda: peers("BertForMaskedLM").ours.generate("a"), WrongTask, "writes no text: it has no head 'causal_lm'"),
        (lambda: ch.load(gpt_folder()).generate("a " * 200), InputTooLong, "the model has 96 positions"),
        (lambda: ch.load(gpt_folder()).generate("a", beams=2, temperature=1.0), BadInput, "2 beams and chance"),
        (lambda: ch.load(gpt_folder()).generate("a", best=2), BadInput, "1 beams end 1 ways, not 2"),
        (lambda: list(ch.load(gpt_folder()).stream("a", beams=2)), BadInput, "2 beams cannot be streamed"),
        (lambda: ch.load(gpt_folder()).generate("a", longest=0), BadInput, "longest=0 new tokens"),
        (lambda: ch.load(gpt_folder()).generate("a", top_p=0.0), BadInput, "top_p must be more than 0 and at most 1"),
        (lambda: ch.load(gpt_folder()).generate("a", top_p=1.5), BadInput, "top_p must be more than 0 and at most 1"),
        (lambda: ch.load(gpt_folder()).generate("a", top_k=-1), BadInput, "top_k must not be negative, got -1"),
    ],
)
def test_bad_input_is_one_sentence(use, error, message):
    with pytest.raises(error, match=message):
        use()
    assert issubclass(error, ClearheadError)
