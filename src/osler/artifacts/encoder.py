"""The encoder artifact: a Hugging Face model folder, with the files that pretraining adds to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osler.core.artifact import LOGS, MANIFEST, Artifact, Manifest
from osler.core.console import count_text
from osler.core.errors import ArtifactError
from osler.core.files import fingerprint, write_atomic, write_json
from osler.nn.cost import inner_width

if TYPE_CHECKING:
    from osler.report.page import Page

_TOKENIZER, _CONFIG = "tokenizer.json", "config.json"
_CARD, _HISTORY, _REPORT, _CONVERSION = "README.md", "history.json", "report.html", "conversion.json"
_SPEED, _PEAK, _LOG = (Path(LOGS, name) for name in ("speed.html", "peak.json", "log.jsonl"))


@dataclass(frozen=True)
class DevicePeak:
    """FLOP/s of large matrix products on the devices of a run."""

    device: str
    devices: int
    flops_per_second: float


@dataclass(frozen=True)
class Encoder:
    """A model folder: made by osler pretrain, downloaded, or from elsewhere. Opening one loads no weights."""

    path: Path

    @classmethod
    def open(cls, source: str | Path) -> Encoder:
        """Open a model folder, or a model of the Hugging Face hub by its name."""
        from osler.nn.folders import resolve

        return cls(resolve(source))

    @property
    def tokenizer(self) -> Path | None:
        """The tokenizer.json, if there is one."""
        path = self.path / _TOKENIZER
        return path if path.is_file() else None

    @property
    def weights(self) -> list[Path]:
        return sorted(self.path.glob("*.safetensors"))

    @cached_property
    def config(self) -> Any:
        """The Hugging Face configuration."""
        from osler.nn.folders import load_config

        return load_config(self.path)

    @property
    def digest(self) -> str:
        """A hash of weights, configuration and vocabulary."""
        tokenizer = [self.tokenizer] if self.tokenizer else []
        return fingerprint([*self.weights, self.path / _CONFIG, *tokenizer])

    @cached_property
    def manifest(self) -> Manifest | None:
        """The manifest, if osler made the folder."""
        return Artifact.open(self.path).manifest if (self.path / MANIFEST).is_file() else None

    @property
    def counts(self) -> Mapping[str, Any]:
        """Counts in the manifest: parameters, steps, validation loss and others; empty without a manifest."""
        return self.manifest.counts if self.manifest else {}

    @property
    def history(self) -> list[dict[str, Any]]:
        """Log records of the training run; empty without a history."""
        path = self.path / _HISTORY
        if not path.is_file():
            return []
        try:
            return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
        except ValueError as error:
            raise ArtifactError("the training history is damaged", where=path, fix="Pretrain again") from error

    def describe(self) -> str:
        """The architecture in one line."""
        return describe_shape(self.config)

    @cached_property
    def tensors(self) -> frozenset[str]:
        """Names of all tensors in the weights files. Reads only the file headers."""
        from safetensors import safe_open

        found: set[str] = set()
        for path in self.weights:
            with safe_open(path, "pt") as file:
                found.update(file.keys())
        return frozenset(found)

    def has_weights(self, *names: str) -> bool:
        """Whether the weights files hold all these tensors."""
        return self.tensors.issuperset(names)

    def check_weights(self) -> None:
        """Check that no weights file is truncated. Reads only the file headers."""
        from safetensors import SafetensorError, safe_open

        for path in self.weights:
            try:
                with safe_open(path, "pt"):
                    pass
            except (OSError, SafetensorError) as error:
                raise ArtifactError(
                    "this weights file is damaged or incomplete", where=path, fix="Copy or download the model again"
                ) from error


@dataclass(frozen=True)
class EncoderWriter:
    """Writes the files that pretraining or conversion adds to a Hugging Face folder."""

    folder: Path

    def write_peak(self, peak: DevicePeak) -> None:
        write_json(self.folder / _PEAK, asdict(peak))

    def read_peak(self) -> DevicePeak | None:
        """Read the peak that an earlier process of the run recorded."""
        path = self.folder / _PEAK
        return DevicePeak(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None

    def read_log(self) -> list[dict[str, Any]]:
        """Log records of the run with their times; empty if nothing was logged."""
        path = self.folder / _LOG
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []

    def write_card(self, card: str, history: Sequence[Mapping[str, Any]]) -> None:
        write_atomic(self.folder / _CARD, card)
        write_atomic(self.folder / _HISTORY, json.dumps(list(history), indent=1) + "\n")

    def write_conversion(self, card: str, record: Mapping[str, Any]) -> None:
        """Write the card of a converted model, and the full record of what was read, renamed and dropped."""
        write_atomic(self.folder / _CARD, card)
        write_json(self.folder / _CONVERSION, record)

    def write_pages(self, report: Page, speed: Page | None) -> None:
        """Write the report, and the speed page under logs/: times differ between runs and must not be hashed."""
        report.write(self.folder / _REPORT)
        if speed is not None:
            speed.write(self.folder / _SPEED)


def describe_shape(config: Any) -> str:
    """Describe the architecture of a Hugging Face configuration in one line."""
    layers = count_text(config.num_hidden_layers, "layer")
    return (
        f"{config.model_type}: {layers} of width {config.hidden_size}, "
        f"{config.num_attention_heads} heads, inner width {inner_width(config):,}"
    )
