"""Hugging Face model folders: safetensors only, never pickle, never remote code."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from osler.core.errors import ArtifactError, InputError, first_line, writing
from osler.core.files import unconverted
from osler.core.models import find_model
from osler.core.seeding import derive

_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")


def resolve(source: str | Path) -> Path:
    """Return the local folder of a model: a path, an installed model, or a hub model, downloaded if not yet cached."""
    path = Path(source).expanduser()
    if path.is_dir():
        return check(path)
    if path.exists():
        raise InputError(
            "a model is a folder, this is a file", where=path, fix="Give the folder that holds config.json"
        )
    name = str(source)
    if (installed := find_model(name)) is not None:
        return check(installed)
    if isinstance(source, Path) or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise InputError("no such folder", where=path, fix="Give a model folder, or a hub name such as owner/model")
    from huggingface_hub import snapshot_download

    try:
        # Neither code nor pickles are downloaded.
        fetched = snapshot_download(
            name, allow_patterns=["*.json", "vocab.txt", "model*.safetensors", "heads.safetensors"]
        )
    except (OSError, ValueError) as error:
        raise InputError(
            "no such folder, and no such model in the local cache or on the hub",
            where=name,
            fix="Check the name, download the model on a machine with network, or give the path of a model folder",
        ) from error
    return check(Path(fetched), name)


def check(folder: Path, name: str | None = None) -> Path:
    """Refuse a folder that is not a model in safetensors."""
    where = name or folder
    if older := unconverted(folder):
        raise older
    if not (folder / "config.json").is_file():
        raise ArtifactError("no config.json here", where=where, fix="Give the folder of a Hugging Face model")
    if not any((folder / file).is_file() for file in _WEIGHTS):
        fix = "Give the complete folder of a Hugging Face model"
        if name:  # pickles are not downloaded
            fix = "If it has pytorch_model.bin, download its folder yourself and convert it: osler convert-model FOLDER"
        raise ArtifactError("no model.safetensors here", where=where, fix=fix)
    return folder


def load_config(source: str | Path) -> Any:
    """Load the configuration of a model."""
    from transformers import AutoConfig

    folder = resolve(source)
    with _loading(source, "a model"):
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)


def load_encoder_config(source: str | Path) -> Any:
    """Load the configuration of an encoder, and refuse a model of another kind."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    config = load_config(source)
    decodes = config.is_encoder_decoder or getattr(config, "is_decoder", False)
    if decodes or config.model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        raise ArtifactError(
            f"this is a {config.model_type} model, not an encoder",
            where=source,
            fix="Give a BERT-like model: BERT, RoBERTa, ELECTRA, DeBERTa, ModernBERT, or one that osler pretrain made",
        )
    return config


def read_published_config(folder: Path) -> tuple[Any, Path]:
    """The configuration of a published model, and its file: config.json, or bert_config.json of Google's releases."""
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    found = [folder / name for name in ("config.json", "bert_config.json") if (folder / name).is_file()]
    if not found:
        raise ArtifactError(
            "no config.json or bert_config.json here", where=folder, fix="Give the complete folder of a model"
        )
    settings = [_settings(path) for path in found]
    for first, second in pairwise(settings):
        differing = sorted(key for key in first.keys() & second.keys() if first[key] != second[key])
        if differing:
            raise InputError(
                f"{found[0].name} and {found[1].name} differ in {differing[0]}",
                where=folder,
                fix="Keep the one that belongs to the weights",
            )
    values = settings[0]
    kind = (
        values.get("model_type") or _stated_type(values) or ("bert" if "bert_config.json" in found[-1].name else None)
    )
    if kind is None:
        raise InputError(
            "the configuration does not say which architecture this is",
            where=found[0],
            fix='Add "model_type": "bert" or "roberta" to it, whichever the publisher names',
        )
    if kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        raise ArtifactError(f"this is a {kind} model, not an encoder", where=found[0], fix="Give a BERT-like model")
    try:
        with quiet():
            auto: Any = AutoConfig
            return auto.for_model(kind, **{key: item for key, item in values.items() if key != "model_type"}), found[0]
    except Exception as error:  # transformers checks the values with many kinds of errors
        raise InputError(
            f"not a valid configuration of a {kind} model: {first_line(error)}",
            where=found[0],
            fix="Copy or download the model again",
        ) from None


def _settings(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise InputError("not a valid configuration", where=path, fix="Copy or download the model again")
    return values


def _stated_type(values: Mapping[str, Any]) -> str | None:
    """The type that the class names of an old configuration imply."""
    classes = values.get("architectures") or []
    kinds = {found[1].lower() for name in classes if (found := re.match(r"(Bert|Roberta)(For|Model)", str(name)))}
    return kinds.pop() if len(kinds) == 1 else None


def load_model(auto: Any, source: str | Path, *, new_parts: Collection[str] = ()) -> Any:
    """Load a Hugging Face model of an Auto class in float32 on the CPU.

    Every weight must be in the folder, except those of modules in `new_parts`, which are drawn from torch's generator if missing.
    """
    folder = resolve(source)
    config = load_config(folder)
    with _loading(source, auto.__name__):
        model, report = auto.from_pretrained(
            folder,
            config=config,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            **without_pooler(auto, config),
        )
    missing = sorted(key for key in report["missing_keys"] if key.partition(".")[0] not in new_parts)
    if missing:
        raise ArtifactError(
            f"{len(missing)} weights of {type(model).__name__} are missing, {missing[0]} first",
            where=source,
            fix="Give a folder saved from a model of this kind",
        )
    return model


@contextmanager
def _loading(source: str | Path, what: str) -> Iterator[None]:
    from huggingface_hub.errors import StrictDataclassError

    try:
        with quiet():
            yield
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError, StrictDataclassError) as error:
        raise ArtifactError(
            f"cannot be loaded as {what}: {first_line(error)}", where=source, fix="Check that the folder is complete"
        ) from error


def without_pooler(auto: Any, config: Any) -> dict[str, Any]:
    """Arguments that leave out the pooler of a base model that has one."""
    kind = auto._model_mapping[type(config)]
    kind = kind[0] if isinstance(kind, tuple | list) else kind
    return {"add_pooling_layer": False} if "add_pooling_layer" in inspect.signature(kind.__init__).parameters else {}


@contextmanager
def saving(target: Path) -> Iterator[None]:
    """Turn a full disk or a read-only folder into one OutputError, even if safetensors wraps the OSError.

    Also give weights the permissions of their folder: safetensors 0.8 writes files that only their owner can read.
    """
    with writing(target):
        try:
            yield
        except SafetensorError as error:
            found = re.search(r"os error (\d+)", str(error))
            if found is None:
                raise
            raise OSError(int(found[1]), str(error)) from error
        for weights in target.glob("*.safetensors"):
            weights.chmod(target.stat().st_mode & 0o666)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings and progress bars of transformers."""
    from transformers.utils import logging as transformers_logging

    logging: Any = transformers_logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def seeded(seed: int, *keys: str | int) -> Iterator[None]:
    """Seed torch's CPU generator with (seed, keys) inside, and restore it afterwards."""
    state = torch.get_rng_state()
    torch.default_generator.manual_seed(derive(seed, *keys))
    try:
        yield
    finally:
        torch.set_rng_state(state)
