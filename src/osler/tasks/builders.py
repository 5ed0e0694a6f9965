"""Which builder makes the instances of which kind of task."""

from __future__ import annotations

from osler.core.registry import Registry
from osler.tasks.card import TaskCard
from osler.tasks.instances.base import Builder
from osler.tasks.instances.options import HeadOptions
from osler.tasks.tokens import Tokens

BUILDERS = Registry(
    "builders",
    {
        "tagging": "osler.tasks.instances.tagging:TaggingBuilder",
        "relation": "osler.tasks.instances.relation:RelationBuilder",
        "classification": "osler.tasks.instances.text:ClassificationBuilder",
        "multilabel": "osler.tasks.instances.text:MultiLabelBuilder",
        "regression": "osler.tasks.instances.text:RegressionBuilder",
    },
)


def make_builder(
    card: TaskCard,
    protocol: str | None,
    tokens: Tokens,
    max_length: int,
    overlap: int,
    options: HeadOptions | None = None,
) -> Builder:
    """The builder of a task under one of its protocols, for a head with these options."""
    kind = BUILDERS.get(card.kind.value)
    builder: Builder = kind(card, card.protocol_named(protocol), tokens, max_length, overlap, options)
    return builder
