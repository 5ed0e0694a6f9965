"""Run any Hugging Face encoder on packed batches: packed where the architecture allows it, padded where it does not."""

from __future__ import annotations

import copy
import inspect
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import safe_open
from torch import Tensor, nn

from osler.core.errors import ArtifactError
from osler.nn import attention
from osler.nn.folders import (
    load_config,
    load_encoder_config,
    load_model,
    quiet,
    resolve,
    saving,
    seeded,
    without_pooler,
)
from osler.nn.layers import use_fast_layers, use_fast_products
from osler.nn.packing import Packed, Padded, from_padded, pack, to_padded

Mode = Literal["packed", "padded"]

_TOLERANCE = 1e-4
_POOLER = re.compile(r"(^|\.)pooler(\.dense)?\.(weight|bias)$")
_known: dict[tuple[type, str, str], bool] = {}


class PackedModule(nn.Module):
    """A Hugging Face model that takes packed batches."""

    def __init__(self, model: Any, mode: Mode | None = None) -> None:
        """Wrap a model; without a `mode` it runs packed if the architecture can."""
        super().__init__()
        use_fast_products()
        use_fast_layers(model)
        self.model = model
        base = model.base_model
        packed = mode != "padded" and honours_registration(base)
        if mode == "packed" and not packed:
            raise ValueError(f"{type(base).__name__} cannot run packed: it ignores the registered attention")
        if packed:
            attention.register()
            with quiet():
                base.set_attn_implementation(attention.NAME)
        elif base.config._attn_implementation == attention.NAME:
            base.set_attn_implementation("sdpa")
        self.mode: Mode = "packed" if packed else "padded"
        self._layout = Layout.of(base)
        self.train(model.training)

    @property
    def config(self) -> Any:
        return self.model.config

    @property
    def hidden_size(self) -> int:
        return int(self.config.hidden_size)

    @property
    def vocab_size(self) -> int:
        return int(self.config.vocab_size)

    @property
    def max_length(self) -> int:
        """Largest number of tokens in a sequence, including special tokens."""
        return self._layout.max_length

    def hidden(self, batch: Packed) -> Tensor:
        """Last hidden states [T, H] of every token of the batch."""
        layout, base = self._layout, self.model.base_model
        if batch.max_length > layout.max_length:
            raise ValueError(
                f"the batch may hold sequences of {batch.max_length} tokens, the encoder takes {layout.max_length}"
            )
        if self.mode == "packed":
            if base.config._attn_implementation != attention.NAME:
                # Any other attention would let the sequences of a batch see each other.
                raise RuntimeError("the attention of this model was changed from outside; wrap the model again")
            packed: Tensor = base(**layout.packed_inputs(batch))[0]
            return packed.squeeze(0)
        padded = to_padded(batch, pad_id=layout.pad_id)
        return from_padded(base(**layout.padded_inputs(padded))[0], padded)

    def save(self, folder: Path) -> None:
        """Write a folder that stock `transformers` loads."""
        with saving(folder), quiet():
            self.model.save_pretrained(folder)


class PackedEncoder(PackedModule):
    """A Hugging Face base model without pooler."""

    forward = PackedModule.hidden


def load_encoder(source: str | Path) -> PackedEncoder:
    """Load an encoder from a folder or by its hub name, in evaluation mode; for a masked language model, its encoder."""
    from transformers import AutoModel

    load_encoder_config(source)
    return PackedEncoder(load_model(AutoModel, source))


def fresh_encoder(source: str | Path, *, seed: int, layers: int | None = None) -> PackedEncoder:
    """Make an encoder of the same shape as another with random weights: the baseline that shows what pretraining adds.

    With `layers` it has at most that many, for a quick trial.
    """
    from transformers import AutoModel

    auto: Any = AutoModel
    config = load_encoder_config(source)
    if layers is not None:
        config.num_hidden_layers = min(layers, config.num_hidden_layers)
        if kinds := getattr(config, "layer_types", None):
            config.layer_types = kinds[:layers]
    with seeded(seed, "encoder"), quiet():
        model = auto.from_config(config, dtype=torch.float32, **without_pooler(auto, config))
    return PackedEncoder(model.eval())


def load_pooler(source: str | Path) -> dict[str, Tensor]:
    """Weight and bias of a checkpoint's own pooler: the dense layer that BERT applies to the first token, before a tanh."""
    from transformers import AutoModel

    folder = resolve(source)
    found: dict[str, Tensor] = {}
    has_pooler = bool(without_pooler(AutoModel, load_config(folder)))
    for path in sorted(folder.glob("model*.safetensors")) if has_pooler else []:
        with safe_open(path, "pt") as file:
            for key in file.keys():  # noqa: SIM118 - not a mapping
                if _POOLER.search(key):
                    found[key.rpartition(".")[2]] = file.get_tensor(key).float()
    if found.keys() != {"weight", "bias"}:
        raise ArtifactError(
            "this checkpoint has no pooler to start from",
            where=source,
            fix='Set head = "mlp" (a new dense layer) or head = "linear" (none)',
        )
    return found


