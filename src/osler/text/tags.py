"""Spans as one tag a word (BIO, BIOES), both ways, with every loss and every repair named.

A flat tag sequence cannot say everything that spans can. Going to tags, what it cannot say is handed back, never
hidden; coming back, a sequence that breaks its scheme is read by the `Repair` policy that the caller names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from osler.core.errors import InputError
from osler.text.document import Span
from osler.text.words import Range, covered

OUTSIDE = "O"


class Scheme(Enum):
    """How tags mark a span: BIO begins and continues it; BIOES also ends it and marks single words."""

    BIO = "BIO"
    BIOES = "BIOES"


class Repair(Enum):
    """How a tag sequence that breaks its scheme is read.

    STRICT: only what is well formed counts. BIO: a span is B and the I of its label behind it; any other I is dropped.
    BIOES: a span is S, or B, I…, E of one label, complete; all else is dropped.
    CONLLEVAL: as the CoNLL scorer reads chunks. A tag that does not continue the chunk before it (after O, after
    another label, after an E or S) starts one, whatever its prefix; a chunk lasts until a tag does not continue it.
    DISCARD: as STRICT, but a span with a stray tag right behind it goes too: B-X I-Y leaves nothing, where STRICT
    keeps X. In BIOES this says the same as STRICT, because there a span without its E is never complete.
    """

    STRICT = "strict"
    CONLLEVAL = "conlleval"
    DISCARD = "discard"


class Extent(Enum):
    """A discontinuous span: OMIT leaves it unexpressed, COVER tags all from its first word to its last."""

    OMIT = "omit"
    COVER = "cover"


@dataclass(frozen=True, slots=True)
class TagResult:
    """One tag a word, the spans that no tag expresses, and those whose tags cover other characters than they do."""

    tags: list[str]
    unexpressed: list[Span]
    inexact: list[Span]


@dataclass(frozen=True, slots=True)
class Transitions:
    """Which tag may follow which (`allowed[before][after]`), start a sequence and end one."""

    allowed: list[list[bool]]
    start: list[bool]
    end: list[bool]


def spans_to_tags(
    spans: Iterable[Span], words: Sequence[Range], scheme: Scheme, extent: Extent = Extent.OMIT
) -> TagResult:
    """Tag the words of the spans; of spans that share words the longest is kept, then the first, then by label.

    A span whose edges fall inside a word, or between whose fragments no word lies, is expressed on the words it touches
    and listed in `inexact`. Copies of one span (same fragments, same label) are one.
    """
    tags = [OUTSIDE] * len(words)
    unexpressed: list[Span] = []
    inexact: list[Span] = []
    unique = {span.key: span for span in reversed(list(spans))}.values()
    for span in sorted(unique, key=lambda s: (s.start - s.end, s.start, s.label, s.fragments)):
        place = covered(words, span.start, span.end)
        gaps = extent is Extent.OMIT and _has_gap(span, words, place)
        if not place or gaps or any(tags[index] != OUTSIDE for index in place):
            unexpressed.append(span)
            continue
        for index in place:
            tags[index] = f"I-{span.label}"
        tags[place[0]] = f"B-{span.label}"
        if scheme is Scheme.BIOES:
            tags[place[-1]] = f"{'S' if len(place) == 1 else 'E'}-{span.label}"
        if span.discontinuous or (span.start, span.end) != (words[place[0]][0], words[place[-1]][1]):
            inexact.append(span)
    return TagResult(tags, _in_order(unexpressed), _in_order(inexact))


def tags_to_spans(
    tags: Sequence[str],
    words: Sequence[Range],
    scheme: Scheme,
    repair: Repair,
    scores: Sequence[float] | None = None,
) -> list[Span]:
    """Read the spans back. A span's score is the mean of its words' scores, so that long mentions are not punished."""
    if len(tags) != len(words) or (scores is not None and len(scores) != len(words)):
        raise ValueError(f"{len(words)} words need as many tags and scores")
    spans: list[Span] = []
    for start, end, label in chunks(tags, scheme, repair):
        score = sum(scores[start:end]) / (end - start) if scores is not None else None
        spans.append(Span.at(words[start][0], words[end - 1][1], label, score=score))
    return spans


def chunks(tags: Sequence[str], scheme: Scheme, repair: Repair) -> list[tuple[int, int, str]]:
    """The labelled half-open word ranges that a tag sequence stands for."""
    found: list[tuple[int, int, str]] = []
    start = 0
    previous, open_label = OUTSIDE, ""  # of the chunk under way, in the CoNLL reading
    whole = True  # whether the chunk under way began with B or S

    def close(end: int, next_prefix: str) -> None:
        proper = whole and (scheme is Scheme.BIO or previous in "ES")
        if repair is Repair.DISCARD and next_prefix == "I" and scheme is Scheme.BIO:
            proper = False
        if open_label and (proper or repair is Repair.CONLLEVAL):
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
    """All tags for these labels in their order, O first."""
    if len(set(labels)) != len(labels) or "" in labels:
        raise InputError("labels are empty or repeated", fix="Give every label once")
    prefixes = "BI" if scheme is Scheme.BIO else "BIES"
    return [OUTSIDE, *(f"{prefix}-{label}" for label in labels for prefix in prefixes)]


def transitions(tags: Sequence[str], scheme: Scheme) -> Transitions:
    """The legal steps between tags: every path through them is a well-formed sequence, and the other way round."""
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
    """The prefix and the label of a tag; ("O", "") outside."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    if len(tag) > 2 and tag[1] == "-" and tag[0] in ("BI" if scheme is Scheme.BIO else "BIES"):
        return tag[0], tag[2:]
    # The tag is not quoted: read from the wrong column it may be a patient's text.
    raise InputError(
        f"this is no {scheme.value} tag", where=f"tag {index}", fix="Name the scheme that the tags are written in"
    )


def _has_gap(span: Span, words: Sequence[Range], place: range) -> bool:
    """Whether a word of the span's extent is touched by none of its fragments."""
    if not span.discontinuous:
        return False
    touched = {index for fragment in span.fragments for index in covered(words, *fragment)}
    return len(touched) < len(place)


def _in_order(spans: list[Span]) -> list[Span]:
    return sorted(spans, key=lambda s: (s.fragments, s.label))
