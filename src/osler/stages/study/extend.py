"""Compare a recipe with the study in --out, to extend it or to say exactly what differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from osler.core.artifact import MANIFEST, Artifact, Manifest, identity_of
from osler.core.console import list_text
from osler.core.errors import OslerError, OutputError
from osler.stages.study.recipe import StudyRecipe

_ONLY_TABLES = {"title", "layout", "groups", "baseline", "choose", "score", "over_folds", "published", "across"}
"""Settings that affect no run, only scoring and tables."""
_LISTS = ("seeds", "fractions", "modes")
_MOST = 5


def compare(
    out: Path, recipe: StudyRecipe, parents: Mapping[str, str | Artifact]
) -> Literal["free", "same", "extended"]:
    """Decide whether --out is empty, or holds this same study or one that this recipe extends. Anything else is an error.

    A study is extended if it keeps every run: models, tasks, folds, seeds, grid values, fractions and modes may be added, and
    settings of the tables may change.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return "free"
    if not (out / MANIFEST).is_file():
        raise OutputError("this exists and is not a finished study", where=out, fix="Choose another --out")
    manifest = Manifest.read(out / MANIFEST)
    if manifest.kind != "study":
        problem = f"this folder holds an artifact of another kind ({manifest.kind}), not a study"
        raise OutputError(problem, where=out, fix="Choose another --out")
    if manifest.identity == identity_of("study", recipe, parents):
        return "same"
    now = {name: parent if isinstance(parent, str) else parent.manifest.digest for name, parent in parents.items()}
    try:
        before = StudyRecipe.model_validate(manifest.recipe).identity()
    except (OslerError, ValueError):
        raise OutputError(
            "this folder holds a study of another version of osler",
            where=out,
            fix="Choose another --out, or replace its tables with --force",
        ) from None
    found = [*_inputs(manifest.parents, now), *_settings(before, recipe.identity(), manifest.parents)]
    if not found:
        return "extended"
    raise OutputError(
        f"this folder holds a study with other runs than this recipe: {list_text(found, _MOST, '; ')}",
        where=out,
        fix="Choose another --out, or replace its tables with --force; finished runs are kept, and those that fit are reused",
    )


def _inputs(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """Yield models and tasks that are missing or have other content."""
    for name, digest in before.items():
        kind, _, label = name.partition(":")
        if kind == "settings":
            if digest not in now.values():
                yield "a teacher, a corpus or a task that the settings name has other content"
        elif name not in now:
            yield f"{kind} {label} is missing here"
        elif now[name] != digest:
            yield f"{kind} {label} has other content now"


def _settings(before: Mapping[str, Any], now: Mapping[str, Any], parents: Mapping[str, str]) -> Iterator[str]:
    """Yield changed settings that affect runs of the earlier study."""
    columns = {name.removeprefix("task:").partition("/")[0] for name in parents if name.startswith("task:")}
    for name in dict.fromkeys([*before, *now]):
        old, new = before.get(name), now.get(name)
        if name == "models":
            old, new = _without_published(old), _without_published(new)
        if name in _ONLY_TABLES or old == new:
            continue
        if name in _LISTS:
            yield from _gone(name, old or (), new or ())
        elif name == "grid":
            yield from _grid(old or {}, new or {})
        elif name in ("models", "protocols", "task_settings", "mode_settings"):
            # An entry for a model, task or mode that is new affects none of the earlier runs.
            known = old if name == "models" else columns if name != "mode_settings" else before["modes"]
            for key in dict.fromkeys([*(old or {}), *(key for key in new or {} if key in (known or ()))]):
                if key in (new or {}) or name != "models":  # missing models are reported with the inputs
                    yield from _changed(f"{name}.{key}", (old or {}).get(key), (new or {}).get(key))
        else:
            yield from _changed(name, old, new)


def _without_published(models: Mapping[str, Mapping[str, Any]] | None) -> dict[str, dict[str, Any]]:
    """Return the models without `published`, which affects no run."""
    return {
        row: {key: value for key, value in model.items() if key != "published"} for row, model in (models or {}).items()
    }


def _gone(name: str, old: Sequence[Any], new: Sequence[Any]) -> Iterator[str]:
    missing = [str(value) for value in old if value not in new]
    if missing:
        yield f"{name} {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing here"


def _grid(old: Mapping[str, Sequence[Any]], new: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            yield f"grid.{name} is missing here"
        elif name not in old:
            yield f"grid.{name} is new here"
        else:
            yield from _gone(f"grid.{name}", old[name], new[name])


def _changed(name: str, old: Any, new: Any) -> Iterator[str]:
    """Yield the values that differ, by dotted name."""
    if isinstance(old, Mapping) or isinstance(new, Mapping):
        old, new = old or {}, new or {}
        for key in dict.fromkeys([*old, *new]):
            yield from _changed(f"{name}.{key}", old.get(key), new.get(key))
    elif old != new:
        yield f"{name} is {_text(old)} there and {_text(new)} here"


def _text(value: Any) -> str:
    return "not set" if value is None else f"{value}"
