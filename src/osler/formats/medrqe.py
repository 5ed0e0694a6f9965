"""MedRQE XML: pairs of a long and a short question with `value` true or false.

The root element has a different name in every file. Whitespace around the questions is XML layout and is dropped.
`type` is kept in meta.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from osler.formats import xml
from osler.formats.base import Format, SourceReading
from osler.formats.output import LABELS, output_file, pairs
from osler.formats.sources import SourceTree
from osler.text.document import Record, TextPair


@dataclass(frozen=True)
class MedRqe(Format):
    """Question pairs; the long question is the premise. An id is unique within its file."""

    def _detect(self, tree: SourceTree) -> bool:
        return any("<pair pid=" in line for line in tree.first_lines("*.xml", 4))

    def _read(self, reading: SourceReading) -> Iterator[TextPair]:
        for name in self._files(reading.tree):
            with reading.tree.open_binary(name) as stream:
                for element in xml.stream(stream, "pair", reading.tree.where(name)):
                    first, second = (xml.element_text(element, tag).strip() for tag in ("chq", "faq"))
                    if not first or not second:
                        reading.report("empty-text", "a pair lacks a question", name, element.sourceline)
                    label, kind = element.get("value", ""), element.get("type", "")
                    labels, meta = (label,) if label else (), {"type": kind} if kind else {}
                    yield TextPair(element.get("pid", ""), first, second, labels=labels, meta=meta)

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        with output_file(path) as stream:
            stream.write(b'<?xml version="1.0" encoding="UTF-8"?>\n<QuestionPairs>\n')
            for pair in pairs(records, losses, holds={LABELS}, meta={"type"}):
                losses["outer white space"] += any(text != text.strip() for text in (pair.first, pair.second))
                named = {"pid": pair.id, "type": pair.meta.get("type", ""), "value": "".join(pair.labels[:1])}
                cells = "".join(f' {key}="{xml.encoded(value, losses)}"' for key, value in named.items() if value)
                first, second = xml.encoded(pair.first, losses), xml.encoded(pair.second, losses)
                stream.write(f"<pair{cells}>\n<chq>{first}</chq>\n<faq>{second}</faq>\n</pair>\n".encode())
            stream.write(b"</QuestionPairs>\n")


FORMAT = MedRqe("medrqe", "MedRQE XML: question entailment", (".xml",))
