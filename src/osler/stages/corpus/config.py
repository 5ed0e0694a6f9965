"""The recipe of the corpus stage."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from osler.core.config import Recipe, runtime, validate
from osler.stages.corpus.filters import FILTERS, Filter


def _resolve_filters(value: Any) -> Any:
    """Turn options by filter name into filters."""
    if not isinstance(value, Mapping):
        return value
    resolved = {}
    for name, options in value.items():
        kind = FILTERS.get(name)
        if isinstance(options, Mapping):
            options = validate(kind, options, where=f"filters.{name}")
        resolved[name] = options
    return resolved


class Unicode(Recipe):
    """How text is repaired before it is filtered."""

    repair: bool = True
    """Fix mojibake, remove control characters, unify line ends, normalise to NFC."""
    html_entities: bool = True
    """Also resolve HTML entities such as `&lt;`."""


class SourceCleaning(Recipe):
    """How the documents of one source are cleaned. A setting that is left out is that of the corpus."""

    unicode: Unicode | None = None
    """Repair of the text."""
    filters: Mapping[str, SerializeAsAny[Filter]] | None = None
    """Filters by name, applied in this order, instead of the corpus's."""
    exact_duplicates: Literal["remove", "keep"] | None = None
    """keep: no document of this source is removed as a copy. Copies of them in sources that remove theirs still are."""
    strip: bool = True
    """Remove whitespace before and after each document."""

    _filters = field_validator("filters", mode="before")(_resolve_filters)


_CLEANINGS: Mapping[str, Mapping[str, Any]] = {
    "none": {"unicode": {"repair": False}, "filters": {}, "exact_duplicates": "keep", "strip": False},
}


def named_cleaning(name: str) -> SourceCleaning:
    """Return a cleaning by name. `none` keeps documents exactly as they are; only those without any text are left out."""
    if name not in _CLEANINGS:
        raise ValueError(f"must be a table, false or one of {', '.join(_CLEANINGS)}, not {name!r}")
    return SourceCleaning(**_CLEANINGS[name])


class CorpusSource(Recipe):
    """A source: where its files are and how to read them."""

    later: ClassVar = ("clean",)

    name: str | None = Field(None, pattern=r"^[\w.+-]+$")
    """Stored with every document and shown on the card; by default the name of the file or folder."""
    files: tuple[str, ...] = runtime(min_length=1)
    """Files, folders (read recursively in sorted order) and glob patterns."""
    reader: str | None = None
    """Name of a reader; by default chosen by file ending."""
    unit: Literal["file", "line", "block"] = "file"
    """One document of plain text: a file, a line, or a block between blank lines."""
    text_field: str = "text"
    """Field or column with the text, in JSON Lines and Parquet."""
    id_field: str = "id"
    """Field or column with the document id. A document without one gets an id from its file and row."""
    encoding: str = "utf-8"
    """Encoding of plain text and JSON Lines."""
    language: str | None = Field(None, pattern=r"^[a-z]{2,3}$")
    """Language of the documents, if known."""
    licence: str | None = None
    """Licence, for the card."""
    weight: float = Field(1.0, gt=0.0)
    """How often pretraining reads a document per epoch, on average; stored on the card."""
    clean: SourceCleaning | None = None
    """How to clean its documents: "none" or false keeps them exactly as they are; a table changes single settings."""

    @field_validator("clean", mode="before")
    @classmethod
    def _named_cleaning(cls, value: Any) -> Any:
        if isinstance(value, bool):
            return None if value else named_cleaning("none")
        return named_cleaning(value) if isinstance(value, str) else value

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
            raise ValueError(f"unknown encoding {value!r}; try 'utf-8', 'latin-1' or 'cp1252'") from None

    @model_validator(mode="after")
    def _line_breaks_are_one_byte(self) -> Self:
        if self.unit != "file" and "\n".encode(self.encoding) != b"\n":
            raise ValueError(f"unit {self.unit!r} is not supported with {self.encoding}; convert the files to UTF-8")
        return self


@dataclass(frozen=True)
class Cleaning:
    """How the documents of a source are cleaned, with nothing left open."""

    unicode: Unicode
    filters: Mapping[str, Filter]
    exact_duplicates: Literal["remove", "keep"]
    strip: bool


class CorpusRecipe(Recipe):
    """Recipe of a corpus: its sources, and which documents are removed."""

    sources: tuple[CorpusSource, ...] = Field(min_length=1)
    """Files, folders and glob patterns, or sources with settings of their own. Of several copies of a document, the first is kept."""
    unicode: Unicode = Unicode()
    filters: Mapping[str, SerializeAsAny[Filter]] = {"length": {}}  # type: ignore[dict-item]
    """Filters by name, applied in this order. The ledger gives the reason for each removal."""
    exact_duplicates: Literal["remove", "keep"] = "remove"
    """Whether later copies of the same text are removed."""
    shard_megabytes: int = Field(128, ge=1)
    """Text per shard, before compression."""
    workers: int = runtime(0, ge=0)
    """Worker processes; 0 means one per core."""

    @field_validator("sources", mode="before")
    @classmethod
    def _paths_are_sources(cls, value: Any) -> Any:
        many = [value] if isinstance(value, str | Path) else value
        if not isinstance(many, list | tuple):
            return many
        return [{"files": [item]} if isinstance(item, str | Path) else item for item in many]

    _filters = field_validator("filters", mode="before")(_resolve_filters)

    def cleaning(self, own: SourceCleaning | None = None) -> Cleaning:
        """Return a source's own settings, and those of the corpus where it has none."""
        own = own or SourceCleaning()
        return Cleaning(
            unicode=own.unicode or self.unicode,
            filters=self.filters if own.filters is None else own.filters,
            exact_duplicates=own.exact_duplicates or self.exact_duplicates,
            strip=own.strip,
        )
