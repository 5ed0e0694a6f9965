"""CoNLL-style columns: a token and its tag a line (BIO/IOB2 or BIOES), a blank line between sentences.

The first column is the token, the last the tag; what is between (part of speech, chunk) is not kept. Columns are
separated by tabs or, where a line has none, by blanks. Lines `-DOCSTART-` and `###MEDLINE:id` begin a document: its
sentences become lines. A file that does not begin with such a line gives one document a sentence (`unit` = "sentence"
or "document" decides it by hand). Text is rebuilt with one blank between tokens, and meta says `tokens = "blanks"`.
Tags without a type (B, I, O) get the label named in the options.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from osler.formats.base import Loss, Problems, strict_unless
from osler.formats.output import DISCONTINUOUS, META, RENAMED, only_documents, output_file, unheld
from osler.formats.sources import Source, SourceTree, opened
from osler.formats.tokens import TOKENS, respaced, token_ranges
from osler.text.document import Document, Record, Span
from osler.text.tags import Repair, Scheme, chunks, spans_to_tags

_MARK = re.compile(r"-DOCSTART-(?:[\t ]+(\S+).*)?|###\w+:(.*)")
_TAG = re.compile(r"[BIES]-.+|O")
_LABEL = re.compile(r"[^\s]+")


@dataclass
class _Sentence:
    line: int
    tokens: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Conll:
    """Token and tag columns; `scheme` is how the writer tags, the reader sees it in the tags."""

    name: str = "conll"
    description: str = "CoNLL columns: token and BIO or BIOES tag, 2 or more columns"
    suffixes: tuple[str, ...] = (".conll", ".iob", ".iob2", ".bio", ".tsv")
    layout: Literal["file", "folder"] = "file"
    label: str = "MENTION"
    unit: Literal["auto", "sentence", "document"] = "auto"
    scheme: Literal["BIO", "BIOES"] = "BIO"

    def detect(self, source: Source) -> bool:
        """Whether the first lines of a file are tokens with tags."""
        with opened(source) as tree:
            names = self._names(tree)
            lines = [line for line in tree.head(names[0], 6) if not _MARK.fullmatch(line)] if names else []
            tags = [columns[-1] for columns in map(_columns, lines) if len(columns) > 1]
            return bool(lines) and len(tags) == len(lines) and all(_TAG.fullmatch(_typed(t, "X")) for t in tags)

    def _names(self, tree: SourceTree) -> list[str]:
        return (
            tree.names(*(f"*{s}" for s in self.suffixes))
            or tree.names("*.txt")
            or (list(tree) if len(tree) == 1 else [])
        )

    def read(self, source: Source, *, problems: Problems | None = None) -> Iterator[Document]:
        """Yield a document for each sentence or, where the file marks them, each document."""
        found = strict_unless(problems)
        with opened(source) as tree:
            for name in self._names(tree):
                stem = name.rsplit(".", 1)[0] if "." in name.rsplit("/", 1)[-1] else name
                for number, (document_id, sentences) in enumerate(self._groups(tree, name, found), 1):
                    yield _document(document_id or f"{stem}-{number}", sentences, tree, name, found)

    def _groups(self, tree: SourceTree, name: str, problems: Problems) -> Iterator[tuple[str, list[_Sentence]]]:
        """The sentences of each document with the id its mark gives."""
        whole = self.unit == "document"
        document_id, group = "", list[_Sentence]()
        for item in self._sentences(tree, name, problems):
            if isinstance(item, _Sentence):
                group.append(item)
                if whole:
                    continue
            elif self.unit == "auto":
                whole = True
            if group:
                yield document_id, group
            document_id, group = (item if whole and isinstance(item, str) else ""), []
        if group:
            yield document_id, group

    def _sentences(self, tree: SourceTree, name: str, problems: Problems) -> Iterator[_Sentence | str]:
        """The sentences of a file, and the ids on the marks between its documents."""
        sentence: _Sentence | None = None
        for number, line in tree.lines(name):
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
            if len(columns) < 2 or not columns[0] or not _TAG.fullmatch(tag):
                problems.report("malformed-line", "not a token and a tag", where=tree.where(name, number))
                continue
            sentence = sentence or _Sentence(number)
            sentence.tokens.append(columns[0])
            sentence.tags.append(tag)
        if sentence:
            yield sentence

    def write(self, records: Iterable[Record], path: Path) -> Loss:
        """Write one file; each document begins with `-DOCSTART-` and its id."""
        losses: Counter[str] = Counter()
        with output_file(path) as stream:
            for record in records:
                if (document := only_documents(record, losses)) is None:
                    continue
                losses.update(unheld(document, {"spans", DISCONTINUOUS, META}))
                losses[META] += len(document.meta.keys() - TOKENS.keys())
                flat = respaced(document, losses, empty_lines=False)
                if not flat.text:
                    losses["documents without a word"] += 1
                    continue
                name = re.sub(r"\s+", "_", document.id)
                name = name if name not in ("", "-X-", "O") else "document"
                losses[RENAMED] += name != document.id
                stream.write(f"-DOCSTART-\t{name}\tO\n\n".encode())
                for token, tag in _tagged(flat, Scheme[self.scheme], losses):
                    stream.write(f"{token}\t{tag}\n".encode() if token else b"\n")
        return Loss(+losses)


def _columns(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else line.split(" ")


def _typed(tag: str, label: str) -> str:
    return f"{tag}-{label}" if tag in ("B", "I", "E", "S") else tag


def _document(
    document_id: str, sentences: list[_Sentence], tree: SourceTree, name: str, problems: Problems
) -> Document:
    spans: list[Span] = []
    offset = 0
    for sentence in sentences:
        edges = []
        for token in sentence.tokens:
            edges.append((offset, offset + len(token)))
            offset += len(token) + 1
        # In BIOES every mention ends in E or S, so a sentence with mentions shows which scheme it is in.
        scheme = Scheme.BIOES if any(tag[0] in "ES" for tag in sentence.tags) else Scheme.BIO
        mentions = chunks(sentence.tags, scheme, Repair.CONLLEVAL)
        if mentions and mentions != chunks(sentence.tags, scheme, Repair.STRICT):
            proper = set(chunks(sentence.tags, scheme, Repair.STRICT))
            for first, _, _ in (mention for mention in mentions if mention not in proper):
                detail = "a tag continues a mention that is not there"
                problems.report("improper-tag", detail, where=tree.where(name, sentence.line + first))
        for first, last, label in mentions:
            spans.append(Span.at(edges[first][0], edges[last - 1][1], label, id=f"T{len(spans) + 1}"))
    text = "\n".join(" ".join(sentence.tokens) for sentence in sentences)
    return Document(document_id, text, tuple(spans), meta=TOKENS)


def _tagged(document: Document, scheme: Scheme, losses: Counter[str]) -> Iterator[tuple[str, str]]:
    """Each token with its tag; a pair of empty strings ends a sentence."""
    text = document.text
    start = 0
    everything = token_ranges(document.with_(meta=TOKENS))
    placed = 0
    for line in text.split("\n"):
        end = start + len(line)
        inside = [span for span in document.spans if start <= span.start and span.end <= end]
        placed += len(inside)
        tokens = [edge for edge in everything if start <= edge[0] < end]
        result = spans_to_tags(inside, tokens, scheme)
        # Two spans inside one word become the same span when they are widened to it.
        losses["overlapping spans"] += len(inside) - len({span.key for span in inside})
        for span in result.unexpressed:
            losses[DISCONTINUOUS if span.discontinuous else "overlapping spans"] += 1
        losses["discontinuous spans joined"] += sum(span.discontinuous for span in result.inexact)
        for (first, last), tag in zip(tokens, result.tags, strict=True):
            yield text[first:last], re.sub(r"\s+", "_", tag)
        yield "", ""
        start = end + 1
    losses["spans across lines"] += len(document.spans) - placed


FORMAT = Conll()
