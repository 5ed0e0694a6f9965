"""Wikipedia: dumps, categories in two passes, markup, and wikiextractor's files."""

from __future__ import annotations

import bz2
import json
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import pytest

from osler.core.errors import InputError
from osler.stages.corpus.documents import BadRecord, LeftOut, RawDocument

ReadAll = Callable[..., list[Any]]
HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="es">
  <siteinfo>
    <namespaces>
      <namespace key="6" case="first-letter">Archivo</namespace>
      <namespace key="14" case="first-letter">Categoría</namespace>
    </namespaces>
  </siteinfo>
"""


def page(number: int, title: str, text: str, ns: int = 0, redirect: str = "") -> str:
    turn = f'    <redirect title="{redirect}" />\n' if redirect else ""
    return (
        f"  <page>\n    <title>{title}</title>\n    <ns>{ns}</ns>\n    <id>{number}</id>\n{turn}    <revision>\n      <id>9</id>\n"
        f'      <timestamp>2021-01-04T00:00:00Z</timestamp>\n      <text bytes="1" xml:space="preserve">{escape(text)}</text>\n'
        "    </revision>\n  </page>\n"
    )


def dump(*pages: str) -> bytes:
    return (HEAD + "".join(pages) + "</mediawiki>\n").encode()


ASTHMA = """{{Ficha|x={{y}}}}'''El asma''' ({{IPA|a}}) es una [[enfermedad]] [[crónico|crónica]] de los
[[pulmon]]es.<ref>Un libro</ref><!-- nada --> Dosis: 5&nbsp;mg &lt; 10&nbsp;mg.
[[Archivo:pulmon.jpg|thumb|Un [[pulmón]]]]
== Síntomas ==
* tos
* [http://x.es fiebre]
== Tabla ==
{| class="wikitable"
|-
| a || b
|}
=== Nada ===
== Referencias ==
<references />
[[Categoría:Enfermedades respiratorias|Asma]]
"""


def test_articles_of_a_dump(tmp_path: Path, read_all: ReadAll, cuts: Callable[..., int]) -> None:
    pages = [
        page(1, "Asma", ASTHMA),
        page(2, "Asma bronquial", "#REDIRECT", redirect="Asma"),
        page(3, "Discusión:Asma", "hola", ns=1),
        *(page(number, f"A & {number}".replace("&", "&amp;"), f"Texto {number}.") for number in range(4, 40)),
    ]
    text = "El asma es una enfermedad crónica de los\npulmones. Dosis: 5 mg < 10 mg.\n\nSíntomas\n\n- tos\n- fiebre"
    (tmp_path / "d.xml").write_bytes(dump(*pages))
    (tmp_path / "d.xml.bz2").write_bytes(bz2.compress(dump(*pages)))
    found = read_all(tmp_path / "d.xml", reader="wikipedia")
    assert found[0] == RawDocument(8, text, "1", {"title": "Asma", "date": "2021-01-04", "language": "es"})
    starts = [(HEAD + "".join(pages[:index])).count("\n") + 1 for index in (1, 2)]
    assert found[1] == LeftOut(starts[0], "wikipedia.redirects", "2")
    assert found[2] == LeftOut(starts[1], "wikipedia.namespace", "3")
    assert [item.facts["title"] for item in found[3:]] == [f"A & {number}" for number in range(4, 40)]
    assert read_all(tmp_path / "d.xml.bz2", reader="wikipedia") == found
    assert cuts(tmp_path / "d.xml", 1000, reader="wikipedia") > 5
    for size in (10, 300, 1000):
        assert read_all(tmp_path / "d.xml", size=size, reader="wikipedia") == found


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        (
            "Dosis de {{convert|5|mg|oz}}, {{convert|5|to|10|ml}} o 10<sup>6</sup> UI.",
            "Dosis de 5 mg, 5 to 10 ml o 10^6 UI.",
        ),
        ("{{val|1.5|ul=mg}} y {{frac|1|2}} {{nowrap|al día}}.", "1.5 mg y 1/2 al día."),
        ("Asma ({{IPA|a}}; de {{lang-grc|ἆσθμα}}, {{lang|en|asthma}}).", "Asma (de ἆσθμα, asthma)."),
        ("* uno\n** dos\n# tres\n; cuatro\n: cinco", "- uno\n- dos\n- tres\ncuatro\ncinco"),
        ("Uno.\n{|\n| a\n{| class=x\n| b\n|}\n|}\nDos.", "Uno.\nDos."),
        ("Uno.\n{|\n| una tabla que no acaba\n== Dos ==\nTres.", "Uno.\n\nDos\n\nTres."),
        ("[[Archivo:x.jpg|thumb|Un [[a|b]] [sic] [http://x.es c]]]Uno.", "Uno."),
        ("[[:Categoría:Asma]] y [[a|b]] [[c]]s.\n[[en:Asthma]]", "Categoría:Asma y b cs."),
        ("p <0.05 y <span class=x>rojo</span><br/>fin&nbsp;&lt;b&gt; https://x.es.", "p <0.05 y rojo\nfin <b> ."),
        ("{{" * 5000 + "[[" * 5000 + "Uno", "{{" * 5000 + "[[" * 5000 + "Uno"),
    ],
)
def test_markup(tmp_path: Path, read_all: ReadAll, markup: str, text: str) -> None:
    (tmp_path / "d.xml").write_bytes(dump(page(1, "A", markup)))
    [document] = read_all(tmp_path / "d.xml", reader="wikipedia")
    assert document.text == text


def test_categories_to_a_depth(tmp_path: Path, read_all: ReadAll) -> None:
    first = [
        page(1, "Árbol", "Texto. [[Categoría:Botánica]] [[category:células_madre]]"),
        page(2, "Mesa", "Texto. [[Categoría:Muebles]] [[:Categoría:Ciencias de la vida]]"),
        page(3, "Vida", "Texto. [[Categoría: Ciencias de la vida |*]]"),
    ]
    second = [
        page(10, "Categoría:Botánica", "[[Categoría:Biología]]", ns=14),
        page(11, "Categoría:Biología", "[[Categoría:Ciencias de la vida]] [[Categoría:Botánica]]", ns=14),
        page(12, "Categoría:Células madre", "[[Categoría:Biología]]", ns=14),
        page(13, "Musgo", "Texto. [[Categoría:Botánica]]"),
    ]
    (tmp_path / "1.xml").write_bytes(dump(*first))
    (tmp_path / "2.xml").write_bytes(dump(*second))

    def titles(**options: Any) -> list[str]:
        found = read_all(tmp_path, reader="wikipedia", options={"categories": ["ciencias de la vida"], **options})
        assert {item.reason for item in found if isinstance(item, LeftOut)} <= {
            "wikipedia.namespace",
            "wikipedia.categories",
        }
        return [item.facts["title"] for item in found if isinstance(item, RawDocument)]

    assert titles(depth=0) == titles(depth=1) == ["Vida"]
    assert titles(depth=2) == titles() == ["Árbol", "Vida", "Musgo"]


def test_broken_pages_are_reported_and_the_others_read(tmp_path: Path, read_all: ReadAll) -> None:
    open_page = page(1, "A", "Texto.").replace("  </page>\n", "")
    bad_xml = page(2, "B", "Texto.").replace("</revision>", "")
    entity = page(3, "C", "Texto.").replace("Texto.", "&secreto;")
    cut = page(5, "E", "Texto.").partition("</text>")[0]
    (tmp_path / "d.xml").write_bytes(
        dump(open_page, bad_xml, entity, page(4, "D", "Texto.")).replace(b"</mediawiki>\n", cut.encode())
    )
    found = read_all(tmp_path / "d.xml", reader="wikipedia")
    assert [item.id for item in found if isinstance(item, RawDocument)] == ["4"]
    bad = [item for item in found if isinstance(item, BadRecord)]
    assert [item.row for item in bad] == [8, 17, 27, 47]
    assert bad[0].reason == "this page does not end before the next begins"
    assert bad[-1].reason == "the file ends inside this page"


def test_files_of_wikiextractor(tmp_path: Path, read_all: ReadAll) -> None:
    (tmp_path / "AA").mkdir()
    lines = [
        {"id": "1", "title": "Asma", "text": "Asma\n\nEl asma."},
        {"id": "2", "title": "B", "text": ""},
        {"id": "3"},
    ]
    (tmp_path / "AA" / "wiki_00").write_text("".join(json.dumps(line) + "\n" for line in lines))
    document, redirect, bad = read_all(tmp_path, reader="wikipedia")
    assert document == RawDocument(1, "Asma\n\nEl asma.", "1", {"title": "Asma"})
    assert redirect == LeftOut(2, "wikipedia.redirects", "2")
    assert (bad.row, bad.reason) == (3, "the line is no article of wikiextractor")
    with pytest.raises(InputError, match="wikiextractor's files have no categories"):
        read_all(tmp_path, reader="wikipedia", options={"categories": ["Asma"]})
