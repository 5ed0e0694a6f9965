from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from osler.artifacts.corpus import Corpus, KeptDocument
from osler.artifacts.ledger import LedgerEntry
from osler.core.errors import InputError
from osler.stages.corpus.originals import Origin, Originals, twin_of


def test_raw_files_that_are_gone_or_changed_are_errors(noted: Corpus, tmp_path: Path, notes) -> None:
    origin = Origin("notes", "notes.jsonl", 2, "short")
    raw = tmp_path / "notes.jsonl"
    raw.write_text(json.dumps({"id": "kept", "text": notes["kept"]}) + "\n")
    with pytest.raises(
        InputError, match=r"notes\.jsonl: row 2 of this file is not what it was when the corpus was built"
    ):
        Originals(noted).read([origin])
    raw.unlink()
    with pytest.raises(InputError, match="Run this in the folder in which the corpus was built"):
        Originals(noted).read([origin])


def test_only_the_stretches_of_a_file_that_hold_a_row_are_read(build, tmp_path: Path, monkeypatch) -> None:
    lines = [f"note {number} about a patient who was seen in the ward on that day" for number in range(200)]
    (tmp_path / "lines.txt").write_text("\n".join(lines))
    corpus = Corpus.open(build({"files": [str(tmp_path / "lines.txt")], "unit": "line", "name": "lines"}).path)
    monkeypatch.setattr("osler.stages.corpus.originals.PART_BYTES", 1000)
    wanted = [Origin("lines", "lines.txt", row, f"lines.txt:{row}") for row in (3, 150, 151)]
    read: list[int] = []
    whole = Originals._ranges

    def counted(*arguments):
        for file_range in whole(*arguments):
            read.append(file_range.first_row)
            yield file_range

    monkeypatch.setattr(Originals, "_ranges", staticmethod(counted))
    found = Originals(corpus).read(wanted)
    assert [found[origin].text for origin in wanted] == [lines[2], lines[149], lines[150]]
    assert len(read) == 2


def test_sources_whose_files_are_gone_do_not_hide_the_others(build, jsonl, notes, tmp_path: Path) -> None:
    gone, there = jsonl([notes["near"]], "gone.jsonl"), jsonl([notes["kept"]], "there.jsonl")
    corpus = Corpus.open(build(gone, there).path)
    gone.unlink()
    origin = Origin("there", "there.jsonl", 1, "there.jsonl:1")
    assert Originals(corpus).read([origin])[origin].text == notes["kept"]


def test_of_kept_documents_with_one_id_the_right_one_is_compared() -> None:
    kept = [KeptDocument("s", "1", text, "notes", file="a", row=row) for row, text in enumerate(("b c d", "x y z"), 1)]
    entry = LedgerEntry("notes", "a", 3, "2", "near-duplicates", "duplicate.near", "document", kept_id="1")
    assert twin_of(entry, "x y w", kept) == kept[1]
    assert twin_of(entry, "b c w", kept) == kept[0]
    assert twin_of(replace(entry, row=1), "x y z", kept) == kept[0]
    assert twin_of(entry, "x", []) is None
