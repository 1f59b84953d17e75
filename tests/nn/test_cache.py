"""The memory of a decoder: rows that end together, grow, move and leave."""

import torch
from torch.testing import assert_close

from clearhead.nn.cache import _STEP, Cache, SourceKV
from clearhead.nn.layout import Packed


def keys(lengths: list[int], seed: int = 0) -> torch.Tensor:
    return torch.randn(sum(lengths), 2, 4, generator=torch.Generator().manual_seed(seed))


def test_rows_end_in_the_same_column_and_grow():
    layout, k = Packed.of([3, 1]), keys([3, 1])
    cache = Cache.for_prompts(1, layout)
    cache.layers[0].extend(k, -k, layout)
    written = layout.split(k)
    for step in range(2 * _STEP + 1):
        new = keys([1, 1], seed=step + 1)
        one = cache.step()
        assert one.positions.tolist() == [[3 + step], [1 + step]]
        seen, values, columns = cache.layers[0].extend(new[:, None], -new[:, None], one)
        written = [torch.cat([row, token[None]]) for row, token in zip(written, new, strict=True)]
        for row, keep, wanted in zip(seen, columns.keep, written, strict=True):
            assert_close(row[keep], wanted)
            assert keep[-1]
        assert_close(values[columns.keep], -seen[columns.keep])
    assert cache.max_length == 3 + 2 * _STEP + 1


def test_when_the_longest_leaves_its_columns_go():
    layout = Packed.of([9, 2, 4])
    cache = Cache.for_prompts(1, layout)
    cache.layers[0].extend(keys([9, 2, 4]), keys([9, 2, 4]), layout)
    cache = cache.select(torch.tensor([2, 1, 2]))
    assert cache.max_length == 4
    one = cache.step()
    assert one.positions.flatten().tolist() == [4, 2, 4]
    seen, _, columns = cache.layers[0].extend(keys([1, 1, 1])[:, None], keys([1, 1, 1])[:, None], one)
    assert seen.shape[1] == 5
    assert columns.keep.sum(1).tolist() == [5, 3, 5]
    assert_close(seen[0, :4], layout.split(keys([9, 2, 4]))[2])


def test_rows_that_move_take_with_them_all_that_every_layer_remembers():
    chance = torch.Generator().manual_seed(0)
    cache = Cache.for_sources([SourceKV(keys([2, 5]), keys([2, 5]), Packed.of([2, 5])) for _ in range(3)])
    written = [torch.empty(2, 0, 2, 4) for _ in cache.layers]
    for step in range(_STEP + 5):
        one = cache.step()
        for number, layer in enumerate(cache.layers):
            new = keys([1] * len(written[number]), seed=10 * step + number)[:, None]
            written[number] = torch.cat([written[number], new], 1)
            seen, values, _ = layer.extend(new, -new, one)
            assert_close(seen, written[number])
            assert_close(values, -written[number])
        rows = torch.randint(len(new), (6 if step < _STEP else 4,), generator=chance)
        cache, written = cache.select(rows), [layer[rows] for layer in written]


def test_sources_move_only_with_their_texts():
    layout = Packed.of([2, 5])
    cache = Cache.for_sources([SourceKV(keys([2, 5]), keys([2, 5]), layout)])
    cache.step()
    doubled = cache.select(torch.tensor([0, 0, 1, 1]))
    source = doubled.layers[0].source
    assert source.layout.keep.sum(1).tolist() == [2, 5]
    assert source.readers == 2
    swapped = doubled.select(torch.tensor([1, 0, 3, 2]))  # beams of the same texts
    assert swapped.layers[0].source is source
    one = swapped.select(torch.tensor([2, 3])).layers[0].source
    assert (one.layout.keep.sum(1).tolist(), one.readers) == ([5], 2)
    uneven = swapped.select(torch.tensor([0, 2, 3])).layers[0].source
    assert (uneven.layout.keep.sum(1).tolist(), uneven.readers) == ([2, 5, 5], 1)
