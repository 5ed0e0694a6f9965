"""The shape of the package: file sizes, class names, import depth, small modules and names of tests, checked like any other rule."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent / "src"
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
    "osler.stages.corpus.rewriters.",
    "osler.stages.vocab.algorithms.",
    "osler.stages.study.layouts.",
    "osler.clinic.distributions.",
    "osler.tasks.instances.",
    "osler.cli.",
)
# Parts of one procedure, and the test files that test them with it: NAME in the same folder, or FOLDER/NAME. A new module has test
# files of its own.
PARTS = {
    "osler.artifacts.bundle_spec": "bundle",
    "osler.artifacts.runner": "bundle",
    "osler.clinic.case": "notes",
    "osler.clinic.labels": "notes",
    "osler.clinic.slots": "notes",
    "osler.clinic.synthesize": "distributions",
    "osler.core.extras": "errors",
    "osler.core.version": "cli/main",
    "osler.nn.onnx_graph": "artifacts/onnx_runner",
    "osler.report.html": "page",
    "osler.stages.corpus.assemble": "run",
    "osler.stages.corpus.documents": "readers",
    "osler.stages.corpus.parts": "clean",
    "osler.stages.evaluate.error_tables": "error_page",
    "osler.stages.finetune.report": "run",
    "osler.stages.prepare.convert": "cli/convert",
    "osler.stages.prepare.survey": "discover",
    "osler.stages.serve.annotate": "e2e/end_to_end",
    "osler.stages.serve.config": "e2e/end_to_end",
    "osler.stages.serve.engine": "annotate",
    "osler.stages.serve.hf_card": "export_hf",
    "osler.stages.serve.hf_pipeline": "export_hf",
    "osler.stages.serve.spacy_component": "export_spacy",
    "osler.stages.serve.verify": "export_onnx",
    "osler.stages.serve.server.errors": "app",
    "osler.stages.serve.server.schemas": "app",
    "osler.stages.study.cells": "results",
    "osler.stages.study.checks": "plan",
    "osler.stages.study.recipe": "plan",
    "osler.stages.study.runner": "run",
    "osler.stages.study.schedule": "run",
    "osler.stages.study.tables": "results",
    "osler.stages.vocab.view": "compare",
    "osler.tasks.scoring": "card",
    "osler.train.step": "loop",
}


@cache
def imports(name: str, *, for_types: bool = True) -> frozenset[str]:
    """Modules of the package that a module imports, with or without those it only needs for its type annotations."""
    found = set()
    tree = TREES[name]
    guarded = [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    skipped = set() if for_types else {inner for node in guarded for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if node in skipped:
            continue
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
    inner = [
        module for module in imports(name, for_types=False) if module.startswith(f"{package}.") and module not in seen
    ]
    return 1 + max((depth(module, package, (*seen, name)) for module in inner), default=0)


def test_no_file_is_too_long():
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in FILES.items()}
    assert {name: length for name, length in lengths.items() if length > 450} == {}


def test_there_are_not_too_many_modules():
    assert len(FILES) <= 400


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


def files_that_test(name: str) -> list[Path]:
    """The test files of a module: `test_NAME.py`, or `test_NAME_ASPECT.py`, in the folder that mirrors its package."""
    *folders, stem = name.split(".")[1:]
    own = _named(folders, stem)
    if own or name in PARTS:
        *elsewhere, other = PARTS.get(name, stem).split("/")
        return own or _named(elsewhere or folders, other)
    if name.startswith(SIBLINGS):
        # Siblings share tests that run over their registry and are named after their package.
        *folders, stem = folders if len(folders) > 1 else [*folders, *folders]
        return _named(folders, stem)
    # The recipe of a stage is tested with the stage.
    return _named(folders, "run") if stem == "config" else []


def _named(folders: list[str], stem: str) -> list[Path]:
    folder = TESTS.joinpath(*folders)
    return [*folder.glob(f"test_{stem}.py"), *folder.glob(f"test_{stem}_*.py")]


def test_the_test_of_a_module_is_found_by_its_name():
    assert [name for name in MODULES if name != "osler.__main__" and not files_that_test(name)] == []
    assert PARTS.keys() <= set(MODULES)


def test_every_test_file_is_named_after_a_module_or_a_package():
    whole = {"e2e", "recipes", "docs", "test_docs.py"}  # tests of whole commands, the shipped recipes and the docs
    places = [path.relative_to(TESTS) for path in sorted(TESTS.rglob("test_*.py")) if path != Path(__file__)]
    unknown = []
    for place in places:
        words = place.stem.removeprefix("test_").split("_")
        stems = {"_".join(words[:count]) for count in range(1, len(words) + 1)}
        package = ".".join(["osler", *place.parts[:-1]])
        known = {f"{package}.{stem}" for stem in stems} & FILES.keys()
        if not known and package.split(".")[-1] not in stems and place.parts[0] not in whole:
            unknown.append(place.as_posix())
    assert unknown == []
