from __future__ import annotations

from collections import Counter
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.artifacts.token_shards import TokenisedDocuments
from osler.stages.pretrain.data import ChunkStream

BOS, EOS = 0, 2
lists_of_lengths = st.lists(st.integers(1, 30), min_size=1, max_size=12)


def documents(
    lengths: list[int], sources: list[int] | None = None, density: list[float] | None = None
) -> TokenisedDocuments:
    """Documents whose tokens are all different, so that every one can be traced."""
    ids = np.arange(10, 10 + sum(lengths), dtype=np.uint16)
    numbers = np.array(sources or [0] * len(lengths), dtype=np.int32)
    names = tuple(str(number) for number in range(max(numbers) + 1))
    sizes = np.array(lengths, dtype=np.int64)
    shares = None if density is None else np.array(density, dtype=np.float32)
    return TokenisedDocuments((ids,), np.cumsum(sizes) - sizes, sizes, numbers, names, density=shares)


def stream(lengths: list[int], max_length: int = 8, seed: int | None = 1, **options) -> ChunkStream:
    made = documents(lengths, options.pop("sources", None), options.pop("density", None))
    return ChunkStream(made, max_length, [BOS], [EOS], seed, **options)


def sequences(line: ChunkStream, start: int, end: int) -> list[np.ndarray]:
    """What a stretch of the line holds, one array a sequence."""
    stretch = line.cut(start, end)
    return np.split(stretch.ids, np.cumsum(stretch.lengths)[:-1])


def read(line: ChunkStream, start: int, end: int) -> list[int]:
    return np.concatenate(sequences(line, start, end)).tolist()


def ordinary(tokens: list[int]) -> Counter[int]:
    return Counter(token for token in tokens if token not in (BOS, EOS))


@settings(max_examples=60, deadline=None)
@given(lists_of_lengths, st.integers(3, 12), st.integers(1, 17))
def test_one_epoch_holds_every_token_once_whatever_the_batch_size(lengths, max_length, batch):
    line = stream(lengths, max_length)
    seen: Counter[int] = Counter()
    for start in range(0, line.epoch_tokens, batch):
        for piece in sequences(line, start, min(start + batch, line.epoch_tokens)):
            assert 0 < len(piece) <= max_length
            seen += ordinary(piece.tolist())
    assert seen == dict.fromkeys(range(10, 10 + sum(lengths)), 1)


@settings(max_examples=30, deadline=None)
@given(lists_of_lengths, st.integers(3, 12))
def test_a_piece_is_framed_and_continues_its_document(lengths, max_length):
    line = stream(lengths, max_length)
    bounds = np.cumsum([10, *lengths])
    for piece in sequences(line, 0, line.epoch_tokens):
        assert (piece[0], piece[-1]) == (BOS, EOS)
        inner = piece[1:-1]
        assert (np.diff(inner) == 1).all()
        # Of one document only; shorter than the context only at the document's end.
        assert np.searchsorted(bounds, inner[0], side="right") == np.searchsorted(bounds, inner[-1], side="right")
        assert len(piece) == max_length or inner[-1] + 1 in bounds


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 200), st.integers(1, 60))
def test_any_stretch_is_a_pure_function_of_its_position(start, size):
    one, other = stream([5, 20, 3, 9]), stream([5, 20, 3, 9])
    sequences(other, start + 500, start + 510)  # looking elsewhere first changes nothing
    assert read(one, start, start + size) == read(other, start, start + size)
    assert len(read(one, start, start + size)) == size


def test_epochs_follow_each_other_without_a_gap_in_another_order():
    line = stream([5] * 20)
    first = read(line, 0, line.epoch_tokens)
    second = read(line, line.epoch_tokens, 2 * line.epoch_tokens)
    assert sorted(first) == sorted(second)
    assert first != second
    assert read(line, 0, 2 * line.epoch_tokens) == first + second
    assert read(stream([5] * 20, seed=2), 0, line.epoch_tokens) != first


def test_validation_order_is_the_order_of_the_documents():
    line = stream([3, 4], seed=None, sources=[0, 1], weights={"0": 3.0})
    assert [piece.tolist() for piece in sequences(line, 0, line.epoch_tokens)] == [
        [0, 10, 11, 12, 2],
        [0, 13, 14, 15, 16, 2],
    ]


@settings(max_examples=40, deadline=None)
@given(lists_of_lengths, st.lists(st.integers(0, 12), max_size=4), st.integers(0, 60), st.integers(1, 90))
def test_how_documents_lie_in_shards_changes_nothing(lengths, cuts, start, size):
    whole = documents(lengths)
    borders = sorted({0, len(lengths), *(cut for cut in cuts if cut < len(lengths))})
    places = np.append(whole.starts, sum(lengths))[borders]
    # An empty shard in between, as a slice without any token leaves it.
    shards = (whole.shards[0][:0], *np.split(whole.shards[0], places[1:-1]))
    apart = TokenisedDocuments(shards, whole.starts, whole.lengths, whole.sources, whole.names)
    lines = [ChunkStream(found, 8, [BOS], [EOS], 1) for found in (whole, apart)]
    assert read(lines[0], start, start + size) == read(lines[1], start, start + size)


