from __future__ import annotations

import json

from osler.train.stats import Trackers, read_history


def write(folder, start, steps):
    trackers = Trackers(folder, start)
    for step in steps:
        trackers.record("train", step, {"loss": 1 / step}, {"tokens_per_second": 5.0})
    trackers.sync()
    trackers.close()


def test_resuming_truncates_to_the_step(tmp_path):
    write(tmp_path, 0, range(1, 9))
    path = tmp_path / "logs" / "log.jsonl"
    with open(path, "a") as handle:
        handle.write('{"kind": "train", "step": 9, "lo')  # cut short by a kill
    write(tmp_path, 5, range(6, 8))
    assert [record["step"] for record in read_history(tmp_path)] == [1, 2, 3, 4, 5, 6, 7]
    write(tmp_path, 0, [1])
    assert read_history(tmp_path) == [{"kind": "train", "step": 1, "loss": 1.0}]


def test_wall_time_is_in_the_file_but_not_in_the_history(tmp_path):
    write(tmp_path, 0, [1])
    (line,) = (tmp_path / "logs" / "log.jsonl").read_text().splitlines()
    assert json.loads(line)["clock"] == {"tokens_per_second": 5.0}
    assert "clock" not in read_history(tmp_path)[0]


def test_values_that_json_cannot_hold_become_null(tmp_path):
    trackers = Trackers(tmp_path, 0)
    trackers.record("eval", 1, {"f1": float("nan"), "loss": float("inf"), "none": None}, {})
    trackers.close()
    assert read_history(tmp_path) == [{"kind": "eval", "step": 1, "f1": None, "loss": None, "none": None}]


def test_tensorboard_reads_the_curve_without_what_was_done_again(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    write(tmp_path, 0, range(1, 9))
    write(tmp_path, 5, range(6, 8))
    events = EventAccumulator(str(tmp_path / "logs" / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [1, 2, 3, 4, 5, 6, 7]


def test_works_without_tensorboard(tmp_path, monkeypatch):
    monkeypatch.setattr("osler.train.stats.available", lambda module: False)
    write(tmp_path, 0, [1, 2])
    assert len(read_history(tmp_path)) == 2
    assert not (tmp_path / "logs" / "tensorboard").exists()
