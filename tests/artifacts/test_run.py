"""Runs of studies made before are found again: keys and files do not change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from osler.artifacts.run import Run, RunSettings, RunSpec

SETTINGS = {"tagger": "crf", "mixing": {"batch_sizes": {"b": 4, "a": 8}}, "train": {"lr": 3e-05, "betas": [0.9, 0.98]}}
PATHS = {"mlm": {"corpus": "/data/corpus"}, "teacher": {"bundle": "/data/teacher", "weight": 0.5}}
INPUTS = ("digest of teacher", "digest of corpus")
JOINT, OTHER = "fedcba9876543210fedc", "0123456789abcdef0123"


def spec(settings: dict[str, object], **more: object) -> RunSpec:
    values = {
        "row": "m",
        "model": "encoder",
        "columns": ("a",),
        "tasks": (Path("/tasks/a"),),
        "seed": 1,
        "split": "test",
    }
    return RunSpec(**values, task_digests=("digest of a",), settings=RunSettings(settings), **more)  # type: ignore[arg-type]


GRID = spec(SETTINGS, point=RunSettings({"train.lr": 3e-5, "tagger": "crf"}), runtime=RunSettings({"device": "cpu"}))
# spec.json as it was written when settings were JSON strings in the code too.
WRITTEN = """{"row": "m", "model": "encoder", "columns": ["a"], "tasks": ["/tasks/a"], "task_digests": ["digest of a"],
"seed": 1, "split": "test", "settings": "{\\"mixing\\": {\\"batch_sizes\\": {\\"a\\": 8, \\"b\\": 4}},
 \\"tagger\\": \\"crf\\", \\"train\\": {\\"betas\\": [0.9, 0.98], \\"lr\\": 3e-05}}",
"point": "{\\"tagger\\": \\"crf\\", \\"train.lr\\": 3e-05}", "fraction": 1.0, "mode": "single", "fold": null, "after": null,
"equal_to": null, "partner": "", "alone": null, "only_start": false, "inputs": [], "kept_out": [],
"runtime": "{\\"device\\": \\"cpu\\"}"}""".replace("\n", "")


@pytest.mark.parametrize(
    ("run", "key"),
    [
        (spec({"epochs": 2, "train": {"lr": 1e-5}}), "937dea3660c65887dca9"),
        (GRID, "c14062d9263a710bdde3"),
        (spec(PATHS, inputs=INPUTS, fraction=0.25), "f3a206644beebe880fc9"),
        (spec({"name": "café"}, after=OTHER), "1aff59750cb5819c07f1"),
        (spec({}, mode="twin", equal_to=JOINT, alone=OTHER, partner="b"), "93545602301d81bb5338"),
        (spec({"decoding": "free"}), "cfbea85255a1ed9cd13f"),
        (spec({"decoding": "greedy"}), "cfbea85255a1ed9cd13f"),  # the same, by its later name
    ],
)
def test_keys_are_those_of_earlier_versions(run: RunSpec, key: str) -> None:
    assert run.key("digest of model") == key
    assert RunSpec.from_dict(run.to_dict()).key("digest of model") == key


def test_spec_json_is_read_and_written_as_before(tmp_path: Path) -> None:
    written = json.loads(WRITTEN)
    found = RunSpec.from_dict(written)
    assert found == GRID
    assert found.settings["mixing"]["batch_sizes"] == {"a": 8, "b": 4}
    found.write(tmp_path)
    assert json.loads((tmp_path / "spec.json").read_text()) == written
    assert list(json.loads((tmp_path / "spec.json").read_text())) == list(written)


def test_settings_are_equal_if_their_values_are() -> None:
    one, two = RunSettings({"b": 1, "a": {"d": 2, "c": Path("x")}}), RunSettings('{"a": {"c": "x", "d": 2}, "b": 1}')
    assert one == two
    assert len({one, two}) == 1
    assert dict(one) == one.plain() == {"a": {"c": "x", "d": 2}, "b": 1}
    one.plain()["b"] = 2
    assert one["b"] == 1


def test_a_run_that_was_not_scored_has_no_metrics(tmp_path: Path) -> None:
    run = Run(GRID, tmp_path)
    assert run.metrics("a") is None
    assert not run.scored
    assert run.status.state == "waiting"
