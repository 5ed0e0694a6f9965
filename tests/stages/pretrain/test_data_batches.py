from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.artifacts.token_shards import TokenisedDocuments
from osler.nn.masking import Masker, Masking, MaskingVocabulary
from osler.nn.packing import pack
from osler.stages.pretrain.config import StepBatches
from osler.stages.pretrain.data import ChunkStream, PretrainSource, validation_batches

VOCABULARY = MaskingVocabulary(1000, 1, 4, frozenset(range(5)), (0,), (2,))


def stream(seed: int | None = 1) -> ChunkStream:
    lengths = np.random.default_rng(0).integers(1, 40, size=80)
    ids = np.random.default_rng(1).integers(10, 1000, size=lengths.sum()).astype(np.uint16)
    sources = np.zeros(len(lengths), dtype=np.int32)
    documents = TokenisedDocuments((ids,), np.cumsum(lengths) - lengths, lengths, sources, ("0",))
    return ChunkStream(documents, 16, [0], [2], seed)


def source(steps: int = 9, ramp: tuple[tuple[int, int], ...] = ()) -> PretrainSource:
    masker = Masker(VOCABULARY, Masking())
    return PretrainSource(stream(), masker, StepBatches(100, 4, ramp), steps=steps, max_length=16, seed=1)


def test_batches_have_one_shape_and_are_what_pack_makes():
    feed = source()
    for number in (0, 1, 40):
        batch = feed.load(number)
        stretch = feed.stream.cut(100 * number, 100 * (number + 1))
        sequences = np.split(stretch.ids, np.cumsum(stretch.lengths)[:-1])
        packed = batch.payload.batch
        expected = pack(sequences, pad_id=1, max_sequences=feed.slots, max_length=16)
        assert packed.position_ids.equal(expected.position_ids)
        assert packed.cu_seqlens.equal(expected.cu_seqlens)
        assert packed.cu_seqlens.dtype == expected.cu_seqlens.dtype
        assert (packed.num_sequences, packed.max_length) == (len(sequences), 16)
        restored = packed.input_ids.clone()
        restored[batch.payload.positions] = batch.payload.targets
        assert restored.equal(expected.input_ids)
        assert len(batch.payload.positions) == 15
        assert (batch.tokens, batch.weight) == (100, 15.0)


def test_loading_is_pure_and_masks_differ_from_batch_to_batch():
    one, other = source(), source(steps=10**15)
    other.load(77)
    assert len(other) == 10**15
    assert one.load(3).payload.batch.input_ids.equal(other.load(3).payload.batch.input_ids)
    assert not one.load(3).payload.positions.equal(one.load(4).payload.positions)


def test_validation_is_the_same_every_time_and_ends_at_its_limit():
    settings_ = {"batch_tokens": 64, "limit": 300, "max_length": 16}
    runs = [list(validation_batches(stream(None), Masker(VOCABULARY, Masking()), **settings_)) for _ in range(2)]
    assert [batch.tokens for batch in runs[0]] == [64, 64, 64, 64, 44]
    for one, other in zip(*runs, strict=True):
        assert one.payload.batch.input_ids.equal(other.payload.batch.input_ids)
        assert one.payload.positions.equal(other.payload.positions)


def test_validation_reads_from_everywhere():
    """Sources lie one after the other: the first tokens alone would speak for one of them."""
    whole = stream(None)
    limit, size = whole.epoch_tokens // 3, 16
    found = list(
        validation_batches(whole, Masker(VOCABULARY, Masking()), batch_tokens=size, limit=limit, max_length=16)
    )
    assert sum(batch.tokens for batch in found) == limit
    last = whole.cut(whole.epoch_tokens - 2 * limit // 3, whole.epoch_tokens).ids
    unmasked = found[-2].payload.batch.input_ids.numpy()
    windows = np.lib.stride_tricks.sliding_window_view(last, len(unmasked))
    assert (windows == unmasked).mean(axis=1).max() > 0.5


ramps = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 5)), max_size=4).map(
    lambda steps: tuple(zip(np.cumsum([s for s, _ in steps]).tolist(), [count for _, count in steps], strict=True))
)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 6), ramps, st.integers(1, 40))
def test_a_ramp_leaves_out_no_batch_and_repeats_none(accumulate, ramp, steps):
    plan = StepBatches(10, accumulate, ramp)
    taken = [list(plan.of(index)) for index in range(steps)]
    assert list(chain(*taken)) == list(range(plan.before(steps)))
    for index, batches in enumerate(taken):
        expected = next((count for end, count in ramp if index < end), accumulate)
        assert len(batches) == expected
    for tokens in range(plan.tokens(1), plan.tokens(steps) + 1, 3):
        complete = plan.steps_for(tokens)
        assert plan.tokens(complete) <= tokens < plan.tokens(complete + 1)
    assert plan.steps_for(0) == 1


def test_the_source_counts_the_tokens_of_a_ramp():
    feed = source(ramp=((2, 1), (5, 2)))
    assert [len(feed.step(index)) for index in (0, 1, 2, 4, 5, 10**12)] == [1, 1, 2, 2, 4, 4]
    assert [feed.batches.tokens(steps) for steps in (0, 2, 5, 6)] == [0, 200, 800, 1200]
    loaded = [feed.load(ref).tokens for index in range(6) for ref in feed.step(index)]
    assert sum(loaded) == feed.batches.tokens(6)
    assert feed.batches.tokens(10**12) == pytest.approx(4e14)
