r"""Remove remnants of HTML, wiki markup and LaTeX, and citation marks.

Each kind is detected by a sign that is rare in plain text, such as `<` or `\`. Marks around words are deleted and the words stay;
passages that are not text (scripts, templates, preambles) are removed and reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from osler.stages.corpus.rewriters import Removal, Rewriter, Rewritten


class Markup(Rewriter):
    """Which markup is removed. Words between marks stay. Comparisons such as "<5 mg" or "p < 0.05" are not markup."""

    html: bool = True
    """Remove HTML and JATS tags, and scripts, styles and comments with their content."""
    wiki: bool = True
    """Remove MediaWiki marks of links, bold and headings, and templates, tables, references, files and categories with their content."""
    latex: bool = True
    """Remove marks of LaTeX commands and formulas, and preambles with their content. Symbols and exponents become characters."""
    citations: bool = True
    """Remove reference numbers in square brackets, such as [34] or [3, 5-7]. Intervals after a number stay."""

    def rewrite(self, text: str, language: str | None) -> Rewritten:
        removed: list[Removal] = []
        if self.wiki:
            text = _without_wiki(text, removed)
        if self.html and "<" in text:
            text = _without_html(text, removed)
        if self.latex and ("\\" in text or ("$" in text and "^" in text)):
            text = _without_latex(text, removed)
        if self.citations and "[" in text:
            text = _without_citations(text)
        return Rewritten(text, tuple(removed))


# Tags with well-formed attributes only, so that "p<0.05 and q>3", "a<b and c>d" and "<NAME>" stay. The tags address, time and data
# are left out because de-identified notes have <TIME>.
_LINE_TAGS = (
    "article|aside|blockquote|body|br|center|dd|div|dl|dt|figcaption|figure|footer|form|h[1-6]|head|header|hr|"
    "html|li|main|nav|ol|p|pre|sec|section|table|tbody|tfoot|thead|title|tr|ul"
)
_WORD_TAGS = (
    "a|abbr|acronym|b|bdi|bdo|big|bold|button|caption|cite|code|col|colgroup|del|dfn|em|ext-link|font|i|iframe|"
    "img|input|ins|italic|kbd|label|link|mark|meta|nobr|option|q|s|samp|sc|select|small|span|strike|strong|sub|"
    "sup|svg|tt|u|underline|var|wbr|xref"
)
_ATTRIBUTES = r"""(?:\s+[\w:-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>=]+))*+"""
_TAG = re.compile(
    rf"</?+(?:(?P<line>{_LINE_TAGS})|(?P<cell>td|th)|{_WORD_TAGS}){_ATTRIBUTES}\s*/?>",
    re.IGNORECASE,
)
_UNREAD = (
    (re.compile("<!--"), "-->"),
    (re.compile(r"<script(?=[\s>])", re.IGNORECASE), "</script>"),
    (re.compile(r"<style(?=[\s>])", re.IGNORECASE), "</style>"),
)
_RAISED_DIGITS = str.maketrans("0123456789+-−–", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")
_RAISABLE = re.compile(r"[+−–-]?\d{1,3}[+−–-]?|[+−–-]")
_SUP = re.compile(r"<sup>\s*([+−–-]?\d[\d.,+−–-]*|[+−–-])\s*</sup>", re.IGNORECASE)


def _without_html(text: str, removed: list[Removal]) -> str:
    for opening, end in _UNREAD:
        text = _without_passages(text, opening, end, "html", removed)
    text = _SUP.sub(lambda exponent: _raised(exponent[1]), text)
    return _TAG.sub(lambda tag: "\n" if tag["line"] else " " if tag["cell"] else "", text)


def _raised(exponent: str) -> str:
    """Write an exponent in characters: 10<sup>-3</sup> is 10⁻³, not 10-3. 10^3.5 has none and must not become 103.5."""
    return exponent.translate(_RAISED_DIGITS) if _RAISABLE.fullmatch(exponent) else f"^{exponent}"


def _without_passages(text: str, opening: re.Pattern[str], end: str, reason: str, removed: list[Removal]) -> str:
    """Remove passages from an opening to the next end, ignoring case. A passage without an end stays."""
    if not opening.search(text):
        return text
    lower = text.lower() if len(text.lower()) == len(text) else text
    pieces, done = [], 0
    for match in opening.finditer(text):
        if match.start() < done:
            continue
        stop = lower.find(end, match.end())
        if stop < 0:
            break
        pieces.append(text[done : match.start()])
        done = stop + len(end)
        removed.append(Removal(reason, done - match.start()))
    return "".join(pieces) + text[done:]


_TEMPLATE = re.compile(r"\{\{|\}\}")
_TABLE = re.compile(r"^\{\||^\|\}", re.MULTILINE)
_REFERENCE = re.compile(r"<ref(?=[\s>])(?![^<>]*/>)", re.IGNORECASE)
_EMPTY_REFERENCE = re.compile(r"<ref\b[^<>]*/>|<references\b[^<>]*>|__[A-Z]{3,12}__", re.IGNORECASE)
_LINK = re.compile(r"\[\[(?:(?P<kind>\w+):)?(?P<target>[^\[\]|]*)(?:\|(?P<shown>[^\[\]]*))?\]\]")
_FILE_KINDS = {"file", "image", "category", "archivo", "imagen", "categoría", "fichier", "catégorie"}
_OUTER_LINK = re.compile(r"\[(?:https?:)?//[^\s\]]+ ([^\]\n]+)\]")
_ITALIC = re.compile(r"(?<!')''(?=[^\s'])([^'\n]*[^\s'])''(?!')")
_HEADING = re.compile(r"^(={2,6})[ \t]*([^=\n]+?)[ \t]*\1[ \t]*$", re.MULTILINE)
_DEEPEST = 5


def _without_wiki(text: str, removed: list[Removal]) -> str:
    is_wiki = any(mark in text for mark in ("[[", "'''", "{{"))
    if "<ref" in text:
        text = _EMPTY_REFERENCE.sub("", _without_passages(text, _REFERENCE, "</ref>", "wiki", removed))
    if "{{" in text:
        text = _without_nested(text, _TEMPLATE, removed)
    if "{|" in text:
        text = _without_nested(text, _TABLE, removed)
    if "[[" in text:
        shown = _link_text(removed)
        for _ in range(_DEEPEST):  # links in the captions of files
            text, number = _LINK.subn(shown, text)
            if not number:
                break
    if "//" in text and "[" in text:
        text = _OUTER_LINK.sub(r"\1", text)
    if is_wiki:  # elsewhere two apostrophes are a quotation mark
        text = _ITALIC.sub(r"\1", text.replace("'''", ""))
    return _HEADING.sub(r"\2", text) if "==" in text else text


def _link_text(removed: list[Removal]) -> Callable[[re.Match[str]], str]:
    def shown(link: re.Match[str]) -> str:
        if link["kind"] and link["kind"].lower() in _FILE_KINDS:
            removed.append(Removal("wiki", len(link.group())))
            return ""
        words = link["target"] if link["shown"] is None else link["shown"]
        return f"{link['kind']}:{words}" if link["kind"] and link["shown"] is None else words

    return shown


def _without_nested(text: str, marks: re.Pattern[str], removed: list[Removal]) -> str:
    """Remove passages between marks, nested ones included. If a mark has no partner, the rest stays."""
    pieces, done, depth, start = [], 0, 0, 0
    for mark in marks.finditer(text):
        if mark.group()[0] == "{":
            start = start if depth else mark.start()
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                pieces.append(text[done:start])
                done = mark.end()
                removed.append(Removal("wiki", done - start))
    return "".join(pieces) + text[done:]


_SYMBOLS = {
    name: symbol
    for names, symbols in (
        ("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma", "αβγδεζηθικλμνξπρσ"),
        ("tau upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega", "τυφχψωΓΔΘΛΞΠΣΦΨΩ"),
        ("pm times leq geq le ge neq approx sim cdot infty rightarrow to circ degree prime", "±×≤≥≤≥≠≈∼·∞→→°°′"),
        ("partial sum prod int sqrt in ldots dots quad", "∂∑∏∫√∈…… "),
    )
    for name, symbol in zip(names.split(), symbols, strict=True)
} | {"left": "", "right": ""}
_ARGUMENT = r"\s?\{([^{}]*)\}"
_PREAMBLE = re.compile(r"\\documentclass\b")
_DELETED = re.compile(
    r"\\(?:cite[a-z]*|(?:eq)?ref|label|begin|end|usepackage|setlength|[vh]space|includegraphics)(?:\[[^\]\n]*\])?"
    + _ARGUMENT
)
_FORMATTED = re.compile(
    r"\\(?:text[a-z]*|math[a-z]*|emph|underline|overline|hat|bar|tilde|vec|[hm]box|(?:sub)*section|caption|footnote)"
    + _ARGUMENT
)
_FRACTION = re.compile(r"\\[dt]?frac" + _ARGUMENT + _ARGUMENT)
_SYMBOL = re.compile(rf"\\({'|'.join(_SYMBOLS)})(?![A-Za-z]) ?")
_ESCAPED = re.compile(r"\\([%&#_${}])")
_THIN_SPACE = re.compile(r"\\[,;: ]")
# Two prices have dollar signs around a text too, but no exponent, index or command.
_FORMULA = re.compile(r"(\$\$?)([^$\n]{0,400}[\\^_][^$\n]{0,400})\1")
_EXPONENT = re.compile(r"\^(?:\{\s*([^{}]*?)\s*\}|([\d°′]))")
_UNRAISED = ("", "°", "′", "st", "nd", "rd", "th")
_INDEX = re.compile(r"_\{([^{}]*)\}|_(?=\w)")


def _without_latex(text: str, removed: list[Removal]) -> str:
    text = _without_passages(text, _PREAMBLE, "\\begin{document}", "latex", removed)
    text, found = _FORMULA.subn(_plain_formula, text)
    text, deleted = _DELETED.subn("", text)
    for _ in range(_DEEPEST):
        text, formatted = _FORMATTED.subn(r"\1", text)
        text, fractions = _FRACTION.subn(r"(\1)/(\2)", text)
        found += formatted + fractions
        if not formatted + fractions:
            break
    text, symbols = _SYMBOL.subn(lambda symbol: _SYMBOLS[symbol[1]], text)
    if found + deleted + symbols:  # elsewhere a backslash before a mark may mean something else
        text = _ESCAPED.sub(r"\1", _THIN_SPACE.sub(" ", text))
    return text


def _plain_formula(formula: re.Match[str]) -> str:
    # Symbols first: outside of its formula, the command in "$\mu$g" would be "\mug".
    plain = _SYMBOL.sub(lambda symbol: _SYMBOLS[symbol[1]], formula[2])
    return _INDEX.sub(r"\1", _EXPONENT.sub(_plain_exponent, plain)).strip()


def _plain_exponent(exponent: re.Match[str]) -> str:
    what = exponent[1] if exponent[2] is None else exponent[2]
    return what if what in _UNRAISED else _raised(what)


_CITATION = re.compile(r"\[[1-9]\d{0,2}(?P<more>(?:\s?[,;–-]\s?[1-9]\d{0,2})*)\](?![\w/])")
# Not a citation: an interval (12 [5-20], 95% CI [2, 6]), an index or a count (t[1], G6P6[1], 45,XY[13]/46,XX), or part of the
# sentence (see [3], equation [2]).
_INTERVAL = re.compile(r"\d[^.;]*\Z|\b(?:CI|IC|IQR|RIQ|RIC|range|rango|interval\w*)\W*\Z", re.IGNORECASE)
_ATTACHED = re.compile(r"(?:\d|\b[^\W\d_])\Z")
_NAMED = re.compile(
    r"\b(?:in|by|see|from|of|with|to|and|or|eq|equation|ecuación|équation|fig|figure|figura|table|tabla|tableau|refs?|references?|"
    r"en|por|de|con|ver|y|o|dans|par|voir|et|ou)\.? \Z",
    re.IGNORECASE,
)


def _without_citations(text: str) -> str:
    pieces, done = [], 0
    for match in _CITATION.finditer(text):
        start = match.start()
        before = text[max(0, start - 16) : start]
        # At the start of a line it is the number of a reference or of a list item.
        if not before.strip(" ") or before.rstrip(" ")[-1] == "\n":
            continue
        if _ATTACHED.search(before) or _NAMED.search(before) or (match["more"] and _INTERVAL.search(before)):
            continue
        pieces.append(text[done : start - (before[-1] == " ")])
        done = match.end()
    return "".join(pieces) + text[done:]
