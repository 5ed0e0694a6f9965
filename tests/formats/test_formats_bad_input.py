"""Broken files give one InputError with file and line and without their text, or are read; nothing else happens."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.core.errors import InputError
from osler.formats.base import Problems, configure
from osler.formats.registry import FORMATS, get_format
from osler.text.document import Document, Record, Relation, Span, TextPair

CANARY = "zzcanary"
NOTE = Document(
    "n1",
    f"{CANARY} took aspirin daily .\nNo {CANARY} fever .",
    (
        Span.at(0, 8, "GENE", id="T1", attributes={"concept": "C1", "code": "c1", "assertion": "present"}),
        Span.at(14, 21, "GENE", id="T2", attributes={"concept": "C2"}),
    ),
    (Relation("CPR:4", "T1", "T2", "R1"),),
    ("D:c1",),
    meta={"tokens": "blanks"},
)
PAIR = TextPair("p1", f"He has {CANARY}.", f"{CANARY} again?", labels=("yes",), value=2.0)
PAIRS = {"biosses", "mednli", "medrqe", "nli4ct", "pubmedqa", "sts"}


def sample(name: str, folder: Path) -> Path:
    format_ = get_format(name)
    path = folder / ("out" if format_.layout == "folder" else "out" + format_.suffixes[0])
    records: list[Record] = [PAIR, PAIR.with_(id="p2")] if name in PAIRS else [NOTE, NOTE.with_(id="n2")]
    format_.write(records, path)
    return path


@pytest.fixture(scope="module", params=FORMATS.names())
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, sample(request.param, tmp_path_factory.mktemp(request.param))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_mutated_files_are_read_or_refused_cleanly(written: tuple[str, Path], data: st.DataObject) -> None:
    name, path = written
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        shutil.copytree(path, copy) if path.is_dir() else shutil.copy(path, copy)
        files = sorted(file for file in copy.rglob("*") if file.is_file()) if copy.is_dir() else [copy]
        file = data.draw(st.sampled_from(files))
        content = bytearray(file.read_bytes())
        kind = data.draw(st.sampled_from(["cut", "byte", "digit", "line", "crlf", "bom", "remove", "repeat"]))
        place = data.draw(st.integers(0, max(len(content) - 1, 0)))
        if kind == "remove":
            file.unlink()
        else:
            lines = bytes(content).splitlines(keepends=True)
            index = data.draw(st.integers(0, max(len(lines) - 1, 0)))
            changed = {
                "cut": bytes(content[:place]),
                "byte": bytes(content[:place])
                + bytes([data.draw(st.sampled_from([0, 9, 10, 34, 60, 92, 124, 255]))])
                + bytes(content[place:]),
                "digit": bytes(content[:place]) + b"9" + bytes(content[place:]),
                "line": b"".join(lines[:index] + lines[index + 1 :]),
                "crlf": bytes(content).replace(b"\n", b"\r\n"),
                "bom": b"\xef\xbb\xbf" + bytes(content),
                "repeat": b"".join(lines[: index + 1] + lines[index:]),
            }[kind]
            file.write_bytes(changed)
        for problems in (None, Problems()):
            try:
                list(get_format(name).read(copy, problems=problems))
            except InputError as error:
                message = str(error)
                assert str(copy) in message
                assert CANARY not in message.lower()
            if problems is not None:
                assert all(CANARY not in f"{p.where} {p.detail}".lower() for p in problems.examples)


def brat(folder: Path, annotations: str, text: str = "aspirin for pain") -> Path:
    (folder / "a.txt").write_text(text)
    (folder / "a.ann").write_text(annotations)
    return folder


@pytest.mark.parametrize(
    ("annotations", "kind", "line", "spans"),
    [
        ("T1\tDrug 0 7\taspirin\nT2\tX 1 8\taspirin\n", "text-mismatch", 2, 2),
        ("T1\tDrug 0 70\taspirin\n", "bad-span", 1, 0),
        ("T1\tDrug 7 7\t\n", "bad-span", 1, 0),
        ("T1\tDrug 0 4;3 7\taspi irin\n", "bad-span", 1, 0),
        ("T1\tDrug 0 7;9 9\taspirin \n", "empty-fragment", 1, 1),
        ("T1\tDrug 0 7\taspirin\nT1\tX 8 11\tfor\n", "duplicate-id", 2, 1),
        ("T1\tDrug 0 7\taspirin\nR1\tOf Arg1:T1 Arg2:T9\n", "dangling-reference", 2, 1),
        ("T1\tDrug 0 7\taspirin\n#1\tAnnotatorNotes T8\tC1\n", "dangling-reference", 2, 1),
        ("T1\tDrug 0 7\taspirin\nT2 Drug\n", "malformed-line", 2, 1),
        ("T1\tDrug zero 7\taspirin\n", "malformed-line", 1, 0),
        ("?1\tDrug 0 7\taspirin\n", "malformed-line", 1, 0),
    ],
)
def test_defects_raise_with_their_line_or_are_counted(
    annotations: str, kind: str, line: int, spans: int, tmp_path: Path
) -> None:
    brat(tmp_path, annotations)
    with pytest.raises(InputError, match=rf"a\.ann:{line}: .*\({kind}\)") as caught:
        list(get_format("brat").read(tmp_path))
    assert "aspirin" not in str(caught.value)
    problems = Problems()
    (document,) = get_format("brat").read(tmp_path, problems=problems)
    assert problems.counts == {kind: 1}
    assert problems.examples[0].where.endswith(f"a.ann:{line}")
    assert isinstance(document, Document)
    assert len(document.spans) == spans


def test_missing_files_of_a_pair_are_named(tmp_path: Path) -> None:
    brat(tmp_path, "")
    (tmp_path / "b.txt").write_text("text")
    (tmp_path / "c.ann").write_text("T1\tX 0 1\ta\n")
    problems = Problems()
    documents = list(get_format("brat").read(tmp_path, problems=problems))
    assert [document.id for document in documents] == ["a", "b"]
    assert problems.counts == {"missing-annotation": 1, "missing-text": 1}


def test_problems_keep_counting_beyond_the_examples(tmp_path: Path) -> None:
    brat(tmp_path, "".join(f"T{n}\tX 0 1\tzz\n" for n in range(10)))
    problems = Problems(keep=3)
    list(configure(get_format("brat"), {"offsets": "unchecked"}).read(tmp_path, problems=problems))
    assert problems.counts.total() == 10
    assert len(problems.examples) == 3
