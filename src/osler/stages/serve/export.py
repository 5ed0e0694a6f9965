"""Export a bundle: each target has a module with `plan` and `run`."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from osler.core.artifact import Artifact
from osler.core.errors import RecipeError
from osler.stages.serve.config import ExportRecipe

_EXPORTERS = {
    "hf": "osler.stages.serve.export_hf",
    "onnx": "osler.stages.serve.export_onnx",
    "onnx-int8": "osler.stages.serve.export_onnx",
    "spacy": "osler.stages.serve.export_spacy",
}


def plan(recipe: ExportRecipe, out: Path) -> list[str]:
    """Describe what `run` will do."""
    lines: list[str] = _exporter(recipe).plan(recipe, out)
    return lines


def run(recipe: ExportRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the exported folder."""
    artifact: Artifact = _exporter(recipe).run(recipe, out, force=force)
    return artifact


def _exporter(recipe: ExportRecipe) -> Any:
    if recipe.to not in _EXPORTERS:
        raise RecipeError(f"this version cannot export to {recipe.to}", fix=f"Choose one of: {', '.join(_EXPORTERS)}")
    return importlib.import_module(_EXPORTERS[recipe.to])
