"""A task is a card: a TOML file that says what it is, what its labels mean, where its files come from and how it is scored.

A protocol is a named, versioned way to build instances and to score them. Every number osler prints carries the protocol it was
made under, because two numbers under different protocols cannot be compared.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from osler.core.config import Recipe
from osler.core.errors import RecipeError, nearest
from osler.text.tags import Repair, Scheme


class Kind(StrEnum):
    """What a task asks of a model."""

    TAGGING = "tagging"
    RELATION = "relation"
    CLASSIFICATION = "classification"
    MULTILABEL = "multilabel"
    REGRESSION = "regression"


class Protocol(Recipe):
    """How instances are made and scored. Change the meaning of a field and the version must rise."""

    version: int = 1
    description: str = ""
    train_on: tuple[str, ...] = ("train",)
    metric: str
    scheme: Scheme = Scheme.BIO
    repair: Repair = Repair.CONLLEVAL
    subwords: Literal["first", "all"] = "first"
    candidates: Literal["sentence", "document"] = "sentence"
    markers: Literal["blind", "enclose"] = "enclose"


class Source(Recipe):
    """Where the records come from: a reader and its options. `clinic` is the embedded synthetic clinic."""

    reader: str
    options: dict[str, Any] = Field(default_factory=dict)


class TaskCard(Recipe):
    """Everything known about one task, without its data."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9\-]*$")
    title: str
    kind: Kind
    record: Literal["document", "pair"] = "document"
    language: str
    domain: str = "clinical"
    labels: tuple[str, ...] = ()
    negative: str = "false"
    pairs: tuple[tuple[str, str], ...] = ()
    symmetric: bool = False
    licence: str = "unknown"
    access: str = ""
    citation: str = ""
    source: Source
    protocol: str
    protocols: dict[str, Protocol]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.protocol not in self.protocols:
            raise ValueError(
                f"the default protocol {self.protocol!r} is not among protocols: {', '.join(self.protocols)}"
            )
        if self.kind is not Kind.REGRESSION and not self.labels:
            raise ValueError(f"a {self.kind} task needs labels")
        if self.kind is Kind.RELATION and not self.pairs:
            raise ValueError("a relation task needs pairs: which entity types may be head and tail")
        if self.kind in {Kind.TAGGING, Kind.RELATION} and self.record != "document":
            raise ValueError(f"a {self.kind} task works on documents, not on pairs")
        return self

    def protocol_named(self, name: str | None = None) -> Protocol:
        """A protocol of this task, the default one without a name."""
        wanted = name or self.protocol
        if wanted not in self.protocols:
            close = nearest(wanted, self.protocols)
            hint = f"Did you mean {close!r}? " if close else ""
            raise RecipeError(
                f"task {self.name} has no protocol {wanted!r}", fix=f"{hint}Known: {', '.join(sorted(self.protocols))}"
            )
        return self.protocols[wanted]

    def protocol_id(self, name: str | None = None) -> str:
        """What is printed beside a number: task, protocol and version."""
        wanted = name or self.protocol
        return f"{self.name}/{wanted}@v{self.protocol_named(wanted).version}"

    @property
    def entity_labels(self) -> tuple[str, ...]:
        """The span labels this task reads or predicts."""
        if self.kind is Kind.TAGGING:
            return self.labels
        return tuple(dict.fromkeys(label for pair in self.pairs for label in pair))
