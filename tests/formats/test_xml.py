"""XML cannot expand, fetch or quote: bombs and external entities are refused, errors give the place only."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from osler.core.errors import InputError
from osler.formats import xml
from osler.formats.registry import get_format

LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    + "]><document>&i;</document>"
).encode()


def external(path: Path) -> bytes:
    return f'<!DOCTYPE d [<!ENTITY x SYSTEM "file://{path}">]><document>&x;</document>'.encode()


def streamed(data: bytes, where: str) -> Iterator[Any]:
    return xml.stream(io.BufferedReader(io.BytesIO(data)), "document", where)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["laughs", "external", "comment first"])
@pytest.mark.parametrize("how", ["whole", "stream"])
def test_entities_are_refused(kind: str, how: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("SECRET")
    data = {"laughs": LAUGHS, "external": external(secret), "comment first": b"<!-- <a --> " + external(secret)}[kind]
    readers = {"whole": xml.parse, "stream": lambda given, where: list(streamed(given, where))}
    with pytest.raises(InputError, match="entit") as caught:
        readers[how](data, "f.xml")
    assert "SECRET" not in str(caught.value)


def test_a_doctype_that_only_names_a_dtd_is_accepted_and_not_loaded() -> None:
    data = b"<?xml version='1.0'?><!DOCTYPE c SYSTEM 'missing.dtd'><c><document/></c>"
    assert xml.parse(data, "f.xml").tag == "c"
    assert len(list(streamed(data, "f.xml"))) == 1


def test_an_undeclared_entity_does_not_cut_the_text_short() -> None:
    with pytest.raises(InputError):
        xml.parse(b"<!DOCTYPE c SYSTEM 'x.dtd'><c>one &mu; two</c>", "f.xml")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-7"])
def test_encodings_in_which_markup_can_hide_are_refused(encoding: str) -> None:
    with pytest.raises(InputError, match="encoding"):
        xml.parse(
            f'<?xml version="1.0" encoding="{encoding}"?><a/>'.encode(encoding if encoding == "utf-16" else "ascii"),
            "f",
        )


def test_broken_xml_names_the_line_and_not_the_text(tmp_path: Path) -> None:
    (tmp_path / "d.xml").write_text('<document id="d">\n<sentence id="s" text="ZZCANARY"></document>')
    with pytest.raises(InputError, match=r"d\.xml:2: not well-formed") as caught:
        list(get_format("ddi_xml").read(tmp_path))
    assert "ZZCANARY" not in str(caught.value)


def test_control_characters_are_blanked_one_for_one() -> None:
    losses: Counter[str] = Counter()
    assert xml.holdable("a\x0bb\rc\x01\ufffe", losses) == "a b c  "
    assert losses.total() == 4


@pytest.mark.parametrize(
    ("mathml", "text"),
    [
        ("<msup> <mi>R</mi> <mn>2</mn> </msup> <mo>=</mo> <mn>0.56</mn>", "R2 = 0.56"),
        ("<mn>5</mn><mo>×</mo><msup><mn>10</mn><mrow><mo>−</mo><mn>6</mn></mrow></msup>", "5 × 10^−6"),
        ("<msubsup><mi>T</mi> <mn>2</mn> <mo>∗</mo></msubsup>", "T2∗"),
        ("<mrow><mi>x</mi><mo>=</mo><mo>-</mo><mn>1</mn></mrow>", "x = -1"),
        ("<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac>", "(a + b)/2"),
        ("<msqrt><mn>3</mn></msqrt><mspace/><mtext>mm</mtext>", "√3 mm"),
        ("<mi>f</mi><mfenced><mi>x</mi><mi>y</mi></mfenced>", "f(x, y)"),
        ("<semantics><mi>x</mi><annotation>\\alpha</annotation></semantics>", "x"),
    ],
)
def test_formulas_as_text(mathml: str, text: str) -> None:
    assert xml.formula(xml.parse(f"<math>{mathml}</math>".encode(), "")) == text
