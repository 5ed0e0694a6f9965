"""What each slot of a template writes, by its kind."""

from __future__ import annotations

from osler.clinic.slots.base import Fill
from osler.clinic.slots.identity import IDENTITY_SLOTS
from osler.clinic.slots.prescription import PRESCRIPTION_SLOTS
from osler.clinic.slots.problems import PROBLEM_SLOTS
from osler.clinic.slots.studies import STUDY_SLOTS

SLOTS: dict[str, Fill] = {**IDENTITY_SLOTS, **PROBLEM_SLOTS, **STUDY_SLOTS, **PRESCRIPTION_SLOTS}
