"""What a user reads after a run over bad input: what was skipped, where, why and what to do. The rest is in the corpus."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from osler.core.errors import InputError
from osler.stages.corpus import inputs

TEXT = "The patient was seen in clinic and reports no new symptoms, number "
MARK = "Zebedee4711"
DAMAGED = "the compressed file is damaged or truncated"
AGAIN = "Copy or download it again"
ENCODING = "Convert the file to UTF-8, or give its encoding, often --encoding latin-1 or cp1252 (in a recipe: the source's encoding)"
UTF16 = "It looks like UTF-16: convert the file to UTF-8. Plain text and tables can also be read with --encoding utf-16"
QUOTES = "Double the quotes inside quoted cells, or set options.quote or options.escape"
NAMES = "Name the column with the text: --text-field, or text_field in the source"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder `raw` with a good file, `good.jsonl`."""
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "good.jsonl").write_text(json.dumps({"id": "g", "text": f"{TEXT}0"}))
    return tmp_path / "raw"


@pytest.fixture
def warnings(build, folder: Path, capfd) -> Callable[..., list[str]]:
    """The warnings of a run over a source and the good file. It must end well; with `strict` it must not."""

    def read(*sources: object, **options: object) -> list[str]:
        given = [item if isinstance(item, dict) else folder / str(item) for item in sources]
        build(*given, folder / "good.jsonl", **options)
        said = capfd.readouterr().err
        assert MARK not in said
        with pytest.raises(InputError) as refused:
            build(*given, folder / "good.jsonl", strict=True, **options)
        assert MARK not in str(refused.value)
        return [line.removeprefix("warning: ") for line in said.splitlines() if line.startswith("warning: ")]

    return read


