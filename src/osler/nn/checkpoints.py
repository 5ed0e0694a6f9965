"""Published weights in older layouts: read without running code, renamed, and checked against their configuration.

Run as a script, this file is the process that reads one pickle and writes its tensors as safetensors.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from osler.core.errors import ArtifactError, OutputError, first_line
from osler.nn.folders import quiet

_SAFE, _PICKLE = "model.safetensors", "pytorch_model.bin"
_DOWNLOAD_AGAIN = "Copy or download the model again"
_CODE, _OTHER, _UNWRITTEN = 3, 4, 5
"""Exit codes of the reading process: the file asks for code, it holds something other than tensors, the result cannot be written."""

Weights = dict[str, Tensor]


@dataclass(frozen=True)
class WeightFiles:
    """The files that hold the weights of a model."""

    index: Path | None
    """Index that says which file holds which weight, if there are several."""
    files: tuple[Path, ...]

    @property
    def pickled(self) -> bool:
        return any(path.suffix != ".safetensors" for path in self.files)

    @property
    def all(self) -> tuple[Path, ...]:
        return (self.index, *self.files) if self.index else self.files

    @property
    def size(self) -> int:
        return sum(path.stat().st_size for path in self.files)

    @classmethod
    def find(cls, folder: Path) -> WeightFiles:
        """Find the weights of a folder. Safetensors are preferred to a pickle."""
        for name in (_SAFE, _PICKLE):
            if (folder / name).is_file():
                return cls(None, (folder / name,))
            index = folder / f"{name}.index.json"
            if index.is_file():
                files = sorted(set(_weight_map(index).values()))
                for file in files:
                    if Path(file).name != file or not (folder / file).is_file():
                        raise ArtifactError(
                            f"the part {file!r} of the weights is missing", where=index, fix=_DOWNLOAD_AGAIN
                        )
                return cls(index, tuple(folder / file for file in files))
        raise _no_weights(folder)

    def read(self, scratch: Path) -> Weights:
        """Read every weight. A separate process converts pickles and writes the result to `scratch`."""
        weights: Weights = {}
        for path in self.files:
            part = _read_safetensors(path if path.suffix == ".safetensors" else _unpickle(path, scratch), path)
            repeated = next(iter(weights.keys() & part.keys()), None)
            if repeated:
                raise ArtifactError(f"the weight {_shown(repeated)} is in two files", where=path, fix=_DOWNLOAD_AGAIN)
            weights |= part
        if self.index:
            differing = sorted(weights.keys() ^ _weight_map(self.index).keys())
            if differing:
                raise ArtifactError(
                    f"the files do not hold the weights that this index lists: {len(differing):,} differ, "
                    f"{_shown(differing[0])} first",
                    where=self.index,
                    fix=_DOWNLOAD_AGAIN,
                )
        return weights


def _weight_map(index: Path) -> dict[str, str]:
    try:
        found = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        return {str(name): str(file) for name, file in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ArtifactError("not a valid index of weights", where=index, fix=_DOWNLOAD_AGAIN) from None


def _no_weights(folder: Path) -> ArtifactError:
    tensorflow = next(iter(sorted(folder.glob("*.index"))), None) or next(iter(sorted(folder.glob("*.h5"))), None)
    if tensorflow:
        return ArtifactError(
            f"the weights are a TensorFlow checkpoint ({tensorflow.name}), which only TensorFlow can read",
            where=folder,
            fix="Use the publisher's PyTorch version, or save the variables as model.safetensors in an environment with "
            "TensorFlow: docs/guide/checkpoints.md has the script. Their names are converted here",
        )
    archive = next(iter(sorted(folder.glob("*.tar.gz"))), None)
    if archive:
        return ArtifactError(
            f"no weights here, but an archive ({archive.name})", where=folder, fix="Unpack it into this folder first"
        )
    return ArtifactError(
        f"no weights here: neither {_SAFE} nor {_PICKLE}", where=folder, fix="Give the complete folder of a model"
    )


def _read_safetensors(path: Path, source: Path) -> Weights:
    try:
        return load_file(path)
    except (OSError, SafetensorError):
        raise ArtifactError("this weights file is damaged or incomplete", where=source, fix=_DOWNLOAD_AGAIN) from None


def _unpickle(source: Path, scratch: Path) -> Path:
    """Convert a pickle of tensors to safetensors in a separate process."""
    target = scratch / f"{source.name}.safetensors"
    environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    # The same packages as here, but nothing from the current folder: -P and only absolute paths.
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if os.path.isabs(path))
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # the process must not write
    command = [sys.executable, "-P", "-m", __name__, os.path.abspath(source), str(target)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return target
    publisher = "Get the weights from their publisher, if possible as safetensors"
    said = done.stdout.strip()
    if done.returncode == _CODE:
        problem = f"this file holds code ({said}), not only tensors. It was refused, and nothing of it was run"
        raise ArtifactError(problem, where=source, fix=publisher)
    if done.returncode == _OTHER:
        raise ArtifactError(f"this file holds more than named tensors: {said}", where=source, fix=publisher)
    if done.returncode == _UNWRITTEN:
        raise OutputError(f"cannot write: {said}", where=scratch, fix="Free some space or choose another --out")
    if done.returncode < 0:
        raise ArtifactError(
            "the process that read this file was stopped, most likely because memory ran out",
            where=source,
            fix="Run again on a machine with more memory",
        )
    raise ArtifactError("this weights file is damaged or incomplete", where=source, fix=_DOWNLOAD_AGAIN)


def _convert_pickle(source: str, target: str) -> None:
    """In the reading process, load tensors only and write them."""
    # Two safeguards: torch's unpickler builds tensors only, and the hook stops whatever might get past it.
    sys.addaudithook(_allow_nothing_but_reading)
    try:
        loaded = torch.load(source, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        asked = re.search(r"GLOBAL ([\w.]+)", str(error))
        if asked is None:
            raise
        _end(_CODE, asked[1])
    if not isinstance(loaded, Mapping):
        _end(_OTHER, f"its type is {type(loaded).__name__}")
    for name, value in loaded.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            _end(_OTHER, f"{_shown(str(name))} has the type {type(value).__name__}")
    # Cloned: tied weights share memory, which safetensors does not write.
    weights = {name: value.detach().clone().contiguous() for name, value in loaded.items()}
    try:
        save_file(weights, target)
    except (OSError, SafetensorError) as error:
        _end(_UNWRITTEN, first_line(error))


_FORBIDDEN = ("os.", "subprocess.", "socket.", "shutil.", "ctypes.", "pickle.find_class", "webbrowser.", "pty.")
_HARMLESS = ("os.listdir", "os.scandir", "os.walk", "os.fwalk")


def _allow_nothing_but_reading(event: str, arguments: tuple[Any, ...]) -> None:
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writes or (event.startswith(_FORBIDDEN) and event not in _HARMLESS):
        _end(_CODE, event)


def _end(code: int, what: str) -> NoReturn:
    print(what, flush=True)
    os._exit(code)


@dataclass(frozen=True)
class FittedWeights:
    """Weights under the names of today's transformers, all of them part of the configured model."""

    weights: Weights
    renamed: dict[str, str]
    """New name by name in the files."""
    tensorflow: bool
    """Whether the names were those of TensorFlow's variables."""
    transposed: bool
    """Whether the matrices were stored input first, as in TensorFlow."""
    dropped: dict[str, str]
    """Reason by name in the files."""
    parts: tuple[str, ...]
    """Parts of the model found: encoder, pooler, language-model head, head of the second objective."""
    stock: Any
    """The most complete transformers class whose weights are all there."""


