"""The pipeline of an exported folder is one file of osler's own code."""

from __future__ import annotations

import ast
import sys

import pytest

from osler.stages.serve.hf_source import self_contained


def test_a_module_is_written_with_all_that_it_uses():
    source = self_contained("osler.stages.serve.hf_pipeline")
    tree = ast.parse(source)
    modules = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert modules - sys.stdlib_module_names == {"numpy", "tokenizers", "torch", "transformers"}
    defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert len(defined) == len(set(defined))
    assert {"words", "windows", "best_paths", "OslerTokenClassification"} <= set(defined)
    # Comments that say why go along.
    assert "# Kana and Han are written without spaces." in source


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "osler_copied"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.startswith("osler_copied")]:
        del sys.modules[name]


def test_definitions_come_after_those_that_they_use(package):
    lines = [
        '"""Doc."""',
        "import re",
        "from osler.text.words import words",
        "def count(text):",
        "    return len(words(text)) + LIMIT",
        "LIMIT = len(_MARKS)",
        '_MARKS, _MORE = "ab", re.compile("x")',
    ]
    (package / "start.py").write_text("\n".join(lines))
    source = self_contained("osler_copied.start")
    assert source.startswith('"""Doc."""\n\nfrom __future__ import annotations\n')
    assert source.index("_MARKS, _MORE") < source.index("LIMIT = ") < source.index("def count")
    scope: dict[str, object] = {}
    exec(source, scope)
    assert scope["count"]("two words") == 4


def test_names_that_clash_are_refused(package):
    (package / "start.py").write_text(
        '"""Doc."""\nfrom osler.text.words import words\n\n\ndef covered():\n    return words("")\n\n\ndef _pattern():\n    return 1\n'
    )
    with pytest.raises(ValueError, match="both define _pattern"):
        self_contained("osler_copied.start")
    (package / "start.py").write_text(
        '"""Doc."""\nfrom osler.text.words import words as w\n\n\ndef f():\n    return w("")\n'
    )
    with pytest.raises(ValueError, match="cannot be copied under another name"):
        self_contained("osler_copied.start")
