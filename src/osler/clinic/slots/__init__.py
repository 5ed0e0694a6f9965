"""What each slot of a template writes, by its kind."""

from __future__ import annotations

from osler.clinic.slots.base import Fill
from osler.clinic.slots.clinical import CLINICAL_SLOTS
from osler.clinic.slots.identity import IDENTITY_SLOTS
from osler.clinic.slots.prescription import PRESCRIPTION_SLOTS

SLOTS: dict[str, Fill] = {**IDENTITY_SLOTS, **CLINICAL_SLOTS, **PRESCRIPTION_SLOTS}
