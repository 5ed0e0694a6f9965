"""Tasks by name: where a command takes a task folder, the name of a task will do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from osler.core.errors import InputError, nearest

ROOT = Path("tasks")
"""Where prepared tasks are looked for, and put: below the current folder."""


def task_folders(given: Sequence[Path] | None, data: Path | None = None, *, dry_run: bool = False) -> list[Path] | None:
    """A folder for each task: as given, `tasks/NAME`, or made there from the official files below `data`."""
    return [_folder(path, data, dry_run) for path in given] if given else None


def _folder(given: Path, data: Path | None, dry_run: bool) -> Path:
    from osler.tasks.catalogue import card_paths, load_card

    name = str(given)
    if given.exists():
        return given
    if name not in card_paths():
        likely = nearest(name, card_paths()) if len(given.parts) == 1 else None
        if likely:
            raise InputError(f"{name}: no such folder, and no task of this name", fix=f"Did you mean {likely}?")
        return given
    folder = ROOT / name
    if folder.exists():
        return folder
    embedded = load_card(name).source.reader == "clinic"
    if data is None and not embedded:
        raise InputError(
            f"the task {name} is not prepared: there is no folder {folder}",
            fix=f"Give the folder with the official files with --data, or run: osler tasks prepare {name} --from DIR --out {folder}",
        )
    from osler.cli.common import announce
    from osler.stages.prepare.config import PrepareRecipe
    from osler.stages.prepare.run import plan, run

    recipe = PrepareRecipe(task=name, source=data)
    announce(plan(recipe, folder), dry_run=dry_run)
    if not dry_run:
        run(recipe, folder)
    return folder
