"""Label Studio: an export as the program writes it, several annotators, its labelling interface, and a task made from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from osler.cli.main import app
from osler.core.errors import InputError
from osler.formats.base import Problems, configure
from osler.formats.registry import detect_formats, get_format
from osler.text.document import Document, Relation, Span, TextPair

TEXT = "No fever. Aspirin 💊 81 mg caused a rash."


def region(name: str, start: int, end: int, *labels: str, text: str = TEXT, **more: Any) -> dict[str, Any]:
    value = {"start": start, "end": end, "text": text[start:end], "labels": list(labels)}
    shared = {"id": name, "from_name": "ner", "to_name": "text", "type": "labels", "origin": "manual"}
    return {**shared, "value": value, **more}


def choice(name: str, control: str, *choices: str, **place: int) -> dict[str, Any]:
    value = {**place, "choices": list(choices)}
    return {"id": name, "from_name": control, "to_name": "text", "type": "choices", "value": value, "origin": "manual"}


def exported(*annotations: dict[str, Any], **task: Any) -> dict[str, Any]:
    """A task as the JSON export of a project has it."""
    shared = {"id": 83, "project": 4, "created_at": "2026-03-09T21:52:49Z", "drafts": [], "meta": {}, "inner_id": 1}
    return {**shared, "data": {"text": TEXT, "ward": "B"}, "annotations": list(annotations), **task}


def annotation(*result: dict[str, Any], by: Any = 1, **more: Any) -> dict[str, Any]:
    return {"id": 9, "completed_by": by, "result": list(result), "was_cancelled": False, "ground_truth": False, **more}


def read(folder: Path, *tasks: Any, problems: Problems | None = None, **options: Any) -> list[Document]:
    (folder / "project-4-at-2026.json").write_text(json.dumps(tasks))
    assert detect_formats(folder) == ["label_studio"]
    return list(configure(get_format("label_studio"), options).read(folder, problems=problems))  # type: ignore[arg-type]


def test_an_export_is_read_with_relations_choices_and_attributes(tmp_path: Path) -> None:
    result = [
        choice("Kq1", "negation", "Negated", start=3, end=8),
        region("Kq1", 3, 8, "Problem"),
        region("a2", 10, 17, "Drug", "Chemical"),
        region("a3", 35, 39, "Problem"),
        {"from_id": "a3", "to_id": "a2", "type": "relation", "direction": "left", "labels": ["causes"]},
        {"from_id": "a2", "to_id": "a3", "type": "relation", "direction": "right", "labels": ["ADE", "sure"]},
        choice("zz", "topic", "allergy", "drug"),
    ]
    (note,) = read(tmp_path, exported(annotation(*result)))
    assert (note.id, note.text, note.meta) == ("83", TEXT, {"ward": "B"})
    assert [(s.id, s.label, s.text_in(TEXT)) for s in note.spans] == [
        ("Kq1", "Problem", "fever"),
        ("a2", "Drug", "Aspirin"),
        ("a2#2", "Chemical", "Aspirin"),
        ("a3", "Problem", "rash"),
    ]
    assert note.spans[0].attributes == {"negation": "Negated"}
    assert [r.key for r in note.relations] == [("causes", "a2", "a3"), ("ADE", "a2", "a3"), ("sure", "a2", "a3")]
    assert note.labels == ("allergy", "drug")


def test_the_annotation_of_a_person_comes_before_the_prediction_and_can_be_chosen(tmp_path: Path) -> None:
    ann, bo = ({"id": number, "email": f"{name}@ward.org"} for number, name in ((1, "ann"), (2, "bo")))
    predictions = [{"model_version": "m1", "result": [region("p", 3, 8, "Drug", score=0.5)]}]
    people = [
        annotation(region("a", 3, 8, "Problem"), by=ann),
        annotation(region("b", 10, 17, "Drug"), by=bo),
        annotation(region("c", 0, 2, "Problem"), by=bo, was_cancelled=True),
    ]
    task = exported(*people, predictions=predictions)

    def spans(*tasks: Any, **options: Any) -> list[list[str]]:
        return [[span.id for span in found.spans] for found in read(tmp_path, *tasks, **options)]

    assert spans(task) == [["b"]]
    assert spans(exported(people[0] | {"ground_truth": True}, people[1])) == [["a"]]
    assert spans(task, annotator="ann@ward.org") == [["a"]]
    assert spans(task, annotator="2") == [["b"]]
    assert spans(task, annotator="3") == []
    assert spans(task, results="predictions") == [["p"]]
    assert spans(exported(predictions=predictions)) == [["p"]]
    assert spans(exported(annotation(), predictions=predictions)) == [[]], "a person found nothing: that is an answer"
    (note,) = read(tmp_path, task, results="predictions")
    assert note.spans[0].score == 0.5


def test_offsets_of_older_versions_are_noticed_and_read_on_request(tmp_path: Path) -> None:
    units = TEXT.encode("utf-16-le")

    def old(name: str, start: int, end: int) -> dict[str, Any]:
        shift = lambda offset: len(TEXT[:offset].encode("utf-16-le")) // 2  # noqa: E731
        made = region(name, shift(start), shift(end), "X")
        made["value"]["text"] = units[2 * shift(start) : 2 * shift(end)].decode("utf-16-le")
        return made

    task = exported(annotation(old("a", 20, 25), old("b", 35, 39)))
    with pytest.raises(InputError, match=r"task 1: .*offsets = utf-16.*--set options.offsets=utf-16"):
        read(tmp_path, task)
    (note,) = read(tmp_path, task, offsets="utf-16")
    assert [span.text_in(TEXT) for span in note.spans] == ["81 mg", "rash"]


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ("text", "malformed-line"),
        ({"data": [], "annotations": []}, "malformed-line"),
        ({"data": {"note": TEXT}, "annotations": []}, "malformed-line"),
        (exported(annotation(region("a", 3, 800, "X"))), "bad-span"),
        (exported(annotation(region("a", 3, 8))), "empty-label"),
        (exported(annotation(region("a", 3, 8, "X", score="high"))), "malformed-line"),
        (
            exported(annotation({"type": "labels", "value": {"start": "x", "end": 8, "labels": ["X"]}})),
            "malformed-line",
        ),
        (
            exported(annotation({"type": "relation", "from_id": "a", "to_id": "b", "labels": ["r"]})),
            "dangling-reference",
        ),
        (exported(annotation(choice("a", "negation", "yes", start=3, end=8))), "dangling-reference"),
        (exported(annotation({"type": "rating", "value": {"rating": 3}})), "unknown-field"),
        (exported({"result": {}}), "malformed-line"),
    ],
)
def test_defects_name_the_task_and_never_its_text(task: Any, kind: str, tmp_path: Path) -> None:
    good = exported(id=1)
    with pytest.raises(InputError, match=rf"project-4-at-2026.json: task 2: .*\({kind}\)") as caught:
        read(tmp_path, good, task)
    assert "fever" not in str(caught.value)
    problems = Problems()
    assert read(tmp_path, good, task, problems=problems)[0].id == "1"
    assert problems.counts == {kind: 1}


def test_the_labelling_interface_offers_everything_that_the_tasks_hold(tmp_path: Path) -> None:
    attributes = {"negation": "negated", "code": "C0015967", "label": "own"}
    note = Document(
        "n",
        TEXT,
        (Span.at(3, 8, 'A "b" & <c>', id="T1", score=0.25, attributes=attributes), Span.at(10, 17, "Drug", id="T2")),
        (Relation("treats", "T2", "T1", "R1"),),
        ("allergy",),
        2.0,
    )
    loss = get_format("label_studio").write([note, TextPair("p", "a", "b")], tmp_path / "out")
    assert loss.counts == {"text pairs": 1}
    root = ElementTree.parse(tmp_path / "out" / "labeling_config.xml").getroot()
    offered = {(tag.tag, tag.get("name"), tuple(child.get("value") for child in tag)) for tag in root}
    assert offered == {
        ("Style", None, ()),
        ("Relations", None, ("treats",)),
        ("Labels", "label", ('A "b" & <c>', "Drug")),
        ("Text", "text", ()),
        ("Choices", "labels", ("allergy",)),
        ("Number", "value", ()),
        ("Choices", "negation", ("negated",)),
        ("TextArea", "code.text", ()),
        ("TextArea", "label.text", ()),
    }
    (task,) = json.loads((tmp_path / "out" / "tasks.json").read_text())
    controls = {tag.get("name") for tag in root}
    [prediction] = task["predictions"]
    assert prediction["score"] == 0.25
    assert {result["from_name"] for result in prediction["result"] if "from_name" in result} <= controls


def test_lost_mentions_and_their_relations_are_counted(tmp_path: Path) -> None:
    spans = (Span(((0, 2), (3, 8)), "X", "T1"), Span.at(10, 17, "X", id="T2"))
    note = Document("n", TEXT, spans, (Relation("r", "T1", "T2", "R1"),))
    loss = get_format("label_studio").write([note], tmp_path / "out")
    assert loss.counts == {"discontinuous spans": 1, "relations": 1}


def test_a_project_becomes_a_task(tmp_path: Path) -> None:
    tasks = [exported(annotation(region("a", 10, 17, "Drug")), id=number) for number in range(30)]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    card = tmp_path / "my-task.toml"
    command = ["tasks", "new", "my-task", "--format", "label_studio", "--from", str(tmp_path / "export.json")]
    done = CliRunner().invoke(app, [*command, "--out", str(card)])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(
        app, ["tasks", "prepare", str(card), "--from", str(tmp_path / "export.json"), "--out", str(tmp_path / "task")]
    )
    assert done.exit_code == 0, done.output
    from osler.artifacts.task_folder import TaskFolder

    made = TaskFolder.open(tmp_path / "task")
    assert made.card.labels == ("Drug",)
    assert sum(len(made.read(split)) for split in made.splits) == 30
