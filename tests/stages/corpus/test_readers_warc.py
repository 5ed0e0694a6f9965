"""Web crawls: records, HTTP bodies, character sets, and the text of pages."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from osler.stages.corpus.documents import BadRecord, LeftOut, RawDocument
from osler.stages.corpus.readers import warc

ReadAll = Callable[..., list[Any]]


@pytest.fixture
def tags_removed(monkeypatch) -> None:
    """An extractor that needs no package."""
    monkeypatch.setattr(warc, "_extractor", lambda name: lambda html: re.sub(r"<title>.*</title>|<[^>]*>", "", html))


def record(kind: str, content: bytes, address: str = "http://a.es/") -> bytes:
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {address}\r\nWARC-Date: 2020-01-02T03:04:05Z\r\n"
    plain = "Content-Type: text/plain\r\n" if kind == "conversion" else ""
    return f"{head}{plain}Content-Length: {len(content)}\r\n\r\n".encode() + content + b"\r\n\r\n"


def response(body: bytes, address: str = "http://a.es/", status: str = "200 OK", **headers: str) -> bytes:
    fields = {"Content-Type": "text/html"} | {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields.items())]
    return record("response", "\r\n".join(lines).encode() + b"\r\n\r\n" + body, address)


PAGE = b'<html lang="es-ES"><title>El &amp; asma</title><p>Tos</p></html>'
FACTS = {"date": "2020-01-02", "title": "El & asma", "language": "es"}


@pytest.mark.usefixtures("tags_removed")
def test_pages_of_a_crawl(tmp_path: Path, read_all: ReadAll) -> None:
    records = [
        record("warcinfo", b"software: x"),
        response(PAGE, "http://a.es/1"),
        record("request", b"GET / HTTP/1.1\r\n\r\n"),
        response(b"%PDF", "http://a.es/2", Content_Type="application/pdf"),
        response(PAGE, "http://a.es/3", status="404 Not Found"),
        record("conversion", b"plain text", "http://a.es/4"),
    ]
    expected = [
        RawDocument(2, "Tos", "http://a.es/1", FACTS),
        LeftOut(4, "warc.type", "http://a.es/2"),
        LeftOut(5, "warc.status", "http://a.es/3"),
        RawDocument(6, "plain text", "http://a.es/4", {"date": "2020-01-02"}),
    ]
    (tmp_path / "a.warc").write_bytes(b"".join(records))
    (tmp_path / "a.warc.gz").write_bytes(b"".join(map(gzip.compress, records)))
    assert read_all(tmp_path / "a.warc") == read_all(tmp_path / "a.warc.gz") == expected


@pytest.mark.usefixtures("tags_removed")
def test_the_licence_that_a_page_links_to(tmp_path: Path, read_all: ReadAll) -> None:
    links = [
        b'<a href="http://creativecommons.org/licenses/by-sa/3.0/es/" rel="license">x</a>',
        b"<link href=https://creativecommons.org/publicdomain/zero/1.0/ rel=license>",
        b'<a href="http://creativecommons.org/licenses/by/4.0/">of a picture</a>',
    ]
    (tmp_path / "a.warc").write_bytes(b"".join(response(PAGE + link) for link in links))
    licences = [document.facts.get("licence") for document in read_all(tmp_path / "a.warc")]
    assert licences == ["CC BY-SA 3.0", "CC0 1.0", None]


@pytest.mark.usefixtures("tags_removed")
@pytest.mark.parametrize(
    ("body", "headers"),
    [
        ("<p>Fármaco</p>".encode(), {}),
        ("<p>Fármaco</p>".encode("cp1252"), {}),
        ("<p>Fármaco</p>".encode("latin-1"), {"Content_Type": "text/html; charset=ISO-8859-1"}),
        ('<meta charset="iso-8859-15"><p>Fármaco</p>'.encode("latin-1"), {}),
        ("\ufeff<p>Fármaco</p>".encode("utf-16-le"), {}),
        ("<p>Fármaco</p>".encode(), {"Content_Type": "text/html; charset=base64"}),
        (gzip.compress("<p>Fármaco</p>".encode(), mtime=0), {"Content_Encoding": "gzip"}),
        ("<p>Fármaco</p>".encode(), {"Content_Encoding": "gzip"}),  # unpacked by the crawler
        (b"8;x=1\r\n<p>F\xc3\xa1rm\r\n7\r\naco</p>\r\n0\r\n\r\n", {"Transfer_Encoding": "chunked"}),
        ("<p>Fármaco</p>".encode(), {"Transfer_Encoding": "chunked"}),
    ],
)
def test_bodies_and_character_sets(tmp_path: Path, read_all: ReadAll, body: bytes, headers: dict[str, str]) -> None:
    (tmp_path / "a.warc").write_bytes(response(body, **headers))
    [page] = read_all(tmp_path / "a.warc")
    assert page.text == "Fármaco"


@pytest.mark.usefixtures("tags_removed")
def test_damaged_records_are_reported_and_the_others_read(tmp_path: Path, read_all: ReadAll, monkeypatch) -> None:
    good = response(PAGE)
    broken = good.replace(b"Content-Length", b"Length")
    data = [
        good,
        broken,
        good,
        record("response", b"no http"),
        response(b"\xff\x00", Content_Encoding="br"),
        good[:-40],
    ]
    (tmp_path / "a.warc").write_bytes(b"".join(data))
    found = read_all(tmp_path / "a.warc")
    starts = [len(b"".join(data[:index])) for index in range(len(data))]
    assert [item.row for item in found if isinstance(item, RawDocument)] == [1, 3]
    assert [(item.row, item.byte, item.reason) for item in found if isinstance(item, BadRecord)] == [
        (2, starts[1], "the record does not state its length"),
        (4, starts[3], "the record holds no HTTP response"),
        (5, starts[4], "the page is damaged, or its compression is not supported"),
        (6, starts[5], "the file ends inside this record"),
    ]
    monkeypatch.setattr(warc, "_LONGEST_PAGE", 10)
    (tmp_path / "b.warc").write_bytes(b"junk\n" + good)
    bad, long = read_all(tmp_path / "b.warc")
    assert (bad.byte, bad.reason, long) == (0, "no WARC record begins here", LeftOut(2, "warc.size", "http://a.es/"))


@pytest.mark.usefixtures("tags_removed")
def test_a_folder_of_pages(tmp_path: Path, read_all: ReadAll) -> None:
    (tmp_path / "a.html").write_bytes(PAGE)
    (tmp_path / "b.htm.gz").write_bytes(gzip.compress(b"<p>dos</p>", mtime=0))
    facts = {"title": "El & asma", "language": "es"}
    assert read_all(tmp_path) == [RawDocument(1, "Tos", "a.html", facts), RawDocument(1, "dos", "b.htm.gz", {})]


def test_a_page_that_breaks_the_extractor(tmp_path: Path, read_all: ReadAll, monkeypatch) -> None:
    monkeypatch.setattr(warc, "_extractor", lambda name: lambda html: [][1])
    (tmp_path / "a.html").write_bytes(PAGE)
    assert read_all(tmp_path / "a.html") == [BadRecord(1, None, "the page cannot be read as HTML")]


def test_main_text_keeps_lists_and_tables(tmp_path: Path, read_all: ReadAll) -> None:
    pytest.importorskip("trafilatura")
    sentence = "El asma es una enfermedad crónica que afecta a los pulmones de muchas personas. " * 3 + "Fin."
    (tmp_path / "a.html").write_text(
        f"<html><body><nav><ul><li><a href='/'>Inicio</a></li></ul></nav><main><h1>Asma</h1><p>{sentence}</p><ul><li>tos</li>"
        "<li>fiebre</li></ul><table><tr><th>Fármaco</th><th>Dosis</th></tr><tr><td>Salbutamol</td><td>100 mcg</td></tr>"
        f"</table><p>{sentence}</p></main><footer>Cookies</footer></body></html>"
    )
    [page] = read_all(tmp_path / "a.html")
    lines = ["Asma", sentence, "- tos", "- fiebre", "Fármaco | Dosis", "Salbutamol | 100 mcg", sentence]
    assert page.text.splitlines() == lines


@pytest.mark.realdata
def test_real_crawls(data_dir: Path, read_all: ReadAll) -> None:
    pytest.importorskip("trafilatura")
    folder = data_dir / "raw_formats" / "warc"
    plain, packed = (read_all(folder / f"example.warc{ending}") for ending in ("", ".gz"))
    assert [(item.id, item.facts["title"]) for item in plain] == [("http://example.com/", "Example Domain")]
    assert plain == packed
    assert "illustrative examples" in plain[0].text
    [page] = read_all(folder / "example-iana.org-chunked.warc")
    assert (page.id, page.facts["date"]) == ("http://www.iana.org/", "2017-03-06")
    assert page.text
