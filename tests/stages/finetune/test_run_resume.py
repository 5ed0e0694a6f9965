"""Joint heads, raw text, accumulation and annealed mixing in one run: killed and resumed it gives the same bytes."""

from __future__ import annotations

import pytest

from osler.stages.finetune import run as finetuning
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.run import run

TRAIN = {"lr": 5e-3, "device": "cpu", "log_every": 1, "checkpoint_every": 2, "eval_every": 3}


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("moment", [1, 2])
def test_a_killed_run_goes_on_to_the_same_bytes(moment, models, make_task, make_corpus, tmp_path, monkeypatch):
    tasks = [
        make_task("drugs", ["DRUG"], seed=1, train=10),
        make_task("diseases", ["DISEASE"], seed=2, train=4),
        make_task("tests", ["TEST"], seed=3, train=4),
    ]
    texts = [f"pra{n} vso wte{n} zsi rtu{n} spo vwa{n} tsi" for n in range(9)]
    given = FinetuneRecipe.model_validate(
        {
            "model": str(models["masked"]),
            "tasks": tasks,
            "max_length": 64,
            "overlap": 8,
            "epochs": 3,
            "batch_size": 2,
            "accumulate": 2,
            "average_epochs": 2,
            "joint": {"entities": ("drugs", "diseases")},
            "mlm": {"corpus": str(make_corpus(texts)), "weight": 0.5},
            "mixing": {"order": "annealed", "loss_weights": {"tests": 2.0}, "batch_sizes": {"drugs": 3}},
            "train": TRAIN,
        }
    )
    whole = run(given, tmp_path / "whole").manifest
    assert len(whole.counts["batches_trained"]) == 4
    score, calls = finetuning.score, []

    def dying(*arguments, **named):
        calls.append(1)
        if len(calls) == 3 * moment + 1:  # three tasks have dev, so in the next evaluation
            raise Killed
        return score(*arguments, **named)

    monkeypatch.setattr(finetuning, "score", dying)
    with pytest.raises(Killed):
        run(given, tmp_path / "killed")
    assert not (tmp_path / "killed").exists()
    assert list((tmp_path / "killed.partial").glob("checkpoints/step-*"))
    monkeypatch.setattr(finetuning, "score", score)
    again = run(given, tmp_path / "killed").manifest
    assert again.files == whole.files
    assert again.counts == whole.counts


@pytest.mark.parametrize(
    "moment",
    ["osler.artifacts.bundle.Bundle.save", "osler.core.artifact.remove_tree", "osler.core.artifact._finish_partial"],
)
def test_killed_after_training_nothing_is_trained_again(moment, model, make_task, tmp_path, monkeypatch):
    values = {"model": str(model), "tasks": [make_task("drugs", ["DRUG"], seed=1)], "max_length": 64, "overlap": 8}
    given = FinetuneRecipe.model_validate(values | {"epochs": 2, "batch_size": 4, "train": TRAIN})
    whole = run(given, tmp_path / "whole").manifest

    def dying(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(moment, dying)
        with pytest.raises(Killed):
            run(given, tmp_path / "killed")
    log = (tmp_path / "killed.partial" / "logs" / "log.jsonl").read_bytes()
    again = run(given, tmp_path / "killed")
    # The log has the speed of every update: of a second training it would be another.
    assert (again.path / "logs" / "log.jsonl").read_bytes() == log
    assert again.manifest.files == whole.files
    assert again.manifest.counts == whole.counts
    assert not (again.path / "checkpoints").exists()