# Weights that belong to no encoder, by their names after renaming.
_EXTRAS = (
    (r"(.*\.)?(position_ids|token_type_ids)", "a buffer that transformers computes"),
    (r".*\.(adam_[mv]|AdamWeightDecayOptimizer(_\d+)?)", "state of the optimiser"),
    (r"(.*\.)?(global_step|good_steps|loss_scale|beta[12]_power|bad_steps)", "state of the optimiser"),
    (r"(classifier|qa_outputs|qa_classifier|score)\..*|output_(weights|bias)", "a fine-tuned head"),
)


def fit(weights: Weights, config: Any, where: Path) -> FittedWeights:
    """Rename weights to fit the architecture of a configuration; raise an error if any does not fit.

    Handles TensorFlow names, LayerNorm's old `gamma` and `beta`, a missing encoder prefix, and DataParallel's `module.`.
    """
    wanted = Wanted.of(config)
    renamed: dict[str, str] = {}
    dropped: dict[str, str] = {}
    fitted: Weights = {}
    tensorflow, kernels = False, set()
    for old, value in weights.items():
        name = modern_name(old)
        reason = next((reason for pattern, reason in _EXTRAS if re.fullmatch(pattern, name)), None)
        if name not in wanted.shapes:
            name = f"{wanted.prefix}.{name}"
        if name not in wanted.shapes:
            if reason is None:
                raise ArtifactError(
                    f"the weight {_shown(old)} is not part of a {config.model_type} model",
                    where=where,
                    fix="Check that weights and configuration belong together",
                )
            dropped[old] = reason
            continue
        if name in fitted:
            raise ArtifactError(f"two weights are both {name}", where=where, fix=_DOWNLOAD_AGAIN)
        if not value.is_floating_point() or not bool(torch.isfinite(value).all()):
            raise ArtifactError(
                f"the weight {_shown(old)} has values that are not numbers", where=where, fix=_DOWNLOAD_AGAIN
            )
        if old != name:
            renamed[old] = name
            tensorflow |= bool(re.search(r"/|\blayer_\d|\bkernel\b", old))
        if re.search(r"[./]kernel(:0)?$", old):
            kernels.add(name)
        fitted[name] = value
    transposed = _input_first({name: fitted[name] for name in kernels}, wanted, where)
    for name in kernels if transposed else ():
        fitted[name] = fitted[name].T.contiguous()
    _check_shapes(fitted, wanted, where)
    _untie(fitted, wanted, dropped, {new: old for old, new in renamed.items()}, where)
    parts = _check_parts(fitted, wanted, where)
    # The encoder is complete here, so the last class always fits.
    stock = next(kind for kind, names in wanted.classes.items() if names <= fitted.keys() | wanted.tied.keys())
    return FittedWeights(fitted, renamed, tensorflow, transposed, dropped, parts, stock)


