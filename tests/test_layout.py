"""The shape of the package: file sizes, unique class names, import depth and small modules, checked like any other rule."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "src"
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "osler").rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items()}
MODULES = [name for name, path in FILES.items() if path.name != "__init__.py"]
# Registered siblings: each is found by its name in a registry or a table of commands.
SIBLINGS = (
    "osler.formats.",
    "osler.nn.heads.",
    "osler.stages.corpus.filters.",
    "osler.stages.corpus.readers.",
    "osler.stages.vocab.algorithms.",
    "osler.stages.study.layouts.",
    "osler.clinic.distributions.",
    "osler.cli.",
)


@cache
def imports(name: str) -> frozenset[str]:
    found = set()
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in FILES else node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return frozenset(found & FILES.keys() - {name})


def package_of(name: str) -> str:
    return ".".join(name.split(".")[: 3 if ".stages." in name else 2])


def depth(name: str, package: str, seen: tuple[str, ...] = ()) -> int:
    inner = [module for module in imports(name) if module.startswith(f"{package}.") and module not in seen]
    return 1 + max((depth(module, package, (*seen, name)) for module in inner), default=0)


def test_no_file_is_too_long():
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in FILES.items()}
    assert {name: length for name, length in lengths.items() if length > 450} == {}


def test_there_are_not_too_many_modules():
    assert len(FILES) <= 275


def test_public_class_names_are_unique():
    places = defaultdict(list)
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


@pytest.mark.parametrize("package", sorted({package_of(name) for name in MODULES} - {"osler.api", "osler.__main__"}))
def test_imports_inside_a_package_are_shallow(package):
    inside = [name for name in MODULES if name.startswith(f"{package}.")]
    assert {name: deep for name in inside if (deep := depth(name, package)) > 6} == {}


def test_few_small_modules_have_one_importer():
    users = defaultdict(set)
    for name in FILES:
        for module in imports(name):
            users[module].add(name)
    small = [name for name in MODULES if len(FILES[name].read_text(encoding="utf-8").splitlines()) < 70]
    slices = [name for name in small if len(users[name]) == 1 and not name.startswith(SIBLINGS)]
    assert len(slices) <= 15, slices
