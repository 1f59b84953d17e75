import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from clearhead.data.corpus import Corpus
from clearhead.data.pretraining import PackedText, _some_in_two
from clearhead.data.shards import Shards, tokenise
from clearhead.errors import BadInput
from clearhead.text import Tokenizer, train_tokenizer

from .corpora import small_shards


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shards, Tokenizer, list[str]]:
    return small_shards(tmp_path_factory.mktemp("corpus"))


def owner_of(ids: list[int], tokenizer: Tokenizer) -> set[str | None]:
    """Which documents these ids come from: every continuation names one."""
    return {token for i in ids if (token := tokenizer.id_to_token(i) or "").startswith("##")}


def test_every_batch_has_exactly_the_tokens_asked_for(made: tuple[Shards, Tokenizer, list[str]]) -> None:
    shards, tokenizer, _ = made
    for tokens, length in ((64, 16), (100, 33), (37, 37), (5000, 12)):
        source = PackedText(shards, tokenizer, tokens=tokens, length=length, seed=3)
        for index in range(12):
            batch = source.batch(index)
            assert batch.tokens == tokens == sum(batch.layout.lengths)
            assert max(batch.layout.lengths) <= length
            assert min(batch.layout.lengths) >= 1


def test_sequences_are_wrapped_and_hold_one_document(made: tuple[Shards, Tokenizer, list[str]]) -> None:
    shards, tokenizer, _ = made
    source = PackedText(shards, tokenizer, tokens=128, length=16, seed=1)
    specials = {tokenizer.cls_id, tokenizer.sep_id}
    for index in range(source.batches_in(3)):
        sequences = [sequence.tolist() for sequence in source.batch(index).layout.split(source.batch(index).ids)]
        for place, ids in enumerate(sequences):
            if len(ids) > 1:
                assert (ids[0], ids[-1]) == (tokenizer.cls_id, tokenizer.sep_id)
            else:  # a cut fell right behind the first or before the last special token
                assert place in (0, len(sequences) - 1)
                assert set(ids) <= specials
            assert not specials & set(ids[1:-1])
            assert len(owner_of(ids, tokenizer)) <= 1


def test_an_epoch_holds_every_token_but_those_at_the_cuts(tmp_path: Path) -> None:
    # as many documents as words, so that every document is known by its tokens
    words = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(600)]
    tokenizer = train_tokenizer(texts=[" ".join(words)] * 3, vocabulary=2000, min_frequency=1)
    texts = [" ".join(words[i : i + 1 + i % 37]) for i in range(0, 560, 7)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    shards = tokenise(Corpus(tmp_path / "a.jsonl"), tokenizer, tmp_path / "shards", shard_tokens=200)
    source = PackedText(shards, tokenizer, tokens=100, length=12, seed=5, validation_share=0)
    whole = source.batches_in(1)
    counts = torch.zeros(tokenizer.vocabulary, dtype=torch.int64)
    for index in range(whole):
        counts += source.batch(index).ids.bincount(minlength=tokenizer.vocabulary)
    counts[[tokenizer.cls_id, tokenizer.sep_id]] = 0
    stored = torch.tensor(np.bincount(np.concatenate(tokenizer.ids_batch(texts)), minlength=tokenizer.vocabulary))
    assert bool((counts <= stored).all())
    # every cut costs two tokens of text, and the epoch's last tokens go into the batch that the next epoch fills up
    assert int((stored - counts).sum()) <= 2 * whole + 100
    assert source.epoch_of(whole) <= 1 < source.epoch_of(whole + 1)


def test_a_batch_depends_on_seed_and_number_alone(made: tuple[Shards, Tokenizer, list[str]]) -> None:
    shards, tokenizer, _ = made
    source = PackedText(shards, tokenizer, tokens=256, length=32, seed=1)
    forward = [source.batch(index).ids for index in range(20)]
    fresh = PackedText(shards, tokenizer, tokens=256, length=32, seed=1)
    for index in reversed(range(20)):
        assert_close(fresh.batch(index).ids, forward[index], rtol=0, atol=0)
    assert not torch.equal(PackedText(shards, tokenizer, tokens=256, length=32, seed=2).batch(0).ids, forward[0])
    assert source.epoch_of(19) > 2, "the test must see several epochs"


def test_validation_documents_are_never_trained_on(made: tuple[Shards, Tokenizer, list[str]]) -> None:
    shards, tokenizer, _ = made
    train, held = (shards.split(name, 0.2) for name in ("train", "validation"))
    assert sorted([*train, *held]) == list(range(40))
    assert len(held) == 8
    assert held.tolist() == Shards(shards.folder).split("validation", 0.2).tolist()
    seen = {}
    for name, documents in (("train", train), ("validation", held)):
        source = PackedText(shards, tokenizer, tokens=100, length=20, split=name, validation_share=0.2)
        ids = [i for index in range(source.batches_in(2)) for i in source.batch(index).ids.tolist()]
        seen[name] = owner_of(ids, tokenizer)
        assert seen[name] <= {f"##{d}" for d in documents}
    assert not seen["train"] & seen["validation"]


def test_other_families_bring_their_own_special_tokens(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(texts=["some text to read"] * 3, kind="bpe", vocabulary=300, min_frequency=1)
    (tmp_path / "a.txt").write_text("some text to read\n" * 9, "utf-8")
    shards = tokenise(Corpus(tmp_path / "a.txt"), tokenizer, tmp_path / "shards")
    batch = PackedText(shards, tokenizer, tokens=24, length=8, validation_share=0).batch(0)
    assert batch.ids[0] == tokenizer.cls_id
    assert tokenizer.decode(batch.layout.split(batch.ids)[0].tolist()) in "some text to read"


def test_what_cannot_be_packed(made: tuple[Shards, Tokenizer, list[str]]) -> None:
    shards, tokenizer, _ = made
    with pytest.raises(BadInput, match="Sequences of 2 tokens have no room beside 2 special ones"):
        PackedText(shards, tokenizer, length=2)
    with pytest.raises(BadInput, match="Batches of 100 tokens cannot hold sequences of 512"):
        PackedText(shards, tokenizer, tokens=100)
    with pytest.raises(BadInput, match="There is no split 'test'; choose train or validation"):
        PackedText(shards, tokenizer, split="test")
    with pytest.raises(BadInput, match="The split 'validation' of 40 documents is empty"):
        PackedText(shards, tokenizer, split="validation", validation_share=0)
    with pytest.raises(BadInput, match="made with another tokenizer"):
        PackedText(shards, train_tokenizer(texts=["w1 w2"], vocabulary=40, min_frequency=1))


def test_one_piece_in_ten_is_cut_in_two() -> None:
    starts, lengths = _some_in_two(np.arange(0, 30_000, 30), np.full(1000, 30), seed=0)
    assert 1060 < len(starts) < 1140
    assert (lengths > 0).all()
    assert np.array_equal(starts, np.cumsum(lengths) - lengths)  # nothing is lost, nothing comes twice
    assert lengths.sum() == 30_000
