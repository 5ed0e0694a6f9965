"""How often each source is read: from the recipe, else from the corpus card, else once an epoch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from osler.core.artifact import Artifact
from osler.core.errors import ArtifactError, RecipeError, nearest
from osler.core.seeding import generator
from osler.stages.pretrain.shards import source_names

_ONE = 1 << 24
"""Weights are counted in so many parts of one: whole numbers, so that no rounding adds up over epochs."""


def sources_on_card(corpus: Artifact) -> dict[str, dict[str, Any]] | None:
    """What the corpus card says of each source: words, documents, language, licence, weight; None without a card."""
    path = corpus.path / "card.json"
    if not path.is_file():
        return None
    try:
        sources: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["sources"]
        whole = all({"words", "documents"} <= facts.keys() for facts in sources.values())
    except (ValueError, KeyError, TypeError, AttributeError):
        whole = False
    if not whole:
        raise ArtifactError("the corpus card is damaged", where=path, fix="Make the corpus again with --force")
    return sources


def source_weights(corpus: Artifact, wanted: Mapping[str, float]) -> dict[str, float]:
    """The weight of every source of a corpus; a name in `wanted` that the corpus does not have is refused."""
    sources = sources_on_card(corpus)
    if sources is not None:
        weights = {name: float(facts.get("weight", 1.0)) for name, facts in sources.items()}
    else:
        weights = dict.fromkeys(source_names(corpus.path), 1.0)
    for name in wanted:
        if name not in weights:
            close = nearest(name, weights)
            known = sorted(weights)
            shown = ", ".join(known[:10]) + (f" and {len(known) - 10:,} more" if len(known) > 10 else "")
            raise RecipeError(
                f"the corpus has no source {name!r}",
                where="source_weights",
                fix=f"{f'Did you mean {close!r}? ' if close else ''}Its sources: {shown}",
            )
    return weights | dict(wanted)


class Repetition:
    """How often each document is read in each epoch, so that a weight of 2.5 means 2, 3, 2, 3, … times.

    Document d has been read floor(phase_d + n · weight_d) times after n epochs. Over any number of epochs that is within one of
    n · weight. The phases of a source are evenly spread and shuffled by the seed, so that each epoch holds its share of the
    source too, drawn at random. Nothing is kept from one epoch to the next: the place of any epoch is found at once.
    """

    def __init__(self, sources: np.ndarray, weights: Sequence[float], tokens: np.ndarray, seed: int) -> None:
        self._tokens = tokens
        self._parts = np.array([max(1, round(weight * _ONE)) for weight in weights], dtype=np.int64)
        self._sources = sources
        self._phase = np.zeros(len(sources), dtype=np.int32)
        self.total = int(tokens.sum())
        self._mean = 0  # tokens of a mean epoch, in parts of one
        for number, part in enumerate(self._parts.tolist()):
            here = np.flatnonzero(sources == number)
            self._mean += int(tokens[here].sum()) * part
            if part % _ONE:
                ranks = generator(seed, "weights", number).permutation(len(here))
                self._phase[here] = ranks * _ONE // max(1, len(here))

    def times(self, epoch: int) -> np.ndarray:
        """How often each document is read in one epoch."""
        times: np.ndarray = self._read(epoch + 1) - self._read(epoch)
        return times

    def start(self, epoch: int) -> int:
        """The number of tokens in all epochs before this one."""
        return int(np.dot(self._tokens, self._read(epoch)))

    def epoch_at(self, place: int) -> int:
        """The epoch that holds the token at a place of the endless line."""
        # After n epochs the line is n mean epochs long, give or take less than every document once.
        low = max(0, (place - self.total) * _ONE // self._mean)
        high = (place + self.total) * _ONE // self._mean + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.start(middle) <= place else (low, middle)
        return low

    def _read(self, epochs: int) -> np.ndarray:
        """How often each document was read in so many epochs."""
        read: np.ndarray = (self._phase + (epochs * self._parts)[self._sources]) // _ONE
        return read
