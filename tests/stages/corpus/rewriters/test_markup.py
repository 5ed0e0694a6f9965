from __future__ import annotations

import pytest

from osler.stages.corpus.rewriters import Removal
from osler.stages.corpus.rewriters.markup import Markup

NO_MARKUP = [
    "K <5 mg/dL and p < 0.05, q>3",
    "if a<b and c>d, then a<d",
    "talla: 96 cm (<P1; -3,22 DE), peso >P3",
    "<NAME> was seen at <TIME> on <DATE>, <dig> years old",
    "[**2151-7-16**] pt with HCV+ and NKDA",
    "Hb 12 [5-20], 95% CI [2, 6], HR 3.52 [1.32–9.37], IC 95 % [1-3]",
    "mos 46,XY,r(6)(p25.3q27)[54]/45,XY,-6[13], strain G6P6[1], equation [2], as in [3]",
    "forme dite ''possible'', see [http://example.org/a]",
    "[3H]thymidine, [18F]FDG, t[1] and the interval [0, 1]",
    "[1] Smith J. Title.\n[2] Jones K. Title.",
    "mg\\dL, n\\v, C:\\notes\\new",
    "it costs $5 or $10_a, not $7",
    "5'' to 7'' of the '90s",
    "{{ unclosed and [[ open",
    "=====\nLABS\n=====",
    "a|b||c {| d",
]


@pytest.mark.parametrize("text", NO_MARKUP)
def test_text_that_looks_like_markup_stays(text: str) -> None:
    assert Markup().rewrite(text, None).text == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("an <b>acute</b> <span class='x y' id=3>pain</span>", "an acute pain"),
        ("<p>One</p><p>Two<br/>three</p>", "\nOne\n\nTwo\nthree\n"),
        ("<tr><td>Na</td><td>140</td></tr>", "\n Na  140 \n"),
        ("10<sup>-3</sup> M, m<sup>2</sup>, Ca<sup>2+</sup>, CO<sub>2</sub>", "10⁻³ M, m², Ca²⁺, CO2"),
        ('see <xref ref-type="fig" rid="f1">Figure 1</xref>', "see Figure 1"),
        ("ferritin<Sub>min</Sub> <5 mg", "ferritinmin <5 mg"),
    ],
)
def test_html(text: str, expected: str) -> None:
    assert Markup().rewrite(text, None).text == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The '''heart''' is a ''muscle''.", "The heart is a muscle."),
        ("the [[aorta|great vessel]] and the [[liver]]", "the great vessel and the liver"),
        ("== History ==\nIn 1628", "History\nIn 1628"),
        ("the site [https://example.org/x of the WHO] says", "the site of the WHO says"),
    ],
)
def test_wiki(text: str, expected: str) -> None:
    assert Markup().rewrite(text, None).text == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\textit{E. \textbf{coli}} at 37\degree C", "E. coli at 37°C"),
        (r"$p \leq 0.05$ and $\alpha_{1}$, $10^{-3}$ M", "p ≤0.05 and α1, 10⁻³ M"),
        (r"as \cite{a,b} show, 50\% of \mu L, \frac{1}{2}", "as  show, 50% of μL, (1)/(2)"),
    ],
)
def test_latex(text: str, expected: str) -> None:
    assert Markup().rewrite(text, None).text == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("as shown [34]. Others [3, 5-7] agree.", "as shown. Others agree."),
        ("Smith et al.[12] found it. [13] Then", "Smith et al. found it. Then"),
        ("ou cholédococèle [1–3].", "ou cholédococèle."),
        ("recessive manner.[1][2] And therapy. [1] [2]", "recessive manner. And therapy."),
    ],
)
def test_citations(text: str, expected: str) -> None:
    assert Markup().rewrite(text, None).text == expected
    assert Markup(citations=False).rewrite(text, None).text == text


@pytest.mark.parametrize(
    ("text", "expected", "reason"),
    [
        ("a<script type='x'>if (a<b) f();</SCRIPT>b", "ab", "html"),
        ("a<!-- hidden -->b", "ab", "html"),
        ("a{{cite|{{x}} y}}b", "ab", "wiki"),
        ("a<ref name=x>Smith</ref>b", "ab", "wiki"),
        ("a[[File:x.jpg|thumb|the [[aorta]]]]b", "ab", "wiki"),
        ("a\n{| class=x\n| Na || 140\n|}b", "a\nb", "wiki"),
        (r"a\documentclass{minimal}\usepackage{x}\begin{document}b\end{document}", "ab", "latex"),
    ],
)
def test_passages_are_reported(text: str, expected: str, reason: str) -> None:
    result = Markup().rewrite(text, None)
    assert result.text == expected
    [removal] = result.removed
    assert removal == Removal(reason, removal.characters)
    assert 0 < removal.characters < len(text)


def test_each_kind_can_be_turned_off() -> None:
    text = r"<b>x</b> '''y''' \textit{z} word [3]"
    off = Markup(html=False, wiki=False, latex=False, citations=False)
    assert off.rewrite(text, None).text == text


@pytest.mark.parametrize("piece", ["<script>", "<!--", "{{", "[[", "<ref>", "\\textit{", "$\\", "<b a=", "[1,"])
def test_unclosed_markup_takes_linear_time(piece: str) -> None:
    text = piece * 20_000
    assert len(Markup().rewrite(text, None).text) <= len(text)
