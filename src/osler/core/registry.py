"""Registries: objects by name, imported on first use.

Built-in entries are "module:attribute" strings. Plug-in packages add their own through the registry's entry point group
("osler.formats", "osler.heads", "osler.filters", "osler.tasks", …).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cached_property
from importlib.metadata import entry_points
from typing import Any

from osler.core.errors import UnknownNameError, alternatives


class Registry:
    """Maps names to objects of one kind."""

    def __init__(self, kind: str, builtin: Mapping[str, str]) -> None:
        self.kind = kind
        self._builtin = dict(builtin)
        self._objects: dict[str, Any] = {}

    @cached_property
    def _plugins(self) -> dict[str, str]:
        return {point.name: point.value for point in entry_points(group=f"osler.{self.kind}")}

    def names(self) -> list[str]:
        """Return all names, built-in and from plug-ins, sorted."""
        return sorted({*self._builtin, *self._plugins})

    def __contains__(self, name: str) -> bool:
        return name in self._builtin or name in self._plugins

    def get(self, name: str) -> Any:
        """Return the object with this name, importing it on first use."""
        if name in self._objects:
            return self._objects[name]
        # A built-in name wins over a plug-in: installing a package must not change what a recipe means.
        target = self._builtin.get(name) or self._plugins.get(name)
        if target is None:
            raise UnknownNameError(f"{name!r} is not one of the {self.kind}", fix=alternatives(name, self.names()))
        module, _, attribute = target.partition(":")
        thing = getattr(importlib.import_module(module), attribute)
        self._objects[name] = thing
        return thing
