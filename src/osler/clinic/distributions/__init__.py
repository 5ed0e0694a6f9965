"""Fake official distributions of access-controlled tasks, in the official formats.

With them, all stages can be tried while a data agreement is pending: the readers are the same. data/distributions.toml describes
the releases; each family has one module here, imported when it is needed.
"""

from __future__ import annotations

import importlib
from dataclasses import replace

from osler.clinic.distributions.base import Distribution
from osler.clinic.lexicon import table
from osler.core.errors import UnknownNameError
from osler.core.registry import Registry
from osler.tasks.catalogue import card_paths, load_card

DISTRIBUTIONS = Registry(
    "distributions", {name: f"{__name__}.{entry['make']}" for name, entry in table("distributions").items()}
)

TASKS = {task: name for name, entry in table("distributions").items() for task in entry.get("tasks", ())}
"""Tasks whose name differs from that of their distribution."""


def get_distribution(name: str, release: str | None = None) -> Distribution:
    """Return the distribution of this name, or the one that this task is read from; `release` is one of several."""
    name = TASKS.get(name, name)
    if name in card_paths() and name not in DISTRIBUTIONS:
        card = load_card(name)
        built_in = "Prepare it as it is: it needs no files" if card.source.reader == "clinic" else card.access
        raise UnknownNameError(
            f"task {name} has no synthetic distribution, because it is not access-controlled", fix=built_in
        )
    found = DISTRIBUTIONS.get(name)
    # A plug-in provides a Distribution, a module of this package only the function that writes it.
    if not isinstance(found, Distribution):
        found = Distribution(**table("distributions")[name] | {"name": name, "make": found})
    return found if release is None else _released(found, release)


def _released(distribution: Distribution, release: str) -> Distribution:
    """Return the distribution with what is different in one of its releases."""
    if release not in distribution.releases:
        known = ", ".join(distribution.releases)
        fix = f"Use one of: {known}" if known else "Leave out --release"
        raise UnknownNameError(f"distribution {distribution.name} has no release {release!r}", fix=fix)
    changes = dict(distribution.releases[release])
    if "make" in changes:
        module, _, function = changes["make"].partition(":")
        changes["make"] = getattr(importlib.import_module(f"{__name__}.{module}"), function)
    return replace(distribution, **changes)
