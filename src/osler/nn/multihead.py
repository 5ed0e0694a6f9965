"""One encoder and any number of named heads, computed in one pass."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from osler.core.errors import ArtifactError, RecipeError, alternatives
from osler.core.files import write_atomic, write_json
from osler.nn.encoder import PackedEncoder, load_encoder, load_pooler
from osler.nn.folders import resolve, seeded
from osler.nn.heads import HEADS
from osler.nn.heads.base import Head
from osler.nn.packing import Packed

_FORMAT = 1
_LAYERS = "mlp"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class HeadArguments:
    """Arguments that rebuild a head."""

    kind: str
    num_labels: int
    labels: tuple[str, ...] = ()
    dropout: float = 0.1
    layers: str = _LAYERS
    """Layers of a sequence head; other heads have only one form."""


class MultiHeadModel(nn.Module):
    """An encoder with several heads on its hidden states."""

    def __init__(self, encoder: PackedEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.heads = nn.ModuleDict()
        self.specs: dict[str, HeadArguments] = {}
        self.train(encoder.training)

    def add_head(
        self,
        name: str,
        kind: str,
        num_labels: int,
        *,
        seed: int,
        labels: Sequence[str] = (),
        dropout: float = 0.1,
        layers: str = _LAYERS,
    ) -> Head:
        """Add a head whose initial weights depend on (seed, name) alone. `layers` is for sequence heads."""
        if not _NAME.fullmatch(name) or hasattr(nn.ModuleDict, name):
            raise RecipeError(
                f"a head cannot be named {name!r}",
                fix="Use letters, digits, '-' and '_', and no name that torch reserves, such as 'keys' or 'type'",
            )
        if name in self.heads:
            raise RecipeError(f"there is a head {name!r} already", fix="Give each head its own name")
        if labels and len(labels) != num_labels:
            raise ValueError(f"head {name!r} has {num_labels} outputs but {len(labels)} labels")
        spec = HeadArguments(kind, num_labels, tuple(labels), dropout, layers)
        more = {} if layers == _LAYERS else {"layers": layers}
        with seeded(seed, "head", name):
            head: Head = HEADS.get(kind)(self.encoder.hidden_size, num_labels, dropout, **more)
        head.name_outputs(spec.labels)
        like = next(self.encoder.parameters())
        head = head.to(device=like.device, dtype=like.dtype).train(self.training)
        self.heads[name] = head
        self.specs[name] = spec
        return head

    def share_pooler(self, names: Sequence[str], weights: Mapping[str, Tensor] | None) -> None:
        """Give these heads one pooler between them, as a BERT has one, with the weights of a checkpoint's if given."""
        shared = self.head(names[0]).get_submodule("dense")
        if weights is not None:
            shared.load_state_dict(weights)
        for name in names[1:]:
            self.head(name).dense = shared

    def head(self, name: str) -> Head:
        if name not in self.heads:
            raise RecipeError(f"no head {name!r}", fix=alternatives(name, self.heads))
        head = self.heads[name]
        assert isinstance(head, Head)
        return head

    def forward(self, batch: Packed, names: Iterable[str] | None = None) -> dict[str, Tensor]:
        """Logits of the named heads (all by default) from one pass of the encoder."""
        chosen = {name: self.head(name) for name in (self.heads if names is None else names)}
        # A frozen encoder needs to store nothing for a backward pass.
        trained = any(parameter.requires_grad for parameter in self.encoder.parameters())
        with torch.set_grad_enabled(torch.is_grad_enabled() and trained):
            hidden = self.encoder(batch)
        return {name: head(hidden, batch) for name, head in chosen.items()}

    def predict(self, batch: Packed, names: Iterable[str], *, bf16: bool) -> dict[str, Tensor]:
        """Logits in float32, without gradients. `bf16` applies to the encoder only; the heads stay in float32."""
        with torch.inference_mode():
            with torch.autocast(batch.input_ids.device.type, dtype=torch.bfloat16) if bf16 else nullcontext():
                hidden = self.encoder(batch)
            return {name: self.head(name)(hidden.float(), batch).float() for name in names}

    def save(self, folder: Path) -> None:
        """Write the encoder, and the heads in the same folder."""
        self.encoder.save(folder)
        # Copies: heads may share a pooler, and safetensors does not write shared memory. Each head has its own in the file.
        weights = {
            name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            for name, tensor in self.heads.state_dict().items()
        }
        write_atomic(folder / "heads.safetensors", save(weights, metadata={"format": "pt"}))
        # `settings` is unused and `layers` came later: writing them this way keeps the digests of older bundles.
        heads = {name: {**asdict(spec), "settings": {}} for name, spec in self.specs.items()}
        for spec in heads.values():
            if spec["layers"] == _LAYERS:
                del spec["layers"]
        write_json(folder / "heads.json", {"format": _FORMAT, "heads": heads})

    @classmethod
    def load(cls, folder: Path) -> MultiHeadModel:
        """Read what `save` wrote, on the CPU in float32."""
        _read_specs(folder)  # fails faster than loading an encoder
        model = cls(load_encoder(folder))
        model.load_heads(folder)
        return model

    def load_heads(self, folder: Path) -> None:
        """Add the heads that `save` wrote to a model without heads."""
        specs = _read_specs(folder)
        path = folder / "heads.safetensors"
        try:
            for name, spec in specs.items():
                self.add_head(name, seed=0, **asdict(spec))
            self.heads.load_state_dict({key: value.float() for key, value in load_file(path).items()})
        except (OSError, SafetensorError, RuntimeError, TypeError, ValueError) as error:
            raise ArtifactError(
                "the weights of the heads are missing, broken or not those in heads.json",
                where=path,
                fix="Give a complete bundle",
            ) from error


