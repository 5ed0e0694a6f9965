"""Recipes of de-identification: how to replace PHI, and how to measure what is missed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from osler.core.config import runtime
from osler.core.models import NamedBundle
from osler.stages.serve.config import AnnotateOptions, NoteInputs
from osler.stages.serve.deid.kinds import Scope

Style = Literal["mask", "tag", "surrogate"]
Dates = Literal["keep-year", "shift", "mask"]


class DeidOptions(AnnotateOptions):
    """What to remove and how to replace it. `heads`, `min_score` and the like work as in an annotation."""

    language: str | None = None
    """Language of the notes, or all for the rules and heads of every language. By default, rules and heads are chosen by the
    common words of each note, and all are used if these leave doubt."""
    style: Style = "tag"
    """Replacement of PHI: mask (***), tag ([NAME]) or surrogate (another name of the same kind)."""
    dates: Dates = "keep-year"
    """Replacement of dates: keep-year (2017), shift (all dates of a patient by the same number of days) or mask. Anything not
    recognised as a date is masked."""
    scope: Scope = "safe-harbor"
    """safe-harbor removes the eighteen HIPAA categories and names of staff and hospitals; everything also removes ages up to 89,
    sex, relatives, professions, states and countries."""
    rules: bool = True
    """Combine the findings of a bundle with those of the rules."""

    def annotation(self, heads: tuple[str, ...]) -> AnnotateOptions:
        """Options of the annotation by the bundle."""
        values = {name: getattr(self, name) for name in AnnotateOptions.model_fields}
        return AnnotateOptions(**{**values, "heads": heads, "language": None, "attributes": "off"})


class DeidRecipe(NoteInputs, DeidOptions):
    """De-identify files. Paths are not written into the result, because file names may contain names of patients."""

    bundle: NamedBundle = runtime(None)
    """A bundle with a head for de-identification, or the name of an installed model. Without one, only rules are used."""
    to: Literal["same", "text", "jsonl", "csv"] = "same"
    """Output format: text files, JSON Lines or CSV; by default, that of the input."""
    patient_column: str | None = None
    """Column, or key of JSON Lines, with the patient of a note. By default, every note has its own patient."""
    patient_pattern: str | None = None
    """Regular expression that finds the patient in the id of a note (its file name), such as ^[^_]+."""
    keep_names: bool = False
    """Keep file names and ids. By default, notes are numbered, because file names may contain names of patients."""
    keep_columns: tuple[str, ...] = ()
    """Columns of a table, or keys of JSON Lines, to copy unchanged. By default, only id and text are written."""
    write_mapping: bool = False
    """Also write mapping.jsonl, with every original and its replacement. Only its owner can read it."""
    review: bool = False
    """Also write review.html, a page to check the result, with the original text. Only its owner can read it."""
    key_file: Path | None = runtime(None)
    """File with the secret that surrogates and date shifts depend on; created if it does not exist. By default, every run uses
    a random secret, which is not kept."""
    text_columns: tuple[str, ...] = runtime((), max_length=1)
    """Column of a table, or key of JSON Lines, with the text. By default text, note, sentence or document."""
    batch: int = runtime(32, ge=1)
    """Notes per batch."""
    device: str = runtime("auto", description="auto, cpu, cuda or cuda:N")

    def resolved(self) -> dict[str, Any]:
        """Return every value except the paths of the notes and of the key."""
        return {name: value for name, value in super().resolved().items() if name not in ("files", "key_file")}


class DeidEvaluateRecipe(DeidOptions):
    """Measure what de-identification misses and what it removes needlessly, on a task with gold PHI."""

    task: Path = runtime()
    """A task folder with gold PHI."""
    bundle: NamedBundle = runtime(None)
    """A bundle with a head for de-identification, or the name of an installed model. Without one, only rules are measured."""
    split: str = "test"
    """The split to score; test by default."""
    scope: Scope = "everything"
    """What counts as removed; everything by default, because the gold labels of most tasks include all ages and more."""
    terms: Path | None = runtime(None)
    """List of medical terms, one per line, to also count the share of their words that is removed."""
    planted: int = Field(12, ge=0)
    """Number of names of each origin and gender to plant into sentences; 0 for none."""
    batch: int = runtime(32, ge=1)
    """Notes per batch."""
    device: str = runtime("auto", description="auto, cpu, cuda or cuda:N")
