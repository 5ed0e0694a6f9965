from __future__ import annotations

from pathlib import Path

import pytest

from osler.core.errors import InputError
from osler.stages.prepare.run import task_folders


def test_folders_stay_and_names_are_found_below_tasks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "tasks" / "bc5cdr-chem").mkdir(parents=True)
    found = task_folders([Path("mine"), Path("bc5cdr-chem"), Path("elsewhere/task")])
    assert found == [Path("mine"), Path("tasks/bc5cdr-chem"), Path("elsewhere/task")]


def test_a_task_of_the_clinic_is_made_on_the_way(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert task_folders([Path("clinic-phi-en")], dry_run=True) == [Path("tasks/clinic-phi-en")]
    assert not Path("tasks").exists()
    task_folders([Path("clinic-phi-en")])
    assert Path("tasks/clinic-phi-en/manifest.json").is_file()


def test_a_task_without_its_files_says_how_to_get_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="osler tasks prepare bc5cdr-chem --from DIR"):
        task_folders([Path("bc5cdr-chem")])


def test_a_slip_in_a_name_is_seen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"neither a folder nor a task\. Did you mean ncbi-disease\?$"):
        task_folders([Path("ncbi-disese")])
