"""The recipe of the corpus stage."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from osler.core.config import Recipe, runtime, validate
from osler.stages.corpus.filters import FILTERS, Filter


class CorpusSource(Recipe):
    """One named body of text: where its files are and how to read them."""

    name: str | None = Field(None, pattern=r"^[\w.+-]+$")
    """Shown in the card and stored with every document; by default taken from the file or folder."""
    files: tuple[str, ...] = runtime(min_length=1)
    """Files, folders (walked in sorted order) and glob patterns."""
    reader: str | None = None
    """A name of the readers registry; by default chosen by the file's ending."""
    unit: Literal["file", "line", "block"] = "file"
    """What is one document in plain text: a file, a line, or a block between blank lines."""
    text_field: str = "text"
    """The field or column with the text, in JSON Lines and Parquet."""
    id_field: str = "id"
    """The field or column with the document's id; where a document has none, file and row make one."""
    encoding: str = "utf-8"
    """The encoding of plain text and JSON Lines."""
    language: str | None = Field(None, pattern=r"^[a-z]{2,3}$")
    """The language of the documents, where it is known."""
    licence: str | None = None
    """For the card."""
    weight: float = Field(1.0, gt=0.0)
    """How often pretraining reads a document of it in an epoch, on average; stated on the card."""

    @field_validator("files", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        many = [value] if isinstance(value, str | Path) else value
        return [str(item) for item in many] if isinstance(many, list | tuple) else many

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str) -> str:
        try:
            return codecs.lookup(value).name
        except LookupError:
            raise ValueError(f"no encoding {value!r}; try 'utf-8', 'latin-1' or 'cp1252'") from None

    @model_validator(mode="after")
    def _lines_can_be_found(self) -> Self:
        if self.unit != "file" and "\n".encode(self.encoding) != b"\n":
            raise ValueError(f"unit {self.unit!r} cannot be read in {self.encoding}; convert the files to UTF-8")
        return self


class Unicode(Recipe):
    """How text is repaired before anything looks at it."""

    repair: bool = True
    """Undo mojibake, drop control characters, unify line ends, normalise to NFC."""
    html_entities: bool = True
    """Also turn leftovers such as `&lt;` into the character they stand for."""


class CorpusRecipe(Recipe):
    """What goes into a corpus and what is removed from it."""

    sources: tuple[CorpusSource, ...] = Field(min_length=1)
    """Bodies of text, in order: of two copies of a document the first is kept."""
    unicode: Unicode = Unicode()
    filters: Mapping[str, SerializeAsAny[Filter]] = {"length": {}}  # type: ignore[dict-item]
    """Filters by name, applied in this order; each removal is recorded under its reason."""
    exact_duplicates: Literal["remove", "keep"] = "remove"
    """Whether later copies of the same text are removed."""
    shard_megabytes: int = Field(128, ge=1)
    """How much text a shard holds, before compression."""
    workers: int = runtime(0, ge=0)
    """Processes at work; 0 means one for each core."""

    @field_validator("sources", mode="before")
    @classmethod
    def _paths_are_sources(cls, value: Any) -> Any:
        many = [value] if isinstance(value, str | Path) else value
        if not isinstance(many, list | tuple):
            return many
        return [{"files": [item]} if isinstance(item, str | Path) else item for item in many]

    @field_validator("filters", mode="before")
    @classmethod
    def _resolve_filters(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        resolved = {}
        for name, options in value.items():
            kind = FILTERS.get(name)
            if isinstance(options, Mapping):
                options = validate(kind, options, where=f"filters.{name}")
            resolved[name] = options
        return resolved
