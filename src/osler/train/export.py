"""The end of a run: checkpoints go only after everything that is made of them is there.

A run may be killed while it writes the model and its pages, or while these are hashed. Until `export.json` is there, the last
checkpoint leads back here at once; from then on what was written is taken as it is. Either way nothing is trained a second time.
"""

from __future__ import annotations

import json

from osler.core.artifact import LOGS, Workspace
from osler.core.files import remove_tree, write_json

_NOTE = "export.json"


def seal_export(work: Workspace) -> None:
    """All files of the model are written: note it with the counts of the run, and drop the checkpoints."""
    write_json(work.logs / _NOTE, work.counts)
    remove_tree(work.path / "checkpoints")


def export_is_whole(work: Workspace) -> bool:
    """Whether an earlier process came to the end of the export; its counts are then those of the run.

    For the other processes of a torchrun it also is where the first one has already moved the folder to its place.
    """
    note = work.path / LOGS / _NOTE
    if not note.is_file():
        return not work.path.exists()
    work.counts.update(json.loads(note.read_text(encoding="utf-8")))
    if work.main:
        remove_tree(work.path / "checkpoints")
    return True
