"""Languages, splits and labels of the synthetic clinic."""

from __future__ import annotations

from typing import Literal, get_args

from osler.core.errors import InputError, nearest

Language = Literal["en", "es"]
Split = Literal["train", "dev", "test"]

LANGUAGES: tuple[Language, ...] = get_args(Language)
SPLITS: tuple[Split, ...] = get_args(Split)

PHI_LABELS = (
    *("PATIENT", "DOCTOR", "USERNAME", "PROFESSION", "HOSPITAL", "ORGANIZATION", "STREET", "CITY", "STATE"),
    *("COUNTRY", "ZIP", "AGE", "DATE", "PHONE", "FAX", "EMAIL", "URL", "ID"),
)
"""Protected health information. The patient's relatives are PATIENT too."""

ID_KINDS = ("MEDICALRECORD", "ACCOUNT", "HEALTHPLAN", "SSN", "LICENSE", "DEVICE", "IDNUM")
"""Values of the attribute `kind` of an ID span."""

TREATMENT_LABELS = ("TrAP", "TrIP", "TrWP", "TrCP", "TrNAP")
TEST_LABELS = ("TeRP", "TeCP")

ATTRIBUTE_RELATIONS = {
    "STRENGTH": "Strength-Drug",
    "FORM": "Form-Drug",
    "DOSE": "Dosage-Drug",
    "FREQUENCY": "Frequency-Drug",
    "ROUTE": "Route-Drug",
    "DURATION": "Duration-Drug",
}
"""The relation between each part of a prescription and its drug. DOSE is an amount to take, STRENGTH one of the substance."""

REASON_RELATIONS = {"TrAP": "Reason-Drug", "TrIP": "Reason-Drug", "TrWP": "Reason-Drug", "TrCP": "ADE-Drug"}
"""The relation from problem to drug that a treatment relation implies when the treatment is a drug."""

MEDICATION_LABELS = (*ATTRIBUTE_RELATIONS.values(), "Reason-Drug", "ADE-Drug")

CONDITION_LABELS = (
    *("anemia", "asthma", "atrial-fibrillation", "cancer", "chronic-kidney-disease", "copd", "coronary-disease"),
    *("depression", "diabetes", "epilepsy", "heart-failure", "hypertension", "hypothyroidism", "obesity", "reflux"),
)
"""Document labels: the patient has the condition. Denied conditions and those of relatives do not count."""

SPECIALTIES = (
    *("cardiology", "endocrinology", "gastroenterology", "infectious-disease", "nephrology"),
    *("neurology", "oncology", "orthopedics", "psychiatry", "pulmonology"),
)
"""Values of `meta["specialty"]`."""

ENTAILMENT_LABELS = ("entailment", "neutral", "contradiction")


def check_choice(language: str, split: str) -> None:
    """Reject a language or split that the clinic does not have."""
    for name, value, known in (("language", language, LANGUAGES), ("split", split, SPLITS)):
        if value not in known:
            near = nearest(value, known)
            guess = f"; did you mean {near}?" if near else ""
            raise InputError(f"the synthetic clinic has no {name} {value!r}", fix=f"Use {' or '.join(known)}{guess}")
