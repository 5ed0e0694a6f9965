"""The calibration of a bundle on disk, and the points that are read from its curves."""

from __future__ import annotations

import pytest

from osler.artifacts.calibration import ALL, BundleCalibration, HeadCalibration, OperatingPoint
from osler.core.errors import ArtifactError
from osler.tasks.instances.base import PLAIN, Confidence

POINTS = (
    OperatingPoint(0.0, 0.9, 0.8),
    OperatingPoint(1.0, 0.85, 0.9),
    OperatingPoint(2.0, 0.86, 0.91),
    OperatingPoint(3.0, 0.5, 0.97),
    OperatingPoint(4.0, 0.2, 0.96),
)
HEAD = HeadCalibration(
    slope=0.5,
    offset=-0.25,
    counted="mentions",
    recall={ALL: POINTS},
    thresholds={"DRUG": (OperatingPoint(0.0, 0.7, 0.9), OperatingPoint(0.5, 0.8, 0.8), OperatingPoint(0.99, 1.0, 0.1))},
)


def test_it_comes_back_as_it_was_saved_and_an_empty_one_leaves_no_file(tmp_path):
    made = BundleCalibration(heads={"drugs": HEAD})
    made.save(tmp_path)
    assert BundleCalibration.load(tmp_path) == made
    empty = tmp_path / "empty"
    empty.mkdir()
    BundleCalibration().save(empty)
    assert list(empty.iterdir()) == []
    assert BundleCalibration.load(empty) == BundleCalibration()


def test_a_head_without_calibration_is_taken_as_it_is():
    made = BundleCalibration(heads={"drugs": HEAD})
    assert made.confidence("drugs", 2.0) == Confidence(1.0, 0.5, -0.25, 2.0)
    assert made.confidence("other") == PLAIN


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "calibration.json").write_text('{"heads": {"drugs": {"temperature": -1}}}')
    with pytest.raises(ArtifactError, match="heads: drugs: temperature"):
        BundleCalibration.load(tmp_path)


def test_a_target_recall_is_reached_with_the_best_precision_there_is():
    assert HEAD.at_recall(0.5) == POINTS[0]
    assert HEAD.at_recall(0.9) == POINTS[2]  # a larger bias, yet more precise
    assert HEAD.at_recall(0.96) == POINTS[3]
    assert HEAD.at_recall(0.98) is None
    assert HEAD.best_recall() == POINTS[3]
    assert HeadCalibration().at_recall(0.1) is None


def test_a_threshold_between_two_is_read_at_the_higher_one():
    assert HEAD.at_score(0.0, "DRUG").recall == 0.9
    assert HEAD.at_score(0.3, "DRUG").recall == 0.8
    assert HEAD.at_score(1.0, "DRUG").recall == 0.1
    assert HEAD.at_score(0.3) is None