def modern_name(name: str) -> str:
    """The name that PyTorch models use today for a weight with an old or TensorFlow name."""
    name = name.removeprefix("module.").removesuffix(":0").replace("/", ".")
    name = re.sub(r"\blayer_(\d+)\.", r"layer.\1.", name)
    name = re.sub(r"(LayerNorm|layer_norm)\.gamma$", r"\1.weight", name)
    name = re.sub(r"(LayerNorm|layer_norm)\.beta$", r"\1.bias", name)
    name = re.sub(r"_embeddings$", "_embeddings.weight", name)
    name = re.sub(r"\.(kernel|output_weights)$", ".weight", name)
    return re.sub(r"\.output_bias$", ".bias", name)


@dataclass(frozen=True)
class Wanted:
    """The weights that an architecture can have."""

    prefix: str
    """Prefix of the encoder's weights, such as `bert`."""
    shapes: dict[str, tuple[int, ...]]
    parts: dict[str, str]
    """The part of the model that each weight belongs to."""
    tied: dict[str, str]
    """Weights that are always equal to another one."""
    classes: dict[Any, set[str]]
    """Stock classes, the most complete first, with the weights that each must have."""

    @classmethod
    def of(cls, config: Any) -> Wanted:
        """Ask transformers, without allocating any weights."""
        from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForPreTraining

        autos: tuple[Any, ...] = (AutoModel, AutoModelForMaskedLM, AutoModelForPreTraining)
        with torch.device("meta"), quiet():
            base, language_model, pretraining = (auto.from_config(config) for auto in autos)
        prefix = str(language_model.base_model_prefix)
        shapes: dict[str, tuple[int, ...]] = {}
        parts: dict[str, str] = {}
        for name, value in base.state_dict().items():
            part = "pooler" if name.startswith("pooler.") else "encoder"
            shapes[f"{prefix}.{name}"], parts[f"{prefix}.{name}"] = tuple(value.shape), part
        for model, part in ((language_model, "language-model head"), (pretraining, "head of the second objective")):
            for name, value in model.state_dict().items():
                shapes.setdefault(name, tuple(value.shape))
                parts.setdefault(name, part)
        tied = {**language_model.all_tied_weights_keys, **pretraining.all_tied_weights_keys}
        classes = {type(model): set(model.state_dict()) for model in (pretraining, language_model)}
        classes[type(base)] = {name for name in parts if parts[name] == "encoder"}
        return cls(prefix, shapes, parts, tied, classes)


