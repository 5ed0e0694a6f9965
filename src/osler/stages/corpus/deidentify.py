"""De-identify documents: replace every entity that a bundle finds by its label in brackets, such as [NAME].

Entities are first found slice by slice and their positions written to disk, so that an interrupted run resumes. Then every part is
rewritten without them. A document that cannot be processed is removed, never kept unchanged.

The result does not depend on the number of workers: documents are batched independently of it, and on a CPU each worker uses one
thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import numpy as np

from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import BundleSpec, reads
from osler.core.artifact import Artifact
from osler.core.errors import RecipeError
from osler.core.extras import require
from osler.core.files import write_json
from osler.core.processes import LocalPool, Pool
from osler.stages.corpus.config import Deidentify
from osler.stages.corpus.counts import counts_of
from osler.stages.corpus.parts import DIGEST_BYTES, RewrittenPart, StepEffect, row_groups
from osler.stages.corpus.remaining import Mask, Remaining
from osler.tasks.card import Kind
from osler.text.document import Document, Span

pq = require("pyarrow.parquet", "corpus")

SLICE_BYTES = 1 << 20
"""Bytes of text annotated per result file: minutes of work on a CPU."""
_BATCH = 64
_FAILED, _LANGUAGE = "deidentify.failed", "deidentify.language"
_PROBE = "Probe."  # harmless, so a failure is not the text's fault

Mention = tuple[int, int, str]
"""Start and end of a replaced passage, and the label written in its place."""


@dataclass(frozen=True)
class Deidentifier:
    """A bundle and its heads for de-identification."""

    folder: Path
    digest: str
    languages: Mapping[str, str]
    """Language of each head."""
    named: bool
    """Whether the recipe names the heads. Then they read every document, whatever its language."""
    device: str

    @classmethod
    def open(cls, options: Deidentify) -> Self:
        """Find the heads, or raise the error that a run would raise later."""
        require("torch", "train")
        digest = Artifact.open(options.bundle, kind="bundle").manifest.digest
        spec = BundleSpec.load(options.bundle)
        finders = {name: head.card for name, head in spec.heads.items() if head.card.kind is Kind.TAGGING}
        for name in options.heads:
            if spec.head(name).card.kind is not Kind.TAGGING:
                fix = f"Heads of this bundle that find some: {', '.join(finders) or 'none'}"
                raise RecipeError(f"the head {name!r} finds no entities", where="deidentify.heads", fix=fix)
        chosen = options.heads or [name for name, card in finders.items() if card.phi]
        if not chosen:
            fix = f"Name those to use in deidentify.heads: {', '.join(finders)}" if finders else "Give another bundle"
            problem = "no head of this bundle was trained on a de-identification task"
            raise RecipeError(problem, where=options.bundle, fix=fix)
        languages = {name: finders[name].language for name in chosen}
        return cls(options.bundle, digest, languages, bool(options.heads), options.device)

    def heads(self, language: str | None) -> tuple[str, ...]:
        """Return the heads that read documents of a language (possibly none), or all if it is not known."""
        if self.named or language is None:
            return tuple(self.languages)
        return tuple(name for name, own in self.languages.items() if reads(own, language))

    def check(self, languages: Mapping[str, str | None]) -> None:
        """Reject a source whose language no head reads. `languages` is keyed by source."""
        for source, language in languages.items():
            if not self.heads(language):
                heads = ", ".join(f"{name} ({own})" for name, own in self.languages.items())
                raise RecipeError(
                    f"the source {source!r} is in the language {language!r}, which no head for de-identification reads: {heads}",
                    where="deidentify",
                    fix="Give a bundle with a head for it, name the heads to use in deidentify.heads, or set "
                    "clean.deidentify = false for the source",
                )

    def __str__(self) -> str:
        heads = f"{'head' if len(self.languages) == 1 else 'heads'} {', '.join(self.languages)}"
        return f"entities of the {heads} of the bundle {self.digest} are replaced by their labels"


@dataclass(frozen=True)
class _Slice:
    """Rows of a row group, those to annotate among them, and the file with what was found."""

    documents: Path
    group: int
    start: int
    keep: Mask
    by: Deidentifier
    found: Path


@dataclass(frozen=True)
class _Part(RewrittenPart):
    slices: tuple[tuple[int, Path], ...]
    """For each slice, the number of its first document and the file with its results."""

    @cached_property
    def found(self) -> dict[int, list[Mention] | str]:
        """By document number: the mentions to replace, or the reason to remove the document."""
        return {
            first + row: result if isinstance(result, str) else [(start, end, label) for start, end, label in result]
            for first, path in self.slices
            for row, result in json.loads(path.read_text(encoding="utf-8"))
        }


def deidentify(remaining: Remaining, by: Deidentifier, sources: Sequence[str], folder: Path, pool: Pool) -> None:
    """Replace entities in the documents of some sources; remove documents that cannot be processed."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = remaining.of_sources(dict.fromkeys(sources, 1))
    parts, slices = [], []
    for number, path in enumerate(remaining.files):
        cut = list(_cut(path, remaining.keep[number] & (wanted[number] > 0), by, folder / f"found-{number:06d}"))
        slices += [piece for _, piece in cut]
        parts.append(_Part(number, path, folder, tuple((first, piece.found) for first, piece in cut)))
    # One process keeps a GPU busy; more would only need more of its memory.
    finders = LocalPool(1) if _on_gpu(by.device) else pool
    finders.run_all(_find, slices, label="corpus: find entities")
    _bundle.cache_clear()
    pool.run_all(_replace, parts, label="corpus: de-identify")
    for part in parts:
        remaining.replace_text(part.number, part.kept, part.removed)


