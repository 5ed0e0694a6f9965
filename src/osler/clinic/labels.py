"""Every label the synthetic clinic uses: entities, events, PHI, assertions, relations and document labels."""

from __future__ import annotations

from typing import Literal, get_args

from osler.core.errors import InputError, nearest

Language = Literal["en", "es"]
Split = Literal["train", "dev", "test"]

LANGUAGES: tuple[Language, ...] = get_args(Language)
SPLITS: tuple[Split, ...] = get_args(Split)

ENTITY_LABELS = (
    *("PROBLEM", "TEST", "PROCEDURE", "DRUG"),
    *("STRENGTH", "FORM", "DOSE", "FREQUENCY", "ROUTE", "DURATION"),
)
"""Clinical concepts. DOSE is an amount to take ("2 tablets"), STRENGTH an amount of the substance ("40 mg")."""

EVENT_LABELS = ("DEPARTMENT", "EVIDENTIAL", "OCCURRENCE")
"""Temporal events that are not PROBLEM, TEST or a treatment: departments, verbs of evidence, things that happened."""

PHI_LABELS = (
    *("PATIENT", "DOCTOR", "USERNAME", "PROFESSION", "HOSPITAL", "ORGANIZATION", "STREET", "CITY", "STATE"),
    *("COUNTRY", "ZIP", "AGE", "DATE", "PHONE", "FAX", "EMAIL", "URL", "ID"),
)
"""Protected health information. The patient's relatives are PATIENT too."""

ID_KINDS = ("MEDICALRECORD", "ACCOUNT", "HEALTHPLAN", "SSN", "LICENSE", "DEVICE", "IDNUM")
"""Values of the attribute `kind` of an ID span."""

DRUG_KINDS = ("drug", "brand", "group")
"""Values of the attribute `kind` of a DRUG span."""

ASSERTIONS = ("present", "absent", "possible", "conditional", "hypothetical", "associated_with_someone_else")
"""Values of the attribute `assertion` of a PROBLEM span."""

DDI_LABELS = ("DDI-advise", "DDI-effect", "DDI-mechanism", "DDI-int")
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
"""The relation between each part of a prescription and its drug."""

REASON_RELATIONS = {"TrAP": "Reason-Drug", "TrIP": "Reason-Drug", "TrWP": "Reason-Drug", "TrCP": "ADE-Drug"}
"""The relation from problem to drug that a treatment relation implies when the treatment is a drug."""

MEDICATION_LABELS = (*ATTRIBUTE_RELATIONS.values(), "Reason-Drug", "ADE-Drug")
RELATION_LABELS = (*DDI_LABELS, *TREATMENT_LABELS, *TEST_LABELS, "PIP", *MEDICATION_LABELS)

RELATION_ARGUMENTS: dict[str, tuple[set[str], set[str]]] = {
    **dict.fromkeys(DDI_LABELS, ({"DRUG"}, {"DRUG"})),
    **dict.fromkeys(TREATMENT_LABELS, ({"DRUG", "PROCEDURE"}, {"PROBLEM"})),
    **dict.fromkeys(TEST_LABELS, ({"TEST"}, {"PROBLEM"})),
    "PIP": ({"PROBLEM"}, {"PROBLEM"}),
    **{relation: ({entity}, {"DRUG"}) for entity, relation in ATTRIBUTE_RELATIONS.items()},
    **dict.fromkeys(("Reason-Drug", "ADE-Drug"), ({"PROBLEM"}, {"DRUG"})),
}
"""Labels of a relation's head and tail. DDI and PIP have no direction: the head comes first in the text."""

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
