from __future__ import annotations

from pathlib import Path

from osler.stages.serve.config import ExportRecipe
from osler.stages.serve.export import plan


def test_the_plan_names_the_head_the_bundle_and_the_folder():
    recipe = ExportRecipe(bundle=Path("bundle"), head="drugs")
    assert plan(recipe, Path("hf")) == [
        "export drugs of bundle as a stock Hugging Face model",
        "write it to hf",
    ]
    assert "the only head" in plan(ExportRecipe(bundle=Path("bundle")), Path("hf"))[0]
