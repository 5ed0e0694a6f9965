"""De-identification scores: what is still readable after the predicted spans are masked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osler.core.config import read_toml
from osler.core.errors import InputError, UnknownNameError, alternatives
from osler.metrics.spans import paired
from osler.text.document import Document, Span

_DATA = Path(__file__).parent / "data"
MAPS = ("clinic", "i2b2-2014", "meddocan")


@dataclass(frozen=True)
class PhiLabels:
    """PHI labels of a corpus: those in a Safe Harbor category, and those the corpus marks `beyond` Safe Harbor."""

    safe_harbor: Mapping[str, str]
    beyond: Mapping[str, str]

    def holds(self, label: str) -> bool:
        return label in self.safe_harbor or label in self.beyond


@cache
def categories() -> dict[str, str]:
    """Short name to title of the eighteen Safe Harbor categories, in the order of the rule."""
    table: dict[str, str] = read_toml(_DATA / "safe_harbor.toml")["categories"]
    return table


def phi_labels(source: str | Path) -> PhiLabels:
    """Read the label map of a known corpus by name, or a TOML file with tables `safe_harbor` and `beyond`."""
    path = _DATA / f"{source}.toml" if source in MAPS else Path(source)
    if not path.is_file():
        fix = f"{alternatives(str(source), MAPS)}. Or give the path of a TOML file"
        raise UnknownNameError(f"no map of PHI labels named {str(source)!r}", fix=fix)
    tables = read_toml(path)
    safe_harbor, beyond = tables.get("safe_harbor", {}), tables.get("beyond", {})
    for label, category in safe_harbor.items():
        if category not in categories():
            fix = alternatives(str(category), categories())
            raise InputError(f"unknown Safe Harbor category {category!r} for {label}", where=source, fix=fix)
    if both := sorted(set(safe_harbor) & set(beyond)):
        raise InputError(f"{both[0]} is in both tables", where=source, fix="Keep it in one of them")
    return PhiLabels(safe_harbor, beyond)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Mentions and characters of PHI, and how many of each leak."""

    mentions: int = 0
    leaked_mentions: int = 0
    characters: int = 0
    leaked_characters: int = 0

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    @property
    def recall(self) -> float:
        """Share of mentions that are completely covered; 1 if there are none."""
        return 1 - self.leaked_mentions / self.mentions if self.mentions else 1.0

    @property
    def character_recall(self) -> float:
        """Share of characters that are covered; 1 if there are none."""
        return 1 - self.leaked_characters / self.characters if self.characters else 1.0


@dataclass(frozen=True)
class DeidScores:
    """Coverage of PHI by category and by label, and how many notes leak nothing."""

    safe_harbor: dict[str, Coverage]
    beyond: dict[str, Coverage]
    per_label: dict[str, Coverage]
    notes: int
    notes_with_phi: int
    clean_notes: int
    """Notes with PHI that leak none of it."""
    masked_characters: int
    masked_needlessly: int
    ignored: dict[str, int]
    """Gold mentions whose label is not PHI, by label."""

    @property
    def total(self) -> Coverage:
        return sum(self.per_label.values(), Coverage())

    @property
    def safe_harbor_total(self) -> Coverage:
        return sum(self.safe_harbor.values(), Coverage())

    @property
    def clean_share(self) -> float:
        """Share of notes with PHI that leak none of it; 1 if no note has PHI."""
        return self.clean_notes / self.notes_with_phi if self.notes_with_phi else 1.0

    @property
    def character_precision(self) -> float:
        """Share of masked characters that are PHI. Masking everything scores badly here."""
        return 1 - self.masked_needlessly / self.masked_characters if self.masked_characters else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "safe_harbor_recall": self.safe_harbor_total.recall,
            "recall": self.total.recall,
            "character_recall": self.total.character_recall,
            "character_precision": self.character_precision,
            "clean_share": self.clean_share,
            "notes": self.notes,
            "notes_with_phi": self.notes_with_phi,
            "safe_harbor": {title: part.recall for title, part in self.safe_harbor.items()},
            "beyond": {title: part.recall for title, part in self.beyond.items()},
            "per_label": {label: part.recall for label, part in self.per_label.items()},
            "ignored": self.ignored,
        }


def score_deid(gold: Sequence[Document], predicted: Sequence[Document], labels: str | Path) -> DeidScores:
    """Score masking. `labels` names a label map (clinic, i2b2-2014, meddocan) or a TOML file."""
    phi = phi_labels(labels)
    coverage: dict[str, Coverage] = {}
    ignored: Counter[str] = Counter()
    notes_with_phi = clean_notes = masked_characters = masked_needlessly = 0
    for want, have in paired(gold, predicted):
        ignored.update(span.label for span in want.spans if not phi.holds(span.label))
        mentions = {span.key: span for span in want.spans if phi.holds(span.label)}.values()
        mask = _covered(have, (span for span in have.spans if phi.holds(span.label)))
        visible = np.array([not character.isspace() for character in want.text], dtype=bool)
        masked_characters += int((mask & visible).sum())
        masked_needlessly += int((mask & visible & ~_covered(want, mentions)).sum())
        leaks = 0
        for span in mentions:
            part = _coverage(want.text, span, mask)
            coverage[span.label] = coverage.get(span.label, Coverage()) + part
            leaks += part.leaked_mentions
        notes_with_phi += bool(mentions)
        clean_notes += bool(mentions) and not leaks
    per_label = {label: coverage[label] for label in sorted(coverage)}
    return DeidScores(
        _grouped(per_label, {label: categories()[name] for label, name in phi.safe_harbor.items()}),
        _grouped(per_label, phi.beyond),
        per_label,
        len(gold),
        notes_with_phi,
        clean_notes,
        masked_characters,
        masked_needlessly,
        dict(sorted(ignored.items())),
    )


def _covered(document: Document, spans: Iterable[Span]) -> NDArray[np.bool_]:
    covered = np.zeros(len(document.text), dtype=bool)
    for span in spans:
        for start, end in span.fragments:
            covered[start:end] = True
    return covered


def _coverage(text: str, span: Span, mask: NDArray[np.bool_]) -> Coverage:
    places = [place for start, end in span.fragments for place in range(start, end)]
    # Only letters and digits identify anyone; a mention without any, such as ***, counts by its visible characters.
    telling = [place for place in places if text[place].isalnum()]
    telling = telling or [place for place in places if not text[place].isspace()]
    leaked = sum(not mask[place] for place in telling)
    return Coverage(1, int(leaked > 0), len(telling), leaked)


def _grouped(coverage: Mapping[str, Coverage], titles: Mapping[str, str]) -> dict[str, Coverage]:
    """Sum the labels with the same title, in the order of the map."""
    groups: dict[str, Coverage] = {}
    for label, title in titles.items():
        if label in coverage:
            groups[title] = groups.get(title, Coverage()) + coverage[label]
    return groups
