"""Thresholds and target recall: what is kept, what is found, and what is said before a run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from osler.artifacts.bundle_spec import BundleSpec
from osler.artifacts.calibration import ALL, BundleCalibration, HeadCalibration, OperatingPoint
from osler.core.errors import RecipeError
from osler.stages.serve.annotate import plan
from osler.stages.serve.config import AnnotateOptions, AnnotateRecipe, ExportRecipe
from osler.stages.serve.demands import Demands
from osler.stages.serve.engine import AnnotationEngine
from osler.stages.serve.export import run as export
from osler.text.document import Document, Relation, Span

HEAD = HeadCalibration(
    slope=0.8,
    offset=-0.2,
    predictions=10,
    counted="mentions",
    recall={ALL: (OperatingPoint(0.0, 0.9, 0.85), OperatingPoint(3.0, 0.61, 0.992))},
    thresholds={
        ALL: (OperatingPoint(0.0, 0.8, 0.8), OperatingPoint(0.5, 0.9, 0.6)),
        "DRUG": (OperatingPoint(0.0, 0.7, 0.75), OperatingPoint(0.8, 0.95, 0.4)),
    },
)


@pytest.fixture(scope="module")
def calibrated(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle with a calibration of its English tagger."""
    folder = tmp_path_factory.mktemp("calibrated") / "bundle"
    shutil.copytree(bundle, folder)
    BundleCalibration(heads={"drugs": HEAD}).save(folder)
    return folder


def demands(folder: Path, **options) -> Demands:
    given = AnnotateOptions.model_validate(options)
    return Demands(BundleSpec.load(folder), BundleCalibration.load(folder), given)


def test_a_label_has_its_own_threshold_and_relations_go_with_their_spans(calibrated):
    spans = (
        Span.at(0, 1, "DRUG", id="T1", score=0.7),
        Span.at(2, 3, "DOSE", id="T2", score=0.7),
        Span.at(4, 5, "DOSE", id="T3"),
    )
    relations = (Relation("of", "T2", "T1", "R1", 0.9), Relation("of", "T2", "T3", "R2", 0.9))
    document = Document("a", "a b c", spans, relations)
    kept = demands(calibrated, min_score=0.5, thresholds={"DRUG": 0.8}).kept(document)
    assert [span.id for span in kept.spans] == ["T2", "T3"]
    assert [relation.id for relation in kept.relations] == ["R2"]
    lower = demands(calibrated, min_score=0.9, thresholds={"DRUG": 0.1}).kept(document)
    assert [span.id for span in lower.spans] == ["T1", "T3"]
    assert demands(calibrated).kept(document) is document


def test_the_cost_in_precision_is_said_before_the_run(calibrated, tmp_path):
    (tmp_path / "a.txt").write_text("Aspirin 81 mg.")
    values = {"files": (tmp_path / "a.txt",), "bundle": calibrated, "heads": ("drugs",)}
    lines = "\n".join(plan(AnnotateRecipe.model_validate(values | {"target_recall": 0.99}), None))
    assert "drugs: recall 0.992 on dev, precision 0.610 instead of 0.900, of mentions" in lines
    lines = "\n".join(
        plan(AnnotateRecipe.model_validate(values | {"min_score": 0.5, "thresholds": ["DRUG=0.8"]}), None)
    )
    assert "from score 0.5, exact on dev: precision 0.900 instead of 0.800, recall 0.600 instead of 0.800" in lines
    assert "DRUG from score 0.8, exact on dev: precision 0.950 instead of 0.700" in lines


def test_a_recall_out_of_reach_stops_the_run_and_says_what_is_in_reach(calibrated):
    with pytest.raises(RecipeError, match=r"at most 0.992 on dev, with precision 0.610") as caught:
        demands(calibrated, target_recall=0.999).costs(["drugs"])
    assert "Ask for 0.992 or less" in str(caught.value)
    with pytest.raises(RecipeError, match="does not say what it finds on dev"):
        demands(calibrated, target_recall=0.9).costs(["drugs", "farmacos"])


def test_a_bundle_without_calibration_says_so_and_still_has_thresholds(bundle):
    [line] = demands(bundle, min_score=0.5).costs(["drugs"])
    assert "not calibrated" in line
    assert demands(bundle).costs(["drugs"]) == []


