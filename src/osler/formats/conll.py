"""CoNLL-style columns: one token and tag per line, a blank line between sentences.

The first column is the token, the last the tag; columns between them (part of speech, chunk) are dropped. Columns are
separated by tabs or, in a line without tabs, by spaces. Lines `-DOCSTART-` and `###MEDLINE:id` begin a document, whose
sentences become lines. A file without such lines gives one document per sentence; `unit` = "sentence" or "document"
overrides this. The text is rebuilt with one space between tokens, and meta has `tokens = "blanks"`.

Tags are BIO (IOB2) or BIOES (IOBES). Two schemes that differ only in their letters are read as BIOES: BILOU (L for E, U for S)
and BMEWO (M for I, W for S). Tags without a type (B, I, O) get the label from the options.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from osler.formats.base import Format, SourceReading
from osler.formats.output import (
    DISCONTINUOUS,
    RENAMED,
    SPANS,
    DocumentNames,
    documents,
    output_file,
    renumbered,
    spans_by_line,
)
from osler.formats.sources import SourceTree
from osler.formats.tokens import respaced
from osler.text.document import TOKENS, Document, Record, Span, token_ranges
from osler.text.tags import OUTSIDE, Repair, Scheme, chunks, spans_to_tags
from osler.text.words import covered, line_ranges

_MARK = re.compile(r"-DOCSTART-(?:[\t ]+(\S+).*)?|###\w+:(.*)")
_TAG = re.compile(r"[BIES]-.+|O")
_PREFIX = re.compile(r"([A-Za-z]{1,3})-.+")
_SAME = {"L": "E", "U": "S", "M": "I", "W": "S"}
_SCHEMES = "Write O and B-, I- (BIO), with E-, S- (BIOES) or L-, U- (BILOU), each followed by a label"


@dataclass
class _Sentence:
    line: int
    tokens: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Conll(Format):
    """Token and tag columns. `scheme` is for writing; the reader takes it from the tags."""

    label: str = "MENTION"
    unit: Literal["auto", "sentence", "document"] = "auto"
    scheme: Literal["BIO", "BIOES"] = "BIO"

    def _detect(self, tree: SourceTree) -> bool:
        names = self._files(tree)
        lines = [line for line in tree.head(names[0], 6) if not _MARK.fullmatch(line)] if names else []
        tags = [columns[-1] for columns in map(_columns, lines) if len(columns) > 1]
        return bool(lines) and len(tags) == len(lines) and all(_TAG.fullmatch(_typed(t, "X")) for t in tags)

    def _files(self, tree: SourceTree) -> list[str]:
        return self._named(tree) or tree.names("*.txt") or (list(tree) if len(tree) == 1 else [])

    def _read(self, reading: SourceReading) -> Iterator[Document]:
        for name in self._files(reading.tree):
            stem = name.rsplit(".", 1)[0] if "." in name.rsplit("/", 1)[-1] else name
            for number, (document_id, sentences) in enumerate(self._groups(reading, name), 1):
                yield _document(reading, name, document_id or f"{stem}-{number}", sentences)

    def _groups(self, reading: SourceReading, name: str) -> Iterator[tuple[str, list[_Sentence]]]:
        """Yield each document's id, taken from its marker line, with its sentences."""
        by_document = self.unit == "document"
        document_id, group = "", list[_Sentence]()
        for item in self._sentences(reading, name):
            if isinstance(item, _Sentence):
                group.append(item)
                if by_document:
                    continue
            elif self.unit == "auto":
                by_document = True
            if group:
                yield document_id, group
            document_id, group = (item if by_document and isinstance(item, str) else ""), []
        if group:
            yield document_id, group

    def _sentences(self, reading: SourceReading, name: str) -> Iterator[_Sentence | str]:
        """Yield the sentences of a file, and the ids on the marker lines between documents."""
        sentence: _Sentence | None = None
        for number, line in reading.tree.lines(name):
            mark = _MARK.fullmatch(line) if line[:1] in "-#" else None
            if mark or not line.strip():
                if sentence:
                    yield sentence
                sentence = None
                if mark:
                    given = (mark[1] or mark[2] or "").strip()
                    yield given if given not in ("-X-", "O") else ""
                continue
            columns = _columns(line)
            tag = _typed(columns[-1], self.label)
            if len(columns) < 2 or not columns[0]:
                fix = "Put a token and its tag on each line, separated by a tab or a space"
                reading.report("malformed-line", "not a token and a tag", name, number, fix=fix)
                continue
            if not _TAG.fullmatch(tag):
                reading.report("malformed-line", _problem(columns[-1]), name, number, fix=_SCHEMES)
                continue
            sentence = sentence or _Sentence(number)
            sentence.tokens.append(columns[0])
            sentence.tags.append(tag)
        if sentence:
            yield sentence

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        """Write one file, in which each document begins with `-DOCSTART-` and its id."""
        names = DocumentNames(losses)
        with output_file(path) as stream:
            for document in documents(records, losses, holds={SPANS, DISCONTINUOUS}, meta=TOKENS):
                flat = respaced(document, losses, empty_lines=False)
                if not flat.text:
                    losses["documents without a word"] += 1
                    continue
                name = re.sub(r"\s+", "_", document.id)
                name = names.name(document.id, name if name not in ("", "-X-", "O") else "document")
                losses[RENAMED] += renumbered(document.spans)
                stream.write(f"-DOCSTART-\t{name}\tO\n\n".encode())
                for token, tag in _tagged(flat, Scheme[self.scheme], losses):
                    stream.write(f"{token}\t{tag}\n".encode() if token else b"\n")


