"""Rules: what they find in three languages, and the clinical numbers and eponyms they leave alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from osler.artifacts.task_folder import TaskFolder
from osler.metrics.deid import score_deid
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.stages.serve.deid.kinds import united
from osler.stages.serve.deid.rules import LANGUAGES, repeated_names, rules_for
from osler.text.document import Document, Span


def found(text: str, *languages: str) -> list[tuple[str, str]]:
    findings = rules_for(languages).find(text)
    return [(f.kind, text[f.start : f.end]) for f in united([*findings, *repeated_names(text, findings)])]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Seen by Dr. Amara Okafor-Smith.", [("NAME", "Amara Okafor-Smith")]),
        ("en", "Mr. O'Neill, MRN: 00-12-34", [("NAME", "O'Neill"), ("MEDICALRECORD", "00-12-34")]),
        ("en", "Name: April T. Hathbury   DOB: 03/31/1929", [("NAME", "April T. Hathbury"), ("DATE", "03/31/1929")]),
        ("en", "SSN 123-45-6789, call (617) 555-0123", [("SSN", "123-45-6789"), ("PHONE", "(617) 555-0123")]),
        ("en", "her cousin Marvin Stanfield phoned", [("NAME", "Marvin Stanfield")]),
        (
            "en",
            "8 Stanworth Rd, Everwick 53068",
            [("STREET", "8 Stanworth Rd"), ("CITY", "Everwick"), ("ZIP", "53068")],
        ),
        ("en", "admitted on March 3, 2020 and again on 5/6.", [("DATE", "March 3, 2020"), ("DATE", "5/6")]),
        ("en", "at St. Mary's Hospital", [("HOSPITAL", "St. Mary's Hospital")]),
        ("en", "a 94-year-old woman", [("AGE", "94")]),
        ("en", "NPI 1234567893 and 10.0.0.12", [("LICENSE", "1234567893"), ("IP", "10.0.0.12")]),
        (
            "en",
            "a.b-c@mail.example.com or https://x.org/a?b=1.",
            [("EMAIL", "a.b-c@mail.example.com"), ("URL", "https://x.org/a?b=1")],
        ),
        ("es", "Nombre: Ernesto.\nApellidos: Rivera Bueno.", [("NAME", "Ernesto"), ("NAME", "Rivera Bueno")]),
        (
            "es",
            "Paciente: Rivera Bueno, Ernesto (NHC 76.248.778)",
            [("NAME", "Rivera Bueno, Ernesto"), ("MEDICALRECORD", "76.248.778")],
        ),
        ("es", "La Dra. María de la Cruz Gómez", [("NAME", "María de la Cruz Gómez")]),
        ("es", "Domicilio: Calle Mayor 3, 2º B.\nCP: 28016.", [("STREET", "Calle Mayor 3, 2º B"), ("ZIP", "28016")]),
        ("es", "DNI 12345678Z, NºCol: 28 28 70973.", [("ID", "12345678Z"), ("LICENSE", "28 28 70973")]),
        ("es", "IBAN ES91 2100 0418 4502 0005 1332", [("ACCOUNT", "ES91 2100 0418 4502 0005 1332")]),
        ("es", "desde marzo de 2014 hasta el 12/03", [("DATE", "marzo de 2014"), ("DATE", "12/03")]),
        ("es", "móvil 612 345 678", [("PHONE", "612 345 678")]),
        (
            "fr",
            "Madame Élodie Lefèvre, née le 12 mars 1954 à Lyon",
            [("NAME", "Élodie Lefèvre"), ("DATE", "12 mars 1954"), ("CITY", "Lyon")],
        ),
        ("fr", "NOM : DUPONT Prénom : Camille", [("NAME", "DUPONT"), ("NAME", "Camille")]),
        (
            "fr",
            "NIR 2 55 08 14 168 025 38, tél. 06 12 34 56 78",
            [("SSN", "2 55 08 14 168 025 38"), ("PHONE", "06 12 34 56 78")],
        ),
        (
            "fr",
            "12 bis rue de la République, 69002 Lyon",
            [("STREET", "12 bis rue de la République"), ("ZIP", "69002"), ("CITY", "Lyon")],
        ),
        ("fr", "M. Le Goff, IPP : 8001234", [("NAME", "Le Goff"), ("MEDICALRECORD", "8001234")]),
        ("en", "Insurance BCBS XYZ123456789", [("HEALTHPLAN", "XYZ123456789")]),
        ("en", "PCP Nguyen agrees; PCP pneumonia", [("NAME", "Nguyen")]),
        ("es", "RMN nº 20210614-556 del 14-VI-2021", [("ID", "20210614-556"), ("DATE", "14-VI-2021")]),
        ("es", "(vecina Fátima), pasaporte marroquí AB1234567", [("NAME", "Fátima"), ("ID", "AB1234567")]),
        (
            "es",
            "con la supervisora Paqui Llorca, del CS Cabo Huertas",
            [("NAME", "Paqui Llorca"), ("HOSPITAL", "Cabo Huertas")],
        ),
        ("es", "mohamed_87 (arroba) correo.example", [("EMAIL", "mohamed_87 (arroba) correo.example")]),
        ("fr", "à l'hôpital Édouard-Herriot", [("HOSPITAL", "hôpital Édouard-Herriot")]),
        ("en", "a fall on Valentine's Day, home by Christmas", [("DATE", "Valentine's Day"), ("DATE", "Christmas")]),
        ("es", "empeoró en Nochebuena", [("DATE", "Nochebuena")]),
        ("fr", "vue après Noël 2019", [("DATE", "Noël 2019")]),
        ("en", "Medicare ID 1EG4-TE5-MK73.", [("HEALTHPLAN", "1EG4-TE5-MK73")]),
        ("en", "plate IL-ABC 1234", [("VEHICLE", "IL-ABC 1234")]),
        ("es", "CIP: BBBBBBBBBB123456", [("HEALTHPLAN", "BBBBBBBBBB123456")]),
        ("es", "visto en el C.S. Goya", [("HOSPITAL", "Goya")]),
        (
            "fr",
            "CENTRE HOSPITALIER UNIVERSITAIRE DE NANTES\nService de cardiologie",
            [("HOSPITAL", "CENTRE HOSPITALIER UNIVERSITAIRE DE NANTES")],
        ),
        ("en", "Patient Name: O'CONNELL-PRATT, SEAMUS P.", [("NAME", "O'CONNELL-PRATT, SEAMUS P.")]),
        ("en", "Name: McDOWELL, RONA J", [("NAME", "McDOWELL, RONA J")]),
        ("en", "with J. R. R. Hathbury, PhD", [("NAME", "J. R. R. Hathbury")]),
        ("en", "ST. EDWIN'S REGIONAL MEDICAL CENTER", [("HOSPITAL", "ST. EDWIN'S REGIONAL MEDICAL CENTER")]),
        ("en", "lives at 14a St. John's Wood Road", [("STREET", "14a St. John's Wood Road")]),
        (
            "en",
            "020 7946 0958, (0161) 496 0123, 07700 900123",
            [("PHONE", "020 7946 0958"), ("PHONE", "(0161) 496 0123"), ("PHONE", "07700 900123")],
        ),
        (
            "en",
            "NHS No: 943 476 5919, NI number QQ 12 34 56 C",
            [("HEALTHPLAN", "943 476 5919"), ("SSN", "QQ 12 34 56 C")],
        ),
        (
            "en",
            "on 04MAR2025, March the 6th, Mon 3/3",
            [("DATE", "04MAR2025"), ("DATE", "March the 6th"), ("DATE", "3/3")],
        ),
        ("en", "Drs. Patel, Okoro and Gupta agree", [("NAME", "Patel"), ("NAME", "Okoro"), ("NAME", "Gupta")]),
        ("fr", "les Drs Kervella et Benali", [("NAME", "Kervella"), ("NAME", "Benali")]),
        ("es", "Dra. Llorca, Begoña", [("NAME", "Llorca, Begoña")]),
        ("es", "Derivado al H.U. Cabo Huertas.", [("HOSPITAL", "H.U. Cabo Huertas")]),
        ("es", "vive en Sta. Marta de Tormes", [("CITY", "Sta. Marta de Tormes")]),
        ("es", "móvil 612.34.56.78; matrículas 1234-BCD", [("PHONE", "612.34.56.78"), ("VEHICLE", "1234-BCD")]),
        (
            "es",
            "el día 4 del 3 del 2025, mayo 98, 3-4 de marzo de 2025, 09-2004, primavera de 2019",
            [
                ("DATE", "4 del 3 del 2025"),
                ("DATE", "mayo 98"),
                ("DATE", "3-4 de marzo de 2025"),
                ("DATE", "09-2004"),
                ("DATE", "primavera de 2019"),
            ],
        ),
        ("es", "de noventa y tres años", [("AGE", "noventa y tres años")]),
        ("fr", "au 022 123 45 67, 0475 12 34 56", [("PHONE", "022 123 45 67"), ("PHONE", "0475 12 34 56")]),
        ("fr", "printemps 2019 et mars 98", [("DATE", "printemps 2019"), ("DATE", "mars 98")]),
        ("fr", "Lieu-dit Kerbihan", [("STREET", "Kerbihan")]),
    ],
)
def test_what_is_found(language: str, text: str, expected: list[tuple[str, str]]) -> None:
    assert found(text, language) == expected


@pytest.mark.parametrize(
    "text",
    [
        "BP 120/80, HR 72, Hgb 12.4, GCS 15/15, pain 7/10, 37+2 weeks, strength 5/5, vision 20/20, murmur 2/6.",
        "TSH 2.3, WBC 12.3 K/uL, platelets 250,000, viral load 1250000 copies/mL, EF 55-60%, APGAR 8/9, T4N2M0.",
        "BRCA1, HLA-B27, p53, IL-6, ICD-10 E11.9, Gleason 3+4=7, metformin 500 mg BID, insulin 12 units.",
        "Christmas disease, a rash like a Christmas tree.",
        "Crohn disease, Parkinson's, Bell's palsy, Guillain-Barré, Charcot-Marie-Tooth, Foley catheter.",
        "TA 120/80 mmHg, leucocitos 14.610/mm3, plaquetas 206.000, Cl 103 mEq/l, criptolátex 1/2048.",
        "enfermedad de Crohn, síndrome de Cushing, signo de Babinski, escala de Glasgow 15/15, EVA 7/10.",
        "TA 135/80 mmHg, 37+2 SA, Hb 12,4 g/dL, paracétamol 1000 mg x 3/j, maladie de Crohn, signe de Babinski.",
    ],
)
def test_clinical_numbers_and_eponyms_are_left_alone(text: str) -> None:
    assert found(text, *LANGUAGES) == []


def test_the_name_of_a_hospital_ends_with_a_heading_but_not_where_text_was_wrapped() -> None:
    assert found("Hospital Universitario San Lucas\nInforme de alta", "es") == [
        ("HOSPITAL", "Hospital Universitario San Lucas")
    ]
    wrapped = "La paciente fue trasladada sin incidencias al Hospital General de\nSan Lucas para estudio."
    assert found(wrapped, "es") == [("HOSPITAL", "Hospital General de\nSan Lucas")]


@pytest.mark.parametrize(
    ("language", "text", "name"),
    [
        ("en", "Attending: Rajesh Venkataraman, MD   PCP: Dr. Lee\nAddress: unknown", "Lee"),
        ("en", "Seen today in clinic with much relief by Dr. Amara\nOkafor, who agreed", "Amara\nOkafor"),
        ("es", "Atendida por la Dra. Elena Vázquez\nTratamiento al alta: reposo", "Elena Vázquez"),
        ("fr", "Adressée par le Dr Karim Benali\nMotif : dyspnée", "Karim Benali"),
    ],
)
def test_a_name_goes_on_in_the_next_line_but_not_into_the_label_of_a_field(language: str, text: str, name: str) -> None:
    assert ("NAME", name) in found(text, language)


@pytest.mark.parametrize(
    ("language", "text", "names"),
    [
        ("en", "Dr. van der Berg and Ms. al-Rashid", ["van der Berg", "al-Rashid"]),
        ("es", "La Sra. de la Fuente acude", ["de la Fuente"]),
        ("fr", "Mme de La Tour et M. d'Aubigny, Dr H. Abd el-Kader", ["de La Tour", "d'Aubigny", "H. Abd el-Kader"]),
    ],
)
def test_a_particle_in_small_letters_may_follow_a_title(language: str, text: str, names: list[str]) -> None:
    assert found(text, language) == [("NAME", name) for name in names]


def test_the_name_behind_a_word_that_ends_another_name_is_found() -> None:
    assert found("Mme Sylvie B. Docteur KERVELLA-LE BRIS", "fr") == [
        ("NAME", "Sylvie B."),
        ("NAME", "KERVELLA-LE BRIS"),
    ]


@pytest.mark.parametrize(
    ("language", "text", "names"),
    [
        ("en", "Son: Tyrone (12). Wife (Priyanka Shah) is here. Spouse: Mary", ["Tyrone", "Priyanka Shah", "Mary"]),
        (
            "es",
            "Hijos: Aitor (34 años) y Nerea (31 años). Esposo: Koldo Etxeberria",
            ["Aitor", "Nerea", "Koldo Etxeberria"],
        ),
        ("fr", "Enfants : Maël (12 ans) et Inès. Fille : Océane (9 ans)", ["Maël", "Inès", "Océane"]),
    ],
)
def test_a_relative_may_be_named_behind_a_colon(language: str, text: str, names: list[str]) -> None:
    assert [value for kind, value in found(text, language) if kind == "NAME"] == names


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (
            "en",
            "Brother: Hypertension. Son: Asthma. Sister: Alive, 40. Aunt: Breast cancer. Mother: HTN, CAD. Uncle: Seizures (2015).",
        ),
        ("en", "Mother: Crohn Disease. Father: Parkinson disease. Aunt: Tremor. Grandfather: Heart Attack"),
        (
            "es",
            "Hermano: HTA. Hijo: Sano. Tía: Hipertensión. ANTECEDENTES FAMILIARES: Madre fallecida. Padre: Alzheimer. Tío: Lesión",
        ),
        ("fr", "Frère : Hypertension. Fils : Asthme. Oncle : Décédé. Mère : Tumeur. Tante : Maladie de Crohn"),
    ],
)
def test_what_a_family_history_says_of_a_relative_is_no_name(language: str, text: str) -> None:
    assert "NAME" not in {kind for kind, _ in found(text, language)}


@pytest.mark.parametrize(
    ("language", "closing"),
    [
        ("en", "Yours sincerely,\n\n"),
        ("es", "ATENTAMENTE,\n"),
        ("es", "Un cordial saludo.\n"),
        ("fr", "Bien cordialement,\n"),
    ],
)
def test_a_name_below_the_closing_of_a_letter_is_found(language: str, closing: str) -> None:
    text = f"Thank you.\n{closing}OLUWADEMI ADELAKUN\nConsultant"
    assert found(text, language) == [("NAME", "OLUWADEMI ADELAKUN")]


def test_either_half_of_a_double_name_is_found_again() -> None:
    text = "Mr. Okafor-Denshaw is here. The Denshaw family left."
    assert found(text, "en") == [("NAME", "Okafor-Denshaw"), ("NAME", "Denshaw")]


def test_who_the_patient_is_said_to_be_is_no_name() -> None:
    findings = rules_for(("es",)).find("Informe clínico del paciente: Varón de 64 años. Paciente: Lactante de 3 meses.")
    assert "NAME" not in {finding.kind for finding in findings}


def test_a_doctor_may_have_the_name_of_a_disease() -> None:
    assert found("Dr. Bell treats Bell's palsy.", "en") == [("NAME", "Bell")]


def test_a_name_is_found_again_without_its_title() -> None:
    text = "Dr. Denshaw called. Later DENSHAW agreed, and Denshaw left."
    assert found(text, "en") == [("NAME", "Denshaw"), ("NAME", "DENSHAW"), ("NAME", "Denshaw")]


@pytest.mark.parametrize(
    "name", ["Grażyna Wiśniewska", "Nguyễn Thị Hoa", "Yusuf El Amrani", "José Núñez-Ávila", "D'Angelo", "McDonald"]
)
def test_names_of_any_origin_are_found_behind_a_title(name: str) -> None:
    assert found(f"Seen by Dr. {name} today.", "en") == [("NAME", name)]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "unit", ["A", "Ab-", "1/", "1 ", "a.", "Calle Mayor de la ", "Nombre: ", "a@a.", "Aa ", "Remitido por: ", "\n"]
)
def test_no_pattern_hangs_on_a_long_line(unit: str) -> None:
    """Takes a second. A pattern whose time grows with the square of the length takes many minutes."""
    rules_for(LANGUAGES).find(unit * (60_000 // len(unit)))


@pytest.mark.realdata
def test_most_phi_of_meddocan_is_found(data_dir: Path, tmp_path: Path) -> None:
    task = prepare(PrepareRecipe(task="meddocan", source=data_dir / "meddocan"), tmp_path / "meddocan")
    gold = [record for record in TaskFolder.open(task.path).read("dev") if isinstance(record, Document)]
    rules = rules_for(("es",))
    predicted = [
        note.with_(spans=tuple(Span.at(f.start, f.end, "CALLE") for f in united(rules.find(note.text))), relations=())
        for note in gold
    ]
    scores = score_deid(gold, predicted, "meddocan")
    assert scores.total.recall > 0.95
    assert scores.character_precision > 0.95