def _cut(path: Path, keep: Mask, by: Deidentifier, found: Path) -> Iterator[tuple[int, _Slice]]:
    """Yield slices of about SLICE_BYTES of wanted text, each with the number of its first document in the part."""
    for group, (rows, first) in enumerate(row_groups(path, "bytes")):
        wanted = keep[first : first + rows.num_rows]
        sizes = np.where(wanted, rows["bytes"].to_numpy(), 0)
        numbers = (np.cumsum(sizes) - sizes) // SLICE_BYTES
        for number in np.unique(numbers[wanted]).tolist():
            start, stop = np.searchsorted(numbers, [number, number + 1]).tolist()
            name = found.with_name(f"{found.name}-{group}-{number}.json")
            yield first + start, _Slice(path, group, start, wanted[start:stop], by, name)


def _find(piece: _Slice) -> None:
    """Write the mentions in each document of a slice, or the reason to remove it, unless an earlier run did."""
    from osler.train.precision import cpu_threads

    if piece.found.exists():
        return
    with pq.ParquetFile(piece.documents) as file:
        rows = file.read_row_group(piece.group, columns=["language", "text"], use_threads=False)
    rows = rows.slice(piece.start, len(piece.keep)).to_pylist()
    numbers = np.flatnonzero(piece.keep).tolist()
    found: dict[int, list[Mention] | str] = {}
    # One thread, because the order of summation changes the last digits, and the workers share the cores anyway.
    with cpu_threads(1):
        bundle = _bundle(piece.by.folder, piece.by.digest, piece.by.device)
        for language, group in groupby(numbers, key=lambda number: rows[number]["language"]):
            several, heads = list(group), piece.by.heads(language)
            for start in range(0, len(several), _BATCH):
                batch = several[start : start + _BATCH]
                texts = [rows[number]["text"] for number in batch]
                results = _mentions(bundle, texts, heads) if heads else [_LANGUAGE] * len(batch)
                found.update(zip(batch, results, strict=True))
    write_json(piece.found, list(found.items()))


def _mentions(bundle: Bundle, texts: Sequence[str], heads: Sequence[str]) -> Sequence[list[Mention] | str]:
    """Find the mentions to replace in each text, or the reason to remove it."""
    documents = [Document(str(number), text) for number, text in enumerate(texts)]
    try:
        return [_distinct(document.spans) for document in bundle.annotate(documents, heads)]
    except Exception:
        pass  # handled below, so that no later error is chained to one that may quote the text
    if len(texts) > 1:
        return [result for text in texts for result in _mentions(bundle, [text], heads)]
    # If the machine or the bundle is at fault and not the text, this fails too and ends the run.
    bundle.annotate([Document("probe", _PROBE)], heads)
    return [_FAILED]


def _distinct(spans: Sequence[Span]) -> list[Mention]:
    """Return mentions in text order. Overlapping ones are merged under the label of the first, the longest on ties."""
    mentions: list[Mention] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end, span.label)):
        if mentions and span.start < mentions[-1][1]:
            start, end, label = mentions[-1]
            mentions[-1] = (start, max(end, span.end), label)
        else:
            mentions.append((span.start, span.end, span.label))
    return mentions


def _replace(part: _Part) -> None:
    """Write the documents of a part with entities replaced, and the ledger rows of the replacements."""
    part.rewrite(lambda number, row: _change(row, part.found.get(number, [])))


def _change(row: dict[str, Any], found: list[Mention] | str) -> Iterator[StepEffect]:
    """Replace entities in a document, or clear its text, in place; yield the effects."""
    text = row["text"]
    if isinstance(found, str):
        yield StepEffect("deidentify", found, "document", len(text))
        changed = ""
    else:
        pieces, done = [], 0
        for start, end, label in found:
            yield StepEffect("deidentify", f"deidentify.{label}", "passage", end - start)
            pieces += [text[done:start], f"[{label}]"]
            done = end
        changed = "".join([*pieces, text[done:]])
    if changed != text:
        digest = blake2b(changed.strip().encode(), digest_size=DIGEST_BYTES).digest()
        counts = counts_of(changed, row["language"])._asdict()
        row.update(text=changed, bytes=len(changed.encode()), digest=digest, **counts)
        if changed:
            yield StepEffect("deidentify", "deidentify", "document changed", len(changed))


@lru_cache(maxsize=1)
def _bundle(folder: Path, digest: str, device: str) -> Bundle:
    """Load the bundle once per process."""
    return Bundle.load(folder, device)


def _on_gpu(device: str) -> bool:
    from osler.train.precision import choose_device

    return choose_device(device).type == "cuda"