def _input_first(kernels: Weights, wanted: Wanted, where: Path) -> bool:
    """Whether TensorFlow's matrices are stored input first, judged by those that are not square."""
    found = set()
    for name, value in kernels.items():
        shape, expected = tuple(value.shape), wanted.shapes[name]
        if shape != shape[::-1] and sorted(shape) == sorted(expected):
            found.add(shape != expected)
    if kernels and len(found) != 1:
        raise ArtifactError(
            "these TensorFlow matrices may be stored either way round, and their shapes do not tell which",
            where=where,
            fix="Use the publisher's PyTorch version of the model",
        )
    return found.pop() if found else False


def _check_shapes(fitted: Weights, wanted: Wanted, where: Path) -> None:
    for name, value in fitted.items():
        if tuple(value.shape) != wanted.shapes[name]:
            raise ArtifactError(
                f"the weight {name} has the shape {_size(value.shape)}, the configuration asks for "
                f"{_size(wanted.shapes[name])}",
                where=where,
                fix="Check that weights and configuration belong together",
            )


def _untie(fitted: Weights, wanted: Wanted, dropped: dict[str, str], old_names: Mapping[str, str], where: Path) -> None:
    """Keep one copy of tied weights, and check that the other is equal to it."""
    for copy, original in wanted.tied.items():
        if copy not in fitted:
            continue
        value = fitted.pop(copy)
        if original not in fitted:
            fitted[original] = value
            continue
        if not torch.equal(value, fitted[original]):
            raise ArtifactError(
                f"{copy} and {original} differ, but the architecture has one weight for both",
                where=where,
                fix="Use another copy of the model: this one cannot be loaded as its configuration says",
            )
        dropped[old_names.get(copy, copy)] = f"equal to {original}"


def _check_parts(fitted: Weights, wanted: Wanted, where: Path) -> tuple[str, ...]:
    """Return the parts found. The encoder is required, and no part may be incomplete."""
    found = []
    for part in dict.fromkeys(wanted.parts.values()):
        names = [name for name in wanted.parts if wanted.parts[name] == part and name not in wanted.tied]
        missing = [name for name in names if name not in fitted]
        if missing and (part == "encoder" or len(missing) < len(names)):
            raise ArtifactError(
                f"{len(missing):,} weights of the {part} are missing, {missing[0]} first",
                where=where,
                fix=_DOWNLOAD_AGAIN,
            )
        if not missing:
            found.append(part)
    return tuple(found)


def _size(shape: Iterable[int]) -> str:
    return " x ".join(str(number) for number in shape)


def _shown(name: str) -> str:
    """A name from a file, safe to print."""
    return ascii(name)[:120]


if __name__ == "__main__":
    _convert_pickle(*sys.argv[1:])
