"""From records to what a model sees, and back.

A builder turns records into instances (token ids with a target) and turns a model's outputs for those instances into predicted
records. Instances never depend on gold at prediction time, and what gold a builder cannot express is counted, not hidden.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from osler.tasks.card import Protocol, TaskCard
from osler.tasks.instances.options import HeadOptions
from osler.tasks.tokens import Tokens
from osler.text.document import Record

IGNORED = -100


@dataclass(frozen=True, slots=True)
class Instance:
    """One input of the encoder: ids with special tokens, its target, and where it came from."""

    ids: np.ndarray
    record: int
    target: Any = None
    types: np.ndarray | None = None
    place: Any = None
    marks: tuple[int, ...] | None = None
    """The tokens at which a head that reads marks reads the sequence."""

    @property
    def length(self) -> int:
        """Tokens, special ones included."""
        return len(self.ids)


@dataclass
class Built:
    """Instances and, by reason, how much gold they could not carry."""

    instances: list[Instance]
    unexpressed: Counter[str] = field(default_factory=Counter)


class Builder(ABC):
    """Builds and decodes the instances of one task under one protocol."""

    head: str
    """The kind of head that learns these targets."""
    steps: np.ndarray | None = None
    """What the head adds for each output after each other, where its rows are a chain; set by the head's owner."""

    def __init__(
        self,
        card: TaskCard,
        protocol: Protocol,
        tokens: Tokens,
        max_length: int,
        overlap: int,
        options: HeadOptions | None = None,
    ) -> None:
        self.card = card
        self.protocol = protocol
        self.tokens = tokens
        self.max_length = max_length
        self.overlap = overlap
        self.options = options or HeadOptions()

    @property
    def windowed(self) -> bool:
        """Whether instances are the plain windows of a document, so that several heads can share one pass over them."""
        return False

    @property
    @abstractmethod
    def outputs(self) -> list[str]:
        """What each output of the head stands for, in order."""

    @abstractmethod
    def build(self, records: Sequence[Record], *, gold: bool) -> Built:
        """Instances of the records; with gold, each carries its target."""

    @abstractmethod
    def decode(
        self, records: Sequence[Record], instances: Sequence[Instance], outputs: Sequence[np.ndarray]
    ) -> list[Record]:
        """The records with predictions in place of gold."""

    def weight(self, instance: Instance) -> float:
        """How many labels an instance carries: the unit in which losses are averaged."""
        return 1.0


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities over the last axis, safe against overflow."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))