def pooler_of(source: str | Path) -> dict[str, Tensor]:
    """Weight and bias of the pooler to start heads from: that of a checkpoint, or that of a bundle's heads, which share one."""
    folder = resolve(source)
    specs = _read_specs(folder) if (folder / "heads.json").is_file() else {}
    names = [name for name, spec in specs.items() if spec.layers == "pooler"]
    if not names:
        return load_pooler(source)
    weights = load_file(folder / "heads.safetensors")
    found = [{part: weights[f"{name}.dense.{part}"].float() for part in ("weight", "bias")} for name in names]
    for name, other in zip(names[1:], found[1:], strict=True):
        if any(not torch.equal(other[part], found[0][part]) for part in other):
            raise ArtifactError(
                f"the heads {names[0]} and {name} have different poolers, so there is none to start from",
                where=source,
                fix='Set head = "mlp" (a new dense layer) or head = "linear" (none)',
            )
    return found[0]


def _read_specs(folder: Path) -> dict[str, HeadArguments]:
    path = folder / "heads.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        version = int(content["format"])
        if version > _FORMAT:
            raise ArtifactError(
                f"the heads have format {version}, this osler reads up to {_FORMAT}", where=path, fix="Upgrade osler"
            )
        specs = {}
        for name, spec in content["heads"].items():
            spec.pop("settings", None)
            specs[name] = HeadArguments(**{**spec, "labels": tuple(spec["labels"])})
        return specs
    except FileNotFoundError as error:
        raise ArtifactError("no heads.json here", where=folder, fix="Give the folder of a fine-tuned model") from error
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise ArtifactError("not a list of heads", where=path, fix="Give a complete bundle") from error


def own_dropout(config: Any, kind: str) -> float:
    """Default dropout of a head: the architecture's own for token heads, 0.1 for sequence heads.

    Sequence heads have a dense layer and often few examples: without dropout they score lower (docs/decisions.md).
    """
    if HEADS.get(kind).level == "sequence":
        return 0.1
    rates = (getattr(config, name, None) for name in ("classifier_dropout", "hidden_dropout_prob", "dropout"))
    return next((float(rate) for rate in rates if rate is not None), 0.1)


@dataclass(frozen=True)
class Partial:
    """Outputs of a joint tagging head as one corpus sees them: `outside` adds up to its O, `own` are its other tags."""

    outside: Tensor
    own: Tensor

    @classmethod
    def of(cls, own: Sequence[str], joint: Sequence[str]) -> Partial:
        """Map the tags of a corpus, O first, to the tags of a joint head."""
        place = {tag: number for number, tag in enumerate(joint)}
        missing = [tag for tag in own if tag not in place]
        if missing or own[0] != joint[0]:
            raise RecipeError(f"the joint head has no output for the tag {(missing or [own[0]])[0]}")
        kept = [place[tag] for tag in own[1:]]
        outside = [number for number in range(len(joint)) if number not in set(kept)]
        return cls(torch.tensor(outside), torch.tensor(kept))

    def narrowed(self, logits: Tensor) -> Tensor:
        """Logits [T, own tags]: the probabilities of all tags that the corpus does not annotate are added up as O."""
        outside = logits.float().index_select(-1, self.outside).logsumexp(-1, keepdim=True)
        return torch.cat([outside, logits.float().index_select(-1, self.own)], dim=-1)
