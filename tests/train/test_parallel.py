from __future__ import annotations

import pytest

from osler.core.errors import RecipeError
from osler.train.parallel import world_size

TORCHRUN = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"MASTER_ADDR": None}, "MASTER_ADDR is not set"),
        ({"RANK": None}, "RANK"),
        ({"WORLD_SIZE": "two"}, "not a number"),
    ],
)
def test_half_of_torchruns_variables_are_named(monkeypatch, changed, said):
    for name, value in (TORCHRUN | changed).items():
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    with pytest.raises(RecipeError, match=said) as found:
        world_size()
    assert "torchrun" in str(found.value)


def test_the_number_of_processes(monkeypatch):
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)
    assert world_size() == 1
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    assert world_size() == 2
