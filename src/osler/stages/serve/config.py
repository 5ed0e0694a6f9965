"""Recipes of the serve stage: annotate files, export a head."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from osler.core.config import Recipe, assignments, runtime
from osler.core.models import BundleFolder
from osler.train.config import Precision

Share = Annotated[float, Field(ge=0.0, le=1.0)]

AnnotationFormat = Literal["jsonl", "brat", "bioc", "pubtator", "csv", "parquet", "fhir", "omop", "html"]


class AnnotateOptions(Recipe):
    """What to annotate and what to keep."""

    later: ClassVar[tuple[str, ...]] = ("thresholds", "target_recall")

    heads: tuple[str, ...] = ()
    """Heads to use. By default, all heads for the language of each document, or all heads for pairs if the input is pairs."""
    language: str | None = None
    """Use the heads for this language, such as es, or all heads (all). By default, each document is read by the heads for its
    own language: the one of at least two in three of its common words. All heads read a document without common words, with a
    mixture of them, or in a language that no head is for."""
    min_score: float = Field(0.0, ge=0.0, le=1.0)
    """Drop entities and relations with a lower score."""
    thresholds: Annotated[dict[str, Share], BeforeValidator(assignments)] = Field(default_factory=dict)
    """Minimum score of a label, in place of min_score: LABEL=0.8. Repeat for several labels."""
    target_recall: float | None = Field(None, gt=0.0, le=1.0)
    """Find more entities, relations and labels, enough to reach this recall on dev, such as 0.99. The plan states the precision
    that this cost on dev."""
    attributes: Literal["both", "rules", "head", "off"] = "both"
    """How to detect that an entity is negated, possible, hypothetical, historical or someone else's: with rules (English,
    Spanish and French), with the attribute heads of the bundle, or with both, where an attribute holds if either says so. With
    both, whatever the bundle or the language lacks is skipped."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.target_recall is not None and (self.min_score or self.thresholds):
            raise ValueError("target_recall and a lowest score contradict each other; give one of them")
        return self


class NoteInputs(Recipe):
    """What to read.

    `encoding`, `text_columns` and `id_column` decide what is read, so they count as part of the inputs, not of the recipe.
    """

    files: tuple[Path, ...] = runtime(min_length=1)
    """Text files (one note each), JSON Lines, CSV, TSV or Parquet files (one note or pair of texts per row), folders, archives
    and quoted glob patterns, compressed or not, or - for standard input (one note, or JSON Lines)."""
    text_columns: tuple[str, ...] = runtime((), max_length=2)
    """Column of a table, or key of JSON Lines, with the text; two for pairs of texts. By default text, note, sentence or
    document; for pairs first and second, text_a and text_b, sentence1 and sentence2, or premise and hypothesis."""
    id_column: str | None = runtime(None)
    """Column or key with the id of a note. By default id, index or guid; otherwise, notes are numbered."""
    encoding: str | None = runtime(None)
    """Encoding of files that are not UTF-8, such as latin-1. By default, these files are skipped."""

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, name: str | None) -> str | None:
        try:
            return name if name is None else codecs.lookup(name).name
        except LookupError:
            raise ValueError(f"unknown encoding {name!r}; common ones are latin-1, cp1252 and utf-16") from None


class AnnotateRecipe(NoteInputs, AnnotateOptions):
    """Annotate files with a bundle."""

    later: ClassVar[tuple[str, ...]] = (*AnnotateOptions.later, "precision")

    bundle: BundleFolder = runtime(None, validate_default=True)
    """A bundle folder, or the name of an installed model; by default the only installed model."""
    to: AnnotationFormat = "jsonl"
    """Output format: jsonl, brat, bioc, pubtator, csv, parquet, fhir, omop or html."""
    write: dict[str, Any] = Field(default_factory=dict)
    """Options of the output format, such as `conditions` of fhir or `date` of omop."""
    batch_characters: int | None = runtime(None, ge=1)
    """Characters of text to annotate together, in any number of notes. By default, chosen for the device."""
    device: str = runtime("auto", description="auto, cpu, cuda or cuda:N")
    precision: Precision = "auto"
    """Precision of the encoder: fp32, bf16, or auto (bf16 on a GPU, fp32 on a CPU)."""


class PairsRecipe(NoteInputs):
    """Compare pairs of texts with one head of a bundle."""

    bundle: BundleFolder = runtime()
    """A bundle folder, or the name of an installed model."""
    head: str | None = None
    """Head to use; not needed if only one head of the bundle fits."""
    language: str | None = None
    """Use a head for this language."""
    format: Literal["tsv", "jsonl"] | None = None
    """Output format, tsv or jsonl. By default, given by the ending of --out, else tsv."""
    batch: int = runtime(256, ge=1)
    """Pairs per batch."""
    device: str = runtime("auto", description="auto, cpu, cuda or cuda:N")


class ExportRecipe(Recipe):
    """Export a bundle for other software, or for machines without torch."""

    bundle: BundleFolder = runtime()
    """A bundle folder, or the name of an installed model."""
    head: str | None = None
    """Head to export to hf; not needed if the bundle has only one. Other targets include every head."""
    to: Literal["hf", "onnx", "onnx-int8", "spacy"] = "hf"
    """Target: hf (one head as a stock Hugging Face model), onnx or onnx-int8 (a bundle that runs without torch), or spacy."""
    tasks: tuple[Path, ...] = runtime(())
    """Task folders. Bundle and export are scored on their dev splits."""
    weights: bool = False
    """With onnx-int8: also keep the weights, in bfloat16, so that the bundle can be trained further. The graph derives its
    integers from them."""
    max_loss: float = runtime(0.5, ge=0.0)
    """Largest change of a task's dev score, in points. The export fails beyond that."""
