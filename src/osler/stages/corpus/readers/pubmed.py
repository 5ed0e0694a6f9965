"""PubMed and MEDLINE XML: baseline files, update files, and what efetch returns. One document per record and language.

Update files may repeat records and list deleted ones; the revision of each document tells which is the latest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, cast

from pydantic import Field

from osler.core.config import Recipe
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import (
    BadRecord,
    FileRange,
    InputFile,
    LeftOut,
    RawDocument,
    Reading,
    Revision,
    Withdrawn,
    known,
)
from osler.stages.corpus.xml_records import inner_text, iso_date, read_blocks, xml_records

_RECORDS = ("MedlineCitation", "BookDocument")
_DELETIONS = ("DeleteCitation", "DeleteDocument")
_UNREAD = ("AuthorList", "ChemicalList", "CommentsCorrectionsList", "GrantList", "InvestigatorList", "MeshHeadingList")
_RELEASE = re.compile(r"(?:pubmed|medline)(\d\d)n(\d{4})", re.IGNORECASE)
_PUBLISHED = re.compile(r"(\d{4})(?:\s+([A-Z][a-z]{2}))?")
_NO_TITLE = ("[Not Available].", "[Not Available]")
_NO_LABEL = ("", "UNLABELLED", "UNASSIGNED")
# The three-letter codes of MEDLINE that have a two-letter code.
_LANGUAGES: dict[str, str] = dict(
    re.findall(
        r"(\w{3}):(\w\w)",
        "afr:af alb:sq ara:ar arm:hy aze:az bos:bs bul:bg cat:ca chi:zh cze:cs dan:da dut:nl eng:en epo:eo est:et fin:fi fre:fr "
        "geo:ka ger:de gla:gd gre:el heb:he hin:hi hrv:hr hun:hu ice:is ind:id ita:it jpn:ja kin:rw kor:ko lat:la lav:lv lit:lt "
        "mac:mk mal:ml mao:mi may:ms nor:no per:fa pol:pl por:pt pus:ps rum:ro rus:ru san:sa scc:sr scr:hr slo:sk slv:sl spa:es "
        "srp:sr swe:sv tha:th tur:tr ukr:uk urd:ur vie:vi wel:cy",
    )
)


class PubmedOptions(Recipe):
    """What to read from PubMed records."""

    parts: tuple[Literal["title", "abstract", "other_abstracts"], ...] = Field(("title", "abstract"), min_length=1)
    """Parts of a record to read. other_abstracts: further abstracts in the same language, such as plain-language summaries."""
    languages: tuple[str, ...] = Field(("en",), min_length=1)
    """Two-letter codes of the languages to read. Languages other than English use their own abstract and the original title."""
    labels: bool = True
    """Begin the sections of a structured abstract with their labels, such as `METHODS:`."""
    minimum: int = Field(0, ge=0)
    """Minimum characters of an abstract; records with less are left out."""


class PubmedReader:
    """Reads PubMed XML. The PMID is the id; in other languages than English, the PMID and the language.

    If several files of a source hold a record, its highest version in the latest file is kept; deleted records are removed.
    Baseline and update files are ordered by the numbers in their names, files with other names by input order.
    """

    endings = ()
    options = PubmedOptions
    roots = ("PubmedArticleSet", "MedlineCitationSet", "PubmedBookArticleSet")

    def cut(self, file: InputFile, source: CorpusSource, size: int) -> list[FileRange]:
        return [FileRange(file, 0, file.size)]

    def read(self, file_range: FileRange, source: CorpusSource) -> Iterator[Reading]:
        options = cast(PubmedOptions, source.options)
        release = _release(file_range.file.path.name)
        blocks = read_blocks(file_range.file.path)
        for record in xml_records(blocks, *_RECORDS, *_DELETIONS, without=_UNREAD):
            if isinstance(record, BadRecord):
                yield record
                continue
            element = record.element
            if element.tag in _DELETIONS:
                deleted = (_revision(pmid, release) for pmid in element.iterfind("PMID"))
                yield from (Withdrawn(record.row, revision) for revision in deleted if revision)
                continue
            revision = _revision(element.find("PMID"), release)
            if revision is None:
                yield BadRecord(record.row, None, "the record has no PMID")
                continue
            found: list[Reading] = list(_documents(element, record.row, revision, options))
            yield from found or [LeftOut(record.row, "pubmed.languages", str(revision.record))]
            if not any(isinstance(item, RawDocument) for item in found):
                yield Withdrawn(record.row, revision)  # an earlier revision would be out of date


def _release(file: str) -> int:
    """Return the number of a baseline or update file, higher for later files; 0 for other files."""
    found = _RELEASE.search(file)
    return int(found[1] + found[2]) if found else 0


def _revision(pmid: Any, release: int) -> Revision | None:
    """Return the revision of a PMID, ranked by version, then by file number, whatever the order of the files."""
    text = inner_text(pmid)
    if not text.isdecimal():
        return None
    version = pmid.get("Version", "1")
    return Revision(int(text), (int(version) if version.isdecimal() else 1) * 1_000_000 + release)


def _documents(record: Any, row: int, revision: Revision, options: PubmedOptions) -> Iterator[Reading]:
    article = record if record.tag == "BookDocument" else record.find("Article")
    if article is None:
        return
    published = _date(article)
    for language in options.languages:
        title, abstracts = _title(article, language), _abstracts(record, article, language)
        if not title and not abstracts:
            continue
        texts = [_sections(abstract, options.labels) for abstract in abstracts]
        parts = {"title": title, "abstract": "".join(texts[:1]), "other_abstracts": "\n".join(filter(None, texts[1:]))}
        key = str(revision.record) if language == "en" else f"{revision.record}-{language}"
        if len(parts["abstract"]) < options.minimum:
            yield LeftOut(row, "pubmed.minimum", key)
            continue
        text = "\n".join(parts[part] for part in options.parts if parts[part])
        yield RawDocument(row, text, key, known(title=title, date=published, language=language), revision)


def _title(article: Any, language: str) -> str:
    if language == "en":
        title = inner_text(article.find("ArticleTitle"))
        return "" if title in _NO_TITLE else title
    originals = {_two_letters(spoken.text) for spoken in article.iterfind("Language")}
    return inner_text(article.find("VernacularTitle")) if language in originals else ""


def _abstracts(record: Any, article: Any, language: str) -> list[Any]:
    """Return the abstracts in a language, the main one first."""
    main = [article.find("Abstract")] if language == "en" else []
    others = [other for other in record.iterfind("OtherAbstract") if _two_letters(other.get("Language")) == language]
    return [
        abstract for abstract in (*main, *others) if abstract is not None and abstract.find("AbstractText") is not None
    ]


def _sections(abstract: Any, labels: bool) -> str:
    """Return the sections of an abstract, one per line. A section may be only a label: LEVEL OF EVIDENCE: 4."""
    lines = []
    for section in abstract.iterfind("AbstractText"):
        label = (section.get("Label") or "").strip().rstrip(":") if labels else ""
        lines.append(": ".join(filter(None, ("" if label in _NO_LABEL else label, inner_text(section)))))
    return "\n".join(filter(None, lines))


def _two_letters(code: str | None) -> str:
    stated = (code or "eng").strip().lower()
    return _LANGUAGES.get(stated, stated)


def _date(article: Any) -> str | None:
    """Return the date of the issue, of the book, or of the electronic publication."""
    for place in ("Journal/JournalIssue/PubDate", "Book/PubDate", "ArticleDate"):
        found = article.find(place)
        if found is None:
            continue
        date = iso_date(*(found.findtext(name) for name in ("Year", "Month", "Day")))
        rough = _PUBLISHED.search(found.findtext("MedlineDate") or "")
        if date or rough:
            return date or iso_date(*cast(re.Match[str], rough).groups())
    return None


READER = PubmedReader()
