"""Reading a folder of de-identified notes."""

from __future__ import annotations

from pathlib import Path

import pytest

from osler.artifacts.deidentified import Deidentified
from osler.core.errors import ArtifactError
from osler.stages.serve.deid.config import DeidRecipe
from osler.stages.serve.deid.run import run


def test_offsets_report_and_skipped_are_read_back(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Mr. Ruiz")
    (tmp_path / "b.txt").write_bytes(b"caf\xe9")
    files = (tmp_path / "a.txt", tmp_path / "b.txt")
    run(DeidRecipe(files=files, language="en"), tmp_path / "out")
    made = Deidentified.open(tmp_path / "out")
    assert made.offsets()["note-000001"].pairs == ((4, 8, 4, 10),)
    assert made.report()["kinds"] == {"NAME": 1}
    assert [item.note for item in made.skipped()] == ["note-000002"]


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError):
        Deidentified.open(tmp_path)
