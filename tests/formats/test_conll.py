"""Tag schemes of CoNLL files, tags that are refused, and writing long documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from osler.core.errors import InputError
from osler.formats.base import Problems
from osler.formats.registry import detect_formats, get_format
from osler.text.document import Document, Relation, Span

SENTENCES = {
    "BIO": "B-Drug I-Drug O B-Dose B-Dose I-Dose I-Dose",
    "BIOES": "B-Drug E-Drug O S-Dose B-Dose I-Dose E-Dose",
    "BILOU": "B-Drug L-Drug O U-Dose B-Dose I-Dose L-Dose",
    "BMEWO": "B-Drug E-Drug O W-Dose B-Dose M-Dose E-Dose",
}


def save(folder: Path, tags: str) -> Path:
    path = folder / "notes.conll"
    path.write_text("".join(f"w{number}\t{tag}\n" for number, tag in enumerate(tags.split())))
    return path


@pytest.mark.parametrize("scheme", SENTENCES)
def test_every_scheme_gives_the_same_mentions(tmp_path: Path, scheme: str) -> None:
    path = save(tmp_path, SENTENCES[scheme])
    assert detect_formats(path) == ["conll"]
    (document,) = get_format("conll").read(path)
    assert [(span.start, span.end, span.label) for span in document.spans] == [
        (0, 5, "Drug"),
        (9, 11, "Dose"),
        (12, 20, "Dose"),
    ]


def test_tags_without_a_type_may_be_bilou(tmp_path: Path) -> None:
    (document,) = get_format("conll").read(save(tmp_path, "U O B L"))
    assert [(span.start, span.end, span.label) for span in document.spans] == [(0, 2, "MENTION"), (6, 11, "MENTION")]


def test_a_tag_of_no_scheme_is_named_with_its_line(tmp_path: Path) -> None:
    path = save(tmp_path, "B-Drug X-Drug O")
    with pytest.raises(InputError, match=r"notes\.conll:2: tags with the prefix X- .*L-, U- \(BILOU\)"):
        list(get_format("conll").read(path))
    problems = Problems()
    list(get_format("conll").read(path, problems=problems))
    assert problems.counts == {"malformed-line": 1}


def test_a_last_column_that_is_text_is_not_quoted(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"notes\.conll:2: the last column is not a tag") as caught:
        list(get_format("conll").read(save(tmp_path, "O zzcanary")))
    assert "canary" not in str(caught.value)


@pytest.mark.timeout(40)  # quadratic writers need minutes
@pytest.mark.parametrize("name", ["conll", "ddi_xml", "hoc", "i2b2_2010", "i2b2_2012", "bioc", "bc2gm"])
def test_a_long_document_is_written_in_linear_time(tmp_path: Path, name: str) -> None:
    lines = 20_000
    spans = tuple(Span.at(8 * n, 8 * n + 7, "GENE", id=f"T{n + 1}") for n in range(lines))
    document = Document("long", "aspirin\n" * lines, spans, meta={"tokens": "blanks"})
    loss = get_format(name).write([document], tmp_path / "out")
    assert not loss.counts.keys() & {"spans", "spans across lines", "spans across sentences", "overlapping spans"}


def test_a_sentence_with_many_mentions_lists_only_the_pairs_that_interact(tmp_path: Path) -> None:
    spans = tuple(Span.at(8 * n, 8 * n + 7, "drug", id=f"T{n + 1}") for n in range(400))
    relations = (Relation("effect", "T300", "T2", "R1"), Relation("effect", "T1", "T2", "R2"))
    get_format("ddi_xml").write([Document("d", "aspirin " * 400, spans, relations)], tmp_path / "out")
    assert (tmp_path / "out" / "d.xml").read_text().count("<pair ") == 2
    (found,) = get_format("ddi_xml").read(tmp_path / "out")
    assert {(r.head, r.tail) for r in found.relations} == {("d.s0.e299", "d.s0.e1"), ("d.s0.e0", "d.s0.e1")}
