"""Batches without padding: sequences laid end to end, with the start of each one.

`total` and `max_sequences` give a static shape for `torch.compile`: the tail is filled with padding tokens that form sequences of
their own, so that no real sequence attends to them, and `cu_seqlens` is filled up by repeating its end. Keep `max_sequences` close to
what batches hold, since CUDA attention visits empty sequences too: RoBERTa-base on 65,536 tokens, 512 per sequence, trained at 638k
tokens/s with room for 130 sequences, 618k for 1,024 and 468k for 8,192.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

Ids = Sequence[int] | np.ndarray[Any, Any]


@dataclass(frozen=True)
class Packed:
    """One batch of sequences laid end to end.

    `position_ids` restart at 0 in every sequence. Sequence i goes from `cu_seqlens[i]` to `cu_seqlens[i + 1]`. The first
    `num_sequences` are real, the others are padding or empty. No sequence is longer than `max_length`.
    """

    input_ids: Tensor
    position_ids: Tensor
    cu_seqlens: Tensor
    max_length: int
    num_sequences: int
    token_type_ids: Tensor | None = None
    marks: Tensor | None = None
    """Positions [N, K] of the tokens that a head reads in each real sequence, counted from the start of the batch."""

    @property
    def num_tokens(self) -> int:
        """Number of tokens, including the padding at the end."""
        return self.input_ids.shape[0]

    def starts(self) -> Tensor:
        """Position of the first token of each real sequence."""
        return self.cu_seqlens[: self.num_sequences].long()

    def lengths(self) -> Tensor:
        """Number of tokens of each real sequence."""
        return (self.cu_seqlens[1:] - self.cu_seqlens[:-1])[: self.num_sequences].long()

    def to(self, device: torch.device | str) -> Packed:
        """Move the batch to a device; to a GPU in one asynchronous copy, which does not wait for the previous batch."""
        device = torch.device(device)
        tensors = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        if device.type != "cuda" or self.input_ids.is_cuda:
            moved: dict[str, Any] = {name: value.to(device) for name, value in tensors.items()}
            return replace(self, **moved)
        return replace(self, **copied_together(tensors, device))


def pack(
    sequences: Sequence[Ids],
    *,
    pad_id: int,
    token_types: Sequence[Ids] | None = None,
    marks: Sequence[Sequence[int]] | None = None,
    total: int | None = None,
    max_sequences: int | None = None,
    max_length: int | None = None,
) -> Packed:
    """Lay sequences end to end.

    `total` fixes the number of tokens, `max_sequences` the number of sequences including padding, and `max_length` the length
    passed to attention. A batch that does not fit is an error. `marks` are positions within each sequence, as many in each.
    """
    lengths = [len(sequence) for sequence in sequences]
    if not lengths or min(lengths) == 0:
        raise ValueError("a batch needs at least one sequence, and every sequence at least one token")
    longest = max(lengths)
    if max_length is None:
        max_length = longest
    elif longest > max_length:
        raise ValueError(f"a sequence has {longest} tokens, more than the {max_length} allowed")
    if token_types is not None and [len(types) for types in token_types] != lengths:
        raise ValueError("token types must be as long as their sequences")

    used = sum(lengths)
    tail = 0 if total is None else total - used
    if tail < 0:
        raise ValueError(f"the sequences have {used} tokens, more than the {total} of the batch")
    full, rest = divmod(tail, max_length)
    spans = lengths + [max_length] * full + ([rest] if rest else [])
    if max_sequences is not None:
        if len(spans) > max_sequences:
            raise ValueError(
                f"{len(lengths)} sequences and {len(spans) - len(lengths)} of padding do not fit into {max_sequences}"
            )
        spans += [0] * (max_sequences - len(spans))

    ends = np.cumsum(spans, dtype=np.int64)
    cu_seqlens = np.concatenate(([0], ends)).astype(np.int32)
    positions = np.arange(used + tail, dtype=np.int64) - np.repeat(ends - spans, spans)
    return Packed(
        input_ids=_lay(sequences, tail, pad_id),
        position_ids=torch.from_numpy(positions),
        cu_seqlens=torch.from_numpy(cu_seqlens),
        max_length=max_length,
        num_sequences=len(lengths),
        token_type_ids=None if token_types is None else _lay(token_types, tail, 0),
        marks=None if marks is None else _positions(marks, lengths),
    )


def copied_together(tensors: Mapping[str, Tensor], device: torch.device) -> dict[str, Any]:
    """Copy integer tensors to a device as one: each copy from ordinary memory would wait for the GPU's work."""
    flat = torch.empty(
        sum(tensor.numel() for tensor in tensors.values()), dtype=torch.int64, pin_memory=device.type == "cuda"
    )
    torch.cat([tensor.flatten().long() for tensor in tensors.values()], out=flat)
    parts = torch.split(flat.to(device, non_blocking=True), [tensor.numel() for tensor in tensors.values()])
    return {
        name: part.view(tensor.shape).to(tensor.dtype)
        for (name, tensor), part in zip(tensors.items(), parts, strict=True)
    }


