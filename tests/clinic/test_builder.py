"""The builder and the template language keep text, spans and relations as they were written."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from osler.clinic.builder import NoteBuilder, wrap


def test_marks_cover_what_was_written() -> None:
    builder = NoteBuilder()
    builder.text("Take ")
    drug = builder.mark("aspirin", "DRUG", {"kind": "drug"})
    builder.text(" for ")
    problem = builder.mark("chest pain", "PROBLEM", {"assertion": "present"})
    builder.text(".\n\n")
    builder.relate("TrAP", drug, problem)
    builder.relate("TrAP", drug, problem)
    document = builder.build("n1", labels=("x",), value=2.0, meta={})
    assert document.text == "Take aspirin for chest pain.\n"
    assert [(span.text_in(document.text), span.label) for span in document.spans] == [
        ("aspirin", "DRUG"),
        ("chest pain", "PROBLEM"),
    ]
    assert [relation.key for relation in document.relations] == [("TrAP", "T1", "T2"), ("Reason-Drug", "T2", "T1")]


def test_undirected_relations_are_in_text_order() -> None:
    builder = NoteBuilder()
    first = builder.mark("a", "DRUG")
    second = builder.mark("b", "DRUG")
    builder.relate("DDI-int", second, first)
    assert builder.build("n", labels=(), value=None, meta={}).relations[0].key == ("DDI-int", "T1", "T2")


@settings(max_examples=80, deadline=None)
@given(st.text(alphabet="ab cdñ\n", max_size=200), st.integers(1, 40))
def test_wrapping_only_turns_spaces_into_line_breaks(text: str, width: int) -> None:
    wrapped = wrap(text, width)
    assert len(wrapped) == len(text)
    assert all(new == old or (old == " " and new == "\n") for old, new in zip(text, wrapped, strict=True))
    for line in wrapped.split("\n"):
        assert len(line) <= width or " " not in line.strip(" ")


def test_dropped_accents_and_capitals_keep_offsets() -> None:
    builder = NoteBuilder()
    builder.text("Dña. Ñ: ")
    builder.mark("fiebre ½ º ß", "PROBLEM")
    document = builder.build("n", labels=(), value=None, meta={}, accents=False, capitals=True)
    assert document.text == "DNA. N: FIEBRE ½ º ß\n"
    assert document.spans[0].text_in(document.text) == "FIEBRE ½ º ß"
