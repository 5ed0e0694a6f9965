"""De-identification scores: what would still be readable after masking the predicted spans."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osler.core.errors import InputError, UnknownNameError, nearest
from osler.metrics.scores import Decomposed, FloatArray, share
from osler.metrics.spans import paired
from osler.text.document import Document, Span

_DATA = resources.files("osler.metrics").joinpath("data")
MAPS = ("clinic", "i2b2-2014", "meddocan")


@dataclass(frozen=True)
class PhiLabels:
    """Labels by Safe Harbor category, and labels that a corpus marks although Safe Harbor does not list them."""

    safe_harbor: Mapping[str, str]
    beyond: Mapping[str, str]

    def holds(self, label: str) -> bool:
        """Whether the label is PHI."""
        return label in self.safe_harbor or label in self.beyond


@cache
def categories() -> dict[str, str]:
    """The eighteen Safe Harbor categories, short name to title, in the order of the rule."""
    table: dict[str, str] = tomllib.loads(_DATA.joinpath("safe_harbor.toml").read_text("utf-8"))["categories"]
    return table


def phi_labels(source: str | Path) -> PhiLabels:
    """The map of a known corpus by name, or one of your own from a TOML file with tables `safe_harbor` and `beyond`."""
    if isinstance(source, str) and source in MAPS:
        return _checked(tomllib.loads(_DATA.joinpath(f"{source}.toml").read_text("utf-8")), source)
    path = Path(source)
    if not path.is_file():
        near = nearest(str(source), MAPS)
        hint = f"Did you mean {near!r}? " if near else ""
        raise UnknownNameError(
            f"no map of PHI labels named {str(source)!r}", fix=f"{hint}Use {', '.join(MAPS)} or the path of a TOML file"
        )
    try:
        return _checked(tomllib.loads(path.read_text("utf-8")), path)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError("not a TOML file in UTF-8", where=path) from error


def _checked(tables: dict[str, Any], where: str | Path) -> PhiLabels:
    safe_harbor, beyond = tables.get("safe_harbor", {}), tables.get("beyond", {})
    for label, category in safe_harbor.items():
        if category not in categories():
            near = nearest(str(category), categories())
            raise InputError(
                f"unknown Safe Harbor category {category!r} for {label}",
                where=where,
                fix=f"Did you mean {near!r}?" if near else f"Use one of {', '.join(categories())}",
            )
    if both := sorted(set(safe_harbor) & set(beyond)):
        raise InputError(f"{both[0]} stands in both tables", where=where, fix="Keep it in one of them")
    return PhiLabels(safe_harbor, beyond)


_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Coverage:
    """Mentions, words and characters of PHI, and how many of each leak."""

    mentions: int = 0
    leaked_mentions: int = 0
    words: int = 0
    leaked_words: int = 0
    characters: int = 0
    leaked_characters: int = 0

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(
            self.mentions + other.mentions,
            self.leaked_mentions + other.leaked_mentions,
            self.words + other.words,
            self.leaked_words + other.leaked_words,
            self.characters + other.characters,
            self.leaked_characters + other.leaked_characters,
        )

    @property
    def recall(self) -> float:
        """The share of mentions covered whole; 1 where there is nothing to cover."""
        return 1 - self.leaked_mentions / self.mentions if self.mentions else 1.0

    @property
    def character_recall(self) -> float:
        """The share of characters covered; 1 where there is nothing to cover."""
        return 1 - self.leaked_characters / self.characters if self.characters else 1.0


@dataclass(frozen=True, eq=False)
class DeidScores:
    """Coverage by category and label, and notes without a leak.

    `notes` has a row for each document: mentions covered and mentions in all, of Safe Harbor PHI, then of all PHI.
    """

    safe_harbor: dict[str, Coverage]
    beyond: dict[str, Coverage]
    per_label: dict[str, Coverage]
    notes: FloatArray
    masked_characters: int
    masked_needlessly: int
    ignored: dict[str, int]

    @property
    def total(self) -> Coverage:
        """All PHI of the corpus's guideline."""
        return sum(self.per_label.values(), Coverage())

    @property
    def safe_harbor_total(self) -> Coverage:
        """PHI that Safe Harbor lists."""
        return sum(self.safe_harbor.values(), Coverage())

    @property
    def notes_with_phi(self) -> int:
        """How many notes have something to hide."""
        return int((self.notes[:, 3] > 0).sum())

    @property
    def clean_share(self) -> float:
        """The share of notes with PHI that leak none of it; 1 where no note has any."""
        return self.decomposed_clean().value if self.notes_with_phi else 1.0

    @property
    def character_precision(self) -> float:
        """The share of masked characters that are PHI: what keeps masking everything from looking good."""
        return 1 - self.masked_needlessly / self.masked_characters if self.masked_characters else 0.0

    def decomposed_recall(self, *, safe_harbor: bool = True) -> Decomposed:
        """Mention recall in the form that significance tests take."""
        return Decomposed(self.notes[:, :2] if safe_harbor else self.notes[:, 2:], share)

    def decomposed_clean(self) -> Decomposed:
        """The share of notes without a leak in the form that significance tests take."""
        has_phi = self.notes[:, 3] > 0
        clean = has_phi & (self.notes[:, 2] == self.notes[:, 3])
        return Decomposed(np.stack([clean, has_phi], axis=1).astype(np.float64), share)

    def as_dict(self) -> dict[str, Any]:
        """The scores, ready for JSON."""
        return {
            "safe_harbor_recall": self.safe_harbor_total.recall,
            "recall": self.total.recall,
            "character_recall": self.total.character_recall,
            "character_precision": self.character_precision,
            "clean_share": self.clean_share,
            "notes": len(self.notes),
            "notes_with_phi": self.notes_with_phi,
            "safe_harbor": {title: part.recall for title, part in self.safe_harbor.items()},
            "beyond": {title: part.recall for title, part in self.beyond.items()},
            "per_label": {label: part.recall for label, part in self.per_label.items()},
            "ignored": self.ignored,
        }


