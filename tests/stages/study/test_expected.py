"""What a dry run expects of the runs: the same steps that training takes, and a time from them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from encoders import preset_encoder

from osler.artifacts.run import RunTraining
from osler.core.config import validate
from osler.nn.presets import Preset
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.stages.study import expected
from osler.stages.study.expected import describe, expect
from osler.stages.study.plan import StudyPlan, expand
from osler.stages.study.recipe import StudyRecipe
from osler.stages.study.run import plan as plan_lines
from osler.stages.study.run import run

ENTITIES, PHI = "clinic-entities-en", "clinic-phi-en"
TINY = Preset(layers=2, width=16, heads=2, inner=32)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("tasks")
    found = []
    for name, number in ((ENTITIES, 12), (PHI, 5)):
        sizes = {"train": number, "dev": 2, "test": 2}
        found.append(prepare(PrepareRecipe(task=name, options=sizes), folder / name).path)
    return found


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory, tokenizer_folder: Path) -> Path:
    folder = tmp_path_factory.mktemp("encoder") / "tiny"
    preset_encoder(TINY, vocab_size=400, pad_token_id=1, seed=0).save(folder)
    (folder / "tokenizer.json").write_bytes((tokenizer_folder / "tokenizer.json").read_bytes())
    return folder


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of known speed."""
    monkeypatch.setattr(expected, "speed", lambda encoder, spec: (1e9, "a steady machine"))


def recipe(tasks: list[Path], encoder: Path, **more: Any) -> StudyRecipe:
    finetune = {"max_length": 64, "overlap": 8, "epochs": 2, "batch_size": 4, "train": {"lr": 1e-3, "device": "cpu"}}
    values = {
        "models": {"m": {"model": str(encoder)}},
        "tasks": tasks,
        "seeds": [1],
        "workers": 1,
        "finetune": finetune,
    }
    return validate(StudyRecipe, values | more, where="test")


def test_a_run_takes_the_expected_steps(tasks: list[Path], encoder: Path, tmp_path: Path) -> None:
    both = {"modes": ["single", "together"], "twins": "updates"}
    study = recipe(tasks, encoder, **both)
    planned = expand(study, tmp_path / "study")
    found = expect(planned.runs)
    run(study, tmp_path / "study", planned=planned)
    by_mode = {(each.spec.mode, each.spec.columns): each for each in planned.runs}
    for (mode, columns), each in by_mode.items():
        if each.key not in found.work:
            assert mode == "twin"  # the plain run has as many steps
            continue
        training, work = RunTraining.read(planned.folder(each.key)), found.work[each.key]
        assert work.updates == training.steps
        assert dict(work.by_column) == {column: training.steps_on(column) for column in columns}
        assert work.flops > 0
        assert found.seconds[each.key] == work.flops / 1e9
    # Tasks take turns, so the smaller one is trained longer together than alone; the larger one needs no baseline of its own.
    small, large = by_mode["twin", (PHI,)], by_mode["twin", (ENTITIES,)]
    assert found.work[small.key].updates == found.work[by_mode["together", (ENTITIES, PHI)].key].by_column[PHI]
    assert large.key not in found.work


def test_sentences_are_more_sequences_than_documents(tasks: list[Path], encoder: Path, tmp_path: Path) -> None:
    def sequences(**more: Any) -> int:
        finetune = recipe(tasks, encoder).finetune | {"max_length": 512, "overlap": 64} | more
        [first, _] = expand(recipe(tasks, encoder, finetune=finetune), tmp_path / "study").runs
        return expect([first]).work[first.key].sequences[ENTITIES]

    assert sequences() < sequences(unit="sentence") < sequences(unit="sentence", max_words=5)


def lines(study: StudyRecipe, out: Path) -> list[str]:
    planned: StudyPlan = expand(study, out)
    return describe(planned.runs, expect(planned.runs))


def test_every_row_has_its_settings_its_updates_and_its_time(tasks: list[Path], encoder: Path, tmp_path: Path) -> None:
    models = {
        "plain": {"model": str(encoder), "settings": {}},
        "same": {"model": str(encoder), "settings": {}},
        "tuned": {
            "model": str(encoder),
            "settings": {"head": "linear", "keep": "last", "train": {"optimizer": "adamax"}},
            "task_settings": {PHI: {"epochs": 7}},
        },
    }
    text = "\n".join(
        lines(recipe(tasks, encoder, models=models, seeds=[1, 2], grid={"train.lr": [1e-3, 2e-3]}), tmp_path)
    )
    # Rows that are trained alike share their lines.
    assert re.search(
        r"^plain, same: adamw; .*, linear tagger; mlp heads for texts and pairs; the best step on dev is kept$",
        text,
        re.MULTILINE,
    )
    assert re.search(
        r"^tuned: adamax; .*, linear tagger; linear heads for texts and pairs; the last step is kept$",
        text,
        re.MULTILINE,
    )
    [epochs] = re.findall(rf"tuned:.*?{PHI} +0\.001 to 0\.002 +(\d+) ", text, re.DOTALL)
    assert epochs == "7"
    # plain and same have the same runs.
    assert f"for {2 * 2 * 2 * 2} runs, one after the other" in text
    assert "(plain, same, tuned: 1.0 GFLOP/s on a steady machine)" in text


def test_only_a_dry_run_reads_the_tasks(tasks: list[Path], encoder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    study = recipe(tasks, encoder)
    planned = expand(study, tmp_path / "study")
    dry = plan_lines(study, tmp_path / "study", planned, dry_run=True)
    assert any(line.startswith("expected time: ") for line in dry)
    monkeypatch.setattr(expected, "expect", None)
    short = plan_lines(study, tmp_path / "study", planned)
    assert any("the time can be estimated after the first, or with --dry-run" in line for line in short)


def test_a_step_is_timed_on_the_device_of_the_runs(
    tasks: list[Path], encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(expected, "_TRIAL_SECONDS", 0.0)
    from osler.nn.encoder import fresh_encoder

    [first, *_] = expand(recipe(tasks, encoder), tmp_path / "study").runs
    trial = fresh_encoder(encoder, seed=0, layers=1)
    assert trial.config.num_hidden_layers == 1
    speed, device = expected.speed(trial, first.spec)
    assert speed > 0
    assert device.startswith("CPU")
