"""Every format writes what it can hold and says what it cannot: records come back, or the loss says why not."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.formats.base import Format, configure
from osler.formats.registry import FORMATS, get_format
from osler.text.document import Document, Record, Relation, Span, TextPair

DOCUMENTS = [
    "bc2gm",
    "bioc",
    "brat",
    "bsc_tsv",
    "chemprot",
    "codiesp",
    "conll",
    "ddi_xml",
    "hoc",
    "i2b2_2010",
    "i2b2_2012",
    "i2b2_2014",
    "jsonl",
    "label_studio",
    "meddocan_xml",
    "mimic",
    "pubtator",
    "s800",
    "share_clef",
    "csv",
    "tsv",
    "gad_euadr",
    "webanno_xmi",
]
PAIRS = ["biosses", "csv", "jsonl", "mednli", "medrqe", "nli4ct", "pubmedqa", "sts", "tsv"]
# What readers add of themselves, and reasons that mean a span or a relation is not in the file.
ADDED = {"tokens", "title_length", "sentences", "primary_lines", "type", "section", "primary", "secondary"}
DROPPED_SPANS = {
    "discontinuous spans",
    "overlapping spans",
    "spans across lines",
    "spans across sentences",
    "spans of blanks",
    "spans that are not sentences",
    "spans without a word",
}
ALPHABET = 'abcdefgé ñ.,12\n\n\r\t  &<>"]|;:µ\u2028\u00a0😀'


def target(format_: Format, folder: str) -> Path:
    return Path(folder) / ("out" if format_.layout == "folder" else "out" + format_.suffixes[0])


def written(name: str, records: list[Record], folder: str) -> tuple[Counter[str], list[Record]]:
    format_ = get_format(name)
    path = target(format_, folder)
    loss = format_.write(records, path)
    return Counter(loss.counts), list(format_.read(path))


def essence(document: Document) -> tuple[object, ...]:
    """A document without the names of its spans and relations and without what readers add."""

    def attributes(item: Span | Relation) -> tuple[tuple[str, str], ...]:
        # An empty concept and none at all are one in a column; CUI-less is how ShARe writes it.
        kept = {key: value for key, value in item.attributes.items() if value not in ("", "CUI-less")}
        own = {key: value for key, value in kept.items() if key not in ("element", "evaluated", "type")}
        return tuple(sorted(own.items()))

    spans = Counter((span.fragments, span.label, attributes(span)) for span in document.spans)
    relations = Counter(
        (r.label, document.span(r.head).key, document.span(r.tail).key, attributes(r)) for r in document.relations
    )
    meta = {key: value for key, value in document.meta.items() if key not in ADDED}
    return document.text, spans, relations, document.labels, document.value, meta


@st.composite
def documents(draw: st.DrawFn, labels: tuple[str, ...] = ("Drug", "Problem")) -> Document:
    text = draw(st.text(ALPHABET, min_size=1, max_size=80))
    spans: dict[object, Span] = {}
    for number in range(draw(st.integers(0, 4))):
        edges = draw(st.sets(st.integers(0, len(text)), min_size=2, max_size=4))
        ordered = sorted(edges)[: len(edges) // 2 * 2]
        pieces = tuple(zip(ordered[::2], ordered[1::2], strict=True))
        extra = draw(st.dictionaries(st.sampled_from(["concept", "note", "assertion"]), st.text("ab12", max_size=3)))
        span = Span(pieces, draw(st.sampled_from(labels)), f"T{number + 1}", attributes=extra)
        spans.setdefault(span.key, span)
    kept = tuple(spans.values())
    relations = []
    if len(kept) > 1:
        for number in range(draw(st.integers(0, 2))):
            head, tail = draw(st.permutations([span.id for span in kept]))[:2]
            relations.append(Relation(draw(st.sampled_from(["CPR:4", "effect"])), head, tail, f"R{number + 1}"))
    labels_ = tuple(draw(st.lists(st.sampled_from(["D:a1", "x y"]), max_size=2, unique=True)))
    value = draw(st.none() | st.floats(-9, 9, allow_nan=False))
    return Document("doc1", text, kept, tuple(relations), labels_, value)


@pytest.mark.parametrize("name", DOCUMENTS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_documents_come_back_or_the_loss_says_why(name: str, data: st.DataObject) -> None:
    labels = {"bc2gm": ("GENE",), "s800": ("Species",)}.get(name, ("Drug", "Problem"))
    document = data.draw(documents(labels))
    with tempfile.TemporaryDirectory() as folder:
        loss, records = written(name, [document], folder)
    if "documents without a word" in loss:
        assert not records
        assert not document.text.strip()
        return
    (found,) = records
    assert isinstance(found, Document)
    if "spans" in loss:
        assert not found.spans
    else:
        missing = sum(count for reason, count in loss.items() if reason in DROPPED_SPANS)
        # A format that holds discontinuous spans does not count them as lost.
        assert len(found.spans) == len(document.spans) - missing
    if not loss:
        assert essence(found) == essence(document)
    if not loss.keys() & {"characters replaced by a blank", "texts re-spaced at word edges"}:
        assert found.text == document.text


@pytest.mark.parametrize("name", PAIRS)
@settings(max_examples=50, deadline=None)
@given(
    first=st.text(ALPHABET, min_size=1, max_size=40).filter(str.strip),
    second=st.text(ALPHABET, min_size=1, max_size=40).filter(str.strip),
    label=st.sampled_from([(), ("yes",), ("a", "b")]),
    value=st.none() | st.floats(0, 5),
)
def test_pairs_come_back_or_the_loss_says_why(
    name: str, first: str, second: str, label: tuple[str, ...], value: float | None
) -> None:
    pair = TextPair("out-1", first, second, labels=label, value=value)
    with tempfile.TemporaryDirectory() as folder:
        loss, records = written(name, [pair], folder)
    assert len(records) == 1
    found = records[0]
    assert isinstance(found, TextPair)
    if not loss:
        assert found.with_(meta={}) == pair
    if not loss.keys() & {"characters replaced by a blank", "outer white space"}:
        assert (found.first, found.second) == (first, second)


NOTE = Document(
    "n1",
    "He was given aspirin for chest pain .\nNo fever .",
    (
        Span.at(13, 20, "treatment", id="T1"),
        Span.at(25, 35, "problem", id="T2", attributes={"assertion": "present"}),
        Span.at(41, 46, "problem", id="T3", attributes={"assertion": "absent"}),
    ),
    (Relation("TrAP", "T1", "T2", "R1"),),
    meta={"tokens": "blanks"},
)
ABSTRACT = Document(
    "101",
    "Aspirin and ulcer. Aspirin can cause ulcers.",
    (
        Span.at(0, 7, "Chemical", id="T1", attributes={"concept": "D1"}),
        Span.at(37, 43, "Disease", id="T2", attributes={"concept": "D2"}),
    ),
    (Relation("CID", "T1", "T2", "R1", attributes={"head": "D1", "tail": "D2"}),),
    meta={"title_length": "18"},
)
EXACT: dict[str, list[Record]] = {
    "bc2gm": [Document("S1", "the p53 gene", (Span.at(4, 12, "GENE", id="T1"),))],
    "bioc": [ABSTRACT],
    "biosses": [TextPair("7", "a b", "c d", value=2.5, meta={"annotator_A": "3"})],
    "brat": [
        Document(
            "a.b-1",
            "left and right knee pain\r\nyes",
            (
                Span(((0, 4), (15, 24)), "Problem", "T7", attributes={"AnnotatorNotes": "C1 x", "Negated": ""}),
                Span.at(9, 24, "Problem", id="T2", attributes={"Reference": "UMLS:C2\tpain"}),
                Span.at(15, 19, "Site", id="T3", attributes={"event:E1": "Locate"}),
            ),
            (
                Relation("Near", "T7", "T2", "R4", attributes={"roles": "From To", "Sure": "yes"}),
                Relation("Equiv", "T7", "T2", "*1.1", attributes={"equiv": "1"}),
                Relation("Of", "T3", "T2", "E1.1", attributes={"event": "E1"}),
            ),
        )
    ],
    "chemprot": [
        ABSTRACT.with_(
            spans=tuple(Span(s.fragments, s.label, s.id) for s in ABSTRACT.spans),
            relations=(Relation("CPR:4", "T1", "T2", "R1", attributes={"evaluated": "Y", "type": "INHIBITOR"}),),
        )
    ],
    "bsc_tsv": [
        Document(
            "es-S1",
            "dolor de cabeza\r\ny fiebre",
            (
                Span.at(0, 15, "ENFERMEDAD", id="T3", attributes={"code": "25064002", "semantic_rel": "EXACT"}),
                Span.at(19, 25, "ENFERMEDAD", id="T1"),
            ),
        ),
        Document("es-S2", "sin hallazgos"),
    ],
    "codiesp": [
        Document(
            "c",
            "dolor de cabeza",
            (Span(((0, 5), (9, 15)), "DIAGNOSTICO", "T1", attributes={"code": "r51"}),),
            (),
            ("D:r51", "P:x"),
        ),
    ],
    "conll": [NOTE.with_(spans=tuple(Span(s.fragments, s.label, s.id) for s in NOTE.spans), relations=())],
    "csv": [Document("1", 'a "quoted", text\nand\r\nmore', labels=("x", "y"), value=1.5), Document("2", "b")],
    "ddi_xml": [
        Document(
            "DDI.d0",
            "Aspirin raises warfarin.\r\n\nNo more",
            (Span.at(0, 7, "drug", id="DDI.d0.s0.e0"), Span.at(15, 23, "drug", id="DDI.d0.s0.e1")),
            (Relation("effect", "DDI.d0.s0.e0", "DDI.d0.s0.e1", "DDI.d0.s0.p0"),),
            meta={"sentences": "0 26;27 34"},
        )
    ],
    "gad_euadr": [Document("out-4", "@GENE$ and @DISEASE$", labels=("1",))],
    "hoc": [
        Document(
            "1", "One .\nTwo .", (Span.at(6, 11, "A--B", id="T1"), Span.at(6, 11, "C", id="T2")), labels=("A--B", "C")
        )
    ],
    "i2b2_2010": [NOTE],
    "i2b2_2012": [
        Document(
            "1",
            "\nAdmission :\n2001-02-03\n",
            (
                Span.at(1, 10, "OCCURRENCE", id="E0", attributes={"element": "EVENT", "polarity": "POS"}),
                Span.at(13, 23, "DATE", id="T0", attributes={"element": "TIMEX3", "val": "2001-02-03"}),
            ),
            (Relation("OVERLAP", "E0", "T0", "TL0"),),
            meta={"tokens": "blanks"},
        )
    ],
    "i2b2_2014": [
        Document("1-2", "\nDr. Ann & <b> ]]> left", (Span.at(5, 8, "DOCTOR", id="P0", attributes={"element": "NAME"}),))
    ],
    "jsonl": [NOTE, ABSTRACT, TextPair("p", "\ta", "b\n", labels=("x",), value=0.1, meta={"k": "v"})],
    "label_studio": [
        Document(
            "n-1",
            "💊 aspirin for\r\nchest pain",
            (
                Span.at(2, 9, "Drug", id="T1", score=0.75, attributes={"code": "B01 AC06"}),
                Span.at(15, 25, "Problem", id="x9", score=0.5, attributes={"assertion": "present", "label": "a"}),
                Span.at(15, 20, "Site", id="T3"),
            ),
            (Relation("TrAP", "T1", "x9", "R1"), Relation("of", "x9", "T3", "R2")),
            ("D:r07", "x y"),
            1.5,
            {"patient": "7"},
            {"D:r07": 0.9, "x y": 0.6},
        ),
        Document("n-2", "No fever", (Span.at(3, 8, "Problem", id="T1"),)),
        Document("n-3", "Nothing"),
    ],
    "meddocan_xml": [Document("a", "\ufeffAna", (Span.at(1, 4, "NOMBRE", id="T1", attributes={"element": "NAME"}),))],
    "mednli": [TextPair("p1", "He rests.", "He runs.", labels=("contradiction",))],
    "medrqe": [TextPair("1", "Why & how?", "How?", labels=("true",), meta={"type": "x"})],
    "mimic": [Document("1", 'A "quiet"\nman, [**1**]', meta={"patient": "10", "category": "Nursing"})],
    "nli4ct": [
        TextPair(
            "u1",
            "INCLUSION\n  adults\nEXCLUSION",
            "Adults only",
            labels=("Entailment",),
            meta={
                "type": "Comparison",
                "section": "Eligibility",
                "primary": "NCT1",
                "secondary": "NCT2",
                "primary_evidence": "0 1",
                "primary_lines": "2",
            },
        )
    ],
    "pubmedqa": [
        TextPair(
            "1", "One.\nTwo.", "Is it?", labels=("yes",), meta={"sections": "A; B", "year": "2000", "long_answer": "Y"}
        )
    ],
    "pubtator": [ABSTRACT],
    "s800": [
        Document(
            "sp1",
            "E. coli\n\nGrows.",
            (Span.at(0, 7, "Species", id="T1", attributes={"concept": "562"}),),
            meta={"pmid": "9"},
        )
    ],
    "share_clef": [
        Document("r-1", "pain in \r\nleft arm", (Span(((0, 4), (10, 14)), "D", "T1", attributes={"concept": "C1"}),))
    ],
    "sts": [TextPair("out-1", 'He "ran".', "He walked.", value=2.5)],
    "webanno_xmi": [
        Document(
            "EN1",
            '😀 no "fever"\n& <cough>',
            (
                Span.at(6, 11, "EVENT", id="T1", attributes={"polarity": "NEG", "note": 'a "b" & c'}),
                Span.at(0, 1, "FACE", id="T2"),
                Span.at(17, 22, "EVENT", id="T3", attributes={"polarity": "POS"}),
            ),
        )
    ],
    "tsv": [TextPair("1", 'a "b', "c", labels=("yes",)), TextPair("2", "d", "e", value=3.0)],
}


@pytest.mark.parametrize("name", FORMATS.names())
def test_a_record_the_format_can_hold_comes_back_whole(name: str, tmp_path: Path) -> None:
    loss, records = written(name, EXACT[name], str(tmp_path))
    assert not loss
    assert records == EXACT[name]


@pytest.mark.parametrize("name", FORMATS.names())
def test_what_a_format_writes_it_detects(name: str, tmp_path: Path) -> None:
    format_ = get_format(name)
    path = target(format_, str(tmp_path))
    if name == "mimic":
        path = tmp_path / "NOTEEVENTS.csv"
    format_.write(EXACT[name], path)
    assert format_.detect(path)
    assert isinstance(format_, Format)


def test_a_pair_is_a_stated_loss_where_only_documents_fit(tmp_path: Path) -> None:
    loss = get_format("brat").write([TextPair("1", "a", "b")], tmp_path / "out")
    assert loss.counts == {"text pairs": 1}
    assert str(loss) == "1 text pairs"


def test_conll_says_when_it_joins_the_pieces_of_a_mention() -> None:
    document = Document("doc1", "1 1", (Span(((0, 1), (2, 3)), "Drug", "T1"),))
    with tempfile.TemporaryDirectory() as folder:
        loss, (found,) = written("conll", [document], folder)
    assert loss == {"discontinuous spans joined": 1}
    assert isinstance(found, Document)
    assert found.spans[0].fragments == ((0, 3),)


def test_i2b2_2010_says_when_a_relation_could_mean_either_of_two_concepts() -> None:
    spans = (Span.at(0, 1, "treatment", id="T1"), Span.at(0, 1, "problem", id="T2"))
    document = Document("doc1", "1", spans, (Relation("TrAP", "T1", "T2", "R1"),))
    with tempfile.TemporaryDirectory() as folder:
        loss, _ = written("i2b2_2010", [document], folder)
    assert loss == {"relations to one of several concepts at a place": 1}


@pytest.mark.parametrize("columns", ["id,text,label", ["id", "text", "label"], "id, text, label"])
def test_a_table_without_a_header_takes_its_columns_from_an_option(columns, tmp_path):
    (tmp_path / "rows.csv").write_text("7,Aspirin helps.,yes\n")
    [record] = configure(get_format("csv"), {"columns": columns}).read(tmp_path / "rows.csv")
    assert (record.id, record.text, record.labels) == ("7", "Aspirin helps.", ("yes",))