def _columns(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else line.split(" ")


def _typed(tag: str, label: str) -> str:
    """Normalise a tag to BIO or BIOES with a label. A tag of an unknown scheme is returned unchanged."""
    prefix = _SAME.get(tag[:1], tag[:1])
    if len(tag) == 1:
        return f"{prefix}-{label}" if prefix in ("B", "I", "E", "S") else tag
    return prefix + tag[1:] if tag[1:2] == "-" else tag


def _problem(tag: str) -> str:
    # Quote nothing but a certain tag prefix: the last column of a wrong file may be a patient's text.
    if match := _PREFIX.fullmatch(tag):
        return f"tags with the prefix {match[1]}- belong to no known scheme"
    return "the last column is not a tag"


def _document(reading: SourceReading, name: str, document_id: str, sentences: list[_Sentence]) -> Document:
    spans: list[Span] = []
    offset = 0
    for sentence in sentences:
        edges = []
        for token in sentence.tokens:
            edges.append((offset, offset + len(token)))
            offset += len(token) + 1
        # In BIOES every mention ends in E or S, so the mentions of a sentence reveal its scheme.
        scheme = Scheme.BIOES if any(tag[0] in "ES" for tag in sentence.tags) else Scheme.BIO
        mentions = chunks(sentence.tags, scheme, Repair.CONLLEVAL)
        proper = set(chunks(sentence.tags, scheme, Repair.STRICT)) if mentions else set()
        for first, last, label in mentions:
            if (first, last, label) not in proper:
                detail = "an I- or E- tag has no mention to continue"
                reading.report("improper-tag", detail, name, sentence.line + first)
            spans.append(Span.at(edges[first][0], edges[last - 1][1], label, id=f"T{len(spans) + 1}"))
    text = "\n".join(" ".join(sentence.tokens) for sentence in sentences)
    return Document(document_id, text, tuple(spans), meta=TOKENS)


def _tagged(document: Document, scheme: Scheme, losses: Counter[str]) -> Iterator[tuple[str, str]]:
    """Yield each token with its tag, and a pair of empty strings after each sentence."""
    text = document.text
    everything = token_ranges(document.with_(meta=TOKENS))
    placed = 0
    lines = line_ranges(text)
    for (start, end), inside in zip(lines, spans_by_line(document.spans, lines), strict=True):
        placed += len(inside)
        covers = covered(everything, start, end)
        tokens = everything[covers.start : covers.stop]
        result = spans_to_tags(inside, tokens, scheme)
        # Two spans inside one word become the same span when they are widened to the word.
        losses["overlapping spans"] += len(inside) - len({span.key for span in inside})
        for span in result.unexpressed:
            losses[DISCONTINUOUS if span.discontinuous else "overlapping spans"] += 1
        losses["discontinuous spans joined"] += sum(span.discontinuous for span in result.inexact)
        for (first, last), tag in zip(tokens, result.tags, strict=True):
            yield text[first:last], tag if tag == OUTSIDE else re.sub(r"\s+", "_", tag)
        yield "", ""
    losses["spans across lines"] += len(document.spans) - placed


FORMAT = Conll(
    "conll",
    "CoNLL columns: token and tag (BIO, BIOES, BILOU), 2 or more columns",
    (".conll", ".iob", ".iob2", ".bio", ".tsv"),
)
