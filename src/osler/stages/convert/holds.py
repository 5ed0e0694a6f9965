"""What each format can hold, asked of its writer: a small record with one thing in it is written, and the loss is looked at.

A table written by hand would drift from the code; this one cannot. A format that holds a thing only in some shape (PubTator
joins concepts, HoC labels whole sentences) is asked in that shape too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from osler.core.errors import OslerError
from osler.formats.base import Format
from osler.formats.registry import FORMATS, get_format
from osler.text.document import Document, Record, Relation, Span, TextPair

_TEXT = "Aspirin and warfarin"
_NOTE = Document("out-1", _TEXT)
_PAIR = TextPair("out-1", "He rests .", "He runs .")


def _spans(label: str, **attributes: str) -> tuple[Span, Span]:
    return (
        Span.at(0, 7, label, id="T1", attributes=attributes),
        Span.at(12, 20, label, id="T2", attributes=attributes),
    )


def _related(**attributes: str) -> Document:
    return _NOTE.with_(spans=_spans("drug", **attributes), relations=(Relation("effect", "T1", "T2", "R1"),))


_WHOLE = Span.at(0, len(_TEXT), "drug", id="T1")
_PROBES: Mapping[str, tuple[Record, ...]] = {
    "texts": (_NOTE, _NOTE.with_(labels=("1",))),
    "spans": (*(_NOTE.with_(spans=_spans(label)) for label in ("drug", "GENE", "Species")),),
    "discontinuous spans": tuple(
        _NOTE.with_(spans=(Span(((0, 7), (12, 20)), label, "T1"),)) for label in ("drug", "Species")
    ),
    "relations": (_related(), _related(concept="D1")),
    "attributes": tuple(_NOTE.with_(spans=_spans("drug", **{key: "1"})) for key in ("note", "element")),
    "scores": (_NOTE.with_(spans=(Span.at(0, 7, "drug", id="T1", score=0.5),)),),
    "labels": (
        _NOTE.with_(labels=("1",)),
        _NOTE.with_(labels=("D:a1",)),
        _NOTE.with_(spans=(_WHOLE,), labels=("drug",)),
    ),
    "values": (_NOTE.with_(value=1.0),),
    "meta": (_NOTE.with_(meta={"note": "x"}),),
    "pairs": (_PAIR,),
    "pair labels": (_PAIR.with_(labels=("yes",)),),
    "pair values": (_PAIR.with_(value=1.0),),
    "pair meta": (_PAIR.with_(meta={"note": "x"}),),
}
# Reasons that are about the shape of a record, not about the thing asked for.
_SHAPE = {"ids renamed", "labels rewritten"}


@dataclass(frozen=True)
class Capability:
    """One format for a list: what it is, how it is written, what it can hold."""

    name: str
    description: str
    layout: str
    writable: bool
    holds: tuple[str, ...]


def capabilities() -> Iterator[Capability]:
    """Every format osler knows, plug-ins too."""
    for name in FORMATS.names():
        format_ = get_format(name)
        writable = any(_lost(format_, probe) is not None for probe in (_NOTE, _PAIR))
        holds = tuple(thing for thing, probes in _PROBES.items() if any(_held(format_, probe) for probe in probes))
        yield Capability(name, format_.description, format_.layout, writable, holds)


def _held(format_: Format, record: Record) -> bool:
    lost = _lost(format_, record)
    return lost is not None and not lost - _SHAPE


def _lost(format_: Format, record: Record) -> set[str] | None:
    """The reasons of a loss; None where the format refuses to write at all."""
    with tempfile.TemporaryDirectory() as folder:
        name = "out" if format_.layout == "folder" else f"out{format_.suffixes[0]}"
        try:
            loss = format_.write([record], Path(folder) / name)
        except (OslerError, NotImplementedError):
            return None
        return {reason for reason, count in loss.counts.items() if count}
