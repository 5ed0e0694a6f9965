"""Convert spans to one tag per word (BIO, BIOES) and back.

A flat tag sequence cannot express all spans: those it cannot are returned, never hidden. On the way back, a sequence that
breaks its scheme is read by the caller's `Repair` policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from osler.core.errors import InputError
from osler.text.document import Span
from osler.text.words import Range, covered

OUTSIDE = "O"
STRAY = "stray"
"""Attribute of a predicted span that begins with a tag inside a mention, if the repair is B_ANCHORED."""


class Scheme(Enum):
    """How tags mark a span: BIO marks its beginning and inside; BIOES also its end and single words."""

    BIO = "BIO"
    BIOES = "BIOES"


class Repair(Enum):
    """How a tag sequence that breaks its scheme is read.

    STRICT: only well-formed spans count. BIO: B and the I of the same label after it; any other I is dropped. BIOES: S, or
    a complete B, I…, E of one label; everything else is dropped.
    CONLLEVAL: as the CoNLL scorer reads chunks. A tag that does not continue the chunk before it (after O, after another
    label, after an E or S) starts a chunk, whatever its prefix.
    B_ANCHORED: as CONLLEVAL, and a span that does not begin with B (or S) has the attribute `stray`, because the metric
    b_anchored_f1 joins it to the mention before it.
    DISCARD: as STRICT, but a span directly followed by a stray tag is dropped too: B-X I-Y gives nothing, where STRICT
    keeps X. In BIOES this is the same as STRICT, where a span without its E is never complete.
    """

    STRICT = "strict"
    CONLLEVAL = "conlleval"
    B_ANCHORED = "b-anchored"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True)
class TagResult:
    """One tag per word, the spans that the tags do not express, and those whose tags cover other characters."""

    tags: list[str]
    unexpressed: list[Span]
    inexact: list[Span]


@dataclass(frozen=True, slots=True)
class Transitions:
    """Which tags may follow each other (`allowed[before][after]`), start a sequence and end one."""

    allowed: list[list[bool]]
    start: list[bool]
    end: list[bool]


def spans_to_tags(
    spans: Iterable[Span], words: Sequence[Range], scheme: Scheme, *, tag_fragments: bool = False
) -> TagResult:
    """Tag the words of the spans. Of spans that share words, the longest wins, then the first, then the first label.

    A span whose edges fall inside a word, or whose fragments have no word between them, is tagged on the words it touches
    and listed in `inexact`. Copies of a span (same fragments, same label) count once. With `tag_fragments`, a span with
    words between its fragments is tagged too, as B I O I; it is unexpressed only if another span begins between them.
    """
    tags = [OUTSIDE] * len(words)
    unexpressed: list[Span] = []
    inexact: list[Span] = []
    broken: list[tuple[Span, Sequence[int]]] = []
    unique = {span.key: span for span in reversed(list(spans))}.values()
    for span in sorted(unique, key=lambda s: (s.start - s.end, s.start, s.label, s.fragments)):
        whole = covered(words, span.start, span.end)
        place = _touched(span, words, whole)
        gap = len(place) < len(whole)
        if not place or (gap and not tag_fragments) or any(tags[index] != OUTSIDE for index in place):
            unexpressed.append(span)
            continue
        for index in place:
            tags[index] = f"I-{span.label}"
        tags[place[0]] = f"B-{span.label}"
        if scheme is Scheme.BIOES:
            tags[place[-1]] = f"{'S' if len(place) == 1 else 'E'}-{span.label}"
        if gap:
            broken.append((span, place))
        elif span.discontinuous or (span.start, span.end) != (words[place[0]][0], words[place[-1]][1]):
            inexact.append(span)
    for span, place in broken:
        if any(tags[index][0] in "BS" for index in range(place[0] + 1, place[-1])):
            unexpressed.append(span)
    return TagResult(tags, _in_order(unexpressed), _in_order(inexact))


def tags_to_spans(
    tags: Sequence[str],
    words: Sequence[Range],
    scheme: Scheme,
    repair: Repair,
    scores: Sequence[float] | None = None,
    *,
    mention: Callable[[float], float] | None = None,
    numbered: bool = False,
) -> list[Span]:
    """Read spans from tags. A span's score is the mean of its words' scores, which does not penalise long mentions.

    `mention` maps that mean to another score. With `numbered`, the spans get the ids T1, T2, …
    """
    if len(tags) != len(words) or (scores is not None and len(scores) != len(words)):
        raise ValueError(f"expected one tag and one score for each of {len(words)} words")
    spans: list[Span] = []
    for start, end, label in chunks(tags, scheme, repair):
        # Rounded, so that the last bits of a sum never decide what is written.
        score = None
        if scores is not None:
            score = round(scores[start] if end == start + 1 else sum(scores[start:end]) / (end - start), 6)
            if mention is not None:
                score = mention(score)
        stray = repair is Repair.B_ANCHORED and tags[start][0] not in "BS"
        attributes = {STRAY: "true"} if stray else {}
        number = f"T{len(spans) + 1}" if numbered else ""
        spans.append(Span(((words[start][0], words[end - 1][1]),), label, number, score, attributes))
    return spans


def chunks(tags: Sequence[str], scheme: Scheme, repair: Repair) -> list[tuple[int, int, str]]:
    """Labelled half-open word ranges of a tag sequence."""
    found: list[tuple[int, int, str]] = []
    start = 0
    previous, open_label = OUTSIDE, ""  # prefix and label of the open chunk, as CoNLL reads it
    whole = True  # whether the open chunk began with B or S

    def close(end: int, next_prefix: str) -> None:
        proper = whole and (scheme is Scheme.BIO or previous in "ES")
        if repair is Repair.DISCARD and next_prefix == "I" and scheme is Scheme.BIO:
            proper = False
        if open_label and (proper or repair in (Repair.CONLLEVAL, Repair.B_ANCHORED)):
            found.append((start, end, open_label))

    for index, tag in enumerate(tags):
        if tag == OUTSIDE and not open_label:
            continue  # nine words in ten
        prefix, label = _split(tag, scheme, index)
        if prefix in "IE" and label == open_label and previous in "BI":
            previous = prefix
            continue
        close(index, prefix)
        start, previous, open_label, whole = index, prefix, label, prefix in "BS"
    close(len(tags), OUTSIDE)
    return found


def label_set(labels: Sequence[str], scheme: Scheme) -> list[str]:
    """All tags of these labels in order, O first."""
    if len(set(labels)) != len(labels) or "" in labels:
        raise InputError("a label is empty or repeated", fix="Give every label once")
    prefixes = "BI" if scheme is Scheme.BIO else "BIES"
    return [OUTSIDE, *(f"{prefix}-{label}" for label in labels for prefix in prefixes)]


def transitions(tags: Sequence[str], scheme: Scheme) -> Transitions:
    """Legal transitions between tags, which allow exactly the well-formed sequences."""
    pairs = [_split(tag, scheme, index) for index, tag in enumerate(tags)]
    bio = scheme is Scheme.BIO

    def may_follow(before: tuple[str, str], after: tuple[str, str]) -> bool:
        inside = before[0] in "BI"
        if after[0] in "IE":
            return inside and before[1] == after[1]
        return bio or not inside

    return Transitions(
        allowed=[[may_follow(before, after) for after in pairs] for before in pairs],
        start=[may_follow((OUTSIDE, ""), after) for after in pairs],
        end=[may_follow(before, (OUTSIDE, "")) for before in pairs],
    )


def _split(tag: str, scheme: Scheme, index: int) -> tuple[str, str]:
    """Prefix and label of a tag; ("O", "") outside."""
    parts = _parts(tag, scheme is Scheme.BIO)
    if parts is None:
        # Do not quote the tag: a wrong column may hold a patient's text.
        raise InputError(
            f"not a {scheme.value} tag", where=f"tag {index}", fix="Set the scheme that the tags are written in"
        )
    return parts


@lru_cache(maxsize=1 << 12)
def _parts(tag: str, bio: bool) -> tuple[str, str] | None:
    if tag == OUTSIDE:
        return OUTSIDE, ""
    known = len(tag) > 2 and tag[1] == "-" and tag[0] in ("BI" if bio else "BIES")
    return (tag[0], tag[2:]) if known else None


def _touched(span: Span, words: Sequence[Range], whole: range) -> Sequence[int]:
    """The words that a span touches; `whole` are those from its first character to its last."""
    if not span.discontinuous:
        return whole
    return sorted({index for fragment in span.fragments for index in covered(words, *fragment)})


def _in_order(spans: list[Span]) -> list[Span]:
    return sorted(spans, key=lambda s: (s.fragments, s.label))
