"""How a card says where its records lie: official files by name, and how splits come out of them."""

from __future__ import annotations

import re
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from osler.core.config import Recipe

FOLD = "{fold}"


class Key(Recipe):
    """What identifies the group a record belongs to (a document, a patient, a question)."""

    by: str = Field("id", pattern=r"^(id|text|first|meta:.+|table:.+)$")
    """The record's id, its text, the first text of a pair, a meta value, or the second column of a table found by its id."""
    pattern: str = ""
    """A regular expression with one group that cuts the key out of that, such as the patient out of `123-04`."""

    @field_validator("pattern")
    @classmethod
    def _one_group(cls, pattern: str) -> str:
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        if pattern and groups != 1:
            raise ValueError("the pattern needs exactly one group, in parentheses")
        return pattern


class Carve(Key):
    """A split that has no official files: a share of the groups of another split, taken out of it."""

    of: str
    share: float = Field(gt=0.0, lt=1.0)
    seed: int = 0
    method: Literal["drawn", "tail"] = "drawn"
    """Groups drawn by a hash of seed and key, the same in every task that has them; or the last ones of the file."""


class Listed(Key):
    """A split whose members an official list names, one key a line."""

    file: str


class Split(Recipe):
    """Where the records of one split are."""

    files: tuple[str, ...] = ()
    """Names of the official files, found in any folder or archive. `*` stands for part of a name, `**` for any folders."""
    extra: tuple[str, ...] = ()
    """Files that are read with them where they are there."""
    where: dict[str, str] = Field(default_factory=dict)
    """Only records whose meta has these values; "" means that it has none."""
    listed: Listed | None = None
    carve: Carve | None = None
    optional: bool = False
    """Whether the task can be prepared without this split."""

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if bool(self.files) == bool(self.carve):
            raise ValueError("a split has either files or a carve")
        return self


class Source(Recipe):
    """Where the records come from. `clinic` is the embedded synthetic clinic, `files` are official files of one format."""

    reader: str
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the clinic, or of the format."""
    format: str | None = None
    folder: tuple[str, ...] = ()
    """Names of the folder or archive that holds the files, where their own names do not tell the corpus."""
    splits: dict[str, Split] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.reader == "files" and not (self.format and self.splits):
            raise ValueError("the reader 'files' needs a format and splits")
        for name, split in self.splits.items():
            pool = self.splits.get(split.carve.of) if split.carve else split
            if pool is None or (split.carve and not pool.files):
                raise ValueError(f"the split {name!r} is carved out of a split that does not exist or has no files")
        return self

    def at_fold(self, fold: int) -> Source:
        """The files of one fold."""
        splits = {
            name: split.model_copy(update={"files": tuple(f.replace(FOLD, str(fold)) for f in split.files)})
            for name, split in self.splits.items()
        }
        return self.model_copy(update={"splits": splits})
