"""Damage valid input of every reader and see that it is read, or refused with an error that names the file.

Every format in the registry takes part, and every reader of corpora: a new one is fuzzed without a line here. What could be
read is written again, with a writer chosen at random. A few seconds of this run with the tests; a long run is

    python tests/fuzzing.py --inputs 10000 [--seed 0] [NAME ...]
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import lzma
import random
import re
import shutil
import signal
import sys
import tarfile
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from osler.core.errors import OslerError
from osler.core.extras import available
from osler.formats.archives import Entry, Limits
from osler.formats.base import Problems
from osler.formats.mimic import HEADER, line
from osler.formats.registry import FORMATS, OUTPUT_FORMATS, get_format
from osler.formats.sources import SourceTree
from osler.stages.corpus.clean import bad_record_error
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import BadRecord, InputFile, RawDocument
from osler.stages.corpus.readers import READERS
from osler.text.document import Document, Record, Relation, Span, TextPair

SECONDS = 5.0
"""Processor time that one input may take; on the clock, it would depend on what else the machine does."""
SECRET = "zzcanary"
"""A word of every text, which no message may quote."""

Files = Mapping[str, bytes]
_ROOT = Path("fuzzed-input")


@dataclass(frozen=True)
class Subject:
    """One reader with a valid input. `read` yields records, or None where the reader gives something else."""

    name: str
    files: Files
    read: Callable[[Files, Problems | None, Path], Iterable[Record | None]]


@dataclass
class Findings:
    """What a run over one subject found: inputs that were read or refused, and the failures, each once with its count."""

    inputs: int = 0
    read: int = 0
    refused: int = 0
    slowest: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def fail(self, key: str, example: str) -> None:
        self.failures[key] += 1
        self.examples.setdefault(key, example)


# Valid input --------------------------------------------------------------------------------------------------------

_TEXT = f"{SECRET} took aspirin 81 mg daily .\nNo {SECRET} fever since 12 de año ."
_NOTES = [
    Document(
        f"n{number}",
        _TEXT,
        (
            Span.at(0, 8, "GENE", id="T1", attributes={"concept": "C1", "code": "c1", "assertion": "present"}),
            Span.at(14, 21, "GENE", id="T2", attributes={"concept": "C2"}),
            Span(((35, 37), (47, 52)), "Species", "T3", attributes={"note": "n"}),
        ),
        (Relation("CPR:4", "T1", "T2", "R1", attributes={"evaluated": "Y"}),),
        ("D:c1",),
        value=1.5,
        meta={"tokens": "blanks", "title_length": "34", "pmid": "7"},
    )
    for number in (1, 2)
]
_PAIR_META = {"type": "Comparison", "section": "Results", "primary": "NCT1", "secondary": "NCT2", "primary_lines": "1"}
_PAIRS = [
    TextPair(
        f"p{number}", f"He has {SECRET}.\nNone 2.", f"{SECRET} again?", labels=("yes",), value=2.0,
        meta={**_PAIR_META, "primary_evidence": "0 1"},
    )
    for number in (1, 2)
]  # fmt: skip


def _written(name: str) -> Files:
    """The files that a format writes for the sample records."""
    format_ = get_format(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("out" if format_.layout == "folder" else f"out{format_.suffixes[0]}")
        loss = format_.write([*_NOTES, *_PAIRS] if name == "jsonl" else _NOTES, path)
        if loss.counts.get("documents") or not _in_memory(_files_of(path)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            format_.write(_PAIRS, path)
        return _files_of(path)


def _files_of(path: Path) -> dict[str, bytes]:
    if path.is_file():
        return {path.name: path.read_bytes()}
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def _in_memory(files: Files) -> SourceTree:
    def entry(data: bytes) -> Entry:
        return Entry(lambda: cast(Any, io.BufferedReader(cast(Any, io.BytesIO(data)))), len(data))

    return SourceTree(_ROOT, {name: entry(data) for name, data in files.items()})


def _format(name: str) -> Subject:
    def read(files: Files, problems: Problems | None, _: Path) -> Iterator[Record]:
        return get_format(name).read(_in_memory(files), problems=problems)

    return Subject(name, _written(name), read)


def _archive(name: str) -> Subject:
    files = _written("brat")

    def read(packed: Files, problems: Problems | None, folder: Path) -> Iterator[Record]:
        path = folder / _ROOT / name
        path.parent.mkdir(parents=True)
        path.write_bytes(packed.get(name, b""))
        limits = Limits(expanded=1 << 22, in_memory=1 << 16)
        with SourceTree.open(path, limits) as tree:
            yield from get_format("brat").read(tree, problems=problems)

    return Subject(f"archive {name}", {name: _packed(name, files)}, read)


def _packed(name: str, files: Files) -> bytes:
    data = io.BytesIO()
    if name.endswith(".zip"):
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
            for inner, content in files.items():
                archive.writestr(inner, content)
    else:
        with tarfile.open(fileobj=data, mode=f"w:{name.rpartition('.')[2]}".replace(":tar", ":")) as tar:  # type: ignore[call-overload]
            for inner, content in files.items():
                member = tarfile.TarInfo(inner)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return data.getvalue()


def _corpus_reader(name: str) -> Subject:
    reader = READERS.get(name)
    file_name = f"notes{reader.endings[0] if reader.endings else '.es'}"
    source = CorpusSource(files=(file_name,)).read_by(name)

    def read(files: Files, problems: Problems | None, folder: Path) -> Iterator[None]:
        path = folder / _ROOT / file_name
        path.parent.mkdir(parents=True)
        path.write_bytes(files.get(file_name, b""))
        file = InputFile(path, file_name, 0, "notes", name, path.stat().st_size)
        bad = None
        for part in reader.cut(file, source, 64):
            for record in reader.read(part, source):
                if isinstance(record, RawDocument):
                    record.text.encode("utf-8", "surrogatepass")
                elif isinstance(record, BadRecord):
                    bad = bad or record
                yield None
        if bad:  # reading went on after it; the file counts as refused all the same
            raise bad_record_error(path, bad.row, bad.byte, bad.reason, bad.fix)

    return Subject(f"corpus {name}", {file_name: _corpus_file(name)}, read)


def _corpus_file(name: str) -> bytes:
    rows = [{"id": f"n{number}", "text": _TEXT, "age": number} for number in range(4)]
    if name == "wikipedia":
        text = f"<title>{SECRET}</title>\n<ns>0</ns>\n<revision>\n<text>{_TEXT}</text>\n</revision>"
        return "".join(["<mediawiki>\n", f"<page>\n{text}\n</page>\n" * 3, "</mediawiki>\n"]).encode()
    if name == "jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    if name == "parquet":
        import pyarrow
        import pyarrow.parquet

        data = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), data)
        return data.getvalue()
    if name == "jats":
        article = f"<front><article-meta><title-group><article-title>{SECRET}</article-title></title-group></article-meta></front>"
        return f"<article>\n{article}\n<body><p>{_TEXT}</p></body>\n</article>\n".encode()
    if name == "medlineplus":
        topic = f'<health-topic id="1" title="{SECRET}" language="English">\n<full-summary>{_TEXT}</full-summary>\n'
        return f"<health-topics>\n{topic}</health-topic>\n</health-topics>\n".encode()
    if name == "pubmed":
        article = f"<ArticleTitle>{SECRET}</ArticleTitle><Abstract><AbstractText>{_TEXT}</AbstractText></Abstract>"
        citation = f'<MedlineCitation><PMID Version="1">7</PMID><Article>{article}</Article></MedlineCitation>'
        records = f"<PubmedArticle>\n{citation}\n</PubmedArticle>\n" * 3
        return f"<PubmedArticleSet>\n{records}</PubmedArticleSet>\n".encode()
    if name == "mimic":
        return HEADER + b"".join(line({"ROW_ID": row["id"], "TEXT": row["text"]}) for row in rows)
    if name == "patents":
        return "".join(json.dumps(row | {"abstract": _TEXT, "ipc": "A61K"}) + "\n" for row in rows).encode()
    if name == "warc":
        kind, content = "WARC-Type: conversion\r\nContent-Type: text/plain", _TEXT.encode()
        if available("trafilatura"):
            kind, content = "WARC-Type: response", b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>" + content
        head = f"WARC/1.0\r\n{kind}\r\nContent-Length: {len(content)}\r\n\r\n".encode()
        return (head + content + b"\r\n\r\n") * 3
    if name == "table":
        return b"id,text,age\n" + b"".join(f'{row["id"]},"{_TEXT}",{row["age"]}\n'.encode() for row in rows)
    return _TEXT.encode()


def subjects() -> dict[str, Subject]:
    """Every reader, by name."""
    found = [_format(name) for name in FORMATS.names()]
    found += [_archive(name) for name in ("x.zip", "x.tar", "x.tar.gz", "x.tar.xz")]
    found += [_corpus_reader(name) for name in READERS.names()]
    return {subject.name: subject for subject in found}


# Damage -------------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_STRING = re.compile(rb'"[^"\n]*"')
_NUMBERS = [
    "²",
    "٣",
    "9" * 5000,
    "-1",
    "1e999",
    "nan",
    "Infinity",
    "0x10",
    "1_0",
    "999999999999",
    "2147483648",
    "",
    "1.5",
    "00",
]
_BYTES = [0, 9, 10, 13, 32, 34, 38, 45, 58, 59, 60, 91, 92, 124, 0xC3, 0xE2, 0xED, 0xFF]
_PIECES = [
    "\u200f", "\u202e", "\u2028", "\u0085", "\ufeff", "e\u0301", "\U0001f600", "漢字", "\t", "\r\n", "||", '"', "-DOCSTART-",
    "<![CDATA[", "]]>", "&#0;", "&#xD800;", "&lt;", "\\ud800", "\\u0000", "\\", "{}", "null", "%00", "../", "B-X", "L-X", "T1",
]  # fmt: skip
_DEEP = 20_000
_VALUES = [
    b"null", b"true", b"[]", b"{}", b"[[]]", b"-0", b"1e999", b"NaN", b'""', b'"\\ud800"', b'"\\u0000"', b"9" * 5000,
    b"[" * _DEEP, b"[" * _DEEP + b"]" * _DEEP, b'{"a":' * _DEEP + b"1" + b"}" * _DEEP,
]  # fmt: skip


def _spliced(data: bytes, match: re.Match[bytes], new: bytes) -> bytes:
    return data[: match.start()] + new + data[match.end() :]


def _number(rng: random.Random, data: bytes) -> bytes:
    found = list(_NUMBER.finditer(data))
    return _spliced(data, rng.choice(found), rng.choice(_NUMBERS).encode()) if found else data


def _digit(rng: random.Random, data: bytes) -> bytes:
    found = list(re.finditer(rb"\d", data))
    return _spliced(data, rng.choice(found), rng.choice(["²", "٣", "9", "-", "", "00"]).encode()) if found else data


def _json_value(rng: random.Random, data: bytes) -> bytes:
    found = [*_STRING.finditer(data), *_NUMBER.finditer(data)]
    return _spliced(data, rng.choice(found), rng.choice(_VALUES)) if found else data


def _cut(rng: random.Random, data: bytes) -> bytes:
    first, last = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return rng.choice([data[:first], data[first:], data[:first] + data[last:]])


def _flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        if changed:
            changed[rng.randrange(len(changed))] = rng.choice([*_BYTES, rng.randrange(256)])
    return bytes(changed)


def _insert(rng: random.Random, data: bytes) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice(_PIECES).encode() + data[place:]


def _lines(rng: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.choice(["remove", "repeat", "swap", "many"])
    if kind == "remove":
        del lines[first]
    elif kind == "repeat":
        lines.insert(second, lines[first])
    elif kind == "swap":
        lines[first], lines[second] = lines[second], lines[first]
    else:
        lines[first:first] = [lines[first]] * min(300, _LARGE // len(lines[first]))
    return b"".join(lines)


def _columns(rng: random.Random, data: bytes) -> bytes:
    """Remove, repeat or swap a cell of a line."""
    separator = rng.choice([b"\t", b" ", b",", b"|", b'"', b":"])
    cells = data.split(separator)
    first, second = rng.randrange(len(cells)), rng.randrange(len(cells))
    kind = rng.choice(["remove", "repeat", "swap", "empty"])
    if kind == "remove":
        del cells[first]
    elif kind == "repeat":
        cells.insert(first, cells[first])
    elif kind == "swap":
        cells[first], cells[second] = cells[second], cells[first]
    else:
        cells[first] = b""
    return separator.join(cells)


def _encoding(rng: random.Random, data: bytes) -> bytes:
    text = data.decode("utf-8", "replace")
    encodings = ["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "cp1252"]
    return rng.choice(
        [text.encode(rng.choice(encodings), "replace"), data.replace(b"\n", rng.choice([b"\r\n", b"\r"]))]
    )


def _swap_endings(rng: random.Random, data: bytes) -> bytes:
    packer = rng.choice([gzip.compress, lzma.compress, lambda content: content * 40, lambda content: b""])
    return packer(data)


_LARGE = 1 << 18
"""Bytes beyond which a file is damaged no further: some defects multiply it."""
_DAMAGE: list[Callable[[random.Random, bytes], bytes]] = [
    _number, _number, _digit, _json_value, _cut, _flip, _flip, _insert, _lines, _columns, _encoding, _swap_endings,
]  # fmt: skip


def damaged(rng: random.Random, files: Files) -> Files:
    """The files with one to three defects; now and then one is missing, or has the content of another."""
    changed = dict(files)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        name = rng.choice(sorted(changed))
        roll = rng.random()
        if roll < 0.02 and len(changed) > 1:
            del changed[name]
        elif roll < 0.04:
            changed[name] = changed[rng.choice(sorted(changed))]
        elif len(changed[name]) < _LARGE:
            changed[name] = rng.choice(_DAMAGE)(rng, changed[name])
    return changed


# The run ------------------------------------------------------------------------------------------------------------


class _TooSlow(BaseException):
    """Not an Exception: no handler of the code under test may swallow it."""


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _TooSlow

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def fuzz(subject: Subject, inputs: int, seed: int = 0, seconds: float = SECONDS) -> Findings:
    """Read this many damaged inputs, each strictly and tolerantly, and write what was read."""
    findings = Findings()
    writers = [get_format(name) for name in (*FORMATS.names(), *OUTPUT_FORMATS.names())]
    with tempfile.TemporaryDirectory(dir=_SCRATCH) as scratch:
        for number in range(inputs):
            rng = random.Random(f"{seed} {subject.name} {number}")
            files = damaged(rng, subject.files)
            folder = Path(scratch) / str(number)
            begin = time.process_time()
            records: list[Record] = []
            refused = False
            for problems in (None, Problems()):
                place = folder / ("strict" if problems is None else "tolerant")
                with _watched(findings, f"input {number}", "read", str(_ROOT), seconds) as outcome:
                    records = [record for record in subject.read(files, problems, place) if record is not None]
                refused = refused or outcome.refused
            writer = rng.choice(writers)
            path = folder / ("out" if writer.layout == "folder" else f"out{writer.suffixes[0]}")
            with _watched(findings, f"input {number} to {writer.name}", f"write {writer.name}", str(path), seconds):
                writer.write(records, path)
            shutil.rmtree(folder, ignore_errors=True)
            findings.inputs += 1
            findings.refused += refused
            findings.read += not refused
            findings.slowest = max(findings.slowest, time.process_time() - begin)
    return findings


_SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None


@dataclass
class _Outcome:
    refused: bool = False


@contextmanager
def _watched(findings: Findings, example: str, kind: str, path: str, seconds: float) -> Iterator[_Outcome]:
    outcome = _Outcome()
    try:
        with _limit(seconds):
            yield outcome
    except OslerError as error:
        outcome.refused = True
        if path not in str(error):
            findings.fail(f"{kind}: no file in {type(error).__name__}: {error.problem[:60]}", example)
        if SECRET in str(error).lower():
            findings.fail(f"{kind}: document text in the message", example)
    except _TooSlow:
        outcome.refused = True
        findings.fail(f"{kind}: longer than {seconds:g} s", example)
    except Exception as error:
        outcome.refused = True
        place = next((f for f in reversed(traceback.extract_tb(error.__traceback__)) if "osler" in f.filename), None)
        where = f"{Path(place.filename).name}:{place.lineno}" if place else "?"
        findings.fail(f"{kind}: {type(error).__name__} at {where}", example)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="readers to fuzz; all by default")
    parser.add_argument("--inputs", type=int, default=10_000, help="damaged inputs per reader")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    found = subjects()
    total: Counter[str] = Counter()
    print("| reader | inputs | read | refused | slowest s | failures |\n|---|---|---|---|---|---|")
    for name in arguments.names or found:
        findings = fuzz(found[name], arguments.inputs, arguments.seed)
        failures = findings.failures.total()
        total.update(inputs=findings.inputs, failures=failures)
        cells = (name, f"{findings.inputs:,}", f"{findings.read:,}", f"{findings.refused:,}", f"{findings.slowest:.2f}")
        print(f"| {' | '.join(cells)} | {failures} |", flush=True)
        for key, count in findings.failures.most_common():
            print(f"  {count} x {key} ({findings.examples[key]})", file=sys.stderr, flush=True)
    print(f"\n{total['inputs']:,} inputs, {total['failures']:,} failures")
    return 1 if total["failures"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
