"""The recipe of the corpus stage."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, SerializeAsAny, ValidationInfo, field_validator, model_validator

from osler.core.config import Recipe, merged, runtime, validate
from osler.core.registry import Registry
from osler.stages.corpus.documents import FACTS
from osler.stages.corpus.filters import FILTERS, Filter
from osler.stages.corpus.presets import CORPUS_PRESETS, PRESETS
from osler.stages.corpus.readers import READERS
from osler.stages.corpus.rewriters import REWRITERS, Rewriter
from osler.text.terms import terms_digest


def _resolver(section: str, registry: Registry) -> Callable[[Any], Any]:
    """Return a function that turns a mapping of names to options into registered objects."""

    def resolve(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        resolved = {}
        for name, options in value.items():
            kind = registry.get(name)
            if isinstance(options, Mapping):
                options = validate(kind, options, where=f"{section}.{name}")
            resolved[name] = options
        return resolved

    return resolve


_resolve_filters = _resolver("filters", FILTERS)
_resolve_rewriters = _resolver("rewrite", REWRITERS)


_LATER = ("rewrite", "deidentify", "boilerplate", "near_duplicates", "decontaminate")
"""Cleaning settings that earlier versions did not have."""


class Unicode(Recipe):
    """How text is repaired before it is filtered."""

    repair: bool = True
    """Fix mojibake, remove control characters, unify line ends, normalise to NFC."""
    html_entities: bool = True
    """Also resolve HTML entities such as `&lt;`."""


class Deidentify(Recipe):
    """Which entities are replaced by their labels in brackets, such as [NAME], and by which bundle."""

    bundle: Path = runtime()
    """A bundle with a head for de-identification, made by `osler finetune`."""
    heads: tuple[str, ...] = ()
    """Heads whose entities are replaced, in every document. By default, those trained on a de-identification task, each in
    documents of its language."""
    device: str = runtime("auto", description="auto, cpu, cuda or cuda:N")


class Boilerplate(Recipe):
    """Which lines are boilerplate: those shared by a minimum number and share of a source's documents."""

    min_documents: int = Field(10, ge=2)
    """Minimum number of the source's documents with the line."""
    min_share: float = Field(0.05, gt=0.0, le=1.0)
    """Minimum share of the source's documents with the line."""
    min_characters: int = Field(1, ge=1)
    """Shorter lines stay. Web menus are short, but in notes so are headings, "negative" and "no known allergies"."""


class NearDuplicates(Recipe):
    """Which documents count as near-duplicates.

    Words are compared in lower case, without punctuation. The defaults find about 100, 82 and 0 % of the copies with 1, 5
    and 20 % of their words replaced, and a pair exactly at the threshold with a probability of 99 %.
    """

    threshold: float = Field(0.7, gt=0.0, le=1.0)
    """Minimum Jaccard similarity of the shingle sets of two documents for one to be removed."""
    words: int = Field(3, ge=1, le=32)
    """Words per shingle. Shorter documents are only checked for exact duplicates."""
    bands: int = Field(25, ge=1, le=1024)
    """MinHash bands; documents that match in one are compared. More bands find more pairs but take longer."""
    rows: int = Field(5, ge=1, le=64)
    """Hashes per band that must match. Use more with a higher threshold, for a faster and equally complete search."""

    def recall(self, jaccard: float) -> float:
        """Return the probability that a pair of this similarity is compared."""
        return float(1.0 - (1.0 - jaccard**self.rows) ** self.bands)


