"""The task artifact: a card and one Parquet file per split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w

from osler.core.artifact import Artifact
from osler.core.config import read_toml, validate
from osler.core.errors import ArtifactError, writing
from osler.core.files import undamaged, write_atomic
from osler.tasks.card import TaskCard
from osler.text.document import Document, Record, Relation, Span, TextPair, split_meta

SPLITS = ("train", "dev", "test")
CARD = "card.toml"
_BATCH = 1024
_BATCH_CHARACTERS = 1 << 22

_ATTRIBUTES = pa.map_(pa.string(), pa.string())
_NAMES = [("id", pa.string()), ("label", pa.string())]
_FRAGMENTS = ("fragments", pa.list_(pa.list_(pa.int32(), 2)))
_ARGUMENTS = [("head", pa.string()), ("tail", pa.string())]
_EXTRAS = [("score", pa.float64()), ("attributes", _ATTRIBUTES)]
_ANNOTATIONS = [
    ("spans", pa.list_(pa.struct([*_NAMES, _FRAGMENTS, *_EXTRAS]))),
    ("relations", pa.list_(pa.struct([*_NAMES, *_ARGUMENTS, *_EXTRAS]))),
]
_COMMON = [("labels", pa.list_(pa.string())), ("value", pa.float64()), ("meta", _ATTRIBUTES)]
_DOCUMENTS = pa.schema([("id", pa.string()), ("text", pa.string()), *_ANNOTATIONS, *_COMMON])
_PAIRS = pa.schema([("id", pa.string()), ("first", pa.string()), ("second", pa.string()), *_COMMON])
_SCORES = pa.field("scores", pa.map_(pa.string(), pa.float64()))


class TaskFolder:
    """A prepared task on disk."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.card = validate(TaskCard, read_toml(artifact.path / CARD), where=str(artifact.path / CARD))

    @classmethod
    def open(cls, path: Path) -> TaskFolder:
        return cls(Artifact.open(path, kind="task"))

    @property
    def splits(self) -> list[str]:
        """The splits that exist, in the usual order."""
        return in_order(path.stem for path in self.artifact.path.glob("*.parquet"))

    def stream(self, split: str) -> Iterator[Record]:
        """Iterate over the records of one split."""
        if split not in self.splits:
            raise ArtifactError(
                f"no split {split!r}", where=self.artifact.path, fix=f"Use one of: {', '.join(self.splits)}"
            )
        return read_records(self.artifact.path / f"{split}.parquet")

    def read(self, split: str) -> list[Record]:
        """Return all records of one split."""
        return list(self.stream(split))

    def held_out(self, trained_on: Sequence[str] = ("train",)) -> dict[str, Iterator[Record]]:
        """Records of each split that is not trained on."""
        return {split: self.stream(split) for split in self.splits if split not in trained_on}

    def uncompressed_bytes(self, split: str) -> int:
        """Size of a split before compression; 0 if it does not exist."""
        if split not in self.splits:
            return 0
        metadata = pq.ParquetFile(self.artifact.path / f"{split}.parquet").metadata
        return sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))


class TaskWriter:
    """Writes a task folder: one file per split, and the card."""

    def __init__(self, folder: Path, *, pairs: bool) -> None:
        self._folder = folder
        self._pairs = pairs
        self._stack = ExitStack()
        self._writers: dict[str, _RecordWriter] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def add(self, split: str, record: Record) -> None:
        if split not in self._writers:
            writer = _RecordWriter(self._folder / f"{split}.parquet", pairs=self._pairs)
            self._writers[split] = self._stack.enter_context(writer)
        self._writers[split].write(record)

    def write_card(self, card: TaskCard) -> None:
        write_atomic(self._folder / CARD, tomli_w.dumps(card.resolved()))


def in_order(splits: Iterable[str]) -> list[str]:
    """Sort names of splits: train, dev, test, then any others."""
    return sorted(splits, key=lambda name: (SPLITS.index(name) if name in SPLITS else len(SPLITS), name))


def write_records(records: Iterable[Record], path: Path, *, pairs: bool = False, scores: bool = False) -> None:
    """Write records to a Parquet file. Predictions may have `scores`; a task's own records do not."""
    with _RecordWriter(path, pairs=pairs, scores=scores) as writer:
        for record in records:
            writer.write(record)


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a Parquet file, with one batch in memory."""
    problem = "the Parquet file cannot be read: it is damaged or missing"
    with undamaged(path, problem, "Make it again: run the command that made its folder with --force"):
        for batch in pq.ParquetFile(path).iter_batches(batch_size=_BATCH):
            for row in batch.to_pylist():
                yield _record(row)


class _RecordWriter:
    """Writes records to a Parquet file in batches."""

    def __init__(self, path: Path, *, pairs: bool, scores: bool = False) -> None:
        self.path = path
        schema = _PAIRS if pairs else _DOCUMENTS
        self._schema = schema.append(_SCORES) if scores else schema
        self._rows: list[dict[str, Any]] = []
        self._size = 0

    def __enter__(self) -> Self:
        with writing(self.path):
            self._writer = pq.ParquetWriter(self.path, self._schema, compression="zstd")
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with writing(self.path):
            if kind is None:
                self._flush()
            self._writer.close()

    def write(self, record: Record) -> None:
        self._rows.append(_row(record))
        self._size += len(record.text) if isinstance(record, Document) else len(record.first) + len(record.second)
        if len(self._rows) == _BATCH or self._size > _BATCH_CHARACTERS:
            with writing(self.path):
                self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_batch(pa.RecordBatch.from_pylist(self._rows, schema=self._schema))
        self._rows, self._size = [], 0


_FIELDS = {kind: [item.name for item in fields(kind)] for kind in (Document, TextPair, Span, Relation)}


def _row(item: Record | Span | Relation) -> dict[str, Any]:
    """Convert an item for Arrow: mappings to pairs, spans and relations to rows."""
    row: dict[str, Any] = {}
    for name in _FIELDS[type(item)]:
        value = getattr(item, name)
        if isinstance(value, Mapping):
            value = list(value.items())
        elif name in ("spans", "relations"):
            value = [_row(part) for part in value]
        row[name] = value
    return row


def _record(row: Mapping[str, Any]) -> Record:
    meta, scores = split_meta(dict(row["meta"]))
    scores |= dict(row.get("scores") or ())
    common: dict[str, Any] = {"labels": tuple(row["labels"]), "value": row["value"], "meta": meta, "scores": scores}
    if "first" in row:
        return TextPair(row["id"], row["first"], row["second"], **common)
    spans = tuple(
        Span(tuple(map(tuple, s["fragments"])), s["label"], s["id"], s["score"], dict(s["attributes"]))
        for s in row["spans"]
    )
    relations = tuple(
        Relation(r["label"], r["head"], r["tail"], r["id"], r["score"], dict(r["attributes"])) for r in row["relations"]
    )
    return Document(row["id"], row["text"], spans, relations, **common)
