"""Chunk scores from tag sequences, under the name of the rule that reads improper sequences.

- `strict`: only a proper chunk counts. In BIO it starts with B-; an I- that continues nothing is dropped. In BIOES it
  is S-, or B- up to E- of one type. The same as seqeval's strict mode.
- `conlleval`: the CoNLL script's reading: an I- (or E-) after O, after another type or after a closed chunk starts a
  new chunk. The same as seqeval's default mode. A discontinuous mention written B I O I counts as two.
- `b-anchored`: wada2020's reading, kept to compare with that table: an I- belongs to the last B- of its type, however
  far back and across sentences and documents, so that B I O I is one mention. An I- before any B- is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from osler.core.errors import InputError
from osler.metrics.scores import Item, Scores, score_sets
from osler.text.tags import Scheme

Scorer = Literal["strict", "conlleval", "b-anchored"]
Chunk = tuple[str, tuple[int, ...]]


def score_tags(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    *,
    scorer: Scorer = "strict",
    scheme: Scheme = Scheme.BIO,
    labels: Sequence[str] | None = None,
) -> Scores:
    """Score tag sequences, one a sentence; untyped tags (B, I, O) have the label ""."""
    if len(gold) != len(predicted):
        raise InputError(f"{len(gold)} gold sequences and {len(predicted)} predicted ones cannot be compared")
    for index, (want, have) in enumerate(zip(gold, predicted, strict=True)):
        if len(want) != len(have):
            raise InputError(
                f"{len(want)} gold tags and {len(have)} predicted ones", where=f"sequence {index + 1} of {len(gold)}"
            )
    if scorer == "b-anchored":
        # One long sequence by definition; a chunk is filed under the sentence of its B-, so that they can be resampled.
        return score_sets(_anchored_items(gold, scheme), _anchored_items(predicted, scheme), labels)
    return score_sets(
        [set(chunks(tags, scorer, scheme)) for tags in gold],
        [set(chunks(tags, scorer, scheme)) for tags in predicted],
        labels,
    )


def chunks(tags: Sequence[str], scorer: Scorer = "strict", scheme: Scheme = Scheme.BIO) -> list[Chunk]:
    """The chunks of one sequence as (label, positions)."""
    split = [_split(tag, scheme, index) for index, tag in enumerate(tags)]
    if scorer == "strict":
        return _strict(split, scheme)
    if scorer == "conlleval":
        return _conlleval(split)
    if scorer == "b-anchored":
        return _anchored(split)
    raise InputError(f"unknown scorer {scorer!r}", fix="Use strict, conlleval or b-anchored")


def _split(tag: str, scheme: Scheme, index: int) -> tuple[str, str]:
    prefix, dash, label = tag.partition("-")
    if prefix not in tuple(scheme.value) or (prefix == "O" and dash):
        raise InputError(
            f"not a {scheme.value} tag",
            where=f"tag {index + 1}",
            fix=f"Use O, or one of {scheme.value.replace('O', '')} and -LABEL",
        )
    return prefix, label


def _continues(previous: tuple[str, str], current: tuple[str, str]) -> bool:
    return current[0] in "IE" and previous[0] in "BI" and previous[1] == current[1]


def _conlleval(tags: Sequence[tuple[str, str]]) -> list[Chunk]:
    found: list[tuple[str, list[int]]] = []
    previous = ("O", "")
    for index, tag in enumerate(tags):
        if tag[0] != "O":
            if _continues(previous, tag):
                found[-1][1].append(index)
            else:
                found.append((tag[1], [index]))
        previous = tag
    return [(label, tuple(positions)) for label, positions in found]


def _strict(tags: Sequence[tuple[str, str]], scheme: Scheme) -> list[Chunk]:
    found: list[Chunk] = []
    for label, positions in _conlleval(tags):
        first, last = tags[positions[0]][0], tags[positions[-1]][0]
        if (first == "B" and (scheme is Scheme.BIO or last == "E")) or first == "S":
            found.append((label, positions))
    return found


def _anchored(tags: Sequence[tuple[str, str]]) -> list[Chunk]:
    found: list[tuple[str, list[int]]] = []
    latest: dict[str, list[int]] = {}
    for index, (prefix, label) in enumerate(tags):
        if prefix in "BS":
            latest[label] = [index]
            found.append((label, latest[label]))
        elif prefix in "IE" and label in latest:
            latest[label].append(index)
    return [(label, tuple(positions)) for label, positions in found]


def _anchored_items(sequences: Sequence[Sequence[str]], scheme: Scheme) -> list[set[Item]]:
    sentence = [index for index, tags in enumerate(sequences) for _ in tags]
    items: list[set[Item]] = [set() for _ in sequences]
    for label, positions in chunks([tag for tags in sequences for tag in tags], "b-anchored", scheme):
        items[sentence[positions[0]]].add((label, positions))
    return items
