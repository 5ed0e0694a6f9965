"""A conversion that is killed at its end: the same command completes it, whatever was already in place."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from killing import die_at_call

from osler.core.errors import OutputError
from osler.formats.registry import get_format
from osler.stages.prepare import convert
from osler.stages.prepare.config import ConvertRecipe
from osler.text.document import Document, Relation, Span

NOTE = Document(
    "a1",
    "Aspirin and warfarin",
    (Span.at(0, 7, "drug", id="T1"), Span.at(12, 20, "drug", id="T2")),
    (Relation("effect", "T1", "T2", "R1"),),
)
MOMENTS: dict[str, tuple[Any, str, int]] = {
    "before the result is counted": (convert, "_reread", 1),
    "before the losses are written": (convert, "_write_report", 1),
    "before the losses are in place": (os, "replace", -2),
    "before the result is in place": (os, "replace", -1),
    "when both are in place": (convert, "remove_tree", 2),
    "before the lock goes": (Path, "unlink", -1),
}
"""Where to die: just before the n-th call of a function; counted from the last one if negative."""


def calls(recipe: ConvertRecipe, out: Path, module: Any, function: str) -> int:
    """How often a conversion calls a function."""
    real, count = getattr(module, function), 0

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        return real(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, function, counted)
        convert.run(recipe, out)
    return count


def killed(recipe: ConvertRecipe, out: Path, module: Any, function: str, call: int) -> None:
    """Convert in a child process that dies by SIGKILL just before the n-th call of a function."""
    child = os.fork()
    if child == 0:
        die_at_call(module, function, call)
        try:
            convert.run(recipe, out)
        except BaseException as error:
            print("child failed:", repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(("name", "target"), [("out.conll", "conll"), ("out", "i2b2_2014")])
def test_killed_near_the_end_the_same_command_completes_it(tmp_path: Path, name: str, target: str, moment: str) -> None:
    get_format("brat").write([NOTE], tmp_path / "notes")
    recipe = ConvertRecipe(input=tmp_path / "notes", from_format="brat", to_format=target)
    convert.run(recipe, tmp_path / "straight" / name)
    # An empty folder may be there beforehand; it has to give way.
    (tmp_path / "killed" / ("out" if name == "out" else "")).mkdir(parents=True)
    out = tmp_path / "killed" / name
    module, function, call = MOMENTS[moment]
    last = calls(recipe, tmp_path / "counted" / name, module, function)
    killed(recipe, out, module, function, call if call > 0 else last + 1 + call)
    done = convert.run(recipe, out)
    assert done.lost["relations"] == 1
    assert contents(out.parent) == contents(tmp_path / "straight")
    # A finished conversion is not done again unasked.
    with pytest.raises(OutputError, match="already exists"):
        convert.run(recipe, out)


def test_only_the_same_command_and_the_same_result_are_recognised(tmp_path: Path) -> None:
    get_format("brat").write([NOTE], tmp_path / "notes")
    recipe = ConvertRecipe(input=tmp_path / "notes", from_format="brat", to_format="conll")
    out = tmp_path / "out.conll"
    killed(recipe, out, convert, "remove_tree", 2)
    with pytest.raises(OutputError, match="already exists"):
        convert.run(recipe.changed(write={"scheme": "BIOES"}), out)
    out.write_text("my own")
    with pytest.raises(OutputError, match="already exists"):
        convert.run(recipe, out)
    assert out.read_text() == "my own"
    assert json.loads((tmp_path / "out.conll.loss.json").read_text())["lost"] == {"relations": 1}
