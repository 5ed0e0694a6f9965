from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.nn.packing import copied_together, from_padded, pack, to_padded

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def test_positions_restart_and_borders_are_where_sequences_meet():
    batch = pack([[7, 8, 9], [5], [6, 4]], pad_id=0)
    assert batch.input_ids.tolist() == [7, 8, 9, 5, 6, 4]
    assert batch.position_ids.tolist() == [0, 1, 2, 0, 0, 1]
    assert batch.cu_seqlens.tolist() == [0, 3, 4, 6]
    assert batch.cu_seqlens.dtype == torch.int32
    assert batch.input_ids.dtype == batch.position_ids.dtype == torch.int64
    assert (batch.max_length, batch.num_sequences, batch.num_tokens) == (3, 3, 6)
    assert batch.starts().tolist() == [0, 3, 4]
    assert batch.lengths().tolist() == [3, 1, 2]
    assert batch.token_type_ids is None


def test_tensors_that_are_copied_as_one_are_the_same():
    batch = pack([[7, 8, 9], [5, 6]], pad_id=0, token_types=[[0, 0, 1], [1, 1]], marks=[(0, 2), (1, 0)], total=9)
    tensors = {name: value for name, value in vars(batch).items() if isinstance(value, torch.Tensor)}
    copies = copied_together(tensors, torch.device("cpu"))
    assert list(copies) == list(tensors)
    for name, tensor in tensors.items():
        assert copies[name].dtype == tensor.dtype
        assert torch.equal(copies[name], tensor)


def test_static_shape_pads_with_sequences_of_their_own():
    batch = pack([[7, 8, 9], [5]], pad_id=1, total=11, max_sequences=6, max_length=3, token_types=[[0, 0, 1], [1]])
    assert batch.input_ids.tolist() == [7, 8, 9, 5] + [1] * 7
    assert batch.cu_seqlens.tolist() == [0, 3, 4, 7, 10, 11, 11]
    assert batch.position_ids.tolist() == [0, 1, 2, 0, 0, 1, 2, 0, 1, 2, 0]
    assert batch.token_type_ids is not None
    assert batch.token_type_ids.tolist() == [0, 0, 1, 1] + [0] * 7
    assert (batch.num_sequences, batch.starts().tolist(), batch.lengths().tolist()) == (2, [0, 3], [3, 1])


@pytest.mark.parametrize(
    ("sequences", "options", "message"),
    [
        ([], {}, "at least one sequence"),
        ([[1], []], {}, "at least one token"),
        ([[1, 2, 3]], {"max_length": 2}, "3 tokens"),
        ([[1, 2, 3]], {"total": 2}, "more than the 2"),
        ([[1], [2]], {"max_sequences": 1}, "do not fit into 1"),
        ([[1, 2]], {"total": 9, "max_sequences": 4}, "1 sequences and 4 of padding"),
        ([[1, 2]], {"token_types": [[0]]}, "token types"),
    ],
)
def test_what_does_not_fit_is_refused(sequences, options, message):
    with pytest.raises(ValueError, match=message):
        pack(sequences, pad_id=0, **options)


@settings(max_examples=60, deadline=None)
@given(lengths=LENGTHS, tail=st.integers(0, 20), longer=st.integers(0, 3))
def test_every_token_is_in_exactly_one_sequence(lengths, tail, longer):
    longest = max(lengths) + longer
    sequences = [np.arange(length) + 2 for length in lengths]
    batch = pack(sequences, pad_id=1, total=sum(lengths) + tail, max_length=longest)
    ends = batch.cu_seqlens.tolist()
    assert ends[0] == 0
    assert ends[-1] == batch.num_tokens == sum(lengths) + tail
    pieces = np.diff(ends)
    assert (pieces > 0).all()
    assert pieces.max() <= batch.max_length == longest
    for start, end in itertools.pairwise(ends):
        assert batch.position_ids[start:end].tolist() == list(range(end - start))
    for sequence, start, end in zip(sequences, ends, ends[1:], strict=False):
        assert batch.input_ids[start:end].tolist() == sequence.tolist()


@settings(max_examples=60, deadline=None)
@given(lengths=LENGTHS, tail=st.integers(0, 5))
def test_padding_and_back_is_the_identity(lengths, tail):
    rng = np.random.default_rng(len(lengths))
    sequences = [rng.integers(2, 50, length) for length in lengths]
    types = [rng.integers(0, 2, length) for length in lengths]
    batch = pack(sequences, pad_id=0, token_types=types, total=sum(lengths) + tail)
    rows = to_padded(batch, pad_id=1)
    assert rows.input_ids.shape == (len(lengths), max(lengths))
    assert rows.token_type_ids is not None
    for row, (ids, kinds) in enumerate(zip(sequences, types, strict=True)):
        rest = max(lengths) - len(ids)
        assert rows.input_ids[row].tolist() == ids.tolist() + [1] * rest
        assert rows.token_type_ids[row].tolist() == kinds.tolist() + [0] * rest
        assert rows.attention_mask[row].tolist() == [1] * len(ids) + [0] * rest
        assert rows.position_ids[row].tolist() == list(range(max(lengths)))
    values = torch.stack([rows.input_ids, rows.input_ids * 2], dim=-1)
    back = from_padded(values, rows)
    used = sum(lengths)
    assert torch.equal(back[:used, 0], batch.input_ids[:used])
    assert torch.equal(back[:used, 1], batch.input_ids[:used] * 2)
    assert back.shape == (used + tail, 2)
    assert not back[used:].any()


def test_a_copy_on_another_device_keeps_the_numbers():
    batch = pack([[7, 8], [5]], pad_id=0, token_types=[[0, 1], [0]]).to("meta")
    assert {batch.input_ids.device.type, batch.cu_seqlens.device.type, batch.position_ids.device.type} == {"meta"}
    assert batch.token_type_ids is not None
    assert batch.token_type_ids.device.type == "meta"
    assert (batch.max_length, batch.num_sequences) == (2, 2)
