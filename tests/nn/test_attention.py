"""The packed attention function by itself, against the definition of attention."""

from __future__ import annotations

import pytest
import torch

from osler.nn import attention
from osler.nn.packing import pack

# float32 on CPU; sums of a few hundred products of numbers near 1.
TOLERANCE = 1e-5


def naive(query, key, value, lengths, scale, reach=None):
    """softmax(q k / scale) v, one sequence after another, one head after another."""
    output, start = torch.zeros_like(query), 0
    for length in lengths:
        part = slice(start, start + length)
        scores = query[0, :, part] @ key[0, :, part].transpose(1, 2) * scale
        if reach is not None:
            places = torch.arange(length)
            scores = scores.masked_fill((places[:, None] - places).abs() > reach, float("-inf"))
        output[0, :, part] = scores.softmax(-1) @ value[0, :, part]
        start += length
    return output.transpose(1, 2)


def tensors(tokens, heads=3, width=8):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(1, heads, tokens, width, generator=generator, requires_grad=True) for _ in range(3)]


CASES = {
    "equal lengths, one view": [32, 32, 32],
    "equal lengths, padded": [20, 20, 20],
    "one padded block": [3, 9, 1, 12, 2],
    "blocks of similar lengths, mixed in the batch": [50, 1, 30, 49, 3, 17],
    "one sequence": [33],
    "plain products and the fused kernel": [520, 5, 300, 530, 520],
}


@pytest.mark.parametrize("reach", [None, 2, 15])
@pytest.mark.parametrize("lengths", CASES.values(), ids=CASES)
def test_every_way_of_computing_gives_attention_and_its_gradient(lengths, reach):
    query, key, value = tensors(sum(lengths))
    batch = pack([[5] * length for length in lengths], pad_id=0, max_sequences=len(lengths) + 3)
    window = None if reach is None else reach + 1
    found, weights = attention.packed_attention(
        torch.nn.Identity(),
        query,
        key,
        value,
        None,
        scaling=0.3,
        sliding_window=window,
        dropout=0.5,
        cu_seq_lens_q=batch.cu_seqlens,
        max_length_q=batch.max_length,
    )
    expected = naive(query, key, value, lengths, 0.3, reach)
    assert weights is None
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE)
    direction = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2))
    gradients = [torch.autograd.grad((output * direction).sum(), [query, key, value]) for output in (found, expected)]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("reach", [None, 3])
def test_scores_that_are_computed_in_parts_give_the_same(reach, monkeypatch):
    monkeypatch.setattr(attention, "_SCORES", 3 * 32 * 32 * 5)  # of eight padded sequences, four at once
    lengths = [20, 18, 20, 17, 20, 20, 19, 4]
    query, key, value = tensors(sum(lengths))
    batch = pack([[5] * length for length in lengths], pad_id=0)
    window = None if reach is None else reach + 1
    arguments = {"scaling": 0.3, "sliding_window": window, "cu_seq_lens_q": batch.cu_seqlens, "max_length_q": 20}
    found, _ = attention.packed_attention(torch.nn.Identity(), query, key, value, None, **arguments)
    torch.testing.assert_close(found, naive(query, key, value, lengths, 0.3, reach), rtol=0, atol=TOLERANCE)
    found.sum().backward()
    assert all(torch.isfinite(tensor.grad).all() for tensor in (query, key, value))


def test_without_gradients_a_sequence_does_not_depend_on_the_others_to_the_last_bit():
    lengths = [20, 20, 7, 7, 7, 41, 270, 270, 20, 520, 520]
    with torch.no_grad():
        query, key, value = tensors(sum(lengths))
        together = attend(query, key, value, lengths)
        start = 0
        for length in lengths:
            part = slice(start, start + length)
            alone = attend(*(tensor[:, :, part] for tensor in (query, key, value)), [length])
            assert torch.equal(alone, together[:, part])
            start += length


def attend(query, key, value, lengths):
    batch = pack([[5] * length for length in lengths], pad_id=0)
    arguments = {"scaling": 0.3, "cu_seq_lens_q": batch.cu_seqlens, "max_length_q": max(lengths)}
    return attention.packed_attention(torch.nn.Identity(), query, key, value, None, **arguments)[0]


def test_fewer_key_heads_than_query_heads():
    query, _, _ = tensors(12, heads=4)
    _, key, value = tensors(12, heads=2)
    batch = pack([[5] * 7, [5] * 5], pad_id=0)
    found, _ = attention.packed_attention(
        torch.nn.Identity(), query, key, value, None, scaling=0.3, cu_seq_lens_q=batch.cu_seqlens, max_length_q=7
    )
    repeated = [tensor.repeat_interleave(2, dim=1) for tensor in (key, value)]
    torch.testing.assert_close(found, naive(query, *repeated, [7, 5], 0.3), rtol=0, atol=TOLERANCE)


def test_borders_are_required():
    query, key, value = tensors(4)
    with pytest.raises(ValueError, match="cu_seq_lens_q"):
        attention.packed_attention(torch.nn.Identity(), query, key, value, None, scaling=0.3)


@pytest.mark.parametrize("extra", ["position_bias", "softcap"])
def test_what_it_cannot_do_is_not_ignored(extra):
    query, key, value = tensors(4)
    cu = torch.tensor([0, 4], dtype=torch.int32)
    with pytest.raises(ValueError, match="neither"):
        attention.packed_attention(
            torch.nn.Identity(), query, key, value, None, cu_seq_lens_q=cu, max_length_q=4, **{extra: torch.ones(1)}
        )
