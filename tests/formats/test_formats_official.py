"""The official layouts and quirks, on made-up examples: what each line of a distribution must become."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from osler.core.errors import InputError, RecipeError
from osler.formats.base import Problems, configure
from osler.formats.registry import detect_formats, get_format
from osler.text.document import Document, Span, TextPair


def files(folder: Path, content: dict[str, str]) -> Path:
    for name, text in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    return folder


def read(name: str, path: Path, **options: object) -> list[Document]:
    records = list(configure(get_format(name), options).read(path))
    assert all(isinstance(record, Document) for record in records)
    return records  # type: ignore[return-value]


def pairs(name: str, path: Path) -> list[TextPair]:
    return list(get_format(name).read(path))  # type: ignore[arg-type]


def mentions(document: Document) -> list[tuple[str, str]]:
    return [(span.text_in(document.text), span.label) for span in document.spans]


def test_i2b2_2010_across_folders_and_archives(tmp_path: Path) -> None:
    files(
        tmp_path,
        {
            "test_data/x.txt": 'Hospital course\n\nHe was  given aspirin for chest pain .\n Lead token "q" here .\n',
            "reference/concepts/x.con": 'c="aspirin" 3:3 3:3||t="treatment"\nc="chest pain" 3:5 3:6||t="problem"\n'
            'c=""q"" 4:3 4:3||t="test"\n',
            "reference/ast/x.ast": 'c="chest pain" 3:5 3:6||t="problem"||a="present"\n',
            "reference/rel/x.rel": 'c="aspirin" 3:3 3:3||r="TrAP"||c="chest pain" 3:5 3:6\n',
        },
    )
    (document,) = read("i2b2_2010", tmp_path)
    assert mentions(document) == [("aspirin", "treatment"), ("chest pain", "problem"), ('"q"', "test")]
    assert document.spans[1].attributes == {"assertion": "present"}
    assert [(r.label, r.head, r.tail) for r in document.relations] == [("TrAP", "T1", "T2")]


def test_i2b2_2010_raw_notes_are_cut_into_words_and_the_change_is_counted(tmp_path: Path) -> None:
    note = Document("n", "Took aspirin, 81mg.", (Span.at(5, 12, "treatment", id="T1"),))
    loss = get_format("i2b2_2010").write([note], tmp_path / "out")
    (document,) = read("i2b2_2010", tmp_path / "out")
    assert document.text == "Took aspirin , 81 mg ."
    assert mentions(document) == [("aspirin", "treatment")]
    assert loss.counts == {"texts re-spaced at word edges": 1}


def test_i2b2_2012_counts_entities_literally_and_mends_bare_ampersands(tmp_path: Path) -> None:
    text = "\nHe&apos;s on A & B .\n"
    tags = (
        '<EVENT id="E0" start="1" end="10" text="He\'s" modality="FACTUAL" polarity="POS" type="OCCURRENCE" />'
        '<EVENT id="E1" start="14" end="19" text="A & B" modality="FACTUAL" polarity="POS" type="TREATMENT" />'
        '<TLINK id="TL0" fromID="E0" fromText="" toID="E1" toText="" type="OVERLAP" />'
    )
    root = "ClinicalNarrativeTemporalAnnotation"
    body = f"<TEXT><![CDATA[{text}]]></TEXT>\n<TAGS>\n{tags}\n</TAGS>"
    content = f'<?xml version="1.0" encoding="UTF-8" ?>\n<{root}>\n{body}</{root}>'
    (document,) = read("i2b2_2012", files(tmp_path, {"1.xml": content}))
    assert document.text == text
    assert mentions(document) == [("He&apos;s", "OCCURRENCE"), ("A & B", "TREATMENT")]
    assert document.relations[0].key == ("OVERLAP", "E0", "E1")


def test_an_empty_type_is_a_defect(tmp_path: Path) -> None:
    tag = '<NAME id="P0" start="0" end="3" text="Ann" TYPE=""/>'
    content = f"<deIdi2b2><TEXT><![CDATA[Ann]]></TEXT><TAGS>{tag}</TAGS></deIdi2b2>"
    files(tmp_path, {"1.xml": content})
    problems = Problems()
    (document,) = get_format("i2b2_2014").read(tmp_path, problems=problems)
    assert (problems.counts, document.spans) == ({"empty-label": 1}, ())  # type: ignore[union-attr]


def test_share_clef_tells_reports_from_gold_by_folder(tmp_path: Path) -> None:
    files(
        tmp_path,
        {
            "Task1TrainSetCorpus199/ALLREPORTS/r.txt": "Pain [**1**] in arm",
            "Task1TrainSetGOLD199knowtatorehost/Task1Gold/r.txt": "r.txt||Disease_Disorder||CUI-less||0||4||16||19\n",
            "README.txt": "about",
        },
    )
    (document,) = read("share_clef", tmp_path)
    assert mentions(document) == [("Pain arm", "Disease_Disorder")]
    assert document.spans[0].attributes == {"concept": "CUI-less"}


def test_brat_finds_texts_in_another_folder_and_leaves_readmes(tmp_path: Path) -> None:
    files(tmp_path, {"README.txt": "x", "original/a.txt": "one.", "brat/a.ann": "T1\tFp 3 4\t.\n"})
    (document,) = read("brat", tmp_path)
    assert (document.id, mentions(document)) == ("a", [(".", "Fp")])


def test_ictusnet_names_and_suggestions(tmp_path: Path) -> None:
    files(tmp_path, {"7.utf8.txt": "ictus", "7.utf8.ann": "T1\t_SUG_Diag 0 5\tictus\n#1\tAnnotatorNotes T1\tI63\n"})
    (document,) = read("brat", tmp_path, label_prefix="_SUG_")
    assert (document.id, mentions(document)) == ("7", [("ictus", "Diag")])
    assert document.spans[0].attributes == {"AnnotatorNotes": "I63"}


def test_brat_keeps_marks_and_carriage_returns_in_offsets(tmp_path: Path) -> None:
    files(tmp_path, {"a.txt": "\ufeffone\r\ntwo", "a.ann": "\ufeffT1\tX 6 9\ttwo\r\nT2\tX 1 9\tone two\r\n"})
    (document,) = read("brat", tmp_path)
    assert [span.fragments for span in document.spans] == [((6, 9),), ((1, 9),)]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("He\tO\ntook\tO\nIL\tB-Drug\n2\tI-Drug\n", [("IL 2", "Drug")]),
        ("He O\nIL B\n2 I\n", [("IL 2", "MENTION")]),
        ("IL NN B-NP S-Drug\n2 CD I-NP B-X\n3 CD I-NP E-X\n", [("IL", "Drug"), ("2 3", "X")]),
    ],
)
def test_conll_dialects(lines: str, expected: list[tuple[str, str]], tmp_path: Path) -> None:
    (document,) = read("conll", files(tmp_path, {"a.tsv": lines}) / "a.tsv")
    assert mentions(document) == expected


def test_conll_documents_sentences_and_improper_tags(tmp_path: Path) -> None:
    files(tmp_path, {"a.conll": "###MEDLINE:91\n\na\tO\n\nb\tB-X\n\n-DOCSTART-\tO\n\nc\tO\nd\tI-X\n"})
    with pytest.raises(InputError, match=r"a\.conll:10: .*improper-tag"):
        read("conll", tmp_path)
    problems = Problems()
    documents = list(get_format("conll").read(tmp_path, problems=problems))
    assert [(d.id, d.text) for d in documents] == [("91", "a\nb"), ("a-2", "c d")]  # type: ignore[union-attr]
    assert mentions(documents[1]) == [("d", "X")]  # type: ignore[arg-type]
    assert problems.counts == {"improper-tag": 1}
    assert len(list(configure(get_format("conll"), {"unit": "sentence"}).read(tmp_path, problems=Problems()))) == 3


def test_pubtator_composite_mentions_and_concept_relations(tmp_path: Path) -> None:
    block = (
        "\n9|t|Ocular and auditory toxicity\n9|a|Of drugs.\n"
        "9\t0\t28\tOcular and auditory toxicity\tDisease\tD1|D2\tx|y\n"
        "9\t32\t37\tdrugs\tChemical\t-1\n9\tCID\tD3\tD2\n"
    )
    problems = Problems()
    (document,) = get_format("pubtator").read(files(tmp_path, {"a.pubtator": block}), problems=problems)
    assert isinstance(document, Document)
    assert document.text == "Ocular and auditory toxicity Of drugs."
    assert document.spans[0].attributes == {"concept": "D1|D2", "parts": "x|y"}
    assert problems.counts == {"dangling-reference": 1}


def test_bioc_offsets_counted_on_escaped_text(tmp_path: Path) -> None:
    def passage(kind: str, offset: int, text: str, annotation: str) -> str:
        head = f'<infon key="type">{kind}</infon><offset>{offset}</offset>'
        return f"<passage>{head}<text>{text}</text>{annotation}</passage>"

    place = "<infon key='type'>Drug</infon><location offset='8' length='4' />"
    annotation = f"<annotation id='1'>{place}<text>iron</text></annotation>"
    content = (
        "<?xml version='1.0'?><!DOCTYPE collection SYSTEM 'BioC.dtd'>\n"
        "<collection><source/><date/><key/><document><id>1</id>"
        + passage("title", 0, "Ann&apos;s", "")
        + passage("abstract", 11, "a iron", annotation)
        + "</document></collection>"
    )
    (document,) = read("bioc", files(tmp_path, {"a.xml": content}) / "a.xml")
    assert document.text == "Ann's a iron"
    assert mentions(document) == [("iron", "Drug")]


def test_ddi_offsets_are_inclusive_and_sentences_keep_their_line_breaks(tmp_path: Path) -> None:
    content = (
        '<document id="D.d0"><sentence id="D.d0.s0" text="Aspirin rises.&#13;&#10;">'
        '<entity id="D.d0.s0.e0" charOffset="0-6" '
        'type="drug" text="Aspirin"/></sentence><sentence id="D.d0.s1" text="A and B acid"><entity id="D.d0.s1.e0" '
        'charOffset="0-0;8-11" type="group" text="A acid"/>'
        '<entity id="D.d0.s1.e1" charOffset="6-11" type="drug" text="B acid"/>'
        '<pair id="D.d0.s1.p0" e1="D.d0.s1.e0" e2="D.d0.s1.e1" ddi="true" type="int"/></sentence></document>'
    )
    (document,) = read("ddi_xml", files(tmp_path, {"a.xml": content}))
    assert mentions(document) == [("Aspirin", "drug"), ("A acid", "group"), ("B acid", "drug")]
    assert document.meta["sentences"] == "0 16;17 29"
    assert document.relations[0].label == "int"


def test_gold_scores_in_a_file_of_their_own(tmp_path: Path) -> None:
    files(tmp_path, {"c.test.txt": 'a "b\tc\nd\te\n', "c.test.gs.sim.txt": "0.5\n4\n"})
    assert [(p.id, p.first, p.value) for p in pairs("sts", tmp_path)] == [
        ("c.test-1", 'a "b', 0.5),
        ("c.test-2", "d", 4.0),
    ]


def test_mednli_reads_premise_before_hypothesis(tmp_path: Path) -> None:
    row = {
        "sentence1": "Premise.",
        "pairID": "1",
        "sentence1_parse": "(ROOT)",
        "sentence2": "Hyp.",
        "gold_label": "neutral",
    }
    (pair,) = pairs("mednli", files(tmp_path, {"mli_dev_v1.jsonl": json.dumps(row)}))
    assert pair == TextPair("1", "Premise.", "Hyp.", labels=("neutral",))


def test_mimic_drops_errors_and_strips_categories(tmp_path: Path) -> None:
    content = (
        "row_id,subject_id,hadm_id,category,iserror,text\n"
        '1,10,100.0,"Physician ",,"A ""pleasant"" man\r\nwith, pain"\n2,10,,Nursing,1,"wrong"\n'
    )
    (document,) = read("mimic", files(tmp_path, {"NOTEEVENTS.csv": content}))
    assert document.text == 'A "pleasant" man\r\nwith, pain'
    assert document.meta == {"patient": "10", "admission": "100.0", "category": "Physician"}


def test_tables_by_usual_and_by_given_names(tmp_path: Path) -> None:
    files(
        tmp_path,
        {"a.tsv": "index\tsentence1\tsentence2\tlabel\n5\ta\tb\tyes\n", "b.csv": "report,code,age\nfine,x,9\n"},
    )
    assert pairs("tsv", tmp_path / "a.tsv") == [TextPair("5", "a", "b", labels=("yes",))]
    (document,) = read("csv", tmp_path / "b.csv", text="report", label="code")
    assert document == Document("1", "fine", labels=("x",), meta={"age": "9"})
    with pytest.raises(InputError, match="no column with texts"):
        read("csv", tmp_path / "b.csv")
    with pytest.raises(RecipeError, match="Did you mean 'text'"):
        configure(get_format("csv"), {"txt": "report"})


def test_jsonl_takes_foreign_fields_and_refuses_what_is_no_record(tmp_path: Path) -> None:
    files(
        tmp_path,
        {"a.jsonl": '{"text": "a", "label": 1, "year": 2001, "metadata": []}\n', "b.jsonl": '{"text": "\\ud800"}\n'},
    )
    (document,) = read("jsonl", tmp_path / "a.jsonl")
    assert document == Document("1", "a", labels=("1",), meta={"year": "2001"})
    with pytest.raises(InputError, match=r"b\.jsonl:1: .*surrogate"):
        read("jsonl", tmp_path / "b.jsonl")


XMI = """<?xml version="1.0" encoding="UTF-8"?><xmi:XMI xmlns:cas="http:///uima/cas.ecore" xmlns:xmi="http://www.omg.org/XMI"
  xmlns:custom="http:///webanno/custom.ecore" xmlns:type4="http:///de/tudarmstadt/segmentation/type.ecore" xmi:version="2.0">
    <cas:NULL xmi:id="0"/>
    <type4:Token xmi:id="3" sofa="12" begin="0" end="2"/>
    <custom:EVENT xmi:id="5" sofa="12" begin="6" end="11" TLINK="9" polarity="NEG" contextualModality="ACTUAL"/>
    <custom:CLINENTITY xmi:id="7" sofa="12" begin="6" end="11" entityID="C0015967"/>
    <custom:EVENTTLINKLink xmi:id="9" role="BEFORE" target="5"/>
    <cas:Sofa xmi:id="12" sofaNum="1" sofaID="_InitialView" mimeType="text" sofaString="😀 no&#10;fever"/>
    <cas:View sofa="12" members="3 5 7"/>
