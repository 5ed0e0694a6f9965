from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from osler.core.errors import RecipeError
from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import BadRecord, LeftOut, RawDocument, Reading, Revision, Withdrawn
from osler.stages.corpus.inputs import find_inputs
from osler.stages.corpus.readers import READERS


def article(
    pmid: int,
    title: str = "A title.",
    abstract: str = "<AbstractText>An abstract.</AbstractText>",
    *,
    version: int = 1,
    language: str = "eng",
    vernacular: str = "",
    other: str = "",
    date: str = "<Year>2018</Year><Month>May</Month><Day>17</Day>",
) -> str:
    return f"""<PubmedArticle>
  <MedlineCitation Status="MEDLINE" Owner="NLM"><PMID Version="{version}">{pmid}</PMID>
    <Article><Journal><JournalIssue><PubDate>{date}</PubDate></JournalIssue></Journal>
      <ArticleTitle>{title}</ArticleTitle><Abstract>{abstract}</Abstract>
      <AuthorList><Author><LastName>Nobody</LastName></Author></AuthorList>
      <Language>{language}</Language>{vernacular}</Article>
    <MeshHeadingList><MeshHeading>Asthma</MeshHeading></MeshHeadingList>{other}
  </MedlineCitation>
  <PubmedData><ReferenceList><Reference><PMID Version="1">999</PMID></Reference></ReferenceList></PubmedData>
</PubmedArticle>
"""


def write(path: Path, *records: str) -> Path:
    head = '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE PubmedArticleSet SYSTEM "http://nowhere.invalid/x.dtd">\n'
    data = f"{head}<PubmedArticleSet>\n{''.join(records)}</PubmedArticleSet>\n".encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read(path: Path, **options: Any) -> list[Reading]:
    source = CorpusSource(files=[path], reader="pubmed", options=options)
    [file] = find_inputs([source])
    reader = READERS.get(file.reader)
    return [record for piece in reader.cut(file, source, 1) for record in reader.read(piece, source)]


def only(path: Path, **options: Any) -> RawDocument:
    [document] = read(path, **options)
    assert isinstance(document, RawDocument)
    return document


def test_title_and_abstract_with_facts(tmp_path: Path) -> None:
    document = only(write(tmp_path / "pubmed24n0007.xml.gz", article(12, "The <i>title</i>.")))
    assert document == RawDocument(
        1,
        "The title.\nAn abstract.",
        "12",
        {"title": "The title.", "date": "2018-05-17", "language": "en"},
        Revision(12, 1_240_007),
    )


def test_structured_abstracts_with_empty_labels_and_text_after_inner_tags(tmp_path: Path) -> None:
    sections = (
        '<AbstractText Label="" NlmCategory="UNASSIGNED"><b>Patient: Female, 16</b>\n <b>Symptoms: None</b></AbstractText>'
        '<AbstractText Label="BACKGROUND">An <i>in vivo</i> study of β<sub>2</sub>-agonists in 10<sup>6</sup> cells.</AbstractText>'
        '<AbstractText Label="UNLABELLED">No label.</AbstractText><AbstractText Label="LEVEL OF EVIDENCE: 4"/>'
        '<AbstractText Label="CONCLUSIONS:">Done.</AbstractText>'
    )
    path = write(tmp_path / "a.xml", article(1, "", sections))
    assert only(path).text.split("\n") == [
        "Patient: Female, 16 Symptoms: None",
        "BACKGROUND: An in vivo study of β2-agonists in 10^6 cells.",
        "No label.",
        "LEVEL OF EVIDENCE: 4",
        "CONCLUSIONS: Done.",
    ]
    assert "BACKGROUND" not in only(path, labels=False).text


def test_formulas_are_text(tmp_path: Path) -> None:
    power = "<mml:msup><mml:mn>10</mml:mn> <mml:mn>6</mml:mn></mml:msup>"
    formula = f'<mml:math xmlns:mml="http://www.w3.org/1998/Math/MathML"> {power} </mml:math>'
    path = write(tmp_path / "a.xml", article(1, abstract=f"<AbstractText>Of {formula} cells.</AbstractText>"))
    assert only(path, parts=["abstract"]).text == "Of 10^6 cells."


