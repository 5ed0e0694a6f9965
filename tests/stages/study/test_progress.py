"""The status of a study, from its files alone: after failures, after a kill, with the time left."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from osler.artifacts.run import RunStatus, holding
from osler.cli.main import app
from osler.core.errors import OslerError
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.stages.study.plan import expand
from osler.stages.study.progress import StudyView, failures, lines, load_study, states_table, summary, time_left
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.run import report, run
from osler.stages.study.schedule import Schedule


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> Path:
    sizes = {"train": 3, "dev": 1, "test": 2}
    return prepare(PrepareRecipe(task="clinic-entities-en", options=sizes), tmp_path_factory.mktemp("t") / "task").path


@pytest.fixture
def begun(task, tmp_path, fake) -> Path:
    """A study with one model that failed and one that is done."""
    models = {"one": {"model": "one"}, "broken": {"model": "broken"}}
    recipe = StudyRecipe.model_validate({"models": models, "tasks": [task], "seeds": [1, 2], "workers": 1})
    fake(fails={"broken": 1})
    with pytest.raises(OslerError):
        run(recipe, tmp_path / "study")
    return tmp_path / "study"


def test_a_run_is_running_only_while_a_process_holds_it(tmp_path):
    RunStatus("running", attempts=1).write(tmp_path)
    assert RunStatus.current(tmp_path).state == "waiting"
    with holding(tmp_path):
        assert RunStatus.current(tmp_path).state == "running"
    (tmp_path / "status.json").write_text("{")
    assert RunStatus.read(tmp_path) == RunStatus()


def test_status_lists_states_and_reasons(begun):
    result = CliRunner().invoke(app, ["study", "status", str(begun)])
    assert result.exit_code == 0
    assert "4 runs: 2 done, 2 failed" in result.stdout
    found = lines(begun)
    assert summary(found) == "4 runs: 2 done, 2 failed"
    assert failures(found)[0] == "failed: broken, clinic-entities-en, seed 1: this one cannot be done (attempt 1)"
    status = json.loads(next(begun.with_name("study.runs").glob("*/status.json")).read_text())
    assert set(status) == {"state", "reason", "attempts", "seconds", "device", "peak_memory", "processes"}


def test_a_run_that_two_rows_share_is_shown_in_both_and_counted_once(task, tmp_path, fake):
    models = {"one": {"model": "one"}, "the same": {"model": "one"}}
    recipe = StudyRecipe.model_validate({"models": models, "tasks": [task], "seeds": [1, 2], "workers": 1})
    fake()
    run(recipe, tmp_path / "study")
    found = lines(tmp_path / "study")
    assert summary(found) == "2 runs: 2 done"
    table = states_table(found)
    assert [[str(cell) for cell in column.cells] for column in table.columns] == [["one", "the same"], ["2/2", "2/2"]]


def test_the_count_of_finished_runs_never_goes_backwards(task, tmp_path, fake, capsys):
    """With a grid, chosen runs are scored after all are trained: they wait again, but they stay done."""
    values = {"models": {"m": {"model": "m"}}, "tasks": [task], "seeds": [1, 2], "workers": 1}
    fake(dev={"m 0.2": 0.9})
    run(StudyRecipe.model_validate(values | {"grid": {"train.lr": [0.1, 0.2]}}), tmp_path / "study")
    printed = capsys.readouterr().err
    counts = [int(number) for number in re.findall(r"4 runs: (\d+) done", printed)]
    assert counts == sorted(counts)
    assert "4 runs: 4 done (2 to be scored)" in printed
    assert printed.strip().endswith("4 runs: 4 done")


def test_names_are_never_truncated(task, tmp_path, fake):
    name = "a-model-with-a-name-that-is-much-longer-than-the-terminal-is-wide-and-then-some-more"
    recipe = StudyRecipe.model_validate({"models": {name: {"model": "m"}}, "tasks": [task], "seeds": [1], "workers": 1})
    fake()
    run(recipe, tmp_path / "study")
    console = Console(file=io.StringIO(), width=40)
    console.print(states_table(lines(tmp_path / "study")))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text
    assert name in "".join(line[:30].split("  ")[0].strip() for line in text.splitlines())


def test_a_log_file_gets_a_line_a_minute(task, tmp_path, fake, capsys):
    recipe = StudyRecipe.model_validate({"models": {"m": {"model": "m"}}, "tasks": [task], "seeds": [1]})
    fake()
    now = [0.0]
    schedule = Schedule(recipe, expand(recipe, tmp_path / "study"))
    with StudyView(schedule, 1, live=True, clock=lambda: now[0]) as view:
        for seconds in (0, 30, 59, 61, 90, 122):
            now[0] = seconds
            view.show()
    assert capsys.readouterr().err.splitlines() == ["  1 run: 0 done, 1 waiting"] * 2


def test_a_study_is_remembered_with_whole_paths(begun, task, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for path in (Path("study"), Path("study.runs"), begun):
        found = load_study(path)
        assert found is not None
        recipe, out = found
        assert (out, recipe.tasks, recipe.seeds) == (begun, (task,), (1, 2))
    assert load_study(tmp_path / "other") is None


@pytest.mark.parametrize(
    ("command", "folder"), [("resume", "nothing"), ("resume", "."), ("status", "."), ("report", ".")]
)
def test_a_folder_that_holds_no_study_is_named(tmp_path, command, folder):
    result = CliRunner().invoke(app, ["study", command, str(tmp_path / folder)])
    assert isinstance(result.exception, OslerError)
    assert "no study was begun here" in str(result.exception)


def test_a_damaged_list_of_runs_is_named_and_made_again(begun):
    path = begun.with_name("study.runs") / "runs.json"
    for text in ("{", "{}", '{"store": "x", "runs": [{"key": "a", "cost": 1, "spec": {}}]}'):
        path.write_text(text)
        with pytest.raises(OslerError, match=r"runs\.json: the list of runs is damaged.*osler study resume"):
            lines(begun)
    path.unlink()
    with pytest.raises(OslerError, match="no list of runs here"):
        lines(begun)


def test_a_report_of_nothing_leaves_nothing(task, tmp_path, fake):
    recipe = StudyRecipe.model_validate({"models": {"one": {"model": "one"}}, "tasks": [task], "seeds": [1]})
    fake()
    with pytest.raises(OslerError, match="no run of the study has a score yet"):
        report(recipe, tmp_path / "study")
    assert list(tmp_path.iterdir()) == []


def test_the_time_left_is_by_what_finished_runs_took_for_their_length():
    costs = {"a": 10.0, "b": 30.0, "c": 20.0, "d": 20.0}
    assert time_left(costs, {}, [20.0], 1) is None
    assert time_left(costs, {"a": 5.0, "b": 15.0}, [20.0, 20.0], 1) == 20.0
    assert time_left(costs, {"a": 5.0, "b": 15.0}, [20.0, 20.0], 2) == 10.0
    assert time_left(costs, {"a": 5.0, "b": 15.0}, [20.0], 8) == 10.0
