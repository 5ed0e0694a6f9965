"""The names the synthetic clinic uses in its gold: entities, events, PHI, assertions, relations and document labels."""

from __future__ import annotations

from typing import Literal, get_args

Language = Literal["en", "es"]
Split = Literal["train", "dev", "test"]

LANGUAGES: tuple[Language, ...] = get_args(Language)
SPLITS: tuple[Split, ...] = get_args(Split)

ENTITY_LABELS = (
    "PROBLEM",
    "TEST",
    "PROCEDURE",
    "DRUG",
    "STRENGTH",
    "FORM",
    "DOSE",
    "FREQUENCY",
    "ROUTE",
    "DURATION",
)
"""Clinical concepts; DOSE is an amount to take ("2 tablets"), STRENGTH an amount of the substance ("40 mg")."""

EVENT_LABELS = ("DEPARTMENT", "EVIDENTIAL", "OCCURRENCE")
"""What a temporal event layer adds to PROBLEM, TEST and treatments: wards, verbs of evidence, things that happened."""

PHI_LABELS = (
    "PATIENT",
    "DOCTOR",
    "USERNAME",
    "PROFESSION",
    "HOSPITAL",
    "ORGANIZATION",
    "STREET",
    "CITY",
    "STATE",
    "COUNTRY",
    "ZIP",
    "AGE",
    "DATE",
    "PHONE",
    "FAX",
    "EMAIL",
    "URL",
    "ID",
)
"""What de-identification must find; relatives of the patient are PATIENT too."""

ID_KINDS = ("MEDICALRECORD", "ACCOUNT", "HEALTHPLAN", "SSN", "LICENSE", "DEVICE", "IDNUM")
"""The values of the attribute `kind` of an ID span."""

DRUG_KINDS = ("drug", "brand", "group")
"""The values of the attribute `kind` of a DRUG span."""

ASSERTIONS = ("present", "absent", "possible", "conditional", "hypothetical", "associated_with_someone_else")
"""The values of the attribute `assertion` of a PROBLEM span."""

DDI_LABELS = ("DDI-advise", "DDI-effect", "DDI-mechanism", "DDI-int")
TREATMENT_LABELS = ("TrAP", "TrIP", "TrWP", "TrCP", "TrNAP")
TEST_LABELS = ("TeRP", "TeCP")
MEDICATION_LABELS = (
    "Strength-Drug",
    "Form-Drug",
    "Dosage-Drug",
    "Frequency-Drug",
    "Route-Drug",
    "Duration-Drug",
    "Reason-Drug",
    "ADE-Drug",
)
RELATION_LABELS = (*DDI_LABELS, *TREATMENT_LABELS, *TEST_LABELS, "PIP", *MEDICATION_LABELS)

ATTRIBUTE_RELATIONS = {
    "STRENGTH": "Strength-Drug",
    "FORM": "Form-Drug",
    "DOSE": "Dosage-Drug",
    "FREQUENCY": "Frequency-Drug",
    "ROUTE": "Route-Drug",
    "DURATION": "Duration-Drug",
}
"""Which relation ties each part of a prescription to its drug."""

REASON_RELATIONS = {
    "TrAP": "Reason-Drug",
    "TrIP": "Reason-Drug",
    "TrWP": "Reason-Drug",
    "TrCP": "ADE-Drug",
}
"""What a treatment-problem relation also means, read from the problem to the drug, when the treatment is a drug."""

_DRUG, _PROBLEM, _TEST = frozenset({"DRUG"}), frozenset({"PROBLEM"}), frozenset({"TEST"})
_TREATMENT = frozenset({"DRUG", "PROCEDURE"})

RELATION_ARGUMENTS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    **dict.fromkeys(DDI_LABELS, (_DRUG, _DRUG)),
    **dict.fromkeys(TREATMENT_LABELS, (_TREATMENT, _PROBLEM)),
    **dict.fromkeys(TEST_LABELS, (_TEST, _PROBLEM)),
    "PIP": (_PROBLEM, _PROBLEM),
    **{relation: (frozenset({entity}), _DRUG) for entity, relation in ATTRIBUTE_RELATIONS.items()},
    "Reason-Drug": (_PROBLEM, _DRUG),
    "ADE-Drug": (_PROBLEM, _DRUG),
}
"""The labels of a relation's head and tail. DDI and PIP have no direction: their head stands first in the text."""

CONDITION_LABELS = (
    "anemia",
    "asthma",
    "atrial-fibrillation",
    "cancer",
    "chronic-kidney-disease",
    "copd",
    "coronary-disease",
    "depression",
    "diabetes",
    "epilepsy",
    "heart-failure",
    "hypertension",
    "hypothyroidism",
    "obesity",
    "reflux",
)
"""Document labels: a note has one when it says that the patient has it, not when it denies it or means a relative."""

SPECIALTIES = (
    "cardiology",
    "endocrinology",
    "gastroenterology",
    "infectious-disease",
    "nephrology",
    "neurology",
    "oncology",
    "orthopedics",
    "psychiatry",
    "pulmonology",
)
"""The values of `meta["specialty"]`."""

ENTAILMENT_LABELS = ("entailment", "neutral", "contradiction")