weight = st.one_of(st.sampled_from([1.0, 2.0, 3.0]), st.floats(0.05, 3.5))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(0, 2)), min_size=1, max_size=12),
    st.tuples(weight, weight, weight),
    st.integers(1, 7),
    st.integers(1, 40),
)
def test_documents_are_read_as_often_as_their_source_weighs(rows, weights, epochs, batch):
    lengths, sources = [row[0] for row in rows], [row[1] for row in rows]
    line = stream(lengths, sources=sources, weights={str(n): w for n, w in enumerate(weights)})
    ends = [line.epoch_start(number) for number in range(epochs + 1)]
    tokens = read(line, 0, ends[-1]) if ends[-1] else []
    batches = (read(line, at, min(at + batch, ends[-1])) for at in range(0, ends[-1], batch))
    assert list(chain.from_iterable(batches)) == tokens
    seen = ordinary(tokens)
    for start, length, source in zip(np.cumsum([10, *lengths]), lengths, sources, strict=False):
        counts = {seen[token] for token in range(start, start + length)}
        assert len(counts) == 1  # a document is read whole, however often
        assert abs(counts.pop() - epochs * weights[source]) < 1 + 1e-6
    for number, (begin, end) in enumerate(pairwise(ends)):
        part = ordinary(read(line, begin, end)) if end > begin else Counter()
        for source, expected in enumerate(weights):
            firsts = [f for f, s in zip(np.cumsum([10, *lengths]), sources, strict=False) if s == source]
            times = sum(part[first] for first in firsts)
            assert abs(times - len(firsts) * expected) <= 1 + 1e-6, f"epoch {number}"
            if expected == int(expected):
                assert {part[first] for first in firsts} <= {int(expected)}


def test_weighted_epochs_draw_other_documents_and_are_found_from_anywhere():
    options = {"sources": [0] * 40 + [1] * 40, "weights": {"0": 0.25, "1": 2.0}}
    line = stream([4] * 80, **options)
    drawn = []
    for epoch in range(4):
        start, end = line.epoch_start(epoch), line.epoch_start(epoch + 1)
        seen = ordinary(read(line, start, end))
        drawn.append({token for token in seen if token < 10 + 160})
        assert len(drawn[-1]) == 40  # ten documents of four tokens
        assert all(seen[token] == 2 for token in range(170, 330))
        fresh = stream([4] * 80, **options)
        assert read(fresh, end - 9, end + 9) == read(line, end - 9, end + 9)
    assert set.union(*drawn) == set(range(10, 170))
    other = ChunkStream(documents([4] * 80, options["sources"]), 8, [BOS], [EOS], 2, options["weights"])
    assert set(ordinary(read(other, 0, other.epoch_tokens))) != set(ordinary(read(line, 0, line.epoch_tokens)))


def test_far_places_of_a_sparsely_read_corpus_are_found():
    line = stream([3, 5, 8], sources=[0, 0, 0], weights={"0": 0.001})
    assert line.epoch_tokens in (0, 5, 7, 10, 12)
    far = 10**7
    assert len(read(line, far, far + 40)) == 40


@pytest.mark.parametrize(("lengths", "weights"), [([6] * 200, {}), ([1, 2, 3, 30] * 100, {"0": 0.5})])
def test_batches_hold_no_more_sequences_than_usual(lengths, weights):
    line = stream(lengths, sources=[n % 2 for n in range(len(lengths))], weights=weights)
    room = line.usual_sequences(512)
    counts = [len(sequences(line, 512 * k, 512 * (k + 1))) for k in range(60)]
    assert max(counts) <= room < 2 * max(counts)
    assert room % 8 == 0


def test_dense_documents_are_read_more_often_and_sources_as_often_as_before():
    density = [0.0, 0.1, 0.2, 0.3, 0.4, 0.0, 0.0, 0.0]
    options = {"sources": [0] * 5 + [1] * 3, "weights": {"0": 2.0}, "density": density}
    line = stream([6] * 8, density_weight=1.0, **options)
    epochs = 40
    end = line.epoch_start(epochs)
    seen = ordinary(read(line, 0, end))
    times = [seen[first] for first in range(10, 58, 6)]
    # Proportional to density within the first source, whose mean stays 2; the second has no terms at all.
    assert np.abs(np.array(times) - np.array([0, 40, 80, 120, 160, 40, 40, 40])).max() <= 1
    assert read(stream([6] * 8, density_weight=1.0, **options), end - 30, end) == read(line, end - 30, end)
    plain = stream([6] * 8, **options)
    assert ordinary(read(plain, 0, plain.epoch_start(10)))[10] == 20


@pytest.mark.parametrize("share", [0.25, 1.0, 2.5])
def test_text_goes_from_low_to_high_density_in_every_epoch_of_a_run(share):
    rng = np.random.default_rng(3)
    density = rng.random(200)
    lengths = rng.integers(3, 30, 200).tolist()
    whole = stream(lengths, max_length=12, density=density.tolist())
    end = int(share * whole.epoch_tokens)
    line = stream(lengths, max_length=12, density=density.tolist(), sorted_until=end)
    owner = np.repeat(np.arange(200), lengths)
    for start in range(0, end, whole.epoch_tokens):
        stop = min(end, start + whole.epoch_tokens)
        tokens = np.array([token for token in read(line, start, stop) if token not in (BOS, EOS)])
        read_densities = density[owner[tokens - 10]]
        thirds = [part.mean() for part in np.array_split(read_densities, 3)]
        assert thirds[0] < 0.3 < thirds[1] < 0.7 < thirds[2]
        # The same text as without the order, give or take the chunk at the end.
        others = np.array([token for token in read(whole, start, stop) if token not in (BOS, EOS)])
        assert len(set(tokens.tolist()) ^ set(others.tolist())) < 2 * 12
    far = 7 * whole.epoch_tokens
    assert read(line, far, far + 50) == read(whole, far, far + 50)