def _positions(marks: Sequence[Sequence[int]], lengths: Sequence[int]) -> Tensor:
    rows = np.array(marks, dtype=np.int64)
    if rows.ndim != 2 or len(rows) != len(lengths) or (rows < 0).any() or (rows >= np.array(lengths)[:, None]).any():
        raise ValueError("every sequence needs the same number of marks, each on one of its own tokens")
    starts = np.cumsum(lengths) - lengths
    return torch.from_numpy(rows + starts[:, None])


def _lay(sequences: Sequence[Ids], tail: int, fill: int) -> Tensor:
    parts = [np.asarray(sequence, dtype=np.int64) for sequence in sequences]
    return torch.from_numpy(np.concatenate([*parts, np.full(tail, fill, dtype=np.int64)]))


def least_rows(device: torch.device) -> int:
    """Number of rows from which the rows of a matrix product do not depend on how many there are, for predictions.

    Libraries compute products of fewer rows with other kernels, which sum in another order: the last bits of a row then depend on what
    else is in the batch. Measured 2026-11-18, with rows of 128 to 3,072 numbers: on two CPUs, below 16 rows with up to 8 threads and
    up to 128 with 16; on an H200 in float32, up to 2,048 for a product with few columns.
    """
    return 4_096 if device.type == "cuda" else max(64, 16 * torch.get_num_threads())


def few_shapes(tokens: int) -> int:
    """Round a number of tokens up, for a CPU: oneDNN keeps about half a megabyte for each shape of a product."""
    return -(-tokens // 64) * 64


@dataclass(frozen=True)
class Padded:
    """Real sequences of a batch as rows [N, L], for models that cannot run packed."""

    input_ids: Tensor
    attention_mask: Tensor
    position_ids: Tensor
    token_type_ids: Tensor | None
    index: Tensor
    num_tokens: int


def to_padded(batch: Packed, *, pad_id: int) -> Padded:
    """Turn the real sequences into rows of equal length. Synchronises with the device to read the longest length."""
    starts, lengths = batch.starts(), batch.lengths()
    longest = int(lengths.max())
    columns = torch.arange(longest, device=lengths.device)
    mask = columns < lengths[:, None]
    # Real sequences come first and without gaps, so the true cells in row order are the first tokens of the batch.
    index = mask.flatten().nonzero().flatten()
    source = torch.where(mask, starts[:, None] + columns, 0)
    types = batch.token_type_ids
    return Padded(
        input_ids=torch.where(mask, batch.input_ids[source], pad_id),
        attention_mask=mask.long(),
        position_ids=columns.expand_as(mask),
        token_type_ids=None if types is None else torch.where(mask, types[source], 0),
        index=index,
        num_tokens=batch.num_tokens,
    )


def from_padded(values: Tensor, padded: Padded) -> Tensor:
    """Turn rows [N, L, …] back into [T, …]; padding at the end of the batch becomes zeros."""
    real = values.flatten(0, 1).index_select(0, padded.index)
    tail = padded.num_tokens - real.shape[0]
    return torch.cat([real, real.new_zeros(tail, *real.shape[1:])]) if tail else real