class Decontaminate(Recipe):
    """Which held-out documents to keep out of a corpus, and how much overlap is too much."""

    tasks: tuple[str, ...] = runtime(min_length=1)
    """Prepared tasks (`osler tasks prepare`): their folders, folders that hold them, or glob patterns."""
    splits: tuple[str, ...] = Field(("test",), min_length=1)
    """Splits of the tasks to look for; `["dev", "test"]` also protects model selection. For a task without any of them, dev is
    used, as such a task is scored on it."""
    words: int = Field(9, ge=3)
    """Words per run; texts are compared by their runs of words."""
    min_shared: int = Field(4, ge=1)
    """Minimum number of shared runs; fewer are put down to chance."""
    min_share: float = Field(0.3, gt=0.0, le=1.0)
    """Minimum share of the shorter text's runs, document or held-out text, for the document to be removed."""
    max_shared: int = Field(32, ge=1)
    """Number of shared runs at which the document is removed, whatever their share."""

    @field_validator("tasks", "splits", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return [str(value)] if isinstance(value, str | Path) else value


Preset = Literal["carrino2022", "clinical", "none"]


def _expand_preset(cls: type[Recipe], values: Any) -> Any:
    """Fill in the settings of a preset; given settings override them."""
    if not isinstance(values, Mapping) or not isinstance(values.get("preset"), str) or values["preset"] not in PRESETS:
        return values
    settings = PRESETS[values["preset"]]
    if "sources" in cls.model_fields:
        settings = {**settings, **CORPUS_PRESETS.get(values["preset"], {})}
    return merged({name: value for name, value in settings.items() if name in cls.model_fields}, values)


class SourceCleaning(Recipe):
    """How the documents of one source are cleaned. Settings left out default to those of the corpus."""

    later: ClassVar = _LATER

    preset: Preset | None = runtime(None)
    """Named cleaning: carrino2022, clinical, or none to leave documents exactly as they are. Other settings override its values."""
    unicode: Unicode | None = None
    """Repair of the text."""
    rewrite: Mapping[str, SerializeAsAny[Rewriter]] | None = None
    """Rewriters by name, applied in this order, instead of the corpus's."""
    filters: Mapping[str, SerializeAsAny[Filter]] | None = None
    """Filters by name, applied in this order, instead of the corpus's."""
    exact_duplicates: Literal["remove", "keep"] | None = None
    """keep: do not remove documents of this source as copies. Their copies in sources with `remove` are still removed."""
    strip: bool | None = None
    """Remove whitespace before and after each document."""
    deidentify: bool | None = None
    """Replace entities in documents of this source by their labels. Presets do not change it."""
    boilerplate: Boilerplate | Literal[False] | None = None
    """Remove lines that many documents of this source share; false removes none."""
    near_duplicates: bool | None = None
    """Remove near-duplicates from this source. If false, near-duplicates of its documents in other sources are still removed."""
    decontaminate: bool | None = None
    """Remove documents of this source that share text with held-out documents of tasks."""

    _preset = model_validator(mode="before")(_expand_preset)
    _rewrite = field_validator("rewrite", mode="before")(_resolve_rewriters)
    _filters = field_validator("filters", mode="before")(_resolve_filters)


class CorpusSource(Recipe):
    """A source: where its files are and how to read them."""

    later: ClassVar = ("clean", "options", "facts", "text_fields", "ids")

    name: str | None = Field(None, pattern=r"^[\w.+-]+$")
    """Stored with every document and shown on the card; by default the name of the file or folder."""
    files: tuple[str, ...] = runtime(min_length=1)
    """Files, folders (read recursively in sorted order) and glob patterns, also into zip archives: `notes.zip/*.txt`. Files
    may be compressed: .gz, .bz2, .xz or .zst."""
    reader: str | None = None
    """Name of a reader; by default chosen by file ending."""
    options: SerializeAsAny[Recipe] | None = None
    """Settings specific to the reader; `reader` must be given too."""
    unit: Literal["file", "line", "block"] = "file"
    """What one document of plain text is: a file, a line, or a block between blank lines."""
    text_field: str = "text"
    """Field or column with the text, in JSON Lines, tables and Parquet."""
    text_fields: tuple[str, ...] = ()
    """Several fields or columns with text, joined by blank lines in this order, instead of text_field."""
    id_field: str = "id"
    """Field or column with the document id. A document without one gets an id from its file and row."""
    ids: tuple[str, ...] = ()
    """Keep only documents whose id matches one of these patterns, such as `codiesp-*`; by default, all."""
    facts: Mapping[str, str] = {}
    """Fields or columns with facts about each document, keyed by fact: title, section, date, licence, patient, language."""
    encoding: str = "utf-8"
    """Encoding of plain text, JSON Lines and tables."""
    language: str | None = Field(None, pattern=r"^[a-z]{2,3}$")
    """Language of documents that state none, if known."""
    licence: str | None = None
    """Licence of documents that state none."""
    weight: float = Field(1.0, gt=0.0)
    """How often pretraining reads a document per epoch, on average; stored on the card."""
    clean: SourceCleaning | None = None
    """How to clean this source's documents: a preset name (`none` or false leaves them exactly as they are) or a table of settings."""

    def texts(self) -> tuple[str, ...]:
        """Return the names of the fields with text."""
        return self.text_fields or (self.text_field,)

    def read_by(self, reader: str) -> CorpusSource:
        """Return the source, with the reader's default options if it has none."""
        kind = getattr(READERS.get(reader), "options", None)
        if kind is None or self.options is not None:
            return self
        return self.model_copy(update={"options": validate(kind, {}, where=f"options of the reader {reader}")})

    @field_validator("options", mode="before")
    @classmethod
    def _options_of_the_reader(cls, value: Any, info: ValidationInfo) -> Any:
        reader = info.data.get("reader")
        if not isinstance(value, Mapping):
            return value
        if reader is None:
            raise ValueError("options belong to a reader; name it: reader = ...")
        kind = getattr(READERS.get(reader), "options", None)
        if kind is None:
            raise ValueError(f"the reader {reader!r} has no options")
        return validate(kind, value, where="sources.options")

    @field_validator("facts")
    @classmethod
    def _known_facts(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        unknown = next((name for name in value if name not in FACTS), None)
        if unknown is not None:
            raise ValueError(f"{unknown!r} is not one of the facts: {', '.join(FACTS)}")
        return value

    @field_validator("clean", mode="before")
    @classmethod
    def _named_cleaning(cls, value: Any) -> Any:
        if isinstance(value, bool):
            return None if value else {"preset": "none"}
        if isinstance(value, str) and value not in PRESETS:
            raise ValueError(f"must be a table, false or one of {', '.join(PRESETS)}, not {value!r}")
        return {"preset": value} if isinstance(value, str) else value

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
    """How the documents of a source are cleaned, with all defaults resolved."""

    unicode: Unicode
    rewrite: Mapping[str, Rewriter]
    filters: Mapping[str, Filter]
    exact_duplicates: Literal["remove", "keep"]
    strip: bool
    deidentify: bool
    boilerplate: Boilerplate | Literal[False]
    near_duplicates: bool
    decontaminate: bool

    @property
    def as_it_is(self) -> bool:
        """Whether documents are left exactly as they are."""
        texts = (self.unicode.repair, self.rewrite, self.strip, self.deidentify, self.boilerplate)
        removals = (self.filters, self.exact_duplicates == "remove", self.near_duplicates, self.decontaminate)
        return not any(texts) and not any(removals)


class CorpusRecipe(Recipe):
    """Recipe of a corpus: its sources, and which documents are removed."""

    later: ClassVar = (*_LATER, "licences", "priority", "strip")

    sources: tuple[CorpusSource, ...] = Field(min_length=1)
    """Files, folders and glob patterns, or sources with their own settings. Of several copies of a document, the first is kept."""
    without: tuple[str, ...] = runtime(())
    """Names of sources to leave out."""
    preset: Preset | None = runtime(None)
    """Named cleaning: carrino2022, clinical, or none to leave documents exactly as they are. Other settings override its values."""
    unicode: Unicode = Unicode()
    """Repair of the text."""
    rewrite: Mapping[str, SerializeAsAny[Rewriter]] = {}
    """Rewriters by name, applied in this order after the repair. The ledger lists what they removed."""
    filters: Mapping[str, SerializeAsAny[Filter]] = {"length": {}}  # type: ignore[dict-item]
    """Filters by name, applied in this order. The ledger gives the reason for each removal."""
    exact_duplicates: Literal["remove", "keep"] = "remove"
    """Whether later copies of the same text are removed."""
    strip: bool = True
    """Remove whitespace before and after each document."""
    deidentify: Deidentify | Literal[False] = False
    """Replace names, dates and other entities that a bundle finds, before looking for duplicates."""
    boilerplate: Boilerplate | Literal[False] = False
    """Remove lines that many documents of a source share, such as menus and disclaimers."""
    near_duplicates: NearDuplicates | Literal[False] = False
    """Remove documents that nearly repeat another one, within and across sources."""
    decontaminate: Decontaminate | Literal[False] = False
    """Remove documents that share text with held-out documents of prepared tasks."""
    licences: tuple[str, ...] = ()
    """Keep only documents with one of these licences (`*` is a wildcard, case is ignored); all by default."""
    priority: tuple[str, ...] = ()
    """Sources in order of preference: of several copies, the one from the first is kept. Other sources follow in recipe order."""
    density_terms: Path | None = runtime(None)
    """Text file with one term per line. Every document is stored with the share of its words in these terms (column `density`)."""
    shard_megabytes: int = Field(128, ge=1)
    """Megabytes of text per shard, before compression."""
    engine: Literal["local", "ray"] = runtime("local")
    """Where to run: local (this machine) or ray (the cluster at RAY_ADDRESS). The corpus is the same either way."""
    workers: int = runtime(0, ge=0)
    """Worker processes, or concurrent tasks on the cluster; 0 means one per core."""
    strict: bool = runtime(False)
    """Stop at an unreadable record or a source without documents, instead of leaving it out."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or not values.get("without"):
            return values
        gone, sources = values["without"], values.get("sources", ())
        if isinstance(gone, str) or isinstance(sources, str) or not isinstance(sources, Sequence):
            return values
        names = [source.get("name") if isinstance(source, Mapping) else None for source in sources]
        unknown = next((name for name in gone if name not in names), None)
        if unknown is not None:
            raise ValueError(f"without: no source is called {unknown!r}; known: {', '.join(filter(None, names))}")
        kept = [source for source, name in zip(sources, names, strict=True) if name not in gone]
        return {name: value for name, value in values.items() if name != "without"} | {"sources": kept}

    @field_validator("sources", mode="before")
    @classmethod
    def _paths_are_sources(cls, value: Any) -> Any:
        many = [value] if isinstance(value, str | Path) else value
        if not isinstance(many, list | tuple):
            return many
        return [{"files": [item]} if isinstance(item, str | Path) else item for item in many]

    _preset = model_validator(mode="before")(_expand_preset)
    _rewrite = field_validator("rewrite", mode="before")(_resolve_rewriters)
    _filters = field_validator("filters", mode="before")(_resolve_filters)

    def identity(self) -> dict[str, Any]:
        """Return an identity that matches corpora of earlier versions. Terms count by content, not by file path."""
        values = super().identity()
        if self.density_terms is not None:
            values["density_terms"] = terms_digest(self.density_terms)
        # Turning off a step that the corpus does not have changes nothing.
        off = [name for name in _LATER if name not in values]
        for source, own in zip(values["sources"], self.sources, strict=True):
            if "clean" in source:
                kept = {name: value for name, value in source["clean"].items() if value or name not in off}
                source["clean"] = kept | {"strip": self.cleaning(own.clean).strip}
        return values

    def cleaning(self, own: SourceCleaning | None = None) -> Cleaning:
        """Return a source's own settings, with those of the corpus as defaults."""
        own = own or SourceCleaning()
        return Cleaning(
            unicode=own.unicode or self.unicode,
            rewrite=self.rewrite if own.rewrite is None else own.rewrite,
            filters=self.filters if own.filters is None else own.filters,
            exact_duplicates=own.exact_duplicates or self.exact_duplicates,
            strip=self.strip if own.strip is None else own.strip,
            deidentify=bool(self.deidentify) and own.deidentify is not False,
            boilerplate=self.boilerplate if own.boilerplate is None else own.boilerplate,
            near_duplicates=bool(self.near_duplicates) and own.near_duplicates is not False,
            decontaminate=bool(self.decontaminate) and own.decontaminate is not False,
        )