def test_a_label_that_no_head_has_is_refused(calibrated):
    with pytest.raises(RecipeError, match="no entity or relation has the label 'DRUGS'") as caught:
        demands(calibrated, thresholds={"DRUGS": 0.5}).costs(["drugs"])
    assert "Did you mean 'DRUG'" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"thresholds": ["DRUG"]}, "KEY=VALUE"),
        ({"thresholds": {"DRUG": 1.5}}, "less than or equal to 1"),
        ({"target_recall": 0.9, "min_score": 0.2}, "contradict"),
        ({"target_recall": 1.2}, "less than or equal to 1"),
    ],
)
def test_wrong_demands_are_refused(given, problem):
    with pytest.raises(ValueError, match=problem):
        AnnotateOptions.model_validate(given)


def test_without_these_options_annotations_of_before_are_recognised():
    assert {"thresholds", "target_recall"}.isdisjoint(AnnotateOptions().identity())
    assert AnnotateOptions(target_recall=0.9).identity()["target_recall"] == 0.9


def test_a_target_recall_finds_more_and_the_scores_stay_those_of_the_head(calibrated):
    documents = [Document(str(n), "Aspirin 81 mg daily for chest pain, then warfarin 5 mg.") for n in range(3)]

    def found(**options):
        engine = AnnotationEngine.load(calibrated, AnnotateOptions(heads=("drugs",), **options), "cpu")
        return [span for document in engine.annotate(documents) for span in document.spans]

    plain, more = found(), found(target_recall=0.99)
    assert sum(s.end - s.start for s in more) > sum(s.end - s.start for s in plain)
    both = {(s.key): s.score for s in plain}
    assert all(both[s.key] == s.score for s in more if s.key in both)


def test_every_head_that_may_read_a_document_has_to_meet_the_demand_before_the_run(calibrated, tmp_path):
    (tmp_path / "note.txt").write_text("He was given aspirin for the pain.")  # only the English head would read it

    def planned(**options):
        recipe = AnnotateRecipe(files=(tmp_path / "note.txt",), bundle=calibrated, target_recall=0.99, **options)
        return plan(recipe, None)

    for options in ({}, {"language": "all"}, {"heads": ("farmacos",)}):
        with pytest.raises(RecipeError, match="no target recall for farmacos") as caught:
            planned(**options)
        assert "--head or --language" in str(caught.value)
    for options in ({"language": "en"}, {"heads": ("drugs",)}):
        assert any(line.startswith("drugs: recall 0.992") for line in planned(**options))


def test_a_document_in_a_language_has_the_demands_of_its_heads(calibrated, tmp_path):
    folder = shutil.copytree(calibrated, tmp_path / "both")
    BundleCalibration(heads={"drugs": HEAD, "farmacos": HEAD}).save(folder)
    english, spanish = (
        Document("1", "He was given aspirin for the pain."),
        Document("2", "Se dio aspirina para el dolor."),
    )
    for options in ({"target_recall": 0.99}, {"thresholds": {"FARMACO": 1.0}}):
        found = AnnotationEngine.load(folder, AnnotateOptions(**options), "cpu").annotate([spanish, english])
        for heads, document in ((("farmacos",), found[0]), (("drugs",), found[1])):
            own = options if "thresholds" not in options or heads == ("farmacos",) else {}
            alone = AnnotationEngine.load(folder, AnnotateOptions(heads=heads, **own), "cpu")
            assert alone.annotate([Document(document.id, document.text)]) == [document]


def test_an_onnx_export_keeps_the_scores_and_the_demands(calibrated, tmp_path):
    exported = export(ExportRecipe(bundle=calibrated, to="onnx"), tmp_path / "onnx").path
    assert BundleCalibration.load(exported) == BundleCalibration.load(calibrated)
    options = AnnotateOptions(heads=("drugs",), target_recall=0.99)
    documents = [Document("a", "Aspirin 81 mg daily for chest pain, then warfarin 5 mg.")]
    one, other = (
        AnnotationEngine.load(folder, options, "cpu").annotate(documents) for folder in (calibrated, exported)
    )
    assert [span.key for span in one[0].spans] == [span.key for span in other[0].spans] != []
    assert [s.score for s in one[0].spans] == pytest.approx([s.score for s in other[0].spans], abs=1e-4)
