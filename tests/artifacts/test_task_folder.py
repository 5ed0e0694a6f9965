"""Task files that cannot be read."""

from __future__ import annotations

import pytest

from osler.artifacts.task_folder import read_records, write_records
from osler.core.errors import ArtifactError
from osler.text.document import Document


@pytest.mark.parametrize("kept", [0, 40, 0.5, 0.95])
def test_a_damaged_file_is_named_and_its_text_is_not(tmp_path, kept):
    path = tmp_path / "dev.parquet"
    write_records([Document(str(n), f"the patient {n} takes aspirin") for n in range(50)], path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole)) if isinstance(kept, float) else kept])
    with pytest.raises(ArtifactError) as error:
        list(read_records(path))
    assert str(path) in str(error.value)
    assert "--force" in str(error.value)
    assert "patient" not in str(error.value)


def test_what_goes_wrong_while_records_are_used_is_not_blamed_on_the_file(tmp_path):
    path = tmp_path / "dev.parquet"
    write_records([Document("1", "text")], path)

    def use(_: object) -> None:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        list(map(use, read_records(path)))
