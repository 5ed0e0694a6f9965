"""JSON Lines that are no records are named by line and field; records that no file can hold are not written."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from osler.core.errors import InputError
from osler.formats.base import Problems, configure
from osler.formats.registry import FORMATS, OUTPUT_FORMATS, get_format
from osler.text.document import Document, Record, Relation, Span, TextPair

CANARY = "zzcanary"
GOOD = json.dumps({"id": "1", "text": CANARY})


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": "2", "note": "zzcanary"}', r"no field 'text' .*--set read\.text=FIELD"),
        ("{}", "no field 'text'"),
        ('{"first": "zzcanary"}', r"no field 'second' .*read\.second=FIELD"),
        ('{"text": 5}', "'text' holds a number, not a string"),
        ('{"text": null}', "'text' holds null, not a string"),
        ('["zzcanary"]', "the line is a list, not an object"),
        ('"zzcanary"', "the line is a string, not an object"),
        ('{"text": "x", "id": ["zzcanary"]}', "'id' holds a list, not a string or a number"),
        ('{"text": "x", "labels": "zzcanary"}', "'labels' holds a string, not a list"),
        ('{"text": "x", "labels": [1]}', "'labels' holds a number, not a string"),
        ('{"text": "x", "meta": {"a": 1}}', "'meta' holds a number, not a string"),
        ('{"text": "x", "value": "zzcanary"}', "'value' does not hold a finite number"),
        ('{"text": "x", "value": 1e999}', "'value' does not hold a finite number"),
        ('{"text": "x", "value": %s}' % ("9" * 400), "'value' does not hold a finite number"),
        ('{"text": "x", "value": %s}' % ("9" * 5000), "thousands of digits"),
        ('{"text": "x", "spans": [5]}', "'spans' holds a number, not objects"),
        ('{"text": "x", "spans": [{"start": 0, "label": "A"}]}', "a span has no offsets"),
        ('{"text": "x", "spans": [{"start": 0, "end": "1", "label": "A"}]}', "not whole numbers"),
        ('{"text": "x", "spans": [{"fragments": 5, "label": "A"}]}', "a span has no offsets"),
        ('{"text": "x", "spans": [{"start": 0, "end": 1}]}', "'label' holds null"),
        ('{"text": "x", "relations": [{"label": "a"}]}', "'head' holds null"),
        ('{"text": "\\ud800"}', "lone surrogate"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text(f"{GOOD}\n{line}\n{GOOD}\n")
    with pytest.raises(InputError, match=rf"notes\.jsonl:2: .*{problem}") as caught:
        list(get_format("jsonl").read(path))
    assert CANARY not in str(caught.value)
    problems = Problems()
    assert len(list(get_format("jsonl").read(path, problems=problems))) == 2
    assert problems.counts == {"malformed-line": 1}


def test_the_option_that_the_error_names_reads_the_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text('{"note": "aspirin"}\n')
    (document,) = configure(get_format("jsonl"), {"text": "note"}).read(path)
    assert document.text == "aspirin"


def record(**changes: object) -> Record:
    return Document("d", "aspirin").with_(**changes)


@pytest.mark.parametrize("name", [*FORMATS.names(), *OUTPUT_FORMATS.names()])
@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (record(text="zzcanary \ud800"), "lone surrogate"),
        (record(text="zzcanary \x00"), "NUL"),
        (record(id="zzcanary \udfff"), "lone surrogate"),
        (record(labels=("zzcanary\ud800",)), "lone surrogate"),
        (record(meta={"zzcanary": "\ud800"}), "lone surrogate"),
        (record(spans=(Span.at(0, 1, "A", id="T1", attributes={"a": "\ud800"}),)), "lone surrogate"),
        (record(value=math.nan), "not finite"),
        (record(scores={"a": math.inf}), "not finite"),
        (
            record(spans=(Span.at(0, 1, "A", id="T1"),), relations=(Relation("r", "T1", "T1", score=math.nan),)),
            "not finite",
        ),
        (TextPair("p", "a", "b\ud800"), "lone surrogate"),
    ],
)
def test_no_writer_takes_what_no_file_can_hold(tmp_path: Path, name: str, bad: Record, problem: str) -> None:
    with pytest.raises(InputError, match=rf"out: record 2: .*{problem}") as caught:
        get_format(name).write([record(), bad], tmp_path / "out")
    assert CANARY not in str(caught.value)
