"""Recipes of de-identification: what stands in place of PHI, and how to measure what is missed."""

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
    """What is removed, and what is written in its place. `heads`, `min_score` and the like are those of an annotation."""

    language: str | None = None
    """Language of the notes, or all to use the rules and heads of every language. By default, rules and heads are those for the
    language of each note by its common words, and all of them if that leaves a doubt."""
    style: Style = "tag"
    """What stands in place of PHI: mask (***), tag ([NAME]) or surrogate (another name of the same kind)."""
    dates: Dates = "keep-year"
    """What stands in place of a date: keep-year (2017), shift (another date, all of a patient by the same number of days) or
    mask. What is not understood as a date is masked."""
    scope: Scope = "safe-harbor"
    """safe-harbor removes the eighteen HIPAA categories and names of staff and hospitals; everything also removes ages up to 89,
    sex, relatives, professions, states and countries."""
    rules: bool = True
    """Unite the findings of a bundle with those of the rules."""

    def annotation(self, heads: tuple[str, ...]) -> AnnotateOptions:
        """What is asked of a bundle."""
        values = {name: getattr(self, name) for name in AnnotateOptions.model_fields}
        return AnnotateOptions(**{**values, "heads": heads, "language": None, "attributes": "off"})


class DeidRecipe(NoteInputs, DeidOptions):
    """De-identify files. Paths are not written into the result, because file names may hold names of patients."""

    bundle: NamedBundle = runtime(None)
    """A bundle with a head for de-identification, or the name of an installed model; without one only rules are used."""
    to: Literal["same", "text", "jsonl", "csv"] = "same"
    """How notes are written: as text files, JSON Lines or CSV; by default as they were given."""
    patient_column: str | None = None
    """The column, or key of JSON Lines, that says whose note it is. By default every note has a patient of its own."""
    patient_pattern: str | None = None
    """A regular expression that finds the patient in the id of a note (a file's name), such as ^[^_]+."""
    keep_names: bool = False
    """Keep file names and ids; by default notes are numbered, because names of files may be names of patients."""
    keep_columns: tuple[str, ...] = ()
    """Columns of a table, or keys of JSON Lines, to copy as they are; by default only id and text are written."""
    write_mapping: bool = False
    """Also write mapping.jsonl, which has every original beside its replacement. Only its owner may read it."""
    review: bool = False
    """Also write review.html, a page to check the result, with the original text. Only its owner may read it."""
    key_file: Path | None = runtime(None)
    """The secret that surrogates and date shifts depend on; it is made if the file does not exist. By default every run has
    a random one, which is not kept."""
    text_columns: tuple[str, ...] = runtime((), max_length=1)
    """The column of a table, or key of JSON Lines, that holds the text. By default text, note, sentence or document."""
    batch: int = runtime(32, ge=1)
    """Notes per batch."""
    device: str = runtime("auto", description="auto, cpu, cuda or cuda:N")

    def resolved(self) -> dict[str, Any]:
        """Every value without the paths of the notes and of the key."""
        return {name: value for name, value in super().resolved().items() if name not in ("files", "key_file")}


class DeidEvaluateRecipe(DeidOptions):
    """Measure what de-identification misses and what it removes needlessly, on a task with gold PHI."""

    task: Path = runtime()
    """A task folder with gold PHI."""
    bundle: NamedBundle = runtime(None)
    """A bundle with a head for de-identification, or the name of an installed model; without one only rules are measured."""
    split: str = "test"
    """The split to score; test by default."""
    scope: Scope = "everything"
    """What counts as removed; everything by default, because the gold labels of most tasks count all ages and more."""
    terms: Path | None = runtime(None)
    """A list of medical terms, one per line; the share of their words that is removed is counted too."""
    planted: int = Field(12, ge=0)
    """Names of each origin and gender that are planted into sentences; 0 for none."""
    batch: int = runtime(32, ge=1)
    """Notes per batch."""
    device: str = runtime("auto", description="auto, cpu, cuda or cuda:N")
