from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.mark.realdata
def test_spanish_clinical_text_is_unchanged(build, data_dir: Path) -> None:
    corpus = build({"files": str(data_dir / "pretrain_es" / "spanish_clinical.jsonl.xz"), "language": "es"})
    card = json.loads((corpus.path / "card.json").read_text())
    # The collection names its own size, and its makers removed exact copies.
    assert card["read"] == card["documents"] == 6171
    assert card["words"] == pytest.approx(2.83e6, rel=0.01)
    assert 0 < card["repaired"] < 100
