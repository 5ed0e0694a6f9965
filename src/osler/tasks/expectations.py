"""What a card says a corpus holds: counts of the official files, counts in its paper, and why the two differ."""

from __future__ import annotations

from pydantic import Field

from osler.core.config import Recipe

NUMBERS = ("documents", "mentions", "relations", "overlapping", "discontinuous", "assigned")


class Counts(Recipe):
    """How many of what; only what is stated is compared."""

    documents: int | None = None
    """Records: documents, sentences where the corpus has no documents, or pairs."""
    mentions: int | None = None
    relations: int | None = None
    overlapping: int | None = None
    """Mentions that share characters with another one."""
    discontinuous: int | None = None
    assigned: int | None = None
    """Labels given to records, each record's counted, in a multi-label task."""
    labels: dict[str, int] = Field(default_factory=dict)
    """How often a label occurs: on mentions, relations or records, whichever the task predicts."""

    def stated(self) -> dict[str, int]:
        """Every stated number by name; a label's is named `label:NAME`."""
        found = {name: value for name in NUMBERS if (value := getattr(self, name)) is not None}
        return found | {f"label:{label}": count for label, count in self.labels.items()}


class Paper(Recipe):
    """What the literature says. A key is a split, several joined by `+`, or `all`."""

    source: str
    splits: dict[str, Counts] = Field(default_factory=dict)
    differences: dict[str, str] = Field(default_factory=dict)
    """Why a number differs here: `train.relations` or just `train` to the reason."""

    def reason(self, split: str, number: str) -> str | None:
        """The explanation of a difference, if the card has one."""
        return self.differences.get(f"{split}.{number}") or self.differences.get(split)
