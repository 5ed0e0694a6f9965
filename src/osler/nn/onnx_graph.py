"""One ONNX graph with the encoder and all heads of a model, for padded batches of any shape."""

from __future__ import annotations

import functools
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from osler.core.errors import RecipeError
from osler.nn.encoder import Layout, honours_registration
from osler.nn.folders import quiet
from osler.nn.multihead import MultiHeadModel
from osler.nn.packing import Packed

_NAME = "osler_graph"
_OPSET = 17
_MASKED = -1e9
"""Finite, since a padding token far from every real one would otherwise attend to nothing, which is NaN."""


class _AllHeads(nn.Module):
    """Padded rows in, the logits of every head out: [batch, length, outputs] or [batch, outputs]."""

    def __init__(self, model: MultiHeadModel) -> None:
        super().__init__()
        self.base = model.encoder.model.base_model
        self.heads = model.heads
        self.layout = Layout.of(self.base)
        self.plain = honours_registration(self.base)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        ids, mask, *more = inputs
        rows, length = ids.shape
        places = torch.arange(length)[None].expand(rows, length) + self.layout.position_offset
        # Models use an additive mask as it is; the code that converts other masks does not trace well.
        attended = (1.0 - mask[:, None, None, :].float()) * _MASKED if self.plain else mask
        named: dict[str, Any] = {"input_ids": ids, "attention_mask": attended, "position_ids": places}
        if self.layout.token_types:
            named["token_type_ids"] = more.pop(0)
        hidden = self.base(**named)[0]
        batch = Packed(
            input_ids=ids.flatten(),
            position_ids=places.flatten(),
            cu_seqlens=torch.arange(rows + 1) * length,
            max_length=length,
            num_sequences=rows,
            marks=more[0] + torch.arange(rows)[:, None] * length if more else None,
        )
        states = hidden.flatten(0, 1)
        outputs = []
        for head in self.heads.values():
            logits = head(states, batch)
            outputs.append(logits.view(rows, length, -1) if head.level == "token" else logits)
        return tuple(outputs)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention in plain operations; query, key and value are [batch, heads, length, width]."""
    if sliding_window is not None:
        places = torch.arange(query.shape[2])
        # As in flash attention, a window of w reaches w - 1 tokens to each side.
        far = (places[:, None] - places).abs() >= sliding_window
        attention_mask = attention_mask + far.float() * _MASKED
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = query @ key.transpose(2, 3) * scale + attention_mask
    return (scores.softmax(dim=-1) @ value).transpose(1, 2), None


def marks_of(model: MultiHeadModel) -> int:
    """Number of tokens that the marker heads of a model read in each sequence; 0 without such heads."""
    return 2 if any(spec.kind == "markers" for spec in model.specs.values()) else 0


@torch.no_grad()
def to_onnx(model: MultiHeadModel, outputs: list[str]) -> bytes:
    """Trace a model in float32 on the CPU. `outputs` names the output of each head.

    The inputs are `input_ids`, `attention_mask`, then `token_type_ids` and `marks` if the model reads them.
    """
    training = model.training
    model.eval()
    graph = _AllHeads(model)
    length = min(11, graph.layout.max_length)
    ids = torch.arange(2 * length).view(2, length) * 7919 % min(model.encoder.vocab_size, 997)
    mask = torch.ones_like(ids)
    mask[1, length - 1] = 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    if graph.layout.token_types:
        inputs["token_type_ids"] = torch.zeros_like(ids)
    axes = {name: {0: "batch", 1: "length"} for name in inputs}
    if marks := marks_of(model):
        inputs["marks"] = torch.zeros(2, marks, dtype=torch.long)
        axes["marks"] = {0: "batch"}
    levels = [head.level for head in model.heads.values()]
    for name, level in zip(outputs, levels, strict=True):
        axes[name] = {0: "batch", 1: "length"} if level == "token" else {0: "batch"}
    try:
        with _plain_attention(graph), quiet(), warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
            made = Path(folder, "graph.onnx")
            warnings.simplefilter("ignore")  # of the tracer, about shapes that are the same for every input
            torch.onnx.export(
                graph,
                tuple(inputs.values()),
                str(made),
                input_names=list(inputs),
                output_names=outputs,
                dynamic_axes=axes,
                opset_version=_OPSET,
                # The newer exporter takes five times as long, and its graphs ran 1.1 times as long (docs/decisions.md).
                dynamo=False,
            )
            return made.read_bytes()
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        raise RecipeError(
            f"{type(graph.base).__name__} cannot be written as an ONNX graph",
            fix="Serve this bundle with osler and torch, or fine-tune BERT, RoBERTa, ELECTRA, ALBERT, DistilBERT or ModernBERT",
        ) from error
    finally:
        model.train(training)


@functools.cache
def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    AttentionInterface.register(_NAME, _attention)
    AttentionMaskInterface.register(_NAME, eager_mask)


@contextmanager
def _plain_attention(graph: _AllHeads) -> Iterator[None]:
    """Replace attention by plain operations that ONNX has; packed attention cannot be traced."""
    before = graph.base.config._attn_implementation
    _register()
    with quiet():
        graph.base.set_attn_implementation(_NAME if graph.plain else "eager")
    try:
        yield
    finally:
        with quiet():
            graph.base.set_attn_implementation(before)
