"""Every label that notes and abstracts of the synthetic clinic may have."""

from __future__ import annotations

from osler.clinic.labels import ATTRIBUTE_RELATIONS, TEST_LABELS, TREATMENT_LABELS

ENTITY_LABELS = ("PROBLEM", "TEST", "PROCEDURE", "DRUG", *ATTRIBUTE_RELATIONS)
EVENT_LABELS = ("DEPARTMENT", "EVIDENTIAL", "OCCURRENCE")
DRUG_KINDS = ("drug", "brand", "group")
ASSERTIONS = ("present", "absent", "possible", "conditional", "hypothetical", "associated_with_someone_else")
DDI_LABELS = ("DDI-advise", "DDI-effect", "DDI-mechanism", "DDI-int")

RELATION_ARGUMENTS: dict[str, tuple[set[str], set[str]]] = {
    **dict.fromkeys(DDI_LABELS, ({"DRUG"}, {"DRUG"})),
    **dict.fromkeys(TREATMENT_LABELS, ({"DRUG", "PROCEDURE"}, {"PROBLEM"})),
    **dict.fromkeys(TEST_LABELS, ({"TEST"}, {"PROBLEM"})),
    "PIP": ({"PROBLEM"}, {"PROBLEM"}),
    **{relation: ({entity}, {"DRUG"}) for entity, relation in ATTRIBUTE_RELATIONS.items()},
    **dict.fromkeys(("Reason-Drug", "ADE-Drug"), ({"PROBLEM"}, {"DRUG"})),
}
"""Labels of the head and the tail of each relation. DDI and PIP have no direction: the head comes first in the text."""
RELATION_LABELS = tuple(RELATION_ARGUMENTS)
