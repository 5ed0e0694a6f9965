"""Predict under the protocol that will be named beside the number.

A protocol says how a head is taught, how its outputs are read and how they are scored. Reading and scoring can be changed
afterwards, teaching cannot: a head taught otherwise gives no number of that protocol.
"""

from __future__ import annotations

from osler.bundle.spec import BundleSpec
from osler.core.errors import RecipeError, nearest
from osler.tasks.card import Kind, Protocol, TaskCard
from osler.tasks.instances.options import HeadOptions

AFTERWARDS = frozenset({"version", "description", "metric", "decoding", "repair"})
"""The fields of a protocol that do not say how a head is taught."""


def head_for(spec: BundleSpec, card: TaskCard, name: str | None = None) -> str:
    """The head to use: the one asked for, the one with the task's name, or the one that it taught together with others."""
    shared = [head for head, values in spec.heads.items() if card.name in (values.members or {})]
    wanted = name or (card.name if card.name in spec.heads or not shared else shared[0])
    if wanted not in spec.heads:
        close = nearest(wanted, spec.heads)
        hint = f"Did you mean {close!r}? " if close else ""
        raise RecipeError(f"this bundle has no head {wanted!r}", fix=f"{hint}Heads: {', '.join(spec.heads)}")
    return wanted


def read_under(spec: BundleSpec, name: str, card: TaskCard, protocol: str | None) -> tuple[BundleSpec, str]:
    """The heads, one of them read under a protocol of the task (by default the head's own), and that protocol's name."""
    head = spec.heads[name]
    if head.card.kind is not card.kind:
        raise RecipeError(
            f"the head is for {head.card.kind}, the task is {card.kind}",
            where=f"task {card.name}",
            fix="Choose another --head",
        )
    own = (head.members or {}).get(card.name, head.protocol)
    taught = head.card.protocols.get(own) or card.protocol_named(own)
    wanted = protocol or own
    differing = taught_otherwise(taught, card.protocol_named(wanted))
    if differing:
        fitting = [other for other, values in card.protocols.items() if not taught_otherwise(taught, values)]
        raise RecipeError(
            f"the head {name!r} was taught under {own!r}, which differs from {wanted!r} in "
            f"{', '.join(differing)}: it can give no number of that protocol",
            where=f"task {card.name}",
            fix=f"Use one of: {', '.join(fitting)}" if fitting else "Teach a head under that protocol",
        )
    protocols = {**head.card.protocols, wanted: card.protocol_named(wanted)}
    read = head.changed(card=head.card.changed(protocols=protocols), protocol=wanted)
    return spec.changed(heads={**spec.heads, name: read}), wanted


def printed_id(card: TaskCard, protocol: str, options: HeadOptions) -> str:
    """The protocol as it is named beside a number: with what the head was made to do otherwise, for that is another number."""
    tagging = card.kind is Kind.TAGGING
    return card.protocol_id(protocol, options.read_otherwise(card.protocol_named(protocol).decoding) if tagging else "")


def taught_otherwise(one: Protocol, other: Protocol) -> list[str]:
    """The fields in which two protocols teach differently."""
    return [
        name for name in Protocol.model_fields if name not in AFTERWARDS and getattr(one, name) != getattr(other, name)
    ]
