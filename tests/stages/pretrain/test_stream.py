from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.stages.pretrain.config import Masking
from osler.stages.pretrain.masking import IGNORED, Masker
from osler.stages.pretrain.stream import PieceStream
from osler.stages.pretrain.tokens import TokenisedDocuments
from osler.stages.pretrain.vocabulary import Vocabulary

BOS, EOS, MASK, VOCAB = 0, 2, 4, 1000
VOCABULARY = Vocabulary(VOCAB, 1, MASK, frozenset(range(5)), (BOS,), (EOS,))


def documents(lengths: list[int]) -> TokenisedDocuments:
    ids = np.arange(10, 10 + sum(lengths), dtype=np.uint16)
    return TokenisedDocuments(ids, np.cumsum([0, *lengths], dtype=np.int64))


def stream(lengths: list[int], max_length: int = 8, seed: int | None = 1) -> PieceStream:
    return PieceStream(documents(lengths), max_length, [BOS], [EOS], seed)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(3, 12), st.integers(1, 17))
def test_one_epoch_holds_every_token_once_whatever_the_batch_size(lengths, max_length, batch):
    line = stream(lengths, max_length)
    seen: Counter[int] = Counter()
    for start in range(0, line.epoch_tokens, batch):
        for piece in line.sequences(start, min(start + batch, line.epoch_tokens)):
            assert len(piece) <= max_length
            seen.update(piece.tolist())
    ordinary = {token: count for token, count in seen.items() if token not in (BOS, EOS)}
    assert ordinary == dict.fromkeys(range(10, 10 + sum(lengths)), 1)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 200), st.integers(1, 60))
def test_any_stretch_is_a_pure_function_of_its_position(start, size):
    one, other = stream([5, 20, 3, 9]), stream([5, 20, 3, 9])
    other.sequences(start + 500, start + 510)  # looking elsewhere first changes nothing
    assert (
        np.concatenate(one.sequences(start, start + size)).tolist()
        == np.concatenate(other.sequences(start, start + size)).tolist()
    )
    assert sum(len(piece) for piece in one.sequences(start, start + size)) == size


def test_epochs_follow_each_other_without_a_gap_in_another_order():
    line = stream([5] * 20)
    first = np.concatenate(line.sequences(0, line.epoch_tokens)).tolist()
    second = np.concatenate(line.sequences(line.epoch_tokens, 2 * line.epoch_tokens)).tolist()
    assert sorted(first) == sorted(second)
    assert first != second
    assert np.concatenate(line.sequences(0, 2 * line.epoch_tokens)).tolist() == first + second


def test_validation_order_is_the_order_of_the_documents():
    line = stream([3, 4], seed=None)
    assert [piece.tolist() for piece in line.sequences(0, line.epoch_tokens)] == [
        [0, 10, 11, 12, 2],
        [0, 13, 14, 15, 16, 2],
    ]


def masker(**settings_) -> Masker:
    return Masker(VOCABULARY, Masking(**settings_))


def test_masking_keeps_its_shares_and_never_touches_special_tokens():
    rng = np.random.default_rng(0)
    ids = rng.integers(5, VOCAB, size=20_000)
    ids[::50] = EOS
    masked = masker(rate=0.15).apply(ids, np.random.default_rng(1))
    assert len(masked.positions) == int(0.15 * len(ids)) == len(masked.targets)
    assert (masked.targets == ids[masked.positions]).all()
    assert not np.isin(masked.targets, [0, 1, 2, 3, 4]).any()
    shown = masked.ids[masked.positions]
    assert np.mean(shown == MASK) == pytest.approx(0.8, abs=0.02)
    assert np.mean(shown == masked.targets) == pytest.approx(0.1, abs=0.02)
    untouched = np.ones(len(ids), dtype=bool)
    untouched[masked.positions] = False
    assert (masked.ids[untouched] == ids[untouched]).all()
    assert not np.isin(shown[shown != MASK], [0, 1, 2, 3]).any()


def test_the_number_of_positions_is_fixed_even_where_few_tokens_can_be_masked():
    ids = np.array([BOS, 10, EOS, BOS, EOS, BOS, EOS, BOS, EOS, BOS])
    masked = masker(rate=0.5).apply(ids, np.random.default_rng(0))
    assert len(masked.positions) == 5
    assert (masked.targets != IGNORED).sum() == 1


def test_masks_change_with_the_stream_and_repeat_with_it():
    ids = np.arange(5, 500)
    one, same, other = (masker().apply(ids, np.random.default_rng(s)).positions.tolist() for s in (0, 0, 1))
    assert one == same != other
