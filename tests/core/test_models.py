from __future__ import annotations

from importlib.metadata import EntryPoint, distribution, version
from pathlib import Path

import pytest

from osler.core import models
from osler.core.errors import RecipeError
from osler.core.models import bundle_title, default_model, find_model, installed_as, installed_models, model_folder

FOLDERS = {"clinic": Path(__file__).parent, "lab": Path(__file__).parent.parent}
"""What the entry points below name."""


@pytest.fixture
def packages(monkeypatch):
    """Install models by name, in place of what this environment has."""

    def install(*names: str) -> None:
        found = [EntryPoint(name, f"{__name__}:FOLDERS", "osler.models") for name in names]
        monkeypatch.setattr(models, "entry_points", lambda group: found if group == "osler.models" else [])
        monkeypatch.setattr(EntryPoint, "load", lambda entry: FOLDERS[entry.name])
        monkeypatch.setattr(EntryPoint, "dist", distribution("pytest"), raising=False)

    return install


def test_the_only_installed_model_is_the_default(packages):
    packages("clinic")
    assert default_model() == FOLDERS["clinic"]
    assert model_folder(None) == FOLDERS["clinic"]


def test_several_models_must_be_told_apart(packages):
    packages("lab", "clinic")
    assert installed_models() == ["clinic", "lab"]
    with pytest.raises(RecipeError, match="2 models are installed") as error:
        default_model()
    assert error.value.fix == "Choose one with --bundle: clinic, lab"


def test_without_a_model_the_error_says_what_to_give(packages):
    packages()
    with pytest.raises(RecipeError, match="no bundle is named, and no model is installed") as error:
        default_model()
    assert "--bundle FOLDER" in error.value.fix
    with pytest.raises(ValueError, match="no bundle is named"):
        model_folder(None)


def test_a_folder_wins_over_a_model_of_the_same_name(packages, tmp_path, monkeypatch):
    packages("clinic")
    monkeypatch.chdir(tmp_path)
    assert model_folder("clinic") == FOLDERS["clinic"]
    (tmp_path / "clinic").mkdir()
    assert model_folder("clinic") == "clinic"


def test_other_names_stay_as_they_are(packages):
    packages("clinic")
    assert find_model("other") is None
    assert model_folder("other") == "other"


def test_a_bundle_is_called_by_the_name_and_version_of_its_package_or_by_its_folder(packages, tmp_path):
    packages("clinic", "lab")
    link = tmp_path / "link"
    link.symlink_to(FOLDERS["lab"])
    assert installed_as(link) == ("lab", version("pytest"))
    assert bundle_title(FOLDERS["clinic"]) == f"clinic {version('pytest')}"
    assert installed_as(tmp_path) is None
    assert bundle_title("runs/bundle") == "runs/bundle"
