"""Exporting: the head is found, or the mistake told, before anything is made."""

from __future__ import annotations

import pytest

from osler.core.errors import ArtifactError, RecipeError
from osler.stages.serve.config import ExportRecipe
from osler.stages.serve.export import plan, run


def test_the_plan_checks_bundle_and_head(bundle, tmp_path):
    assert plan(ExportRecipe(bundle=bundle, head="drugs"), tmp_path / "out")[0].startswith("export drugs of")
    for asked in (plan, run):
        with pytest.raises(
            RecipeError, match=r"4 heads\. Choose one with --head: drugs, farmacos, entailment, similarity"
        ):
            asked(ExportRecipe(bundle=bundle), tmp_path / "out")
        with pytest.raises(RecipeError, match="Did you mean 'drugs'"):
            asked(ExportRecipe(bundle=bundle, head="drug"), tmp_path / "out")
        with pytest.raises(ArtifactError, match="no such folder"):
            asked(ExportRecipe(bundle=tmp_path / "nothing"), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
