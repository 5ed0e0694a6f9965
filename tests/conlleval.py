"""An independent scorer for tags, written from the public description of conlleval.pl, and a model that says given tags."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from osler.tasks.instances.base import Builder
from osler.text.document import Document, Record


@dataclass
class ChunkCounts:
    """What conlleval.pl counts while it reads two columns of tags from top to bottom."""

    gold: int = 0
    found: int = 0
    correct: int = 0

    @property
    def f1(self) -> float:
        precision = self.correct / self.found if self.found else 0.0
        recall = self.correct / self.gold if self.gold else 0.0
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def conlleval(gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> ChunkCounts:
    """Read both columns together; an empty line ends every chunk."""
    counts = ChunkCounts()
    for sentence in zip(gold, found, strict=True):
        same = False  # whether both columns are inside a chunk that began at one place with one type
        before = ("O", "O")
        for now in [*zip(*sentence, strict=True), ("O", "O")]:
            ended, begun = ([at(before[side], now[side]) for side in (0, 1)] for at in (_ends, _begins))
            if same and all(ended):
                counts.correct += 1
            if any(ended):
                same = False
            counts.gold += begun[0]
            counts.found += begun[1]
            if any(begun):
                same = all(begun) and now[0][2:] == now[1][2:]
            before = now
    return counts


def _ends(before: str, now: str) -> bool:
    return before != "O" and (now == "O" or now[0] == "B" or now[2:] != before[2:])


def _begins(before: str, now: str) -> bool:
    return now != "O" and (before == "O" or now[0] == "B" or now[2:] != before[2:])


def noisy(tags: Sequence[str], choices: Sequence[str], drawn: random.Random) -> list[str]:
    """Change one tag in five to any other, valid there or not."""
    return [tag if drawn.random() < 0.8 else drawn.choice(choices) for tag in tags]


def predictions(
    builder: Builder, documents: Sequence[Document], tags: Sequence[Sequence[str]], drawn: random.Random
) -> tuple[list[Record], list[list[str]]]:
    """Decode a model that says these tags on the first sub-word of each token, and any tags on the others.

    Also return the tags as such a model can say them: O on a token that the tokenizer makes nothing of.
    """
    index = {tag: number for number, tag in enumerate(builder.outputs)}
    texts = [document.text for document in documents]
    said: list[np.ndarray] = []
    sayable: list[list[str]] = []
    for text, encoding, wanted in zip(texts, builder.tokens.encode(texts), tags, strict=True):
        starts = _token_starts(text)
        assert len(starts) == len(wanted)
        logits = np.zeros((len(encoding.ids), len(index)), dtype=np.float32)
        silent = set(range(len(starts)))
        for place, (start, end) in enumerate(encoding.offsets):
            if not text[start:end].strip(" \n"):  # what separates tokens
                continue
            token = bisect_right(starts, end - len(text[start:end].lstrip(" \n"))) - 1
            tag = wanted[token] if token in silent else drawn.choice(builder.outputs)
            silent.discard(token)
            # The second best tag makes constrained decoding choose.
            logits[place, drawn.randrange(len(index))] = 5.0
            logits[place, index[tag]] = 9.0
        said.append(logits)
        sayable.append(["O" if token in silent else tag for token, tag in enumerate(wanted)])
    instances = builder.build(documents, gold=False).instances
    outputs = []
    for instance in instances:
        window, before = instance.place.window, len(builder.tokens.prefix)
        output = np.zeros((instance.length, len(index)), dtype=np.float32)
        output[before : before + window.end - window.start] = said[instance.record][window.start : window.end]
        outputs.append(output)
    return builder.decode(documents, instances, outputs), sayable


def _token_starts(text: str) -> list[int]:
    starts, position = [], 0
    for line in text.split("\n"):
        for token in line.split(" "):
            if token:
                starts.append(position)
            position += len(token) + 1
    return starts


def in_sentences(document: Document, tags: Sequence[str]) -> list[list[str]]:
    """The tags of a document, one list for each line."""
    left = iter(tags)
    return [[next(left) for token in line.split(" ") if token] for line in document.text.split("\n")]


def said_by(document: Document) -> list[list[str]]:
    """The mentions of a document as BIO tags of its tokens, line by line."""
    starts = _token_starts(document.text)
    tags = ["O"] * len(starts)
    for span in document.spans:
        first, last = bisect_right(starts, span.start) - 1, bisect_right(starts, span.end - 1) - 1
        tags[first : last + 1] = [f"B-{span.label}", *[f"I-{span.label}"] * (last - first)]
    return in_sentences(document, tags)
