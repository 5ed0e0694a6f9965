"""How a record carries the probabilities of its own labels: one `score:LABEL` in its metadata for each that is noted."""

from __future__ import annotations

from osler.text.document import Record

_PREFIX = "score:"


def score_key(label: str) -> str:
    """The key under which the probability of a label is noted."""
    return _PREFIX + label


def score_text(probability: float) -> str:
    """A probability as it is noted."""
    return f"{probability:.4f}"


def noted_scores(record: Record) -> dict[str, str]:
    """What is noted, by label and in its order."""
    return {key.removeprefix(_PREFIX): text for key, text in record.meta.items() if key.startswith(_PREFIX)}
