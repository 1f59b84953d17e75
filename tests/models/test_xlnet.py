"""XLNet gives the numbers of transformers in both streams, saves what it loads, and never sees what it guesses."""

import copy
from dataclasses import asdict

import pytest
import torch
import transformers
from torch.testing import assert_close

import clearhead as ch
from clearhead.errors import BadConfig, BadInput
from clearhead.hub.checkpoint import Checkpoint, build_network, read_folder, write_folder
from clearhead.hub.config import NAMES, Description
from clearhead.inside.trace import trace_ids
from clearhead.models.xlnet import PRESETS, XLNetConfig
from clearhead.nn.layout import Packed, Padded
from clearhead.nn.memory import Memory
from references import randomised, save_theirs

SIZES = {"vocab_size": 64, "d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 48}
ARCHITECTURES = NAMES["xlnet"].architectures
LENGTHS = (7, 4, 11, 2)


def theirs(architecture="XLNetLMHeadModel", **settings):
    labels = {"num_labels": 3} if "ForSequence" in architecture or "ForToken" in architecture else {}
    config = transformers.XLNetConfig(**{**SIZES, **settings}, **labels, use_mems_eval=False)
    return randomised(getattr(transformers, architecture)(config), 0).eval()


def batch(seed=1):
    """Ids, segments and mask, with the padding on the left, where theirs wants it for classification."""
    rng = torch.Generator().manual_seed(seed)
    keep = torch.arange(max(LENGTHS)) >= max(LENGTHS) - torch.tensor(LENGTHS)[:, None]
    ids = torch.randint(6, 64, keep.shape, generator=rng).where(keep, 5)
    return ids, torch.randint(0, 2, keep.shape, generator=rng).where(keep, 0), keep


def orders(seed=2):
    """A rank for each token, packed: the last third of a random order are asked for, the rest has rank 0."""
    rng = torch.Generator().manual_seed(seed)
    ranks = [torch.randperm(n, generator=rng) - (n - n // 3) + 1 for n in LENGTHS]
    return torch.cat([rank.clamp(min=0) for rank in ranks])


def asked_of(rank):
    where = rank.nonzero().flatten()
    counts = [int(part.count_nonzero()) for part in rank.split(LENGTHS)]
    return where, Packed.of(counts)


@pytest.mark.parametrize("segmented", [True, False])
@pytest.mark.parametrize("act", ["gelu", "relu"])
def test_same_hidden_states_as_transformers(tmp_path, act, segmented):
    reference = theirs("XLNetModel", ff_activation=act)
    encoder = read_folder(save_theirs(reference, tmp_path)).network.encoder
    ids, segments, keep = batch()
    given = {"token_type_ids": segments} if segmented else {}
    layout = Padded.of(keep)
    with torch.no_grad():
        expected = reference(ids, attention_mask=keep.float(), **given).last_hidden_state[keep]
        padded = encoder(ids, layout, segments if segmented else None)[keep]
        packed = encoder(*layout.pack(ids), segments[keep] if segmented else None)
    assert expected.std() > 0.5
    assert_close(padded, expected, atol=1e-5, rtol=1e-5)
    assert_close(packed, expected, atol=1e-5, rtol=1e-5)


def test_same_guesses_as_transformers(tmp_path):
    reference = theirs()
    network = read_folder(save_theirs(reference, tmp_path)).network
    ids, segments, keep = batch()
    rank = orders()
    where, asked = asked_of(rank)
    square = torch.zeros(keep.shape, dtype=torch.long)
    square[keep] = rank
    hidden = square[:, None, :] >= square[:, :, None]  # theirs: 1 where i does not see j
    hidden &= square[:, None, :] > 0  # what is not asked for is seen by all
    mapping = torch.zeros(len(LENGTHS), max(asked.lengths), max(LENGTHS))
    for row, count in enumerate(asked.lengths):
        mapping[row, torch.arange(count), square[row].nonzero().flatten()] = 1.0
    packed, layout = Padded.of(keep).pack(ids)
    with torch.no_grad():
        out = reference(
            ids,
            attention_mask=keep.float(),
            token_type_ids=segments,
            perm_mask=hidden.float(),
            target_mapping=mapping,
            output_hidden_states=True,
        )
        expected = torch.cat([row[:count] for row, count in zip(out.logits, asked.lengths, strict=True)])
        states = network.encoder.guess(packed, layout, rank, where, asked, segments[keep])
        got = network.heads["permutation_lm"](states, asked)
    last = torch.cat([row[:count] for row, count in zip(out.hidden_states[-1], asked.lengths, strict=True)])
    assert len(expected) == sum(n // 3 for n in LENGTHS)
    assert_close(states, last, atol=1e-5, rtol=1e-5)
    assert_close(got, expected, atol=1e-5, rtol=1e-5)


SEGMENT, ROWS = 6, 2


def segments_of(seed=4):
    """A long text in each of two rows, cut into three segments, with token types and an order of guesses."""
    rng = torch.Generator().manual_seed(seed)
    for _ in range(3):
        ids = torch.randint(6, 64, (ROWS, SEGMENT), generator=rng)
        types = torch.randint(0, 2, (ROWS, SEGMENT), generator=rng)
        yield ids, types, torch.stack([torch.randperm(SEGMENT, generator=rng) for _ in range(ROWS)])


@pytest.mark.parametrize("length", [4, 9, 100])
def test_the_memory_is_that_of_transformers(tmp_path, length):
    """transformers' mems, of fewer tokens than a segment, of more, and of everything."""
    reference = theirs("XLNetModel", mem_len=length)
    encoder = read_folder(save_theirs(reference, tmp_path)).network.encoder
    memory, mems = Memory(length), None
    for number, (ids, types, _) in enumerate(segments_of()):
        with torch.no_grad():
            out = reference(ids, token_type_ids=types, mems=mems, use_mems=True)
            ours = encoder(ids, None, types, memory)
        mems = out.mems
        assert_close(ours, out.last_hidden_state, atol=1e-5, rtol=1e-5)
        assert memory.tokens == min(length, SEGMENT * (number + 1))
        for layer, theirs_of in enumerate(mems):
            assert_close(memory.before(layer), theirs_of.transpose(0, 1), atol=1e-5, rtol=1e-5)


def test_guesses_with_memory_are_those_of_transformers(tmp_path):
    reference = theirs(mem_len=8)
    network = read_folder(save_theirs(reference, tmp_path)).network
    memory, mems = Memory(8), None
    for ids, types, rank in segments_of():
        hidden = (rank[:, None, :] >= rank[:, :, None]) & (rank[:, None, :] > 0)  # rank 0 is seen by all
        asked = Packed.of([SEGMENT - 1] * ROWS)
        where = rank.flatten().nonzero().flatten()
        mapping = torch.zeros(ROWS, SEGMENT - 1, SEGMENT)
        for row in range(ROWS):
            mapping[row, torch.arange(SEGMENT - 1), rank[row].nonzero().flatten()] = 1.0
        with torch.no_grad():
            out = reference(
                ids, token_type_ids=types, perm_mask=hidden.float(), target_mapping=mapping, mems=mems, use_mems=True
            )
            states = network.encoder.guess(ids, Padded.full(ids), rank, where, asked, types, memory)
            ours = network.heads["permutation_lm"](states, asked)
        mems = out.mems
        assert_close(ours, out.logits.flatten(0, 1), atol=1e-5, rtol=1e-5)
    assert memory.tokens == 8


def test_a_memory_of_everything_and_an_order_from_the_left_are_one_long_text():
    """Read left to right, whatever the cuts: the content stream must not see what comes later, either."""
    torch.manual_seed(0)
    network = ch.Model.create(XLNetConfig(**SIZES, dropout=0.0), heads={"permutation_lm": 64}).network
    ids = torch.randint(6, 64, (2, 12), generator=torch.Generator().manual_seed(1))
    memory, parts = Memory(12), []
    with torch.no_grad():
        order = torch.arange(12).expand(2, -1)
        where = torch.cat([torch.arange(1, 12), torch.arange(13, 24)])
        whole = network.encoder.guess(ids, Padded.full(ids), order, where, Packed.of([11, 11]))
        for start in (0, 5, 9):
            part = ids[:, start : start + 5 if start == 0 else start + 4 if start == 5 else 12]
            columns = part.shape[1]
            rank = torch.arange(columns) + (start > 0)
            asked = columns - (start == 0)
            where = torch.cat([row * columns + torch.arange(columns - asked, columns) for row in range(2)])
            layout = Packed.of([asked] * 2)
            found = network.encoder.guess(part, Padded.full(part), rank.expand(2, -1), where, layout, None, memory)
            parts.append(found.unflatten(0, (2, asked)))
    assert_close(torch.cat(parts, 1).flatten(0, 1), whole, atol=1e-5, rtol=1e-5)


def test_gradients_end_at_the_memory_and_rows_may_leave():
    network = ch.Model.create(XLNetConfig(**SIZES)).network
    memory = Memory(5)
    network.encoder(torch.full((3, 4), 7), None, None, memory)
    assert not memory.before(0).requires_grad
    second = memory.before(1)[[2, 0]]
    memory.select(torch.tensor([2, 0]))
    assert torch.equal(memory.before(1), second)
    assert network.encoder(torch.full((2, 4), 7), None, None, memory).shape == (2, 4, 32)
    with pytest.raises(BadInput, match="a memory of 0 tokens remembers nothing"):
        Memory(0)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_both_ways(architecture, tmp_path):
    reference = theirs(architecture)
    checkpoint = read_folder(save_theirs(reference, tmp_path / "theirs"))
    assert tuple(checkpoint.network.heads) == ARCHITECTURES[architecture]
    ids, segments, keep = batch()
    given = {"attention_mask": keep.float(), "token_type_ids": segments}
    lifted = {name: value[None] for name, value in {"input_ids": ids, **given}.items()}
    with torch.no_grad():
        out = reference(**lifted) if "Choice" in architecture else reference(ids, **given)
        for head in checkpoint.network.heads:
            got = checkpoint.network(head, ids, Padded.of(keep), segments)
            expected = torch.stack([out.start_logits, out.end_logits], -1) if head == "span" else out.logits
            if head == "choice":
                expected = expected[0][:, None]
            if got.dim() == 3:
                got, expected = got[keep], expected[keep]
            assert_close(got, expected, atol=1e-5, rtol=1e-5)
    write_folder(checkpoint, tmp_path / "ours")
    again, gaps = type(reference).from_pretrained(tmp_path / "ours", output_loading_info=True, local_files_only=True)
    assert not any(gaps.values()), gaps
    for name, tensor in reference.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    write_folder(read_folder(tmp_path / "ours"), tmp_path / "twice")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "twice" / name).read_bytes()


def test_the_class_token_keeps_its_own_segment_in_every_use(tmp_path):
    """Also after a single text: <cls> is in segment 2, as the tokenizer of transformers says it."""
    texts = ["the red stone lies by the river", "a river", "she saw a stone"]
    tokenizer = ch.train_tokenizer(texts=texts, kind="xlnet", vocabulary=60, min_frequency=1)
    reference = theirs("XLNetForSequenceClassification", vocab_size=tokenizer.vocabulary)
    tokenizer.save(save_theirs(reference, tmp_path))
    model = ch.load(tmp_path)
    batch = transformers.AutoTokenizer.from_pretrained(tmp_path)(texts, return_tensors="pt", padding=True)
    keep = batch["attention_mask"].bool()
    assert set(batch["token_type_ids"][keep].tolist()) == {0, 2}
    with torch.no_grad():
        scores = reference(**batch).logits.softmax(-1)
        hidden = reference.transformer(**batch).last_hidden_state
    got = torch.tensor([[found.scores[f"LABEL_{i}"] for i in range(3)] for found in model.classify(texts)])
    assert_close(got, scores, atol=1e-5, rtol=1e-5)
    means = torch.stack([rows[real].mean(0) for rows, real in zip(hidden, keep, strict=True)])
    assert_close(torch.from_numpy(model.embed(texts, normalise=False)), means, atol=1e-5, rtol=1e-5)
    for found, rows, real in zip(model.token_vectors(texts), hidden, keep, strict=True):
        assert_close(torch.from_numpy(found.vectors), rows[real][:-2], atol=1e-5, rtol=1e-5)


@pytest.fixture(scope="module")
def network():
    description = Description(family="xlnet", config=XLNetConfig(**SIZES))
    return randomised(build_network(description, {"permutation_lm": 64}), 4).eval()


def guess(network, ids, rank):
    where, asked = asked_of(rank)
    with torch.no_grad():
        return network.encoder.guess(ids, Packed.of(LENGTHS), rank, where, asked)


def test_a_guess_sees_neither_its_word_nor_what_comes_after(network):
    """Change one asked word: only questions of the same text that come later in the order may notice."""
    rank, ids = orders(), torch.arange(6, 6 + sum(LENGTHS))
    where, _ = asked_of(rank)
    owner = torch.repeat_interleave(torch.tensor(LENGTHS))
    before = guess(network, ids, rank)
    for place in where.tolist():
        changed = ids.clone()
        changed[place] = 60
        moved = (guess(network, changed, rank) - before).abs().amax(-1) > 1e-6
        later = (rank[where] > rank[place]) & (owner[where] == owner[place])
        assert torch.equal(moved, later)


def test_company_changes_no_guess(network):
    rank, ids = orders(), torch.arange(6, 6 + sum(LENGTHS))
    together = guess(network, ids, rank)
    alone = []
    for one, turn in zip(ids.split(LENGTHS), rank.split(LENGTHS), strict=True):
        where = turn.nonzero().flatten()
        if len(where):
            with torch.no_grad():
                alone.append(network.encoder.guess(one, Packed.of([len(one)]), turn, where, Packed.of([len(where)])))
    assert_close(torch.cat(alone), together, atol=1e-5, rtol=1e-5)


def test_a_gradient_reaches_every_parameter(network):
    rank, ids = orders(), torch.arange(6, 6 + sum(LENGTHS))
    where, asked = asked_of(rank)
    segments = torch.arange(sum(LENGTHS)) % 2
    states = network.encoder.guess(ids, Packed.of(LENGTHS), rank, where, asked, segments)
    network.heads["permutation_lm"](states, asked).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name
    network.zero_grad()


def test_in_half_precision(network):
    rank, ids = orders(), torch.arange(6, 6 + sum(LENGTHS))
    wanted = guess(network, ids, rank)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = guess(network, ids, rank)
    half = guess(copy.deepcopy(network).bfloat16(), ids, rank)
    for found in (mixed, half):
        assert_close(found.float(), wanted, atol=0.2, rtol=0.1)


def test_a_trace_shows_the_attentions_of_transformers(tmp_path):
    reference = theirs("XLNetModel")
    encoder = read_folder(save_theirs(reference, tmp_path)).network.encoder
    ids, segments = torch.arange(6, 17), torch.arange(11) // 5
    with torch.no_grad():
        read = reference(ids[None], token_type_ids=segments[None], output_attentions=True)
    found = trace_ids(encoder, ids, segments)
    assert_close(found.output, read.last_hidden_state[0], atol=1e-5, rtol=1e-5)
    for layer, wanted in zip(found.layers, read.attentions, strict=True):
        assert_close(layer.weights, wanted[0], atol=1e-5, rtol=1e-5)
        assert_close(layer.weights @ layer.v, layer.head_output, atol=1e-5, rtol=1e-5)


def test_defaults_and_sizes_are_those_of_transformers():
    config, reference = XLNetConfig(), transformers.XLNetConfig()
    assert asdict(config) == {name: getattr(reference, name) for name in asdict(config)}
    for preset in PRESETS.values():
        ours = build_network(Description(family="xlnet", config=preset), {}, device="meta")
        with torch.device("meta"):
            other = transformers.XLNetModel(transformers.XLNetConfig(**asdict(preset)))
        assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in other.parameters())


def test_what_is_computed_otherwise_is_refused(tmp_path):
    network = build_network(Description(family="xlnet", config=XLNetConfig(**SIZES)), {})
    description = Description(family="xlnet", config=XLNetConfig(**SIZES))
    write_folder(Checkpoint(description=description, network=network, tokenizer=None), tmp_path)
    config = tmp_path / "config.json"
    whole = config.read_text()
    config.write_text(whole.replace('"n_head"', '"attn_type": "uni", "n_head"'))
    with pytest.raises(BadConfig, match="attn_type = 'uni' is not supported; clearhead computes 'bi'"):
        read_folder(tmp_path)
    config.write_text(whole.replace('"n_head"', '"d_head": 5, "n_head"'))
    with pytest.raises(BadConfig, match="d_head = 5 is not supported; clearhead computes d_model 32 / n_head 4"):
        read_folder(tmp_path)
