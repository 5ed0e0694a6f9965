"""Heads by name. A package adds its own through the entry point group `osler.heads`."""

from __future__ import annotations

from osler.core.registry import Registry

HEADS = Registry(
    "heads",
    {
        "tagging": "osler.nn.heads.tagging:Tagging",
        "crf": "osler.nn.heads.crf:LinearChain",
        "classification": "osler.nn.heads.classification:Classification",
        "markers": "osler.nn.heads.markers:Markers",
        "multilabel": "osler.nn.heads.multilabel:MultiLabel",
        "regression": "osler.nn.heads.regression:Regression",
    },
)
