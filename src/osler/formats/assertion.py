"""Assertion status from a mention's attributes: negated, possible, hypothetical, historical, or about someone else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from osler.text.document import Span

Assertion = Literal["negated", "possible", "hypothetical", "historical", "other"]

_NAMES: Mapping[str, Assertion] = {
    "negated": "negated",
    "possible": "possible",
    "hypothetical": "hypothetical",
    "conditional": "hypothetical",
    "historical": "historical",
    "family": "other",
    "other": "other",
    "someone_else": "other",
}
# Attributes of i2b2 2010 and 2012 with the values that carry an assertion.
_VALUES: Mapping[tuple[str, str], Assertion] = {
    ("assertion", "absent"): "negated",
    ("assertion", "possible"): "possible",
    ("assertion", "conditional"): "hypothetical",
    ("assertion", "hypothetical"): "hypothetical",
    ("assertion", "associated_with_someone_else"): "other",
    ("polarity", "neg"): "negated",
    ("modality", "possible"): "possible",
    ("modality", "conditional"): "hypothetical",
    ("modality", "proposed"): "hypothetical",
}
_NO = frozenset(("", "0", "false", "n", "no", "none", "patient"))


def assertions(span: Span) -> frozenset[Assertion]:
    """Return the assertions that hold for a mention. Empty means, as far as known, present, certain and about the patient."""
    found: set[Assertion] = set()
    for key, value in span.attributes.items():
        name, said = key.lower().replace("-", "_").replace(" ", "_"), value.strip().lower()
        if (name, said) in _VALUES:
            found.add(_VALUES[name, said])
        elif name in _NAMES and said not in _NO:
            found.add(_NAMES[name])
    return frozenset(found)