def test_other_languages_are_read_from_their_own_abstract_and_the_original_title(tmp_path: Path) -> None:
    other = (
        '<OtherAbstract Type="Publisher" Language="spa"><AbstractText Label="Objetivo">Uno.</AbstractText></OtherAbstract>'
        '<OtherAbstract Type="plain-language-summary" Language="eng"><AbstractText>Simply.</AbstractText></OtherAbstract>'
    )
    vernacular = "<VernacularTitle>El título.</VernacularTitle>"
    spanish = article(5, "[The title].", language="spa", vernacular=vernacular, other=other)
    path = write(tmp_path / "a.xml", spanish, article(6))
    first, *second = read(path, languages=["es"])
    assert isinstance(first, RawDocument)
    assert (first.id, first.text) == ("5-es", "El título.\nObjetivo: Uno.")
    assert first.facts == {"title": "El título.", "date": "2018-05-17", "language": "es"}
    assert second == [LeftOut(2, "pubmed.languages", "6"), Withdrawn(2, Revision(6, 1_000_000))]
    both = [document for document in read(path, languages=["en", "es"]) if isinstance(document, RawDocument)]
    assert [(document.id, document.row) for document in both] == [("5", 1), ("5-es", 1), ("6", 2)]
    assert only(write(path, spanish), parts=["abstract", "other_abstracts"]).text == "An abstract.\nSimply."


def test_parts_and_minimum(tmp_path: Path) -> None:
    path = write(tmp_path / "a.xml", article(1, abstract=""), article(2, "[Not Available]."))
    *short, full = read(path, minimum=5)
    assert short == [LeftOut(1, "pubmed.minimum", "1"), Withdrawn(1, Revision(1, 1_000_000))]
    assert isinstance(full, RawDocument)
    assert full.text == "An abstract."
    texts = [document.text for document in read(path, parts=["title"]) if isinstance(document, RawDocument)]
    assert texts == ["A title.", ""]
    with pytest.raises(RecipeError, match="authors"):
        read(path, parts=["authors"])


@pytest.mark.parametrize(
    ("given", "date"),
    [
        ("<MedlineDate>1975 Jul-Aug</MedlineDate>", "1975-07"),
        ("<MedlineDate>2000 Spring</MedlineDate>", "2000"),
        ("<Year>1999</Year><Season>Winter</Season>", "1999"),
        ("", None),
    ],
)
def test_rough_dates(tmp_path: Path, given: str, date: str | None) -> None:
    assert only(write(tmp_path / "a.xml", article(1, date=given))).facts.get("date") == date


def test_deletions_books_and_records_without_a_number(tmp_path: Path) -> None:
    book = (
        '<PubmedBookArticle><BookDocument><PMID Version="1">7</PMID><Book><PubDate><Year>2001</Year></PubDate></Book>'
        "<ArticleTitle>Gene.</ArticleTitle><Abstract><AbstractText>Review.</AbstractText></Abstract></BookDocument></PubmedBookArticle>"
    )
    deleted = '<DeleteCitation><PMID Version="1">3</PMID>\n<PMID Version="2">4</PMID></DeleteCitation>'
    nameless = article(8).replace('<PMID Version="1">8</PMID>', "")
    found = read(write(tmp_path / "pubmed24n1220.xml", book, nameless, deleted))
    assert isinstance(found[0], RawDocument)
    assert (found[0].text, found[0].facts["date"]) == ("Gene.\nReview.", "2001")
    assert found[1:] == [
        BadRecord(2, None, "the record has no PMID"),
        Withdrawn(3, Revision(3, 1_241_220)),
        Withdrawn(3, Revision(4, 2_241_220)),
    ]


def test_a_broken_record_costs_only_itself(tmp_path: Path) -> None:
    broken = article(2).replace("</ArticleTitle>", "")
    first, bad, third = read(write(tmp_path / "a.xml", article(1), broken, article(3)))
    assert isinstance(bad, BadRecord)
    assert bad.row == 2
    assert "Nobody" not in bad.reason
    assert [document.id for document in (first, third) if isinstance(document, RawDocument)] == ["1", "3"]


def test_xml_files_are_recognised_by_their_root_element(tmp_path: Path) -> None:
    write(tmp_path / "pubmed24n0001.xml.gz", article(1))
    (tmp_path / "other.xml").write_text("<other/>")
    [file] = find_inputs([CorpusSource(files=[tmp_path])])
    assert (file.reader, file.source_name) == ("pubmed", tmp_path.name)


@pytest.mark.realdata
def test_real_records(data_dir: Path) -> None:
    found = {path.name: only(path) for path in sorted((data_dir / "raw_formats" / "pubmed_xml").glob("*.xml"))}
    assert len(found) == 7
    assert all(document.text.count("\n") >= 1 and document.facts["date"] for document in found.values())
    assert "\nRESULTS: " in found["pubmed-29768149.xml"].text