def many() -> bytes:
    """Lines that do not compress well: a half of the compressed bytes is about a half of the lines."""
    chance = random.Random(4)
    rows = ({"id": n, "text": f"{TEXT}{n}, {chance.randbytes(300).hex()}"} for n in range(8000))
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def zipped(data: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("notes.jsonl", data)
    return packed.getvalue()


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zst"])
def test_a_truncated_file_is_read_up_to_the_damage(build, folder: Path, documents, warnings, ending: str) -> None:
    compress = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lambda data: lzma.compress(data, preset=0)}.get(ending)
    data = compress(many()) if compress else pytest.importorskip("zstandard").compress(many())
    (folder / f"notes.jsonl.{ending}").write_bytes(data[: len(data) // 2])
    [line] = warnings(f"notes.jsonl.{ending}")
    last = int(line.split(":")[1].split()[0])
    assert (
        line == f"skipped notes.jsonl.{ending}:{last} (notes): {DAMAGED}; it cannot be read from this line on. {AGAIN}"
    )
    assert 1000 < last < 7000
    found = documents(build(folder / f"notes.jsonl.{ending}"))
    assert len(found) == last - 1


def test_a_truncated_archive_does_not_stop_the_other_files(build, folder: Path, warnings, documents) -> None:
    (folder / "notes.zip").write_bytes(zipped(many())[:-1000])
    assert warnings("notes.zip") == [f"skipped notes.zip (raw): {DAMAGED}. {AGAIN}", "source raw: no documents"]
    with pytest.raises(InputError, match=rf"notes\.zip: {DAMAGED}\. {AGAIN}"):
        build(folder / "notes.zip")


def test_a_damaged_member_of_an_archive(folder: Path, warnings) -> None:
    data = bytearray(zipped(many()))
    data[len(data) // 2 : len(data) // 2 + 1000] = b"\xff" * 1000
    (folder / "notes.zip").write_bytes(data)
    # Before it, lines that the damage changed. However many there are, the last one is shown: it says why.
    [line] = [line for line in warnings("notes.zip") if DAMAGED in line]
    assert line.startswith("skipped notes.zip/notes.jsonl:")
    assert line.endswith(f" (notes): {DAMAGED}; it cannot be read from this line on. {AGAIN}")


def pubmed(*records: str) -> str:
    """A PubMed file, one record a line."""
    return "\n".join(["<PubmedArticleSet>", *records, "</PubmedArticleSet>"])


def citation(number: int, text: str = TEXT) -> str:
    return (
        f"<MedlineCitation><PMID>{number}</PMID><Article><ArticleTitle>Title</ArticleTitle><Abstract><AbstractText>"
        f"{text}{number}</AbstractText></Abstract></Article></MedlineCitation>"
    )


def test_broken_xml_in_the_middle_of_a_file_costs_one_record(build, folder: Path, documents, warnings) -> None:
    broken = citation(300, f"{MARK} <b>").removesuffix("</Abstract></Article></MedlineCitation>")
    text = pubmed(*map(citation, range(300)), broken, *map(citation, range(301, 600)))
    (folder / "a.xml").write_text(text)
    [line] = warnings("a.xml")
    place = f"row 301, byte {text.index('<MedlineCitation><PMID>300<'):,}"
    assert line == f"skipped a.xml, {place} (raw): not well-formed XML (tag name mismatch), line 302"
    assert len(documents(build(folder / "a.xml"))) == 599


def test_xml_that_is_none(folder: Path, warnings) -> None:
    (folder / "a.xml").write_bytes(b"")
    assert warnings("a.xml") == ["skipped a.xml, byte 0 (raw): the file is not XML", "source raw: no documents"]


def test_rows_of_a_table(build, folder: Path, documents, warnings) -> None:
    rows = ["id,patient,text", *(f'{n},p,"{TEXT}{n}\nof, course"' for n in (1, 2)), f'3,p,"{TEXT}\0 3"', "4,p"]
    rows += [f'5,p,"{TEXT}5","{MARK}"', f'6,p,"{TEXT}{MARK} is open', *(f'{n},p,"{TEXT}{n}"' for n in (7, 8))]
    text = "\n".join(rows)
    (folder / "notes.csv").write_text(text)
    places = [f"row {row}, byte {text.index(start)}" for row, start in ((7, "4,p\n"), (8, "5,p,"), (9, "6,p,"))]
    assert warnings("notes.csv") == [
        f"skipped notes.csv, {places[0]} (notes): the row has 2 cells, not 3. {QUOTES}",
        f"skipped notes.csv, {places[1]} (notes): the row has 4 cells, not 3",
        f"skipped notes.csv, {places[2]} (notes): a quote in this row is missing or misplaced",
    ]
    found = documents(build(folder / "notes.csv"))
    assert [row["id"] for row in found] == ["1", "2", "3", "7", "8"]
    assert found[0]["text"] == f"{TEXT}1\nof, course"
    assert found[2]["text"] == f"{TEXT} 3"


@pytest.mark.parametrize(
    ("name", "data", "reason", "fix"),
    [
        (
            "a.txt",
            f"{TEXT}\n{MARK} años".encode("latin-1"),
            "2 (raw): byte 14 of this line is not valid utf-8",
            ENCODING,
        ),
        ("a.txt", f"{MARK} – “x” €".encode("cp1252"), "1 (raw): byte 13 of this line is not valid utf-8", ENCODING),
        ("a.txt", f"{MARK} año".encode("utf-16"), "1 (raw): byte 1 of this line is not valid utf-8", UTF16),
        ("a.txt", f"{MARK} año".encode("utf-16-le"), "1 (raw): byte 27 of this line is not valid utf-8", UTF16),
        ("a.jsonl", f'{{"text": "{MARK}"}}'.encode("utf-16"), "1 (a): byte 1 of this line is not valid utf-8", UTF16),
        ("a.csv", f"id,text\n1,{MARK}".encode("utf-16"), "1 (a): the first line is not valid utf-8", UTF16),
        ("a.csv", f"id,text\n1,{MARK}".encode("utf-16-be"), "1 (a): the first line is not valid utf-8", UTF16),
    ],
)
def test_another_encoding(folder: Path, warnings, name: str, data: bytes, reason: str, fix: str) -> None:
    (folder / name).write_bytes(data)
    source = "raw" if name == "a.txt" else "a"
    assert warnings(name) == [f"skipped {name}:{reason}. {fix}", f"source {source}: no documents"]


def test_lines_of_two_bytes_are_refused_by_name(build, folder: Path) -> None:
    with pytest.raises(
        InputError, match=r"good\.jsonl: the reader jsonl does not support utf-16\. Convert it to UTF-8"
    ):
        build({"files": [str(folder / "good.jsonl")], "encoding": "utf-16"})


def test_some_lines_are_in_another_encoding(folder: Path, warnings) -> None:
    lines = [f"{TEXT}uno años".encode(), f"{TEXT}dos años {MARK}".encode("latin-1"), f"{TEXT}tres ñ".encode()]
    (folder / "a.txt").write_bytes(b"\n".join(lines))
    [line] = warnings({"files": [str(folder / "a.txt")], "unit": "line"})
    assert line == f"skipped a.txt:2 (a): byte {len(TEXT) + 6} of this line is not valid utf-8. {ENCODING}"


def test_sources_that_give_nothing(folder: Path, warnings) -> None:
    (folder / "empty.jsonl").write_bytes(b"")
    (folder / "short.jsonl").write_text('{"text": "short"}\n{"text": "Short"}\n')
    (folder / "blank.txt").write_text(" \n")
    assert warnings("empty.jsonl", "short.jsonl", "blank.txt") == [
        "source empty: no documents",
        "source short: all 2 documents were removed: length.min_characters (2)",
        "source raw: the only document was removed: empty (1)",
    ]


def test_nothing_at_all_names_filters_to_relax_and_nothing_else(build, folder: Path, jsonl) -> None:
    path = jsonl([{"text": "short"}, {"text": TEXT, "licence": "none"}, [1]])
    message = r"all 2 documents were removed: length.min_characters \(1\), licences \(1\), and 1 could not be read\. "
    with pytest.raises(InputError, match=message + r"Relax filters\.length\.min_characters with --set, or give other"):
        build(
            {"files": [str(path)], "facts": {"licence": "licence"}, "licence": "CC0"},
            licences=["CC0"],
            out=folder / "c",
        )
    assert not (folder / "c").exists()


def test_files_that_cannot_be_opened(build, folder: Path, documents, warnings) -> None:
    """Permissions do not stop root, who may run this: a loop of links cannot be opened by anyone."""
    (folder / "loop.jsonl").symlink_to("loop.jsonl")
    (folder / "gone.jsonl").symlink_to("nowhere.jsonl")
    (folder / "folder.jsonl").mkdir()
    (folder / "folder.jsonl" / "in.jsonl").write_text(json.dumps({"text": f"{TEXT}1"}))
    assert warnings("*.jsonl") == [
        "skipped gone.jsonl (gone): no such file. Check the path",
        "skipped loop.jsonl (loop): cannot be read: Too many levels of symbolic links. Check the file and its permissions",
        "source gone: no documents",
        "source loop: no documents",
        f"source {folder / 'good.jsonl'}: no files to read, or only files of an earlier source",
    ]
    # A folder is read whatever its name, without links that lead nowhere.
    assert [row["id"] for row in documents(build(folder))] == ["g", "folder.jsonl/in.jsonl:1"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission(folder: Path, warnings) -> None:
    (folder / "secret.jsonl").write_text(json.dumps({"text": TEXT}))
    (folder / "secret.jsonl").chmod(0)
    problem = "cannot be read: Permission denied. Check the file and its permissions"
    assert warnings("secret.jsonl") == [f"skipped secret.jsonl (secret): {problem}", "source secret: no documents"]


def test_a_parquet_file_without_the_column(folder: Path, warnings) -> None:
    pq.write_table(pa.table({"note": [f"{TEXT}{MARK}"]}), folder / "a.parquet")
    assert warnings("a.parquet") == [
        f"skipped a.parquet (a): the file has no column 'text'. {NAMES}",
        "source a: no documents",
    ]


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "txt", "csv"])
def test_a_huge_line_is_not_read_into_memory(
    build, folder: Path, documents, warnings, monkeypatch, ending: str
) -> None:
    """Lines of more than 64 MB, here 1 MB; a table gives up a row of 16 MB."""
    monkeypatch.setattr(inputs, "LONGEST", 1 << 20)
    monkeypatch.setattr(inputs, "_BLOCK", 1 << 18)
    monkeypatch.setattr("osler.stages.corpus.csv_rows._LONGEST_ROW", 1 << 20)
    rows = [{"id": n, "text": f"{TEXT}{n}" if n != 2 else MARK * 250_000} for n in (1, 2, 3)]
    path = folder / f"a.{ending}"
    if ending == "csv":
        path.write_text("id,text\n" + "".join(f"{row['id']},{row['text'].replace(',', '')}\n" for row in rows))
        place, reason = f"row 3, byte {len(TEXT) + 11}", f"a quote in this row is missing or misplaced. {QUOTES}"
        assert warnings(f"a.{ending}") == [f"skipped a.csv, {place} (a): {reason}"]
        assert [row["row"] for row in documents(build(path))] == [2, 4]
        return
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    fix = "A line is a document, and so is a file of plain text: cut it, or set --unit line or block"
    if ending == "txt":
        said = [f"skipped a.txt:1 (raw): a document of more than 1 MB. {fix}", "source raw: no documents"]
        assert warnings("a.txt") == said
        return
    assert warnings(f"a.{ending}") == [f"skipped a.{ending}:2 (a): a document of more than 1 MB. {fix}"]
    assert [row["row"] for row in documents(build(path))] == [1, 3]


def test_ids_that_are_not_unique_or_not_plain_are_kept(build, folder: Path, documents) -> None:
    keys = ["same", "same", "two\nlines", "with/slash"]
    for file in ("a", "b"):
        rows = ({"id": key, "text": f"{TEXT}{file}{n}"} for n, key in enumerate(keys))
        (folder / f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = documents(build(folder / "a.jsonl", folder / "b.jsonl"))
    assert [(row["id"], row["source"]) for row in found] == [(key, file) for file in "ab" for key in keys]


def test_a_corpus_that_was_there_is_left_alone(build, folder: Path) -> None:
    out = folder / "corpus"
    build(folder / "good.jsonl", out=out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    (folder / "good.jsonl").write_bytes(gzip.compress(b"{}")[:10])
    for strict in (False, True):
        with pytest.raises(InputError):
            build(folder / "good.jsonl", out=out, force=True, strict=strict)
        assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
