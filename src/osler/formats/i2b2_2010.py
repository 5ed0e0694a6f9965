"""i2b2/VA 2010: `X.txt`, concepts in `X.con`, assertions in `X.ast`, relations in `X.rel`, by line and token.

Lines count from 1 and tokens from 0, the last one included. Tokens are separated by whitespace, and a line that begins
with whitespace has an empty token 0. The four files of a record may be in different folders or archives. A concept's
assertion is the attribute "assertion" of its span. Quoted text is lower-cased with normalised whitespace, and is
compared that way.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from osler.core.parsing import to_int
from osler.formats.base import Format, SourceReading
from osler.formats.draft import Draft, pair_files
from osler.formats.output import (
    ATTRIBUTES,
    DISCONTINUOUS,
    RELATIONS,
    RENAMED,
    SPANS,
    OutputFolder,
    documents,
    renumbered,
)
from osler.formats.sources import SourceTree
from osler.formats.tokens import respaced
from osler.text.document import TOKENS, Document, Fragment, Record, Span
from osler.text.words import line_ranges

_CONCEPT = r'c="(.*)" (\d+):(\d+) (\d+):(\d+)'
_CON = re.compile(rf'{_CONCEPT}\|\|t="(.*)"')
_AST = re.compile(rf'{_CONCEPT}\|\|t="(.*)"\|\|a="(.*)"')
_REL = re.compile(rf'{_CONCEPT}\|\|r="(.*)"\|\|{_CONCEPT}')
_TOKEN = re.compile(r"[^ \t\r]+")
# Type of the first argument by the first letters of the relation. The second argument is always a problem.
_FIRST = {"Tr": "treatment", "Te": "test", "PI": "problem"}


@dataclass(frozen=True)
class I2b2Concepts(Format):
    """The four files per record of the 2010 challenge. The writer tokenises texts that are not tokenised yet."""

    def _detect(self, tree: SourceTree) -> bool:
        heads = (tree.head(name, 1) for name in tree.names("*.con"))
        return any(head and _CON.fullmatch(head[0]) for head in heads)

    def _read(self, reading: SourceReading) -> Iterator[Document]:
        assertions, relations = (
            {_stem(name): name for name in reading.tree.names(pattern)} for pattern in ("*.ast", "*.rel")
        )
        for text_name, concept_name in pair_files(reading, ".con"):
            stem = _stem(text_name)
            reading.check_new(stem, text_name)
            record = _Annotated(reading, stem, text_name)
            if concept_name is not None:
                record.concepts(concept_name)
            if stem in assertions:
                record.assertions(assertions[stem])
            if stem in relations:
                record.relations(relations[stem])
            yield record.draft.document(meta=TOKENS)

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        folder = OutputFolder(path, losses)
        for document in documents(records, losses, holds={SPANS, DISCONTINUOUS, RELATIONS, ATTRIBUTES}, meta=TOKENS):
            stem = folder.stem(document.id)
            document = respaced(document, losses, empty_lines=True)
            con, ast, rel = _lines(document, losses)
            folder.write(f"txt/{stem}.txt", document.text)
            for name, lines in (("concept", con), ("ast", ast), ("rel", rel)):
                folder.write(f"{name}/{stem}.{name[:3]}", "".join(f"{line}\n" for line in lines))


def _stem(name: str) -> str:
    return name.rsplit("/", 1)[-1].rsplit(".", 1)[0]


class _Annotated:
    """One record: its text, the offsets of its tokens, and its concepts by offset."""

    def __init__(self, reading: SourceReading, stem: str, text_name: str) -> None:
        self._reading = reading
        self.draft = Draft(reading, stem, reading.tree.text(text_name), text_name)
        self._tokens = _token_table(self.draft.text)
        self._at: dict[Fragment, list[Span]] = {}

    def _matches(self, name: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str]]]:
        self.draft.file = name
        for number, line in self._reading.tree.lines(name):
            match = pattern.fullmatch(line.strip())
            if match:
                yield number, match
            elif line.strip():
                self.draft.report("malformed-line", f"not a line of a .{name.rpartition('.')[2]} file", number)

    def _place(self, groups: tuple[str, ...]) -> Fragment:
        """Return the offsets from one line:token to another. A place that does not exist gives offsets outside the text."""
        outside = len(self.draft.text)
        numbers = [number for cell in groups if (number := to_int(cell)) is not None]
        if len(numbers) < len(groups) or not numbers[0] or not numbers[2]:  # lines count from 1
            return outside, outside + 1
        line1, token1, line2, token2 = numbers
        try:
            return self._tokens[line1 - 1][token1][0], self._tokens[line2 - 1][token2][1]
        except IndexError:
            return outside, outside + 1

    def concepts(self, name: str) -> None:
        for number, match in self._matches(name, _CON):
            place = self._place(match.groups()[1:5])
            span = self.draft.span((place,), match[6], expected=match[1], line=number, same=_same)
            if span is not None:
                self._at.setdefault(place, []).append(span)

    def assertions(self, name: str) -> None:
        for number, match in self._matches(name, _AST):
            span = self._find(match.groups()[1:5], match[6])
            if span is None:
                self.draft.dangling(number)
                continue
            changed = replace(self.draft.spans[span.id], attributes={**span.attributes, "assertion": match[7]})
            self.draft.spans[span.id] = changed

    def relations(self, name: str) -> None:
        for number, match in self._matches(name, _REL):
            head = self._find(match.groups()[1:5], _FIRST.get(match[6][:2], ""))
            tail = self._find(match.groups()[7:11], "problem")
            if head is None or tail is None:
                self.draft.dangling(number)
            else:
                self.draft.relation(match[6], head.id, tail.id, line=number)

    def _find(self, groups: tuple[str, ...], label: str) -> Span | None:
        """Return the concept at a place, preferably one with this label."""
        spans = self._at.get(self._place(groups), [])
        return next((span for span in spans if span.label == label), spans[0] if spans else None)


def _same(found: str, expected: str) -> bool:
    return found.lower().split() == expected.lower().split()


def _token_table(text: str) -> list[list[Fragment]]:
    table: list[list[Fragment]] = []
    for start, end in line_ranges(text):
        tokens = [match.span() for match in _TOKEN.finditer(text, start, end)]
        if text[start : start + 1] in (" ", "\t"):
            tokens.insert(0, (start, start))
        table.append(tokens)
    return table


def _lines(document: Document, losses: Counter[str]) -> tuple[list[str], list[str], list[str]]:
    starts: dict[int, str] = {}
    ends: dict[int, str] = {}
    for number, tokens in enumerate(_token_table(document.text), 1):
        for index, (start, end) in enumerate(tokens):
            starts[start], ends[end] = f"{number}:{index}", f"{number}:{index}"
    concepts: dict[str, str] = {}
    con, ast, rel = list[str](), list[str](), list[str]()
    losses[RENAMED] += renumbered(span for span in document.spans if not span.discontinuous)
    for span in document.spans:
        losses[ATTRIBUTES] += len(span.attributes.keys() - {"assertion"})
        if span.discontinuous:
            losses[DISCONTINUOUS] += 1
            continue
        quoted = " ".join(document.text[span.start : span.end].lower().split())
        concept = f'c="{quoted}" {starts[span.start]} {ends[span.end]}'
        concepts[span.id] = concept
        con.append(f'{concept}||t="{span.label}"')
        if "assertion" in span.attributes:
            ast.append(f'{concept}||t="{span.label}"||a="{span.attributes["assertion"]}"')
    at_place = Counter(concepts.values())
    for relation in document.relations:
        losses[ATTRIBUTES] += len(relation.attributes)
        if relation.head in concepts and relation.tail in concepts:
            # Arguments are identified by place only, so a reader cannot distinguish two concepts at one place.
            places = (concepts[relation.head], concepts[relation.tail])
            losses["relations to one of several concepts at a place"] += any(at_place[place] > 1 for place in places)
            rel.append(f'{concepts[relation.head]}||r="{relation.label}"||{concepts[relation.tail]}')
        else:
            losses[RELATIONS] += 1
    return con, ast, rel


FORMAT = I2b2Concepts(
    "i2b2_2010", "i2b2/VA 2010: X.txt with X.con, X.ast, X.rel (line:token)", (".con", ".ast", ".rel", ".txt"), "folder"
)
