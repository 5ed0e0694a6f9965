"""Heads by name. Other packages add their own through the entry point group `osler.heads`."""

from __future__ import annotations

from osler.core.registry import Registry

HEADS = Registry(
    "heads",
    {
        "tagging": "osler.nn.heads.tagging:Tagging",
        "crf": "osler.nn.heads.tagging:LinearChain",
        "attributes": "osler.nn.heads.tagging:Attributes",
        "classification": "osler.nn.heads.sequence:Classification",
        "markers": "osler.nn.heads.sequence:Markers",
        "multilabel": "osler.nn.heads.sequence:MultiLabel",
        "regression": "osler.nn.heads.sequence:Regression",
    },
)
