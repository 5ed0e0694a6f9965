from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import BadRecord, LeftOut, RawDocument, Revision
from osler.stages.corpus.inputs import find_inputs
from osler.stages.corpus.readers import READERS

META = """<article-id pub-id-type="pmid">11</article-id><article-id pub-id-type="pmc">42</article-id>
<title-group><article-title>A <italic>long</italic> title</article-title></title-group>
<pub-date pub-type="collection"><year>2012</year></pub-date>
<pub-date pub-type="epub"><day>8</day><month>9</month><year>2012</year></pub-date>
<permissions><license xlink:href="https://creativecommons.org/licenses/by-nc/4.0/"><license-p>Terms.</license-p></license></permissions>
<abstract><sec><title>Aim</title><p>To test.</p></sec></abstract><abstract abstract-type="graphical"><p>Picture.</p></abstract>"""
BODY = """<p>Before any section.</p>
<sec><label>1</label><title>Methods</title>
  <p>We grew 5 &#215; 10<sup>6</sup> cells [<xref ref-type="bibr">1</xref>&#8211;<xref ref-type="bibr">3</xref>, <xref
     ref-type="bibr">7</xref>] as in <xref ref-type="fig">Fig. 1</xref>.<sup><xref ref-type="bibr">4</xref>,<xref
     ref-type="bibr">5</xref></sup> See <xref ref-type="bibr">Smith (2001)</xref> where <inline-formula><tex-math>x^2</tex-math>
     </inline-formula> is left out.<list><list-item><label>a</label><p>One</p></list-item><list-item><p>Two</p></list-item></list>
     After the list.<fn><p>Footnote.</p></fn></p>
  <disp-formula><mml:math><mml:mi>E</mml:mi></mml:math></disp-formula>
  <fig><label>Figure 1</label><caption><title>Growth.</title><p>Of cells.</p></caption><graphic/></fig>
  <table-wrap><caption><p>Counts.</p></caption><table><tr><th>n</th><th>day</th></tr><tr><td>5</td><td/></tr><tr><td/><td/></tr></table>
  <table-wrap-foot><p>Foot.</p></table-wrap-foot></table-wrap>
  <sec><title>Statistics</title><p>None.</p></sec>
</sec><sec sec-type="supplementary-material"><title>Files</title><p>S1</p></sec>"""
METHODS = [
    "We grew 5 × 10^6 cells as in Fig. 1. See Smith (2001) where is left out.",
    "One",
    "Two",
    "After the list.",
    "Statistics",
    "None.",
]


def article(meta: str = META, body: str = BODY, more: str = "", attributes: str = 'xml:lang="en"') -> str:
    names = 'xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:mml="http://www.w3.org/1998/Math/MathML"'
    return (
        f"<article {names} {attributes}><front><journal-meta/><article-meta>{meta}</article-meta></front>"
        f"<body>{body}</body><back><ref-list><ref>Reference</ref></ref-list></back>{more}</article>"
    )


