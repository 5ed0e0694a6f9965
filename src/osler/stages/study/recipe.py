"""The recipe of a study: models x tasks x grid x seeds, under named protocols."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from osler.artifacts.run import without_paths
from osler.core.config import Recipe, runtime


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


class Refinement(Recipe):
    """Several tasks taught to a model together before it is fine-tuned on each (peng2020)."""

    tasks: tuple[str, ...] = Field(min_length=2)
    """Names of columns of the study."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Fine-tuning settings of the refinement, on top of the study's."""
    score: bool = False
    """Whether it is a line of the tables too: one model for its tasks, before it is fine-tuned on any (peng2020)."""


class StudyModel(Recipe):
    """One row of the table."""

    model: str = runtime()
    """An encoder folder, a bundle folder or a hub name."""
    refine: Refinement | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    """Fine-tuning settings of this model alone, on top of the study's: `reinitialise = true`, another rate."""
    task_settings: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """By column: settings of this model on this task, on top of all others (wada2020's tables)."""


class StudyRecipe(Recipe):
    """Every model is fine-tuned on every task with every grid point and seed; each run is done once and kept."""

    title: str = "Study"
    models: dict[str, StudyModel] = Field(min_length=1)
    tasks: tuple[Path, ...] = runtime(())
    """Task artifacts, each a column."""
    folds: dict[str, tuple[Path, ...]] = runtime(default_factory=dict)
    """Columns that are cross-validated: a name, and the task artifacts of its folds; the column is the mean over folds."""
    seeds: tuple[int, ...] = Field((1, 2, 3), min_length=1)
    grid: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Settings to try, by dotted name: `"train.lr" = [1e-5, 3e-5]`, quoted or not. All combinations are run."""
    choose: Literal["settings", "run"] = "settings"
    """What dev decides: one grid point for all seeds by its mean on dev, or the single best run (carrino2022)."""
    score: Literal["chosen", "all"] = "chosen"
    """Which runs see the split that is scored: those that dev chose, once each, or all (tables over all configurations)."""
    modes: tuple[Literal["single", "together", "pairs"], ...] = ("single",)
    """Each task alone; all tasks in one run (mulyar2020); every pair of tasks in one run (peng2020, pairwise)."""
    twins: Literal["epochs", "updates"] = "epochs"
    """What a task learned with others is compared with: the same task alone as its own settings have it, or a further run
    of it alone with as many updates as the joint run gave the task."""
    within: tuple[str, ...] = ()
    """Groups whose tasks are taught together or in pairs, each group by itself; by default all columns are."""
    fractions: tuple[float, ...] = ()
    """Shares of the training data for learning curves, besides the whole."""
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Groups of columns that get a mean of their own."""
    without: tuple[str, ...] = ()
    """Models and tasks (by the name of their folder) that are left out, with all that the recipe says of them."""
    protocols: dict[str, str] = Field(default_factory=dict)
    """By column: the protocol, where it is not the task's default."""
    baseline: str | None = None
    """The model others are compared with; by default the first."""
    finetune: dict[str, Any] = Field(default_factory=dict)
    """Fine-tuning settings of all runs, as in a fine-tuning recipe."""
    mode_settings: dict[Literal["single", "together", "pairs"], dict[str, Any]] = Field(default_factory=dict)
    """By mode: fine-tuning settings of its runs, on top of those."""
    task_settings: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """By column: fine-tuning settings of the runs on it alone, on top of those."""
    split: str = "test"
    layout: Literal["plain", "carrino2022", "lewis2020", "mulyar2020", "peng2020", "wada2020"] = "plain"
    """How the main table is laid out."""
    resamples: int = Field(2000, ge=100)
    """Draws of the paired bootstrap."""
    store: Path | None = runtime(None)
    """Where finished runs are kept, so that a later study with one more model only does the new ones; by default beside --out."""
    engine: Literal["local", "ray"] = runtime("local")
    workers: int = runtime(0, ge=0)
    """Runs at the same time. 1: one after the other in this process; 0 chooses by cores and GPU memory."""
    processes: int = runtime(1, ge=1)
    """Processes of every run: more than one are started with torchrun."""

    def identity(self) -> dict[str, Any]:
        """As everywhere, less the paths within settings: what lies there is among the parents of a study."""
        return without_paths(super().identity())

    @model_validator(mode="before")
    @classmethod
    def _prepared(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        rest = left_out(values)
        return {**rest, "grid": flat(rest["grid"])} if isinstance(rest.get("grid"), Mapping) else rest

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.tasks and not self.folds:
            raise ValueError("tasks and folds are both empty; a study needs a column")
        for name, values in (("seeds", self.seeds), ("fractions", self.fractions), ("modes", self.modes)):
            if len(set(values)) < len(values):
                raise ValueError(f"{name} says something twice")
        for fraction in self.fractions:
            if not 0 < fraction < 1:
                raise ValueError(f"fractions: {fraction:g} is not between 0 and 1; the whole is always run")
        for name, points in self.grid.items():
            if not points:
                raise ValueError(f"grid: {name!r} has no values")
        for name, folds in self.folds.items():
            if len(folds) < 2:
                raise ValueError(f"folds: {name!r} has fewer than two")
        for name in self.within:
            if len(self.groups.get(name, ())) < 2:
                raise ValueError(f"within: {name!r} is no group of two columns or more")
        if self.layout == "carrino2022" and self.grid and self.score != "all":
            raise ValueError("layout carrino2022 is a mean over all configurations; say score = 'all'")
        return self
