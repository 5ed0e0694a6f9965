"""Raw files of every kind that the papers' corpora are built from, as the recipes expect them below `raw/`.

The texts are made by the synthetic clinic. Where a folder with the public data is given, its real files are there too, and they stand
in place of synthetic ones for the two sources of clinical cases.

    PYTHONPATH=src python -m tests.raw_sources RAW --data DATA --pubmed FOLDER_OF_XML_GZ --documents 400
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from osler.clinic import abstracts, notes
from osler.clinic.labels import Language
from osler.clinic.synthesize import SynthesizeRecipe
from osler.clinic.synthesize import run as synthesize

WIKI_HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="es">
  <siteinfo>
    <namespaces>
      <namespace key="14" case="first-letter">Categoría</namespace>
    </namespaces>
  </siteinfo>
"""
MENU = (
    "<nav>" + "".join(f"<a href='/{name}'>{name}</a>" for name in ("Inicio", "Salud", "Citas", "Contacto")) + "</nav>"
)


def carrino(raw: Path, number: int, data: Path | None = None, pubmed: Path | None = None) -> None:
    """The ten sources of carrino2022, with about `number` documents in each synthetic one."""
    _crawl(raw / "medical-crawler", number, data)
    _cases(raw, number, data)
    for place, text in enumerate(texts("scielo", number)):
        write(raw / "scielo" / f"S{place:04}.xml", _jats(place, text, "es", english="An abstract in English."))
    _wikipedia(raw / "wikipedia-life-sciences", number)
    _patents(raw / "patents", number)
    _emea(raw / "emea", number)
    topics = [_topic(place, text, "Spanish") for place, text in enumerate(texts("medlineplus", number))]
    topics += [_topic(number, "The English side of a topic.", "English")]
    write(raw / "mespen-medlineplus" / "mplus_topics.xml", f"<health-topics>{''.join(topics)}</health-topics>")
    records = [
        citation(place, "An abstract in English.", other=text) for place, text in enumerate(texts("pubmed", number))
    ]
    pubmed_file(raw / "pubmed" / "baseline" / "pubmed26n0001.xml.gz", records)
    _ehr(raw / "ehr", number)
    if data is not None:
        for file in (data / "raw_formats" / "medlineplus_xml").glob("*.xml"):
            _copy(file, raw / "mespen-medlineplus")
    for file in _real_pubmed(data):
        _copy_packed(file, raw / "pubmed")
    for file in sorted(pubmed.glob("*.xml.gz")) if pubmed else ():
        _copy(file, raw / "pubmed" / "updatefiles")


def lewis(raw: Path, number: int, data: Path | None = None, pubmed: Path | None = None) -> None:
    """The three sources of lewis2020. Synthetic PubMed and PMC files are written only where no real ones are given."""
    synthesize(SynthesizeRecipe(task="mimic-iii-notes", n=number), raw / "mimic-iii")
    if data is None:
        articles = [_jats(place, text, "en").encode() for place, text in enumerate(texts("pmc", number, "en"))]
        english = list(texts("pubmed", number, "en"))
        first = [citation(place, text) for place, text in enumerate(english)]
        revised = [
            citation(0, f"{english[0]} Revised."),
            '<DeleteCitation><PMID Version="1">1</PMID></DeleteCitation>',
        ]
        pubmed_file(raw / "pubmed" / "baseline" / "pubmed26n0001.xml.gz", first)
        pubmed_file(raw / "pubmed" / "updatefiles" / "pubmed26n0002.xml.gz", revised)
    else:
        articles = [file.read_bytes() for file in sorted((data / "raw_formats" / "jats_nxml").glob("*.nxml"))]
        for file in _real_pubmed(data):
            _copy_packed(file, raw / "pubmed" / "baseline")
    for file in sorted(pubmed.glob("*.xml.gz")) if pubmed else ():
        _copy(file, raw / "pubmed" / "baseline")
    _tar(raw / "pmc" / "oa_comm_xml.PMC000xxxxxx.baseline.tar.gz", {f"PMC{k}.xml": a for k, a in enumerate(articles)})
    write(raw / "pmc" / "oa_comm_xml.PMC000xxxxxx.baseline.filelist.csv", "Article File,Article Citation\n")


def texts(name: str, number: int, language: Language = "es") -> Iterator[str]:
    """Abstracts of the synthetic clinic; no two sources share one."""
    return (document.text for document in abstracts(number, language=language, seed=sum(name.encode()), split="train"))


