"""The columns of a study: the task of each, or the tasks of its folds, and how much there is to learn from them."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq

from osler.core.errors import RecipeError
from osler.stages.study.config import StudyRecipe
from osler.tasks.data import TaskData


def columns_of(recipe: StudyRecipe) -> dict[str, tuple[TaskData, ...]]:
    """Every column with its task or the tasks of its folds, in recipe order."""
    columns: dict[str, tuple[TaskData, ...]] = {}
    for path in recipe.tasks:
        task = TaskData.open(Path(os.path.abspath(path)))
        if task.card.name in columns:
            raise RecipeError(f"tasks: the column {task.card.name!r} is given twice", fix="Give each task once")
        columns[task.card.name] = (task,)
    for name, paths in recipe.folds.items():
        if name in columns:
            raise RecipeError(f"folds: the column {name!r} is among the tasks too", fix="Give it once")
        columns[name] = tuple(TaskData.open(Path(os.path.abspath(path))) for path in paths)
    return columns


def size(task: TaskData) -> int:
    """How much there is to learn from: bytes of the training records before compression."""
    path = task.artifact.path / "train.parquet"
    if not path.is_file():
        return 1
    metadata = pq.ParquetFile(path).metadata
    return sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)) or 1