def score_deid(gold: Sequence[Document], predicted: Sequence[Document], labels: str | Path | PhiLabels) -> DeidScores:
    """Score masking by `labels`: the name of a map (clinic, i2b2-2014, meddocan), a TOML file, or a map."""
    phi = labels if isinstance(labels, PhiLabels) else phi_labels(labels)
    coverage: dict[str, Coverage] = {}
    ignored: Counter[str] = Counter()
    notes = np.zeros((len(gold), 4))
    masked_characters = masked_needlessly = 0
    for row, (want, have) in enumerate(paired(gold, predicted)):
        ignored.update(span.label for span in want.spans if not phi.holds(span.label))
        mentions = {span.key: span for span in want.spans if phi.holds(span.label)}
        mask = _covered(have, [span for span in have.spans if phi.holds(span.label)])
        truth = _covered(want, list(mentions.values()))
        visible = np.array([not character.isspace() for character in want.text], dtype=bool)
        masked_characters += int((mask & visible).sum())
        masked_needlessly += int((mask & visible & ~truth).sum())
        for span in mentions.values():
            part = _coverage(want.text, span, mask)
            coverage[span.label] = coverage.get(span.label, Coverage()) + part
            safe = not part.leaked_mentions
            notes[row] += (safe, 1, safe, 1) if span.label in phi.safe_harbor else (0, 0, safe, 1)
    ordered = {label: coverage[label] for label in sorted(coverage)}
    return DeidScores(
        _grouped(ordered, {label: categories()[name] for label, name in phi.safe_harbor.items()}),
        _grouped(ordered, phi.beyond),
        ordered,
        notes,
        masked_characters,
        masked_needlessly,
        dict(sorted(ignored.items())),
    )


def _covered(document: Document, spans: Sequence[Span]) -> NDArray[np.bool_]:
    covered = np.zeros(len(document.text), dtype=bool)
    for span in spans:
        for start, end in span.fragments:
            covered[start:end] = True
    return covered


def _coverage(text: str, span: Span, mask: NDArray[np.bool_]) -> Coverage:
    places = [place for start, end in span.fragments for place in range(start, end)]
    telling = [place for place in places if text[place].isalnum()]
    telling = telling or [place for place in places if not text[place].isspace()]
    leaked = {place for place in telling if not mask[place]}
    words = [match.span() for start, end in span.fragments for match in _WORD.finditer(text, start, end)]
    leaked_words = sum(any(place in leaked for place in range(*word)) for word in words)
    return Coverage(1, bool(leaked), len(words), leaked_words, len(telling), len(leaked))


def _grouped(coverage: Mapping[str, Coverage], titles: Mapping[str, str]) -> dict[str, Coverage]:
    """Add up labels under their titles, in the order of the map."""
    groups: dict[str, Coverage] = {}
    for label, title in titles.items():
        if label in coverage:
            groups[title] = groups.get(title, Coverage()) + coverage[label]
    return groups