def _crawl(folder: Path, number: int, data: Path | None) -> None:
    """A WARC file of health pages with menus, a missing page and a picture; a file of pages in JSON Lines; real pages about the web."""
    pages = list(texts("crawl", number))
    half = len(pages) // 2
    records = [_response(f"https://salud.example/{place}", _page(text)) for place, text in enumerate(pages[:half])]
    records.append(_response("https://salud.example/no", _page("404"), status="404 Not Found"))
    records.append(_response("https://salud.example/foto.png", "PNG", kind="image/png"))
    write(folder / "crawl.warc.gz", b"".join(map(_packed, records)))
    # The last page copies the first of the other file, under another address.
    lines = [{"id": f"p{place}", "text": text} for place, text in enumerate([*pages[half:], pages[0]])]
    write(folder / "pages.jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    if data is not None:
        _copy(data / "raw_formats" / "warc" / "example.warc.gz", folder)


def _response(address: str, html: str, status: str = "200 OK", kind: str = "text/html; charset=utf-8") -> bytes:
    body = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n\r\n{html}".encode()
    head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {address}\r\nWARC-Date: 2020-01-02T03:04:05Z\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body + b"\r\n\r\n"


def _page(text: str) -> str:
    title, *paragraphs = text.split("\n")
    body = "".join(f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs if paragraph.strip())
    article = f"<main><article><h1>{escape(title)}</h1>{body}</article></main>"
    return f"<html lang='es'><head><title>{escape(title)}</title></head><body>{MENU}{article}<footer>Aviso legal</footer></body></html>"


def _cases(raw: Path, number: int, data: Path | None) -> None:
    """Clinical cases, and cases that share some of them: of the real ones, SPACCC is a part of the larger collection."""
    if data is not None:
        _copy(data / "pretrain_es" / "spanish_clinical.jsonl.xz", raw / "clinical-cases")
        with tarfile.open(data / "spaccc" / "spaccc_split.tar.xz") as archive:
            for member in archive:
                if (
                    "/original/" in member.name
                    and member.name.endswith(".txt")
                    and (file := archive.extractfile(member))
                ):
                    write(raw / "barr2-background" / Path(member.name).name, file.read())
        return
    cases = list(texts("cases", number))
    for place, text in enumerate(cases):
        write(raw / "clinical-cases" / f"case{place}.txt", text)
    for place, text in enumerate([*texts("sections", number - number // 4), *cases[: number // 4]]):
        write(raw / "barr2-background" / f"section{place}.txt", text.replace("pacientes", "enfermos"))


def _jats(number: int, text: str, language: str, english: str = "") -> str:
    title, *paragraphs = text.split("\n")
    body = "".join(f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs if paragraph.strip())
    translated = f'<trans-abstract xml:lang="en"><p>{english}</p></trans-abstract>' if english else ""
    return (
        f'<article xml:lang="{language}"><front><article-meta><article-id pub-id-type="doi">10.1/{number}</article-id><title-group>'
        f"<article-title>{escape(title)}</article-title></title-group>{translated}</article-meta></front><body><sec><title>1</title>{body}"
        "</sec></body><back><ref-list><ref><mixed-citation>Anonymous.</mixed-citation></ref></ref-list></back></article>"
    )


def _wikipedia(folder: Path, number: int) -> None:
    """A dump in which most articles are below the category of life sciences, at several depths and some by two ways."""
    levels = ["Ciencias de la vida", "Biología", "Medicina", "Enfermedades", "Virosis", "Gripe", "Demasiado abajo"]
    pages = [
        _wiki_page(k, f"Categoría:{name}", f"[[Categoría:{levels[k - 1]}]]" if k else "", 14)
        for k, name in enumerate(levels)
    ]
    for place, text in enumerate(texts("wikipedia", number), start=100):
        links = (
            f"[[Categoría:{levels[place % len(levels)]}]] [[Categoría:{'Biología' if place % 9 == 0 else 'Madrid'}]]"
        )
        pages.append(_wiki_page(place, f"Artículo {place}", f"'''Artículo'''<ref>x</ref> {text}\n{links}", 0))
    pages.append(_wiki_page(99, "Otro nombre", "#REDIRECCIÓN [[Artículo 100]]", 0, '<redirect title="Artículo 100" />'))
    write(folder / "eswiki-pages-articles.xml", WIKI_HEAD + "".join(pages) + "</mediawiki>\n")


def _wiki_page(number: int, title: str, markup: str, namespace: int, redirect: str = "") -> str:
    lines = ["<page>", f"<title>{title}</title>", f"<ns>{namespace}</ns>", f"<id>{number}</id>", redirect, "<revision>"]
    lines += ["<timestamp>2021-01-04T00:00:00Z</timestamp>", f"<text>{escape(markup)}</text>", "</revision>", "</page>"]
    return "\n".join(filter(None, lines)) + "\n"


def _patents(folder: Path, number: int) -> None:
    codes = ("A61K", "A61M", "A61P", "H04N")  # the last is not medical
    records: list[dict[str, Any]] = []
    for place, text in enumerate(texts("patents", number)):
        title, _, description = text.partition("\n")
        code = f"{codes[place % 4]} 31/00"
        record = {"publication_number": f"ES-{place}-A1", "publication_date": "20190305", "ipc": [{"code": code}]}
        records.append(record | {"title": title, "abstract": description})
    write(folder / "patents.jsonl", "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))


def _emea(folder: Path, number: int) -> None:
    """Both sides of a parallel corpus, with the file that says which document each line is from."""
    spanish, ids = [], []
    for place, text in enumerate(texts("emea", number)):
        lines = [line for line in text.split("\n") if line.strip()]
        spanish += lines
        ids += [f"en/{place}.xml.gz\tes/{place}.xml.gz\t{k}\t{k}" for k in range(1, len(lines) + 1)]
    for ending, lines in (("es", spanish), ("en", ["A line in English."] * len(spanish)), ("ids", ids)):
        write(folder / f"EMEA.en-es.{ending}", "".join(f"{line}\n" for line in lines))


def _topic(number: int, text: str, language: str) -> str:
    title, _, summary = text.partition("\n")
    whole = f"<full-summary>{escape(f'<p>{escape(summary)}</p>')}</full-summary>"
    return f'<health-topic title="{escape(title)}" id="{number}" language="{language}">{whole}</health-topic>'


def citation(number: int, abstract: str, other: str = "") -> str:
    spanish = (
        f'<OtherAbstract Language="spa"><AbstractText>{escape(other)}</AbstractText></OtherAbstract>' if other else ""
    )
    text = f"<ArticleTitle>A title.</ArticleTitle><Abstract><AbstractText>{escape(abstract)}</AbstractText></Abstract>"
    article = f"<Article>{text}<Language>eng</Language></Article>{spanish}"
    return (
        f'<PubmedArticle><MedlineCitation><PMID Version="1">{number}</PMID>{article}</MedlineCitation></PubmedArticle>'
    )


def pubmed_file(path: Path, records: list[str]) -> None:
    """A file of PubMed, with the sum that is published beside it and is not to be read."""
    write(path, _packed(f"<PubmedArticleSet>{''.join(records)}</PubmedArticleSet>".encode()))
    write(path.with_name(f"{path.name}.md5"), f"MD5({path.name})= 0\n")


def _real_pubmed(data: Path | None) -> list[Path]:
    return sorted((data / "raw_formats" / "pubmed_xml").glob("*.xml")) if data is not None else []


def ehr_notes(number: int) -> Iterator[tuple[str, str, str]]:
    """Id, patient and text of notes, four of each patient. Every tenth note is copied forward."""
    for place, note in enumerate(notes(number, language="es", seed=5, split="train")):
        for copy in ("", "-copy") if place % 10 == 0 else ("",):
            yield f"{place}{copy}", f"P{place // 4}", note.text


def _ehr(folder: Path, number: int) -> None:
    stream = io.StringIO()
    csv.writer(stream).writerows([("id", "patient", "text"), *ehr_notes(number)])
    write(folder / "notes.csv", stream.getvalue())


def _tar(path: Path, members: dict[str, bytes]) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    write(path, _packed(stream.getvalue()))


def _packed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def _copy(file: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, folder / file.name)


def _copy_packed(file: Path, folder: Path) -> None:
    write(folder / f"{file.name}.gz", _packed(file.read_bytes()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("raw", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--pubmed", type=Path)
    parser.add_argument("--documents", type=int, default=40)
    given = parser.parse_args()
    carrino(given.raw / "carrino2022", given.documents, given.data, given.pubmed)
    lewis(given.raw / "lewis2020", given.documents, given.data, given.pubmed)
