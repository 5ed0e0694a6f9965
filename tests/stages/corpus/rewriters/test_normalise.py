from __future__ import annotations

import pytest

from osler.stages.corpus.rewriters import Rewritten
from osler.stages.corpus.rewriters.normalise import Normalise


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("“it’s” ‘so’", "\"it's\" 'so'"),
        ("« oui »", "« oui »"),
        ("IL\u20116, \u22125 °C, 5–10 mg — x", "IL-6, -5 °C, 5–10 mg — x"),
        ("Pruebas:\n\xad Hemograma (\u221220 %)", "Pruebas:\n- Hemograma (-20 %)"),
        ("eﬃcient ﬂow, ＡＢ１２", "efficient flow, AB12"),
        ("in\xadflam\u200bma\ufefftion", "inflammation"),
        ("37 ℃, 5 ㎎, 3 ㎍, 2 ㎡, 9 ㎧", "37 °C, 5 mg, 3 µg, 2 m², 9 m/s"),
        ("mℓ, \U0001d6fd-blocker, Ⅳ", "ml, β-blocker, IV"),
    ],
)
def test_variants(text: str, expected: str) -> None:
    assert Normalise().rewrite(text, None) == Rewritten(expected)


@pytest.mark.parametrize(
    "text",
    [
        "p < 10\u221218, Foxc1\u2212/\u2212, CD44\u2212",
        "5 µg (U+00B5) and 5 μg (U+03BC)",
        "10⁻³ M, kg/m², CO₂, Ca²⁺, 10⁹/L",
        "½ tab, 1½ comp, ¼ h",
        "1ª dosis, 3º día, nº 5",
        "37,5 °C ± 0,2; ≤ 5 × 10; ½–1",
        "Straße, cœur, Muñoz, ´ ¨ ¸, 5′ 3″, ®™©",
    ],
)
def test_doses_units_and_names_stay(text: str) -> None:
    assert Normalise(join_lines=True).rewrite(text, None).text == text


def test_options_turn_single_kinds_off() -> None:
    text = "“ﬁne”\u2011x\xad"
    off = {"quotes": False, "hyphens": False, "compatibility": False, "invisible": False}
    assert Normalise(**off).rewrite(text, None).text == text
    assert Normalise(**{**off, "hyphens": True}).rewrite(text, None).text == "“ﬁne”-x\xad"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("acute inflam-\nmation of the liver", "acute inflammation\nof the liver"),
        ("acute inflam\xad\nmation.\nNext", "acute inflammation.\nNext"),
        ("anti-\ninflamma-\ntory, and so", "antiinflammatory,\nand so"),
        ("long-\nterm use; long-term risk", "long-term\nuse; long-term risk"),
        ("COVID-\n19 and IL-\n6, Saint-\nDenis, x-\nray", "COVID-\n19 and IL-\n6, Saint-\nDenis, x-\nray"),
        ("- item\n- other", "- item\n- other"),
    ],
)
def test_words_divided_at_line_ends(text: str, expected: str) -> None:
    assert Normalise(join_lines=True).rewrite(text, None).text == expected
    assert Normalise(invisible=False).rewrite(text, None).text == text