def max_length_of(config: Any) -> int:
    """Largest number of tokens in a sequence of an encoder, including special tokens; allocates no weights."""
    from transformers import AutoModel

    auto: Any = AutoModel
    with torch.device("meta"), quiet():
        return Layout.of(auto.from_config(config, **without_pooler(auto, config))).max_length


@dataclass(frozen=True)
class Layout:
    """Input conventions of one encoder."""

    position_offset: int
    token_types: bool
    max_length: int
    pad_id: int

    @classmethod
    def of(cls, model: Any) -> Layout:
        """Read the conventions from a Hugging Face base model."""
        # RoBERTa and its relatives reserve the rows up to their padding index: their first position is padding_idx + 1.
        table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
        padding = table.padding_idx if isinstance(table, nn.Embedding) else None
        offset = 0 if padding is None else padding + 1
        known = inspect.signature(model.forward).parameters
        return cls(
            position_offset=offset,
            token_types="token_type_ids" in known and (getattr(model.config, "type_vocab_size", 0) or 0) > 1,
            max_length=int(model.config.max_position_embeddings) - offset,
            pad_id=getattr(model.config, "pad_token_id", None) or 0,
        )

    def packed_inputs(self, batch: Packed) -> dict[str, Any]:
        """Keyword arguments that run a model with packed attention."""
        inputs = {
            "input_ids": batch.input_ids[None],
            "position_ids": batch.position_ids[None] + self.position_offset,
            "cu_seq_lens_q": batch.cu_seqlens,
            "cu_seq_lens_k": batch.cu_seqlens,
            "max_length_q": batch.max_length,
            "max_length_k": batch.max_length,
        }
        if self.token_types and batch.token_type_ids is not None:
            inputs["token_type_ids"] = batch.token_type_ids[None]
        return inputs

    def padded_inputs(self, padded: Padded) -> dict[str, Any]:
        """Keyword arguments that run a model on padded rows."""
        inputs = {
            "input_ids": padded.input_ids,
            "attention_mask": padded.attention_mask,
            "position_ids": padded.position_ids + self.position_offset,
        }
        if self.token_types and padded.token_type_ids is not None:
            inputs["token_type_ids"] = padded.token_type_ids
        return inputs


def honours_registration(model: Any) -> bool:
    """Whether this Hugging Face base model gives correct results packed.

    Two sequences run packed are compared with the same sequences run one by one, once for each configuration and device.
    """
    device = next(model.parameters()).device
    # Neither the path nor the dtype matters: the comparison is always in float32.
    settings = model.config.to_dict() | {"_name_or_path": "", "dtype": None}
    known = (type(model), json.dumps(settings, sort_keys=True, default=str), device.type)
    if known in _known:
        return _known[known]
    # In half precision a leak could hide in the rounding.
    if next(model.parameters()).dtype != torch.float32:
        model = copy.deepcopy(model).float()
    layout = Layout.of(model)
    # Longer than the local window, to notice a model that does not pass its window on.
    window = getattr(model.config, "sliding_window", None) or 0
    lengths = (min(window + 9, layout.max_length), min(7, layout.max_length))
    tokens = torch.arange(sum(lengths)) * 7919 % min(model.config.vocab_size, 997)
    tokens[tokens == layout.pad_id] += 1
    sequences = [part.numpy() for part in tokens.split(lengths)]
    together = pack(sequences, pad_id=layout.pad_id).to(device)
    alone = [row[None].to(device) for row in tokens.split(lengths)]

    before, training = model.config._attn_implementation, model.training
    same = False
    model.eval()
    attention.register()
    with torch.no_grad(), quiet():
        try:
            model.set_attn_implementation("eager")
            # Without position ids: the reference must use the model's own positions.
            expected = torch.cat([model(input_ids=row)[0].squeeze(0) for row in alone])
            model.set_attn_implementation(attention.NAME)
            if model.config._attn_implementation == attention.NAME:
                found = model(**layout.packed_inputs(together))[0].squeeze(0)
                scale = expected.abs().max().clamp(min=1.0)
                same = bool((found - expected).abs().max() <= _TOLERANCE * scale)
        except (TypeError, ValueError, RuntimeError, NotImplementedError):
            pass  # packing is an optimisation: a model that fails here runs padded, where a real fault would show again
        finally:
            model.set_attn_implementation(before)
            model.train(training)
    _known[known] = same
    return same
