"""Attention for packed batches, registered with `transformers.AttentionInterface` as `osler_packed`.

The borders of the sequences travel as the keyword arguments `cu_seq_lens_q` and `max_length_q`, which transformers passes down to
every layer. There is no attention dropout, since `varlen_attn` has none. A recipe that needs it runs the model padded.

* CUDA, half precision: `torch.nn.attention.varlen.varlen_attn`, one kernel for all sequences.
* CUDA, float32: one padded call. One call per sequence would leave the GPU idle in between.
* CPU: plain matrix products for sequences of up to 512 tokens. Each is padded to a multiple of 32; those of one padded length are
  computed together, a few at a time so that their scores stay in the cache. With gradients that is 1.5 to 6 times as fast as
  torch's fused kernel, which is made for longer sequences and computes those, one at a time. The result for a sequence does not
  depend on the others in the batch, to the last bit, so the service gives the same answers as the command line.
"""

from __future__ import annotations

import functools
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

NAME = "osler_packed"
_SHORT = 512
"""Longest sequence for plain products on a CPU, in tokens."""
_STEP = 32
"""Sequences on a CPU are padded to a multiple of this. oneDNN keeps a kernel of about half a megabyte for each shape, and the last bits of
smaller products depend on how many there are."""
_SCORES = 2**19
"""Scores to compute at once on a CPU: 2 MiB."""


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
    tensors = tuple(tensor.squeeze(0).transpose(0, 1) for tensor in (query, key, value))
    layout = _Layout.of(tuple(lengths), on_gpu=query.is_cuda)
    if layout.places is None:
        output = _in_blocks(tensors, layout.blocks, scale, reach)
    else:
        places = layout.places.to(query.device)
        cells = sum(block.rows * block.length for block in layout.blocks)
        rows = tuple(tensor.new_zeros(cells, *tensor.shape[1:]).index_copy(0, places, tensor) for tensor in tensors)
        output = _in_blocks(rows, layout.blocks, scale, reach).index_select(0, places)
    return output.unsqueeze(0)


class _Block(NamedTuple):
    """Sequences that are computed together, as rows of one length."""

    rows: int
    length: int
    lengths: tuple[int, ...] | None = None
    """Length of each sequence, where they differ; the rest of a row is padding."""


class _Layout(NamedTuple):
    """The sequences of a batch as rows of padded blocks."""

    blocks: list[_Block]
    places: Tensor | None
    """Place of each token among those of all blocks; None if they are in the same order, without padding."""

    @classmethod
    @functools.lru_cache(maxsize=4)  # every layer of a model asks for the same one
    def of(cls, lengths: tuple[int, ...], *, on_gpu: bool) -> _Layout:
        """Group sequences by padded length; on a GPU, put all into one block."""
        alike: dict[int, list[int]] = {}
        for number, length in enumerate(lengths):
            padded = max(lengths) if on_gpu else length if length > _SHORT else -(-length // _STEP) * _STEP
            alike.setdefault(padded, []).append(number)
        starts = [0, *accumulate(lengths)]
        places = torch.empty(starts[-1], dtype=torch.long)
        blocks, used = [], 0
        for padded, members in alike.items():
            own = tuple(lengths[number] for number in members)
            for number in members:
                places[starts[number] : starts[number + 1]] = torch.arange(used, used + lengths[number])
                used += padded
            blocks.append(_Block(len(own), padded, own if min(own) < padded else None))
        same = used == len(places) and torch.equal(places, torch.arange(used))
        return cls(blocks, None if same else places)


def _in_blocks(tensors: tuple[Tensor, ...], blocks: list[_Block], scale: float | None, reach: int | None) -> Tensor:
    sizes = [block.rows * block.length for block in blocks]
    parts = zip(*(torch.split(tensor, sizes) for tensor in tensors), strict=True)
    return torch.cat([_rows(part, block, scale, reach) for part, block in zip(parts, blocks, strict=True)])


def _rows(tensors: tuple[Tensor, ...], block: _Block, scale: float | None, reach: int | None) -> Tensor:
    """Attend inside the rows of a block; tensors are [rows * length, heads, width]."""
    rows, length, lengths = block
    query, key, value = (tensor.reshape(rows, length, *tensor.shape[1:]).transpose(1, 2) for tensor in tensors)
    places = torch.arange(length, device=query.device)
    mask = None
    if lengths is not None:
        mask = (places < torch.tensor(lengths, device=query.device)[:, None])[:, None, None]
    if reach is not None and length > reach + 1:
        near = (places[:, None] - places).abs() <= reach
        mask = near if mask is None else mask & near
    if query.is_cuda or length > _SHORT:
        grouped = query.shape[1] != key.shape[1]
        output = scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale, enable_gqa=grouped)
    else:
        output = _plain(query, key, value, mask, query.shape[-1] ** -0.5 if scale is None else scale)
    return output.transpose(1, 2).flatten(0, 1)


def _plain(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Attention in plain products, some rows at a time; tensors are [rows, heads, length, width]."""
    rows, heads, length, _ = query.shape
    if key.shape[1] != heads:
        key, value = (tensor.repeat_interleave(heads // key.shape[1], dim=1) for tensor in (key, value))
    outputs = []
    most = max(1, _SCORES // (heads * length * length))
    start = 0
    while start < rows:
        # A power of two, so that there are few shapes.
        size = 1 << (min(most, rows - start).bit_length() - 1)
        some = slice(start, start + size)
        start += size
        scores = (query[some] * scale) @ key[some].transpose(2, 3)
        if mask is not None:
            # Not minus infinity: a row of padding may be far from every token, and its softmax would be NaN.
            scores = scores.masked_fill(~(mask if mask.dim() == 2 else mask[some]), torch.finfo(scores.dtype).min)
        outputs.append(scores.softmax(-1) @ value[some])
    return torch.cat(outputs)
