"""The tables of the BSC corpora: both sets of column names, texts in any folder, and every defect named."""

from __future__ import annotations

from pathlib import Path

import pytest

from osler.core.errors import InputError
from osler.formats.base import Problems
from osler.formats.registry import detect_formats, get_format
from osler.text.document import Document, Relation, Span

DISTEMIST = "filename\tmark\tlabel\toff0\toff1\tspan\n"
SYMPTEMIST = "filename\tann_id\tlabel\tstart_span\tend_span\ttext\n"
TEXT = "Paciente con cefalea y fiebre.\nSin más."


def corpus(folder: Path, table: str, **more: str) -> Path:
    files = {"train/text_files/c1.txt": TEXT, "train/text_files/c2.txt": "Sano.", "train/subtrack1/mentions.tsv": table}
    for name, content in {**files, **more}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def read(folder: Path, problems: Problems | None = None) -> list[Document]:
    found = list(get_format("bsc_tsv").read(folder, problems=problems))
    assert all(isinstance(document, Document) for document in found)
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("header", [DISTEMIST, SYMPTEMIST])
def test_both_sets_of_column_names(tmp_path: Path, header: str) -> None:
    corpus(tmp_path, f"{header}c1\tT2\tSINTOMA\t13\t20\tcefalea\nc1\tT1\tSINTOMA\t23\t29\tfiebre\n")
    assert detect_formats(tmp_path) == ["bsc_tsv"]
    first, second = read(tmp_path)
    assert (first.id, second.id, second.spans) == ("c1", "c2", ())
    assert [(s.id, s.label, s.text_in(TEXT)) for s in first.spans] == [
        ("T2", "SINTOMA", "cefalea"),
        ("T1", "SINTOMA", "fiebre"),
    ]


def test_marks_may_be_missing_and_cells_quoted(tmp_path: Path) -> None:
    table = 'filename\tlabel\tstart_span\tend_span\ttext\nc3.txt\tA\t0\t9\t"un ""caso"""\n'
    corpus(tmp_path, table, **{"train/text_files/c3.txt": 'un "caso" raro', "README.txt": "Lea esto."})
    documents = read(tmp_path)
    assert [document.id for document in documents] == ["c1", "c2", "c3"]
    assert documents[2].spans == (Span.at(0, 9, "A", id="T1"),)


def test_a_table_of_codes_adds_to_the_table_of_entities(tmp_path: Path) -> None:
    row = "c1\tT1\tENFERMEDAD\t13\t20\tcefalea"
    linking = f"{DISTEMIST.strip()}\tcode\tsemantic_rel\n{row}\t25064002\tEXACT\n"
    corpus(tmp_path, f"{DISTEMIST}{row}\n", **{"train/subtrack2/linking.tsv": linking})
    (span,) = read(tmp_path)[0].spans
    assert span.attributes == {"code": "25064002", "semantic_rel": "EXACT"}


@pytest.mark.parametrize(
    ("row", "kind", "spans"),
    [
        ("c1\tT1\tS\t12\t19\tcefalea", "text-mismatch", 1),
        ("c1\tT1\tS\t13\t2000\tcefalea", "bad-span", 0),
        ("c1\tT1\tS\t20\t13\tcefalea", "bad-span", 0),
        ("c1\tT1\tS\t1²\t20\tcefalea", "malformed-line", 0),
        (f"c1\tT1\tS\t{'9' * 5000}\t20\tcefalea", "malformed-line", 0),
        ("c1\tT1\tS\t13\t20", "malformed-line", 0),
        ("c1\tT1\t\t13\t20\tcefalea", "empty-label", 0),
        ("c9\tT1\tS\t13\t20\tcefalea", "missing-text", 0),
    ],
)
def test_defects_are_named_with_their_line_or_counted(tmp_path: Path, row: str, kind: str, spans: int) -> None:
    corpus(tmp_path, f"{DISTEMIST}{row}\n")
    with pytest.raises(InputError, match=rf"mentions\.tsv:2: .*\({kind}\)") as caught:
        read(tmp_path)
    assert "cefalea" not in str(caught.value)
    problems = Problems()
    assert sum(len(document.spans) for document in read(tmp_path, problems)) == spans
    assert problems.counts == {kind: 1}


def test_a_mark_that_occurs_twice_is_a_defect(tmp_path: Path) -> None:
    corpus(tmp_path, f"{DISTEMIST}c1\tT1\tS\t13\t20\tcefalea\nc1\tT1\tS\t23\t29\tfiebre\n")
    with pytest.raises(InputError, match=r"mentions\.tsv:3: .*\(duplicate-id\)"):
        read(tmp_path)


def test_a_folder_without_a_table_says_what_a_table_is(tmp_path: Path) -> None:
    corpus(tmp_path, "a\tb\n")
    with pytest.raises(InputError, match=r"no table of mentions found.*filename mark label off0 off1 span"):
        read(tmp_path)


def test_what_the_table_cannot_hold_is_counted(tmp_path: Path) -> None:
    spans = (
        Span.at(0, 8, "S", id="T1", attributes={"code": "1", "label": "x", "note": ""}),
        Span.at(13, 20, "S", id="T1"),
        Span(((0, 8), (13, 20)), "S", "T3", attributes={"code": "2"}),
    )
    relations = (Relation("of", "T1", "T3", attributes={"a": "b"}),)
    document = Document("c 1", TEXT, spans, relations, ("l",), meta={"m": "n"})
    loss = get_format("bsc_tsv").write([document], tmp_path / "out")
    assert loss.counts == {
        "attributes": 4,
        "discontinuous spans": 1,
        "document labels": 1,
        "ids renamed": 2,
        "meta": 1,
        "relations": 1,
    }
    (found,) = read(tmp_path / "out")
    assert [(s.id, s.start, s.attributes) for s in found.spans] == [("T1", 0, {"code": "1"}), ("T2", 13, {})]
