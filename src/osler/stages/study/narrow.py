"""A study's recipe before it is checked: without what somebody has no data for, with a grid by dotted names; and what is left of
settings for a run that learns only some of the tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any


def left_out(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a recipe less the models, tasks and folds that its `without` names, and less all that was said of them."""
    result = dict(values)
    gone = result.pop("without", ())
    if not gone or not isinstance(gone, Collection) or isinstance(gone, str):
        return dict(values)
    tasks = [str(path) for path in result.get("tasks", ())]
    known = {*result.get("models", {}), *result.get("folds", {}), *(Path(path).name for path in tasks)}
    unknown = [str(name) for name in gone if name not in known]
    if unknown:
        raise ValueError(f"without: {unknown[0]!r} is neither a model nor a task; there are {', '.join(sorted(known))}")
    result["tasks"] = [path for path in tasks if Path(path).name not in gone]
    for field in ("folds", "protocols", "task_settings"):
        if field in result:
            result[field] = _kept(result[field], gone)
    if "groups" in result:
        rest = {group: [name for name in names if name not in gone] for group, names in result["groups"].items()}
        result["groups"] = {group: names for group, names in rest.items() if names}
        if "within" in result:
            result["within"] = [group for group in result["within"] if group in result["groups"]]
    if isinstance(result.get("finetune"), Mapping):
        result["finetune"] = without_turns(result["finetune"], gone)
    if isinstance(result.get("mode_settings"), Mapping):
        result["mode_settings"] = {
            mode: without_turns(settings, gone) if isinstance(settings, Mapping) else settings
            for mode, settings in result["mode_settings"].items()
        }
    result["models"] = {row: _model(model, gone) for row, model in _kept(result.get("models", {}), gone).items()}
    return result


def flat(grid: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """A grid by dotted names: TOML makes sections of names without quotes, and so does --set."""
    result: dict[str, Any] = {}
    for name, values in grid.items():
        whole = f"{above}{name}".replace('"', "")
        if isinstance(values, Mapping):
            result |= flat(values, f"{whole}.")
        elif isinstance(values, list | tuple):
            result[whole] = values
        else:
            raise ValueError(f"grid: {whole!r} needs a list of the values to try, such as [{values!r}]")
    return result


def without_turns(settings: Mapping[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """Fine-tuning settings less what `mixing` says of some tasks: a study's recipe speaks of all, a run may learn few of them."""
    result = dict(settings)
    if isinstance(result.get("mixing"), Mapping):
        mixing = dict(result["mixing"])
        for field in ("batch_sizes", "loss_weights"):
            if isinstance(mixing.get(field), Mapping):
                mixing[field] = _kept(mixing[field], gone)
        result["mixing"] = mixing
    return result


def _kept(table: Mapping[str, Any], gone: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name not in gone}


def _model(model: Any, gone: Collection[str]) -> Any:
    if not isinstance(model, Mapping):
        return model
    result = dict(model)
    if "task_settings" in result:
        result["task_settings"] = _kept(result["task_settings"], gone)
    if isinstance(result.get("refine"), Mapping):
        refine = dict(result["refine"])
        refine["tasks"] = [name for name in refine.get("tasks", ()) if name not in gone]
        result["refine"] = refine
    return result
