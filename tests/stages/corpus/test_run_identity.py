"""One hash: every step gives the same bytes for 1, 2 or 3 workers, in any order of the work, and after kills at random moments."""

from __future__ import annotations

import random
import signal
import subprocess
from pathlib import Path

import pytest
from corpora import start

from osler.artifacts.corpus import Corpus


def test_every_step_has_something_to_do(whole: Corpus, ledger) -> None:
    assert {row["step"] for row in ledger(whole)} == {
        "read",
        "licence",
        "repair",
        "rewrite",
        "filter",
        "revisions",
        "exact-duplicates",
        "boilerplate",
        "near-duplicates",
        "decontaminate",
    }
    assert whole.has_patients
    assert list(whole.card.sources) == ["web", "ehr", "notes", "pubmed"]
    assert all(source.documents for source in whole.card.sources.values())


@pytest.mark.parametrize("way", [{"workers": 3}, {"order": 1}, {"order": 2}], ids=str)
def test_same_bytes_for_any_number_of_workers_and_any_order(
    tmp_path: Path, every_step, whole: Corpus, way: dict[str, int]
) -> None:
    assert start(every_step | way, tmp_path / "out").wait() == 0
    assert Corpus.open(tmp_path / "out").manifest.files == whole.manifest.files


def test_same_bytes_after_kills_at_random_moments(tmp_path: Path, every_step, whole: Corpus) -> None:
    drawn, out, kills = random.Random(1), tmp_path / "out", 0
    for workers in (2, 1, 2, 1):
        process = start(every_step | {"workers": workers}, out)
        try:
            process.wait(drawn.uniform(0.5, 6.0))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
    assert start(every_step | {"workers": 1}, out).wait() == 0
    assert Corpus.open(out).manifest.files == whole.manifest.files
    assert kills
