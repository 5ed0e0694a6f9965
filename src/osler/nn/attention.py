"""Attention for packed batches, registered with `transformers.AttentionInterface` as `osler_packed`.

The borders of the sequences travel as the keyword arguments `cu_seq_lens_q` and `max_length_q`, which transformers passes down to
every layer. There is no attention dropout, since `varlen_attn` has none. A recipe that needs it runs the model padded.

* CUDA, half precision: `torch.nn.attention.varlen.varlen_attn`, one kernel for all sequences.
* CUDA, float32: one padded call. One call per sequence would leave the GPU idle in between.
* CPU: what was measured to be fastest on one and two cores, with gradients:
  - all sequences equally long: one batched call on a view of the same memory;
  - up to 16 tokens per sequence on average: one padded call, since the cost of a call outweighs the padding;
  - without gradients: one call for neighbours of equal length. The result for a sequence then does not depend on the others in
    the batch, to the last bit, so the service gives the same answers as the command line;
  - otherwise one call per sequence: 1.0 to 2.3 times as fast as one padded call, 4 to 40 times as fast as a block mask.
"""

from __future__ import annotations

import functools
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

NAME = "osler_packed"
_SHORT = 16


@functools.cache
def register() -> None:
    """Register the packed attention with transformers, once per process."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, packed_attention)
    AttentionMaskInterface.register(NAME, _no_mask)


def _no_mask(*_: Any, **__: Any) -> None:
    """No mask: `cu_seq_lens_q` holds the borders."""


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    cu_seq_lens_q: Tensor | None = None,
    max_length_q: int | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """Bidirectional attention inside each packed sequence; query, key and value are [1, heads, tokens, width]."""
    if cu_seq_lens_q is None or max_length_q is None:
        raise ValueError(f"{NAME} attention needs cu_seq_lens_q and max_length_q")
    if more.get("position_bias") is not None or more.get("softcap") is not None:
        raise ValueError(f"{NAME} attention supports neither position bias nor soft capping")
    # transformers uses flash attention's convention: a window of w reaches w - 1 tokens to each side.
    reach = None if sliding_window is None or sliding_window >= max_length_q else sliding_window - 1
    if query.is_cuda and query.dtype in (torch.bfloat16, torch.float16):
        return _varlen(query, key, value, cu_seq_lens_q, max_length_q, scaling, reach), None
    return _by_lengths(query, key, value, cu_seq_lens_q, scaling, reach), None


def _varlen(
    query: Tensor, key: Tensor, value: Tensor, cu_seqlens: Tensor, longest: int, scale: float | None, reach: int | None
) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    window = (-1, -1) if reach is None else (reach, reach)
    grouped: dict[str, Any] = {} if query.shape[1] == key.shape[1] else {"enable_gqa": True}
    output = varlen_attn(
        query.squeeze(0).transpose(0, 1),
        key.squeeze(0).transpose(0, 1),
        value.squeeze(0).transpose(0, 1),
        cu_seqlens,
        cu_seqlens,
        longest,
        longest,
        scale=scale,
        window_size=window,
        **grouped,
    )
    assert isinstance(output, Tensor)
    return output.unsqueeze(0)


@functools.cache
def keep_out_of_graphs() -> None:
    """Call before compiling a model: this attention reads lengths as numbers, which a compiled graph cannot hold.

    Not a decorator, which would import the compiler (1 s) for everyone who only annotates.
    """
    global _by_lengths
    _by_lengths = torch.compiler.disable(_by_lengths)  # type: ignore[no-untyped-call]


def _by_lengths(
    query: Tensor, key: Tensor, value: Tensor, cu_seqlens: Tensor, scale: float | None, reach: int | None
) -> Tensor:
    lengths = [length for length in torch.diff(cu_seqlens).tolist() if length]
    tokens, longest = query.shape[2], max(lengths)
    tensors = tuple(tensor.squeeze(0).transpose(0, 1) for tensor in (query, key, value))
    if min(lengths) == longest:
        output = _rows(tensors, len(lengths), longest, None, scale, reach)
    elif query.is_cuda or (torch.is_grad_enabled() and tokens <= _SHORT * len(lengths)):
        output = _padded(tensors, torch.tensor(lengths, device=query.device), longest, scale, reach)
    elif not torch.is_grad_enabled():
        counts = [(length, len(list(alike))) for length, alike in groupby(lengths)]
        groups = zip(
            *(torch.split(tensor, [length * count for length, count in counts]) for tensor in tensors), strict=True
        )
        rows = [
            _rows(group, count, length, None, scale, reach)
            for group, (length, count) in zip(groups, counts, strict=True)
        ]
        output = torch.cat(rows)
    else:
        sequences = zip(*(torch.split(tensor, lengths) for tensor in tensors), strict=True)
        output = torch.cat([_rows(sequence, 1, sequence[0].shape[0], None, scale, reach) for sequence in sequences])
    return output.unsqueeze(0)


def _padded(
    tensors: tuple[Tensor, ...], lengths: Tensor, longest: int, scale: float | None, reach: int | None
) -> Tensor:
    mask = torch.arange(longest, device=lengths.device) < lengths[:, None]
    index = mask.flatten().nonzero().flatten()
    rows = tuple(tensor.new_zeros(mask.numel(), *tensor.shape[1:]).index_copy(0, index, tensor) for tensor in tensors)
    return _rows(rows, len(lengths), longest, mask, scale, reach).index_select(0, index)


def _rows(
    tensors: tuple[Tensor, ...], count: int, length: int, real: Tensor | None, scale: float | None, reach: int | None
) -> Tensor:
    """Attend inside `count` rows of `length` tokens; tensors are [count * length, heads, width]."""
    query, key, value = (tensor.reshape(count, length, *tensor.shape[1:]).transpose(1, 2) for tensor in tensors)
    mask = None if real is None else real[:, None, None, :]
    if reach is not None and length > reach + 1:
        places = torch.arange(length, device=query.device)
        near = (places[:, None] - places).abs() <= reach
        mask = near if mask is None else mask & near
    grouped = query.shape[1] != key.shape[1]
    output = scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale, enable_gqa=grouped)
    return output.transpose(1, 2).flatten(0, 1)