def read(path: Path, text: str | None = None, **options: Any) -> list[Any]:
    if text is not None:
        path.write_text(text)
    source = CorpusSource(files=[path], reader="jats", options=options)
    [file] = find_inputs([source])
    reader = READERS.get(file.reader)
    return [record for piece in reader.cut(file, source, 1) for record in reader.read(piece, source)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.nxml"


def test_an_article_is_title_abstract_and_sections_without_references_and_formulas(path: Path) -> None:
    [document] = read(path, article())
    assert document.text.split("\n") == ["A long title", "Aim", "To test.", "Before any section.", "Methods", *METHODS]
    assert (document.row, document.id, document.revision) == (1, "PMC42", Revision(42, 0))
    assert document.facts == {
        "title": "A long title",
        "language": "en",
        "date": "2012-09-08",
        "licence": "CC BY-NC 4.0",
    }


def test_an_article_that_states_no_language_is_in_english(path: Path) -> None:
    assert read(path, article(attributes=""))[0].facts["language"] == "en"


def test_captions_tables_and_citations_are_options(path: Path) -> None:
    [document] = read(path, article(), captions=True, tables=True, citations=True, parts=["body"])
    lines = document.text.split("\n")
    assert lines[2].startswith("We grew 5 × 10^6 cells [1–3, 7] as in Fig. 1.4,5 See")
    assert lines[6:] == ["Growth.", "Of cells.", "Counts.", "n | day", "5 | ", "Statistics", "None."]
    floats = "<floats-group><fig><caption><p>Last.</p></caption></fig></floats-group>"
    [document] = read(path, article(more=floats), captions=True)
    assert document.text.endswith("None.\nLast.")


def test_formulas_in_a_line_are_text_and_line_breaks_are_spaces(path: Path) -> None:
    formula = """<inline-formula><alternatives><tex-math>$p&lt;10^{-3}$</tex-math><mml:math><mml:mrow><mml:mi>p</mml:mi>
      <mml:mo>&lt;</mml:mo><mml:msup><mml:mn>10</mml:mn><mml:mrow><mml:mo>-</mml:mo><mml:mn>3</mml:mn></mml:mrow></mml:msup>
      </mml:mrow></mml:math><inline-graphic/></alternatives></inline-formula>"""
    [document] = read(path, article(body=f"<p>We found {formula}.</p><p>one<break/>two</p>"), parts=["body"])
    assert document.text == "We found p < 10^-3.\none two"


def test_marks_of_footnotes_and_rows_of_superscripts_as_in_scielo(path: Path) -> None:
    cite = '<xref ref-type="bibr" rid="B2">\n\t<sup>2</sup>\n</xref>'
    note = '<xref ref-type="fn" rid="fn1">\n<sup>a</sup></xref>'
    body = (
        f"<p>Saúde.{cite}\n<sup>-</sup>\n{cite}\n<sup>,</sup>\n{cite} A ocorrência,{cite}\n<sup>,23,</sup>\n{note} exigindo"
        f" Cl<sup>-</sup> e {cite}\n<sup>13</sup>C.</p><table-wrap><table><tr><td>5<sup>{note}</sup></td><td>a<break/>b</td></tr></table>"
        "</table-wrap>"
    )
    meta = f"<title-group><article-title>Efeitos {note.replace('a<', '*<')}</article-title></title-group>"
    [document] = read(path, article(meta, body), tables=True)
    assert document.text.split("\n") == [
        "Efeitos",
        "Saúde. A ocorrência, exigindo Cl- e 13C.",
        "5 | a b",
    ]
    assert document.facts["title"] == "Efeitos"


def test_back_matter_is_a_part_to_choose(path: Path) -> None:
    back = """<ack><title>Acknowledgements</title><p>Thanks.</p></ack><app-group><app><title>Appendix</title><p>A case.</p>
      <boxed-text><p>In a box.</p></boxed-text></app></app-group><fn-group><fn><p>Note.</p></fn></fn-group><ref-list>"""
    text = article(body="<p>Body.</p>").replace("<ref-list>", back)
    assert read(path, text, parts=["body"])[0].text == "Body."
    lines = ["Body.", "Acknowledgements", "Thanks.", "Appendix", "A case.", "In a box."]
    assert read(path, text, parts=["body", "back"])[0].text.split("\n") == lines
    parts = read(path, text, parts=["back"], split="section")
    assert [part.facts["section"] for part in parts] == ["Acknowledgements", "Appendix"]


def test_one_document_per_section(path: Path) -> None:
    found = read(path, article(), split="section")
    assert [(part.id, part.facts.get("section"), part.text.split("\n")[0]) for part in found] == [
        ("PMC42.1", None, "Aim"),
        ("PMC42.2", None, "Before any section."),
        ("PMC42.3", "Methods", METHODS[0]),
    ]
    assert {part.row for part in found} == {1}


def test_translations_by_language(path: Path) -> None:
    meta = """<article-id pub-id-type="doi">10.1590/x</article-id><title-group><article-title>Título</article-title>
      <trans-title-group xml:lang="en"><trans-title>Title</trans-title></trans-title-group></title-group>
      <abstract><p>Resumen.</p></abstract><trans-abstract xml:lang="en"><p>Abstract.</p></trans-abstract>"""
    translation = """<sub-article article-type="translation" xml:lang="pt"><front-stub><title-group><article-title>Titulo</article-title>
      </title-group></front-stub><body><p>Texto.</p></body></sub-article><sub-article article-type="reply"><body/></sub-article>"""
    spanish = article(meta, "<p>Cuerpo.</p>", translation, 'xml:lang="es"')
    assert [(part.id, part.text) for part in read(path, spanish)] == [("10.1590/x", "Título\nResumen.\nCuerpo.")]
    found = [(part.id, part.facts["language"], part.text) for part in read(path, spanish, languages=["en", "pt"])]
    assert found == [("10.1590/x-pt", "pt", "Titulo\nTexto."), ("10.1590/x-en", "en", "Title\nAbstract.")]
    english = spanish.replace('xml:lang="pt"', 'xml:lang="en"').replace("<article-title>Titulo</article-title>", "")
    alone = english.replace('<trans-title-group xml:lang="en"><trans-title>', '<trans-title xml:lang="en">').replace(
        "</trans-title-group>", ""
    )
    for stated in (english, alone):  # the translation has a body only
        assert [part.text for part in read(path, stated, languages=["en"])] == ["Title\nAbstract.\nTexto."]
    assert read(path, spanish, languages=["fr"]) == [LeftOut(1, "jats.languages", "10.1590/x")]


@pytest.mark.parametrize(
    ("stated", "name"),
    [
        ('<license license-type="CC BY-NC-ND 4.0"/>', "CC BY-NC-ND 4.0"),
        ("<license><p>See http://creativecommons.org/licenses/by-sa/3.0/.</p></license>", "CC BY-SA 3.0"),
        (
            "<license><p>Creative Commons Attribution Non-Commercial License (CC BY-NC 3.0)</p></license>",
            "CC BY-NC 3.0",
        ),
        ("<license><p>Creative Commons Attribution License, but CC BY-NC for others</p></license>", "CC BY-NC"),
        ("<license><p>Creative Commons Attribution License</p></license>", "CC BY"),
        ('<license xlink:href="https://creativecommons.org/publicdomain/zero/1.0/"/>', "CC0 1.0"),
        (
            "<copyright-statement>Distributed under the Creative Commons Attribution 2.0 terms</copyright-statement>",
            "CC BY 2.0",
        ),
        ('<license license-type="open-access"><p>Free to read</p></license>', "open-access"),
        ("<copyright-statement>© 2010 The Society</copyright-statement>", None),
    ],
)
def test_licences_get_their_creative_commons_names(path: Path, stated: str, name: str | None) -> None:
    [document] = read(path, article(f"<permissions>{stated}</permissions>"))
    assert document.facts.get("licence") == name


def test_articles_with_a_default_namespace_and_several_in_a_file(path: Path) -> None:
    one = article(attributes='xmlns="https://jats.nlm.nih.gov/ns/archiving/1.3/"')
    found = read(path, f"<pmc-articleset>{one}{article('<article-id>7</article-id>', '')}</pmc-articleset>")
    assert [(part.row, part.id, part.text.count("\n")) for part in found] == [(1, "PMC42", 10), (2, "7", 0)]


def test_a_tar_archive_of_articles(tmp_path: Path) -> None:
    path = tmp_path / "oa_comm_xml.incr.2024-06-18.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in (
            ("PMC/1.xml", article()),
            ("list.csv", "x"),
            ("2.nxml", "<article><p></article>"),
            ("3.nxml", article()),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    first, bad, third = read(path)
    assert isinstance(first, RawDocument)
    assert (first.row, first.revision, third.row) == (1, Revision(42, 20240618), 3)
    assert bad == BadRecord(2, 0, "not well-formed XML (tag name mismatch), line 1, of the file 2.nxml")
    packed = path.read_bytes()
    path.write_bytes(packed[: len(packed) // 3])
    assert [item.reason for item in read(path)] == ["the archive is damaged or truncated after 0 articles"]


@pytest.mark.realdata
def test_real_articles(data_dir: Path) -> None:
    licences = {}
    for path in sorted((data_dir / "raw_formats" / "jats_nxml").glob("*.nxml")):
        [document] = read(path)
        licences[path.name] = document.facts["licence"]
        assert len(document.text) > 20_000
        assert "[]" not in document.text
        assert "()" not in document.text
    assert licences == {
        "1471-2180-11-174.nxml": "CC BY 2.0",
        "ehp-116-1694.nxml": "Public Domain Mark 1.0",
        "pone.0000217.nxml": "CC BY",
        "pone.0046493.nxml": "CC BY",
    }
