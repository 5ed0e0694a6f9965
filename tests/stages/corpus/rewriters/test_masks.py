from __future__ import annotations

import pytest

from osler.stages.corpus.rewriters import Rewritten
from osler.stages.corpus.rewriters.masks import Masks


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("write to ana.lopez@hospital.es.", "write to [EMAIL]."),
        ("a@b.com,c@d.org", "[EMAIL],[EMAIL]"),
        ("see (http://example.org/a_b/). Next", "see ([URL]). Next"),
        ("at www.example.org; or https://example.com/x?a=1&b=2, here", "at [URL]; or [URL], here"),
        ("registered at clinicaltrials.gov, NCT01", "registered at [URL], NCT01"),
        ("from nih.gov/entrez/query?db=PubMed and x.edu.sg/", "from [URL] and [URL]"),
        ('<a href="http://example.org/x">', '<a href="[URL]">'),
    ],
)
def test_addresses(text: str, expected: str) -> None:
    assert Masks().rewrite(text, None) == Rewritten(expected)


@pytest.mark.parametrize(
    "text",
    [
        "fiebre.Es de 120/80",
        "aspirin b.i.d. p.o. for pain.No fever",
        "P@O2 of 10 @ rest, x@y",
        "doi:10.1000/xyz.org/1",
        "http:// and www. alone",
        "pH 7.40, Na 135-145, 1.5e-3",
    ],
)
def test_what_is_no_address_stays(text: str) -> None:
    assert Masks(phones=True).rewrite(text, None).text == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tel: 91 234 56 78, fax +34 91 234 5678", "Tel: [PHONE], fax [PHONE]"),
        ("call (555) 123-4567 or 555-123-4567", "call [PHONE] or [PHONE]"),
        ("au 01 23 45 67 89.", "au [PHONE]."),
        ("teléfono 912345678", "teléfono [PHONE]"),
        ("Teléfono: (+34) 630000000 E-mail:", "Teléfono: [PHONE] E-mail:"),
    ],
)
def test_telephone_numbers_only_if_asked(text: str, expected: str) -> None:
    assert Masks().rewrite(text, None).text == text
    assert Masks(phones=True).rewrite(text, None).text == expected


@pytest.mark.parametrize(
    "text",
    [
        "BP 120/80 75-80, Na 135 140 145, plaquetas 612 345 000",
        "Hb 12.1 11.9 10.5 9.8 g/dL",
        "2021-03-04 10:15, 12/03/2021 14/03/2021",
        "NHC 1234567890",
    ],
)
def test_measurements_are_no_telephone_numbers(text: str) -> None:
    assert Masks(phones=True).rewrite(text, None).text == text


@pytest.mark.parametrize("piece", ["a", "a@", "://", ".com", "http://", "+1", "1 ", "www."])
def test_long_runs_take_linear_time(piece: str) -> None:
    Masks(phones=True).rewrite(piece * 50_000, None)