</xmi:XMI>
"""


def test_webanno_counts_utf16_and_reads_the_layers_of_the_project(tmp_path: Path) -> None:
    files(tmp_path, {"English/EN1.xml": XMI})
    assert detect_formats(tmp_path) == ["webanno_xmi"]
    (document,) = read("webanno_xmi", tmp_path)
    assert (document.id, document.text) == ("EN1", "😀 no\nfever")
    assert mentions(document) == [("fever", "EVENT"), ("fever", "CLINENTITY")]
    # The link to other annotations says nothing without them.
    assert document.spans[0].attributes == {"polarity": "NEG", "contextualModality": "ACTUAL"}
    (events,) = read("webanno_xmi", tmp_path, layers=["EVENT"])
    assert mentions(events) == [("fever", "EVENT")]


def test_webanno_with_entities_of_its_own_is_refused(tmp_path: Path) -> None:
    bomb = XMI.replace("<xmi:XMI", '<!DOCTYPE x [<!ENTITY e "boom">]><xmi:XMI')
    files(tmp_path, {"EN1.xml": bomb})
    with pytest.raises(InputError, match="declares entities"):
        read("webanno_xmi", tmp_path)


def test_brat_cues_give_their_attribute_to_what_is_in_their_scope(tmp_path: Path) -> None:
    text = "No tiene fiebre ni tos .\nProbable fiebre .\nTose : tos y Fiebre alta .\n"
    spans = [
        ("NegSynMarker", 0, 2), ("Phrase", 3, 22), ("DISO", 9, 15), ("DISO", 19, 22), ("UncertLexMarker", 25, 33), ("DISO", 34, 40),
    ]  # fmt: skip
    lines = [f"T{n}\t{label} {a} {b}\t{text[a:b]}" for n, (label, a, b) in enumerate(spans, 1)]
    lines += ["R1\tScope Arg1:T1 Arg2:T2", "R2\tScope Arg1:T5 Arg2:T6"]
    files(tmp_path, {"a.txt": text, "a.ann": "\n".join(lines) + "\n"})
    (document,) = read("brat", tmp_path, cues=["Neg*=negated", "Uncert*=possible"], repeated=["DISO"])
    found = [(span.text_in(text), dict(span.attributes)) for span in document.spans if span.label in ("Phrase", "DISO")]
    assert found == [
        ("tiene fiebre ni tos", {"negated": "yes"}),
        ("fiebre", {"negated": "yes"}),
        ("tos", {"negated": "yes"}),
        ("fiebre", {"possible": "yes"}),
        # Found again outside every scope. A text of three letters is not looked for.
        ("Fiebre", {}),
    ]
    assert [span.attributes for span in read("brat", tmp_path)[0].spans] == [{}] * 6


def test_detection_names_what_a_folder_looks_like(tmp_path: Path) -> None:
    files(tmp_path, {"a.txt": "x", "a.ann": "T1\tX 0 1\tx\n"})
    assert detect_formats(tmp_path) == ["brat"]
