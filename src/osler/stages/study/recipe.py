"""The recipe of a study: models x tasks x grid x seeds, under named protocols."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from osler.artifacts.run import without_paths
from osler.core.config import Recipe, merged, runtime
from osler.core.errors import RecipeError


class Refinement(Recipe):
    """Joint training on several tasks before fine-tuning on each (peng2020)."""

    tasks: tuple[str, ...] = Field(min_length=2)
    """Names of columns of the study."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Fine-tuning settings of the refinement, on top of the study's and the model's."""
    score: bool = False
    """Also score the refined model itself, before it is fine-tuned on any task (peng2020)."""


class StudyModel(Recipe):
    """One row of the table."""

    later: ClassVar = ("published",)

    model: str = runtime()
    """An encoder folder, a bundle folder or a hub name."""
    like: str | None = runtime(None)
    """Another row whose refinement and settings to take; this row's own settings override them."""
    refine: Refinement | None = None
    """Train the model on several tasks together first."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Fine-tuning settings of this model, on top of the study's, such as `reinitialise = true`."""
    task_settings: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """By column: settings of this model on this task, on top of all others (wada2020's tables)."""
    published: tuple[str, ...] = ()
    """Rows of the paper in `published` that this model is compared with; by default the row with its name."""

    @field_validator("published", mode="before")
    @classmethod
    def _one_row(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


class StudyRecipe(Recipe):
    """Fine-tune every model on every task with every grid point and seed. Finished runs are kept and reused."""

    retired: ClassVar = {"resamples": 2000}
    later: ClassVar = ("across", "over_folds", "published")

    title: str = Field("Study", description="title of the report")
    models: dict[str, StudyModel] = Field(min_length=1)
    """Models to compare by name, one table row each."""
    tasks: tuple[Path, ...] = runtime(())
    """Task folders, one per column."""
    folds: dict[str, tuple[Path, ...]] = runtime(default_factory=dict)
    """Cross-validated columns by name, each with the task folders of its folds."""
    over_folds: Literal["mean", "median"] = "mean"
    """How to combine the fold scores of a seed: mean, or median (lewis2020)."""
    seeds: tuple[int, ...] = Field((1, 2, 3), min_length=1, description="one run per seed")
    grid: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Settings to try by dotted name, such as `"train.lr" = [1e-5, 3e-5]`, quoted or not. All combinations are run."""
    choose: Literal["settings", "run"] = "settings"
    """What to choose on dev: one grid point for all seeds by its mean dev score, or the single best run (carrino2022)."""
    score: Literal["chosen", "all"] = "chosen"
    """Runs to score on the test split: those chosen on dev, or all (tables over all configurations)."""
    modes: tuple[Literal["single", "together", "pairs"], ...] = ("single",)
    """How to train: each task alone, all tasks in one run (mulyar2020), or every pair of tasks in one run (peng2020, pairwise)."""
    twins: Literal["epochs", "updates"] = "epochs"
    """Single-task baseline of a joint run. "epochs": the task alone with its own settings. "updates": an extra run of the task
    alone, for as many steps as the joint run spent on it."""
    within: tuple[str, ...] = ()
    """Groups of tasks to train together or in pairs, each group separately. By default all columns are one group."""
    fractions: tuple[float, ...] = ()
    """Fractions of the training data for learning curves, in addition to the full data."""
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Groups of columns that get their own mean."""
    without: tuple[str, ...] = ()
    """Models and tasks (by folder name) to leave out, with all settings that name them."""
    protocols: dict[str, str] = Field(default_factory=dict)
    """Protocol by column, where it is not the task's default."""
    baseline: str | None = None
    """Model that the others are compared with; by default the first."""
    finetune: dict[str, Any] = Field(default_factory=dict)
    """Fine-tuning settings of all runs, as in a fine-tuning recipe."""
    mode_settings: dict[Literal["single", "together", "pairs"], dict[str, Any]] = Field(default_factory=dict)
    """By mode: settings of its runs, on top of `finetune`."""
    task_settings: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """By column: settings of the runs on this task alone, on top of `finetune` and `mode_settings`."""
    split: str = Field("test", description="the split to score")
    across: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """By training column, other columns to score its chosen runs on, without further training. Only for taggers."""
    layout: Literal["plain", "carrino2022", "lewis2020", "mulyar2020", "peng2020", "wada2020"] = "plain"
    """The layout of the main table."""
    published: str | None = None
    """A paper whose published numbers are shown next to the study's, such as lewis2020. They enter no mean and no test."""
    store: Path | None = runtime(None)
    """Folder of finished runs, which several studies may share; by default OUT.runs."""
    engine: Literal["local", "ray"] = runtime("local", description="this machine, or a Ray cluster (RAY_ADDRESS)")
    workers: int = runtime(0, ge=0)
    """Number of concurrent runs. 1: one after the other in this process; 0: chosen by cores and GPU memory."""
    keep_weights: bool = runtime(True)
    """Keep the weights of runs. Tables do not need them, but a run whose weights are needed again is retrained."""
    processes: int = runtime(1, ge=1)
    """Processes per run; more than one are started with torchrun."""

    def identity(self) -> dict[str, Any]:
        """Return the identity without paths in settings, because their files are parents of the study by digest."""
        return without_paths(super().identity())

    def in_pairs(self) -> Self:
        """Return the same study with only each task alone and every pair of tasks."""
        if len(self.tasks) < 2:
            raise RecipeError("pairs need at least two tasks", fix="Add a task to the recipe")
        return self.changed(modes=("single", "pairs"), fractions=())

    @model_validator(mode="before")
    @classmethod
    def _normalise(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        with suppress(TypeError, AttributeError):  # a value of the wrong type; its own field says so
            values = _leave_out(_resolve_like(values))
        return {**values, "grid": _dotted(values["grid"])} if isinstance(values.get("grid"), Mapping) else values

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.tasks and not self.folds:
            raise ValueError("tasks and folds are both empty; a study needs at least one column")
        for name, values in (("seeds", self.seeds), ("fractions", self.fractions), ("modes", self.modes)):
            if len(set(values)) < len(values):
                raise ValueError(f"{name} has a value twice")
        for fraction in self.fractions:
            if not 0 < fraction < 1:
                raise ValueError(f"fractions: {fraction:g} is not between 0 and 1; all of the data is always run")
        for name, points in self.grid.items():
            if not points:
                raise ValueError(f"grid: {name!r} has no values")
        for name, folds in self.folds.items():
            if len(folds) < 2:
                raise ValueError(f"folds: {name!r} has fewer than two folds")
        for name, others in self.across.items():
            if name in others or len(set(others)) < len(others):
                raise ValueError(f"across: {name!r} must name other columns, each once")
        if self.across and "single" not in self.modes:
            raise ValueError("across scores runs of one task on others; add 'single' to modes, or remove across")
        self._check_rows()
        for name in self.within:
            if len(self.groups.get(name, ())) < 2:
                raise ValueError(f"within: {name!r} must be a group of at least two columns")
        if self.layout == "carrino2022" and self.grid and self.score != "all":
            raise ValueError("layout carrino2022 averages over all configurations; set score = 'all'")
        return self

    def _check_rows(self) -> None:
        """If some rows have settings by task, require every row to say which it takes, because there is no common default."""
        tuned = [row for row, model in self.models.items() if model.task_settings]
        for row, model in self.models.items():
            if tuned and not model.model_fields_set & {"refine", "settings", "task_settings"}:
                raise ValueError(
                    f"models.{row} does not say which settings it takes, and the rows of this study have different ones; "
                    f"set models.{row}.like to one of {', '.join(other for other in self.models if other != row)}, or "
                    f"models.{row}.settings to {{}} for the settings of `finetune`"
                )


def _resolve_like(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace `like` by the refinement and the settings of the row that it names."""
    models = values.get("models")
    if not isinstance(models, Mapping):
        return dict(values)
    found: dict[str, Any] = {}

    def resolve(row: str, *below: str) -> Any:
        model = models[row]
        if row in found or not isinstance(model, Mapping):
            return found.get(row, model)
        own, other = dict(model), model.get("like")
        own.pop("like", None)
        if other is not None:
            if other not in models:
                rows = ", ".join(name for name in models if name != row)
                raise ValueError(f"models.{row}.like: {other!r} is not a row; rows: {rows}")
            if other in (row, *below):
                raise ValueError(f"models.{row}.like: {other!r} takes its settings from {row!r}")
            base = resolve(other, row, *below)
            plain = base if isinstance(base, Mapping) else base.resolved()
            # Set `settings` even if the other row has none, because this row has said which it takes.
            own = merged({"settings": {}, **_kept(plain, ("model", "like", "published"))}, own)
        found[row] = own
        return own

    return {**values, "models": {row: resolve(row) for row in models}}


def _leave_out(values: Mapping[str, Any]) -> dict[str, Any]:
    """Apply `without`: drop the models, tasks and folds it names, and all settings that name them."""
    result = dict(values)
    gone = result.pop("without", ())
    if not gone or not isinstance(gone, Collection) or isinstance(gone, str):
        return dict(values)
    tasks = [str(path) for path in result.get("tasks", ())]
    known = {*result.get("models", {}), *result.get("folds", {}), *(Path(path).name for path in tasks)}
    unknown = [str(name) for name in gone if name not in known]
    if unknown:
        raise ValueError(f"without: {unknown[0]!r} is neither a model nor a task; known: {', '.join(sorted(known))}")
    result["tasks"] = [path for path in tasks if Path(path).name not in gone]
    for field in ("folds", "protocols", "task_settings"):
        if field in result:
            result[field] = _kept(result[field], gone)
    if "groups" in result:
        groups = {group: [name for name in names if name not in gone] for group, names in result["groups"].items()}
        result["groups"] = {group: names for group, names in groups.items() if names}
        if "within" in result:
            result["within"] = [group for group in result["within"] if group in result["groups"]]
    if "across" in result:
        kept = {name: [o for o in others if o not in gone] for name, others in _kept(result["across"], gone).items()}
        result["across"] = {name: others for name, others in kept.items() if others}
    if isinstance(result.get("finetune"), Mapping):
        result["finetune"] = without_tasks(result["finetune"], gone)
    if isinstance(result.get("mode_settings"), Mapping):
        result["mode_settings"] = {
            mode: without_tasks(settings, gone) if isinstance(settings, Mapping) else settings
            for mode, settings in result["mode_settings"].items()
        }
    result["models"] = {
        row: _model_without(model, gone) if isinstance(model, Mapping) else model
        for row, model in _kept(result.get("models", {}), gone).items()
    }
    return result


def _model_without(model: Mapping[str, Any], gone: Collection[str]) -> dict[str, Any]:
    result = dict(model)
    if "task_settings" in result:
        result["task_settings"] = _kept(result["task_settings"], gone)
    if isinstance(result.get("refine"), Mapping):
        tasks = [name for name in result["refine"].get("tasks", ()) if name not in gone]
        result["refine"] = {**result["refine"], "tasks": tasks}
    return result


def without_tasks(settings: Mapping[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """Drop tasks from the `mixing` settings, which name all tasks of a study while a run trains only some."""
    if not isinstance(settings.get("mixing"), Mapping):
        return dict(settings)
    mixing = dict(settings["mixing"])
    for field in ("batch_sizes", "loss_weights"):
        if isinstance(mixing.get(field), Mapping):
            mixing[field] = _kept(mixing[field], gone)
    return {**settings, "mixing": mixing}


def _kept(table: Mapping[str, Any], gone: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name not in gone}


def _dotted(grid: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten a grid to dotted names, because TOML and --set turn unquoted names into sections."""
    result: dict[str, Any] = {}
    for name, values in grid.items():
        full = f"{prefix}{name}".replace('"', "")
        if isinstance(values, Mapping):
            result |= _dotted(values, f"{full}.")
        elif isinstance(values, list | tuple):
            result[full] = values
        else:
            raise ValueError(f"grid: {full!r} needs a list of values to try, such as [{values!r}]")
    return result
