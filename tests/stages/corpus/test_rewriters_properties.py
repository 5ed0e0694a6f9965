"""What holds for every text: rewriters never fail, give the same result every time, and leave doses, units and letters alone."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.stages.corpus.config import SourceCleaning
from osler.stages.corpus.documents import RepairedDocument
from osler.stages.corpus.filters import FILTERS
from osler.stages.corpus.rewriters import REWRITERS, Rewriter

NEEDS_MORE = ("blocked_words", "language", "terms")  # a list, or the model of languages
PIECES = (
    *("0.5 mg/kg", "10^9/L", "10<sup>9</sup>/L", "µg", "≥ 3", "1:10,000", "½", "10⁻³", "[135-145]", "37,5 ºC", "x^2"),
    *("<b>", "</b>", "<script>", "</script>", "<!--", "-->", "{{", "}}", "{|", "|}", "[[", "]]", "[[File:", "<ref>"),
    *("</ref>", "'''", "''", "== H ==", "$", "\\mu", "\\frac{1}{2}", "^{", "_{", "}", "\\cite{a}", "[12]", "[3, 4]"),
    *("a@b.org", "www.a.org", "http://", "Tel. 600 123 456", "+34", "-\n", "\xad", "\u200b", "\u2212", "\n", "\n\n\n"),
    *(
        "\r\n",
        "\t",
        "  ",
        " .",
        " :",
        "\xa0",
        "\u2028",
        "ñ",
        "œ",
        "ç",
        "ã",
        "É",
        "β",
        "Ж",
        "中",
        "😀",
        "\ud800",
        "\0",
        "ﬁ",
    ),
    *("Fever", "the patient is well today", "El paciente está bien.", "negativo", "1", "(", ")", "&lt;", "<"),
)
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=24).map(" ".join) | st.lists(
    st.sampled_from(PIECES), max_size=24
).map("".join)
LANGUAGES = st.sampled_from(["en", "es", "fr", "pt", None])


def every_option(name: str) -> list[Rewriter]:
    """A rewriter with its defaults, with everything on and with everything off."""
    kind = REWRITERS.get(name)
    switches = [option for option, field in kind.model_fields.items() if field.annotation is bool]
    return [kind(), *(kind(**dict.fromkeys(switches, on)) for on in (True, False))]


@pytest.mark.parametrize("name", REWRITERS.names())
@settings(max_examples=150, deadline=None)
@given(text=TEXTS, language=LANGUAGES)
def test_rewriters_never_fail_and_repeat_themselves(name: str, text: str, language: str | None) -> None:
    for rewriter in every_option(name):
        made = rewriter.rewrite(text, language)
        assert made == rewriter.rewrite(text, language)
        assert all(removal.characters > 0 for removal in made.removed)


@pytest.mark.parametrize("name", ["masks", "repeated_lines", "whitespace", "normalise"])
@settings(max_examples=150, deadline=None)
@given(text=TEXTS, language=LANGUAGES)
def test_a_second_time_changes_nothing(name: str, text: str, language: str | None) -> None:
    for rewriter in every_option(name):
        if not getattr(rewriter, "join_lines", False):  # a joined word may end in the hyphen of the next line
            once = rewriter.rewrite(text, language).text
            assert rewriter.rewrite(once, language).text == once


@settings(max_examples=150, deadline=None)
@given(text=TEXTS, language=LANGUAGES)
def test_the_clinical_preset_loses_no_character_but_whitespace(text: str, language: str | None) -> None:
    for rewriter in (SourceCleaning(preset="clinical").rewrite or {}).values():
        made = rewriter.rewrite(text, language)
        assert made.text.split() == text.split()
        assert made.removed == ()


@pytest.mark.parametrize("name", [name for name in FILTERS.names() if name not in NEEDS_MORE])
@settings(max_examples=100, deadline=None)
@given(text=TEXTS, language=LANGUAGES)
def test_filters_never_fail_and_name_their_options(name: str, text: str, language: str | None) -> None:
    rule = FILTERS.get(name)()
    reason = rule.reason(RepairedDocument(text, len(text.split()), language))
    assert reason is None or reason in type(rule).model_fields


DOSES = (
    *("0.5 mg/kg", ".5 mg", "0,5 mg/kg/día", "10^9/L", "4.5 x10^9/L", "10*9/L", "µg", "μg", "250 µg/8 h", "≥ 3", "≤5"),
    *("1:10,000", "1 : 10,000", "1:160", "± 2", "½ comp.", "1½ tab", "10⁻³ M", "m²", "kg/m2", "37,5 ºC", "38.2 °C"),
    *("T° 38,9", "p<0.05", "p < .001", "PCR <0,5 mg/l", "Na+ 140", "HCO3- 24", "Ca2+", "SpO₂ 91%", "120/80 mmHg"),
    *("1-0-1", "K 5.6 H [3.5-5.0]", "OR 2.3 [1.1–4.5]", "12.300/µl", "3.400.000/mm3", "5'", '6"', "INR 1.0 -> 2.3"),
    *("3ª dosis", "1er", "nº 5", "G/L", "créat 142 µmol/L", "10 U SC qHS", "1 g/8 h v.o.", "q.d.", "b.i.d.", "5-HT"),
    *("œdème", "cœur", "coração", "não", "niño", "¿qué?", "L'hôpital", "« à revoir »", "Ça", "l·l", "ß", "ŵ"),
)


@pytest.mark.parametrize(("name", "dose"), list(product(["markup", "masks", "normalise", "whitespace"], DOSES)))
def test_doses_units_and_letters_stay(name: str, dose: str) -> None:
    text = f"Se pauta {dose} y se revisa."
    for rewriter, language in product(every_option(name), ("en", "es", "fr", None)):
        assert rewriter.rewrite(text, language).text == text


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (r"$\mu$g, $10^{9}$/L, $\geq$ 3", "μg, 10⁹/L, ≥ 3"),
        (r"10$^{3.5}$ and $10^{3.5}$, 37$^\circ$C, 37 $^{\circ}$C, 5$^{th}$", "10^3.5 and 10^3.5, 37°C, 37 °C, 5th"),
        ("10<sup>3.5</sup>, kg<sup>0.75</sup>, 10<sup>-3</sup>, 5<sup>th</sup>", "10^3.5, kg^0.75, 10⁻³, 5th"),
        ("10u@8.30 h, 5mg@8.30am", "10u@8.30 h, 5mg@8.30am"),
    ],
)
def test_numbers_keep_their_value(text: str, plain: str) -> None:
    markup, masks = (REWRITERS.get(name)() for name in ("markup", "masks"))
    assert masks.rewrite(markup.rewrite(text, "en").text, "en").text == plain
