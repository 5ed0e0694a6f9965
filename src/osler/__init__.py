"""osler: from raw biomedical and clinical text to a language model you can evaluate, publish and serve."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from osler.core.version import VERSION as __version__

if TYPE_CHECKING:
    from osler.api import (
        annotate,
        convert,
        convert_model,
        corpus,
        corrections,
        deid,
        deid_evaluate,
        distill,
        evaluate,
        export,
        finetune,
        infer,
        load,
        pretrain,
        serve,
        similar,
        study,
        study_pairwise,
        tasks_check,
        tasks_info,
        tasks_list,
        tasks_new,
        tasks_prepare,
        tasks_synthesize,
        vocab,
        vocab_compare,
    )
    from osler.core.errors import OslerError
    from osler.stages.serve.annotator import Annotator
    from osler.text.document import Document, Relation, Span, TextPair

__all__ = [
    "Annotator", "Document", "OslerError", "Relation", "Span", "TextPair", "__version__", "annotate",
    "convert", "convert_model", "corpus", "corrections", "deid", "deid_evaluate", "distill", "evaluate", "export",
    "finetune", "infer", "load", "pretrain", "serve", "similar", "study", "study_pairwise", "tasks_check", "tasks_info",
    "tasks_list", "tasks_new", "tasks_prepare", "tasks_synthesize", "vocab", "vocab_compare",
]  # fmt: skip

_ELSEWHERE = {
    "Annotator": "osler.stages.serve.annotator",
    "OslerError": "osler.core.errors",
    **dict.fromkeys(("Document", "Relation", "Span", "TextPair"), "osler.text.document"),
}


def __getattr__(name: str) -> Any:
    # Import lazily: `import osler` takes milliseconds and never imports torch.
    if name not in __all__:
        raise AttributeError(f"module 'osler' has no attribute {name!r}")
    return getattr(import_module(_ELSEWHERE.get(name, "osler.api")), name)


def __dir__() -> list[str]:
    return sorted(__all__)
