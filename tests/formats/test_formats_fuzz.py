"""Damaged input of every reader is read, or refused with an error that names the file; a longer run is `tests/fuzzing.py`."""

from __future__ import annotations

import fuzzing
import pytest

from osler.formats.registry import FORMATS
from osler.stages.corpus.readers import READERS

SUBJECTS = fuzzing.subjects()


@pytest.mark.parametrize("name", SUBJECTS)
def test_damaged_input_is_read_or_refused_by_name(name: str, request: pytest.FixtureRequest) -> None:
    findings = fuzzing.fuzz(SUBJECTS[name], request.config.getoption("--fuzz"))
    assert not findings.failures, findings.examples
    assert findings.read
    assert findings.refused


def test_every_reader_takes_part() -> None:
    assert set(FORMATS.names()) <= set(SUBJECTS)
    assert {f"corpus {name}" for name in READERS.names()} <= set(SUBJECTS)


def test_a_defect_of_a_reader_is_found() -> None:
    def read(files: fuzzing.Files, *_: object) -> list[None]:
        return [None for line in files["a.txt"].decode("utf-8", "replace").splitlines() if int(line)]

    findings = fuzzing.fuzz(fuzzing.Subject("careless", {"a.txt": b"1\n2\n"}, read), 20)
    assert any("ValueError" in failure for failure in findings.failures)


def test_a_reader_that_hangs_is_stopped() -> None:
    def read(*_: object) -> list[None]:
        while True:
            pass

    findings = fuzzing.fuzz(fuzzing.Subject("endless", {"a.txt": b"1"}, read), 1, seconds=0.05)
    assert findings.failures == {"read: longer than 0.05 s": 2}
