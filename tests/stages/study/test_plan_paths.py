"""Paths in settings count by the content they point to: a study is the same from another working folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from osler.artifacts.bundle_spec import BundleHead, BundleSpec
from osler.artifacts.run import PATHS, absolute_paths, without_paths
from osler.artifacts.task_folder import TaskFolder
from osler.core.artifact import Workspace, produce
from osler.core.config import Recipe
from osler.core.errors import OslerError, OutputError
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.study import runner
from osler.stages.study.plan import expand
from osler.stages.study.progress import load_study
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.run import run
from osler.text.document import Document


class Text(Recipe):
    text: str


def corpus(folder: Path, text: str) -> Path:
    """A corpus with one file; nothing here reads it but its digest."""

    def build(work: Workspace) -> None:
        (work.path / "text").write_text(text)

    return produce(folder, kind="corpus", recipe=Text(text=text), parents={}, build=build).path


@pytest.fixture
def fakes(fake, monkeypatch) -> Any:
    """Runs that train nothing, with settings that are checked as real ones are."""

    def identify(model: str) -> str:
        weights = Path(model) / "weights"
        return f"digest of {weights.read_text() if weights.is_file() else model}"

    check = runner.check
    found = fake(fails={"broken": 1.0})
    monkeypatch.setattr(runner, "check", check)
    monkeypatch.setattr(runner, "identify", identify)
    monkeypatch.setattr(
        runner, "configuration", lambda model: SimpleNamespace(model_type="modernbert", hidden_size=128)
    )
    return found


@pytest.fixture
def work(bench, tmp_path: Path) -> Path:
    """A folder with a corpus, a teacher and a task, as a person works in it."""
    folder = tmp_path / "work"
    corpus(folder / "corpus", "one")
    bench.spans("one")
    (folder / "teacher").mkdir()
    (folder / "teacher" / "weights").write_text("some")
    card = TaskFolder.open(bench.tasks["one"][0]).card
    BundleSpec(max_length=64, overlap=8, heads={"one": BundleHead(card=card, protocol="strict")}).save(
        folder / "teacher"
    )
    return folder


def study(bench, *models: str, **more: Any) -> StudyRecipe:
    return bench.recipe(*models or ("m",), seeds=[1], workers=1, finetune={"mlm": {"corpus": "corpus"}}, **more)


def keys(recipe: StudyRecipe) -> list[str]:
    return [run.key for run in expand(recipe, Path("study")).runs]


def test_every_path_of_fine_tuning_settings_is_known() -> None:
    """A setting that says where, in a section of fine-tuning, must not be in the address of a run."""
    found = {
        f".{name}.{key}"
        for name, field in FinetuneRecipe.model_fields.items()
        for section in (field.annotation, *get_args(field.annotation))
        if isinstance(section, type) and issubclass(section, Recipe) and name != "train"
        for key, inner in section.model_fields.items()
        if inner.annotation is Path
    }
    assert {*found, ".forms"} == set(PATHS)


def test_paths_are_found_in_settings_recipes_and_grids(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {"mlm": {"corpus": "c"}, "forms": "f"}
    values = {"grid": {"teacher.bundle": ["a", "b"]}, "models": {"m": {"settings": settings}}, "x": "c"}
    place = {"settings": {"mlm": {"corpus": f"{tmp_path}/c"}, "forms": f"{tmp_path}/f"}}
    whole = {"grid": {"teacher.bundle": [f"{tmp_path}/a", f"{tmp_path}/b"]}, "models": {"m": place}, "x": "c"}
    assert absolute_paths(values) == whole
    assert without_paths(values) == without_paths(whole)
    assert without_paths(values)["x"] == "c"


def test_a_run_is_addressed_by_what_its_settings_name_not_by_the_path(bench, work: Path, fakes, monkeypatch) -> None:
    settings = {"mlm": {"corpus": "corpus"}, "teacher": {"bundle": "teacher"}}
    monkeypatch.chdir(work)
    [here] = keys(bench.recipe("m", seeds=[1], finetune=settings))
    shutil.copytree(work, work.with_name("elsewhere"))
    monkeypatch.chdir(work.parent)
    there = {"mlm": {"corpus": "elsewhere/corpus"}, "teacher": {"bundle": str(work / "teacher")}}
    assert keys(bench.recipe("m", seeds=[1], finetune=there)) == [here]
    other = {**there, "mlm": {"corpus": str(corpus(work.parent / "other", "two"))}}
    assert keys(bench.recipe("m", seeds=[1], finetune=other)) != [here]
    (work / "teacher" / "weights").write_text("others")
    assert keys(bench.recipe("m", seeds=[1], finetune=there)) != [here]


def test_a_run_is_addressed_by_the_content_of_the_task_whose_forms_it_takes(
    bench, work: Path, fakes, monkeypatch
) -> None:
    bench.task("lender", TaskFolder.open(bench.tasks["one"][0]).card, [Document("a", "a form")])
    lender = bench.tasks.pop("lender")[0]
    monkeypatch.chdir(work)
    shutil.copytree(lender, "forms")
    [plain] = keys(bench.recipe("m", seeds=[1]))
    [here] = keys(bench.recipe("m", seeds=[1], finetune={"forms": "forms"}))
    assert here != plain
    assert keys(bench.recipe("m", seeds=[1], finetune={"forms": str(lender)})) == [here]
    assert keys(bench.recipe("m", seeds=[1], finetune={"forms": str(bench.tasks["one"][0])})) != [here]


def test_a_study_resumes_from_another_folder_without_repeating_a_run(bench, work, fakes, monkeypatch) -> None:
    monkeypatch.chdir(work)
    with pytest.raises(OslerError, match="1 of 2 runs failed"):
        run(study(bench, "m", "broken"), Path("study"))
    (fakes.log.parent / "mended").touch()
    monkeypatch.chdir(work.parent)
    begun = load_study(work / "study")
    assert begun is not None
    made = run(*begun, retry_failed=True)
    assert fakes.done() == ["m, one, seed 1", "broken, one, seed 1"]
    specs = [json.loads(path.read_text()) for path in work.glob("study.runs/*/spec.json")]
    assert {json.loads(spec["settings"])["mlm"]["corpus"] for spec in specs} == {str(work / "corpus")}
    # The whole study is the same one too, by its recipe as it was written; another corpus makes it another.
    monkeypatch.chdir(work)
    assert made.manifest.parents["settings:1"]
    assert run(study(bench, "m", "broken"), Path("study")).reused
    shutil.rmtree(work / "corpus")
    corpus(work / "corpus", "two")
    with pytest.raises(OutputError, match="a corpus or a task that the settings name has other content"):
        run(study(bench, "m", "broken"), Path("study"))
