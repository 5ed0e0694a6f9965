"""What the attributes of a mention say about it: that it is denied, in doubt, not yet so, past, or about someone else."""

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
# Attributes of i2b2 2010 and 2012, and the values that say something.
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
    """What holds of a mention. Nothing means that it is stated of the patient, now, without a doubt, as far as is known."""
    found: set[Assertion] = set()
    for key, value in span.attributes.items():
        name, said = key.lower().replace("-", "_").replace(" ", "_"), value.strip().lower()
        if (name, said) in _VALUES:
            found.add(_VALUES[name, said])
        elif name in _NAMES and said not in _NO:
            found.add(_NAMES[name])
    return frozenset(found)
