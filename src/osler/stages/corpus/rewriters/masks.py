"""Mask e-mail addresses, web addresses and telephone numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from osler.stages.corpus.rewriters import Rewriter, Rewritten

# An address is found by a sign in it, which `re` skips to quickly, and by what must precede the sign. A web address ends before the
# punctuation of the sentence around it.
_INSIDE = r"[^\s<>\"“”«»]"
_REST = rf"{_INSIDE}*[^\s<>\"“”«».,;:!?()\[\]{{}}'\u2019*]/?"
_EMAILS = ((re.compile(r"@(?:[\w-]{1,63}\.)+[A-Za-z]{2,63}", re.ASCII), re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}\Z")),)
_URLS = (
    (re.compile(rf"://{_REST}"), re.compile(r"(?:https?|ftps?)\Z", re.IGNORECASE)),
    (re.compile(rf"www\.{_REST}"), re.compile(r"(?<![\w.])\Z")),
    # Without "http" or "www", only endings that no sentence begins with, in case the space after a full stop is missing.
    (
        re.compile(rf"\.(?:com|edu|gov|net|org)(?:\.[a-z]{{2}})?(?![\w@-])(?:[:/]{_REST}|/)?"),
        re.compile(r"(?<![\w@./-])[A-Za-z0-9][\w.-]{0,99}\Z"),
    ),
)
_NUMBER = re.compile(r"(?<![\w.,+-])[+(]{0,2}\d(?:[ ./()-]{0,2}\d){6,13}(?![\w-]|[.,]\d)")
_LABEL = re.compile(
    r"\b(?:tel|tlf|tfno|t[ée]l[ée]phone|teléfono|tél|phone|fax|móvil|portable)\.?[ :]{0,3}\Z", re.IGNORECASE
)
# Without a label or a plus sign, a number must be grouped as in the United States or France: 120/80 75-80 and 612 345 000 are measurements.
_GROUPED = re.compile(r"(?:\([2-9]\d\d\) ?|[2-9]\d\d[.-])\d{3}[.-]\d{4}|0[1-9](?:[ .-]\d\d){4}")

_Signs = tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]


class Masks(Rewriter):
    """Which addresses are masked."""

    emails: bool = True
    """Write [EMAIL] for e-mail addresses."""
    urls: bool = True
    """Write [URL] for web addresses."""
    phones: bool = False
    """Write [PHONE] for telephone numbers: international ones, those after "Tel.", and those grouped as in the
    United States or France."""

    def rewrite(self, text: str, language: str | None) -> Rewritten:
        if self.emails:
            text = _masked(text, _EMAILS, "[EMAIL]")
        if self.urls:
            text = _masked(text, _URLS, "[URL]")
        if self.phones:
            text = _NUMBER.sub(_masked_number, text)
        return Rewritten(text)


def _masked_number(number: re.Match[str]) -> str:
    digits = number.group()
    labelled = _LABEL.search(number.string, max(0, number.start() - 16), number.start())
    return "[PHONE]" if labelled or "+" in digits[:2] or _GROUPED.fullmatch(digits) else digits


def _masked(text: str, signs: _Signs, mask: str) -> str:
    for after, before in signs:
        if after.search(text):
            text = "".join(_pieces(text, after, before, mask))
    return text


def _pieces(text: str, after: re.Pattern[str], before: re.Pattern[str], mask: str) -> Iterator[str]:
    done = 0
    for match in after.finditer(text):
        # Addresses are shorter than this limit, which keeps long texts without spaces fast.
        opening = before.search(text, max(done, match.start() - 100), match.start())
        if opening:
            yield text[done : opening.start()]
            yield mask
            done = match.end()
    yield text[done:]
