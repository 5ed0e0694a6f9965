"""Names to things, imported only when asked for.

A registry knows its built-in entries as "module:attribute" strings. A plug-in package adds its own through an entry point
group of the same name ("osler.formats", "osler.heads", "osler.filters", "osler.tasks", …), without osler importing it first.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cached_property
from importlib.metadata import entry_points
from typing import Any

from osler.core.errors import UnknownNameError, nearest


class Registry:
    """The known names of one kind of thing."""

    def __init__(self, kind: str, builtin: Mapping[str, str]) -> None:
        self.kind = kind
        self._targets: dict[str, str] = dict(builtin)
        self._objects: dict[str, Any] = {}

    @cached_property
    def _plugins(self) -> dict[str, str]:
        return {point.name: point.value for point in entry_points(group=f"osler.{self.kind}")}

    def names(self) -> list[str]:
        """All names, built-in and plugged in, sorted."""
        return sorted({*self._targets, *self._objects, *self._plugins})

    def __contains__(self, name: str) -> bool:
        return name in self._objects or name in self._targets or name in self._plugins

    def register(self, name: str, thing: Any) -> None:
        """Add one thing in this process; a built-in name cannot be taken."""
        if name in self._targets:
            raise UnknownNameError(f"the name {name!r} in {self.kind} is built in", fix="Choose another name")
        self._objects[name] = thing

    def get(self, name: str) -> Any:
        """The thing behind a name, imported now if it was not before."""
        if name in self._objects:
            return self._objects[name]
        # A built-in name wins over a plug-in of the same name: installing a package must not change what a recipe means.
        target = self._targets.get(name) or self._plugins.get(name)
        if target is None:
            close = nearest(name, self.names())
            hint = f"Did you mean {close!r}? " if close else ""
            raise UnknownNameError(f"no {name!r} in {self.kind}", fix=f"{hint}Known: {', '.join(self.names())}")
        module, _, attribute = target.partition(":")
        thing = getattr(importlib.import_module(module), attribute)
        self._objects[name] = thing
        return thing
