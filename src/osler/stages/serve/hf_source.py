"""Write a module of osler as one file without osler imports: the code it uses is copied into it, so that both run the same
code."""

from __future__ import annotations

import ast
import importlib.util
from collections import defaultdict
from functools import cached_property
from pathlib import Path


def self_contained(module: str) -> str:
    """Return the source of a module that imports nothing from osler."""
    copier = _Copier()
    start = copier.module(module)
    for name in start.definitions:
        copier.add(module, name)
    plain = sorted(line for line, names in copier.imports.items() if not names)
    others = [f"{line} import {', '.join(sorted(names))}" for line, names in sorted(copier.imports.items()) if names]
    docstring = ast.get_docstring(start.tree, clean=False)
    head = [f'"""{docstring}"""', "from __future__ import annotations", "\n".join([*plain, *others])]
    return "\n\n".join(head) + "\n\n\n" + "\n\n\n".join(copier.parts) + "\n"


class _Module:
    """Source of one module, by the names that it defines and imports."""

    def __init__(self, name: str) -> None:
        self.name = name
        spec = importlib.util.find_spec(name)
        self.source = Path((spec and spec.origin) or "").read_text(encoding="utf-8")
        self.tree = ast.parse(self.source)

    @cached_property
    def definitions(self) -> dict[str, ast.stmt]:
        found: dict[str, ast.stmt] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                parts = (part for target in targets for part in ast.walk(target))
                found |= {part.id: node for part in parts if isinstance(part, ast.Name)}
        return found

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """By name: the statement up to its names, and what it imports; nothing in `import numpy as np`."""
        found: dict[str, tuple[str, str]] = {}
        for node in self.tree.body:
            for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
                shown = alias.name if alias.asname is None else f"{alias.name} as {alias.asname}"
                statement = (
                    (f"from {node.module}", shown) if isinstance(node, ast.ImportFrom) else (f"import {shown}", "")
                )
                found[alias.asname or alias.name] = statement
        return found

    def text(self, node: ast.stmt) -> str:
        """Source of a definition with its decorators and the comment lines above it."""
        lines = self.source.splitlines()
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))]) - 1
        while first > 0 and lines[first - 1].startswith("#"):
            first -= 1
        return "\n".join(lines[first : node.end_lineno])


class _Copier:
    """Collects definitions, each after its dependencies."""

    def __init__(self) -> None:
        self.imports: defaultdict[str, set[str]] = defaultdict(set)
        self.parts: list[str] = []
        self._modules: dict[str, _Module] = {}
        self._origin: dict[str, ast.stmt] = {}
        self._done: set[ast.stmt] = set()

    def module(self, name: str) -> _Module:
        return self._modules.setdefault(name, _Module(name)) if name not in self._modules else self._modules[name]

    def add(self, module_name: str, name: str) -> None:
        """Copy one definition and its dependencies."""
        module = self.module(module_name)
        node = module.definitions[name]
        if self._origin.setdefault(name, node) is not node:
            raise ValueError(f"{module_name} and another module both define {name}: rename one of them")
        if node in self._done:
            return
        self._done.add(node)
        for used in dict.fromkeys(part.id for part in ast.walk(node) if isinstance(part, ast.Name)):
            if used in module.definitions:
                self.add(module_name, used)
            elif used in module.imports:
                self._add_import(*module.imports[used])
        self.parts.append(module.text(node))

    def _add_import(self, statement: str, name: str) -> None:
        source = statement.removeprefix("from ")
        if not source.startswith("osler."):
            self.imports[statement].update([name] if name else [])
        elif " as " in name:
            raise ValueError(f"{name} of {source} cannot be copied under another name")
        else:
            self.add(source, name)
