"""Names of documents in the output, and ids and metadata that a format cannot hold: kept where it can, else counted."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from osler.core.errors import InputError
from osler.formats.output import DocumentNames, OutputFolder
from osler.formats.registry import get_format
from osler.text.document import Document, Relation, Span, TextPair


def test_changed_names_never_meet_and_are_counted() -> None:
    losses: Counter[str] = Counter()
    names = DocumentNames(losses)
    ids = ["a b", "a_b", "a\tb", "A_B", "c", "c"]
    assert [names.name(i, "_".join(i.split())) for i in ids] == ["a_b", "a_b~2", "a_b~3", "A_B~4", "c", "c"]
    assert losses == {"ids renamed": 4}


def test_files_of_ids_that_differ_only_in_case_get_other_names(tmp_path: Path) -> None:
    losses: Counter[str] = Counter()
    folder = OutputFolder(tmp_path / "out", losses)
    assert [folder.stem(name) for name in ("A12", "a12", "b", "B")] == ["A12", "a12~2", "b", "B~2"]
    assert losses == {"ids renamed": 2}
    with pytest.raises(InputError, match="document 5 has the id of an earlier document"):
        folder.stem("a12")


@pytest.mark.timeout(40)  # quadratic numbering needs minutes
def test_many_documents_with_one_unsafe_id_are_numbered_in_linear_time() -> None:
    names = DocumentNames(Counter())
    assert len({names.name("?", "_") for _ in range(100_000)}) == 100_000


def test_a_long_id_in_another_script_is_a_valid_file_name(tmp_path: Path) -> None:
    get_format("brat").write([Document("病" * 300, "aspirin")], tmp_path / "out")
    (found,) = get_format("brat").read(tmp_path / "out")
    assert 60 <= len(found.id) <= 120
    assert len(OutputFolder(tmp_path / "other", Counter()).stem("a" * 300)) == 120


NOTE = Document(
    "note-1",
    "aspirin and warfarin",
    (
        Span.at(0, 7, "Drug", id="T5", attributes={"concept": "D1"}),
        Span.at(12, 20, "Drug", id="T2", attributes={"concept": "D2"}),
    ),
    (Relation("CID", "T5", "T2", "R9"),),
)


def test_pubtator_keeps_document_ids_and_counts_the_ids_it_cannot_hold(tmp_path: Path) -> None:
    records = [NOTE, NOTE.with_(id="note 2"), NOTE.with_(id="note_2")]
    loss = get_format("pubtator").write(records, tmp_path / "out.pubtator")
    assert [d.id for d in get_format("pubtator").read(tmp_path / "out.pubtator")] == ["note-1", "note_2", "note_2~2"]
    # Two documents, and in each of three T5 and R9; T2 is the second mention and keeps its id.
    assert loss.counts["ids renamed"] == 2 + 3 * 2


@pytest.mark.parametrize("name", ["bc2gm", "codiesp", "conll", "i2b2_2010", "pubtator", "s800", "share_clef"])
def test_formats_without_mention_ids_count_those_that_change(tmp_path: Path, name: str) -> None:
    def lost(*ids: str) -> int:
        spans = tuple(Span.at(8 * n, 8 * n + 7, "GENE", id=given) for n, given in enumerate(ids))
        loss = get_format(name).write([Document("d", "aspirin " * len(ids), spans)], tmp_path / "-".join(ids))
        return loss.counts.get("ids renamed", 0)

    assert lost("T1", "T2", "T3") == 0
    assert lost("T7", "T2", "e1") == 2


def test_nli4ct_counts_what_it_makes_up(tmp_path: Path) -> None:
    pair = TextPair("p1", "He rests.", "He runs.", labels=("Contradiction",))
    known = pair.with_(id="p2", meta={"type": "Single", "section": "Adverse Events", "primary": "NCT1"})
    clash = known.with_(id="p3", first="Another text.")
    loss = get_format("nli4ct").write([pair, known, clash], tmp_path / "out")
    assert loss.counts == {"metadata filled in": 2, "ids renamed": 1}
    rows = json.loads((tmp_path / "out" / "statements.json").read_text())
    # A made-up trial must not look like one of ClinicalTrials.gov.
    assert [rows[key]["Primary_id"] for key in ("p1", "p2", "p3")] == ["unnamed1", "NCT1", "unnamed3"]
    assert [found.first for found in get_format("nli4ct").read(tmp_path / "out")] == [
        pair.first,
        known.first,
        clash.first,
    ]


def test_s800_counts_the_attributes_of_lost_relations(tmp_path: Path) -> None:
    spans = tuple(Span.at(8 * n, 8 * n + 7, "Species", id=f"T{n + 1}") for n in range(2))
    relations = (Relation("eats", "T1", "T2", "R1", attributes={"sure": "no", "when": "now"}),)
    loss = get_format("s800").write([Document("d", "aspirin aspirin", spans, relations)], tmp_path / "out")
    assert loss.counts == {"relations": 1, "attributes": 2}
