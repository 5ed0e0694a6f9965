"""osler: raw biomedical and clinical text to a language model you can evaluate, publish and serve."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from osler.core.errors import OslerError
    from osler.text.document import Document, Relation, Span, TextPair

__version__ = "0.1.0"

# Loaded on first use, so that `import osler` stays instant and never brings torch with it.
_LAZY = {
    "Document": "osler.text.document",
    "OslerError": "osler.core.errors",
    "Relation": "osler.text.document",
    "Span": "osler.text.document",
    "TextPair": "osler.text.document",
}

__all__ = ["Document", "OslerError", "Relation", "Span", "TextPair", "__version__"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'osler' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
