"""The error page and the files beside it: what they show, what they link to, what they never hold."""

from __future__ import annotations

import csv
import json
import re
from html import unescape

import pytest

from osler.artifacts.evaluation import EvaluationMetrics
from osler.stages.evaluate.error_page import write_error_page
from osler.stages.evaluate.error_tables import write_errors_csv, write_errors_json
from osler.stages.evaluate.errors import find_errors
from osler.tasks.card import TaskCard
from osler.text.document import Document, Relation, Span, TextPair

CANARY = "zebrafish"
TEXT = f"{CANARY} <b>fever</b>, aspirin and Aspirin for {CANARY}itis."
LOWER, UPPER = TEXT.index("aspirin"), TEXT.index("Aspirin")


def card(kind: str, labels=("DRUG", "PROBLEM"), metric="f1", **more) -> TaskCard:
    values = {"name": "hand-made", "title": "Made by hand", "kind": kind, "language": "en", "labels": labels}
    source = {"reader": "files", "format": "jsonl", "splits": {"test": {"files": ["x"]}}}
    return TaskCard.model_validate(
        values | {"source": source, "protocol": "p", "protocols": {"p": {"metric": metric}}} | more
    )


def span(text: str, label: str, start: int = 0, **more) -> Span:
    place = TEXT.index(text, start)
    return Span.at(place, place + len(text), label, **more)


def made(kind_card: TaskCard, gold, predicted, folder, documents: int = 200) -> tuple[str, list[dict[str, str]], dict]:
    errors = find_errors(kind_card, kind_card.protocol_named(), gold, predicted)
    metrics = EvaluationMetrics(split="test", protocol="hand-made/p@v1", metric="f1", main=0.5, metrics={})
    write_error_page(errors, metrics, folder / "errors.html", documents=documents)
    write_errors_csv(errors, folder / "errors.csv")
    write_errors_json(errors, folder / "errors.json", {"task": "hand-made"})
    html = (folder / "errors.html").read_text(encoding="utf-8")
    ids = set(re.findall(r' id="([^"]+)"', html))
    assert set(re.findall(r'href="#([^"]+)"', html)) <= ids, "every link leads somewhere"
    assert "holds the text of documents" in html.split("<section")[1]
    for name in ("errors.csv", "errors.json"):
        assert CANARY not in (folder / name).read_text(encoding="utf-8")
    with (folder / "errors.csv").open(encoding="utf-8") as stream:
        return html, list(csv.DictReader(stream)), json.loads((folder / "errors.json").read_text())


def tagged(folder, documents: int = 200):
    gold = Document(
        "g1",
        TEXT,
        (span("aspirin", "DRUG"), span("Aspirin", "DRUG"), span("fever", "PROBLEM"), span(f"{CANARY}itis", "PROBLEM")),
    )
    found = (
        span(CANARY, "DRUG", score=0.9),
        span("fever", "DRUG", score=0.8),
        Span.at(TEXT.index("for "), len(TEXT) - 1, "PROBLEM", score=0.7),
    )
    other = Document("g2", TEXT, gold.spans[:1])
    return made(card("tagging"), [gold, other], [gold.with_(spans=found), other.with_(spans=())], folder, documents)


def test_mentions_are_counted_grouped_and_linked_to_their_marks(tmp_path):
    html, rows, counts = tagged(tmp_path)
    assert counts["classes"] == {"boundary": 1, "invented": 1, "missed": 3, "type": 1}
    assert [(row["document"], row["class"], row["gold_offsets"]) for row in rows if row["class"] == "missed"] == [
        ("g1", "missed", f"{LOWER} {LOWER + 7}"),
        ("g1", "missed", f"{UPPER} {UPPER + 7}"),
        ("g2", "missed", f"{LOWER} {LOWER + 7}"),
    ]
    # "aspirin" and "Aspirin" are one group of three, each linked to the mark of its own mention.
    missed = html[html.index('id="s-missed"') :]
    group = missed[missed.index(">aspirin<") : missed.index("</tr>", missed.index(">aspirin<"))]
    assert ">3<" in group
    for anchor in re.findall(r'href="#([^"]+)"', group):
        mark = re.search(rf'<mark[^>]*id="{anchor}"[^>]*>([^<]*)<', html)
        assert mark.group(1).lower() == "aspirin"
        assert 'data-chip="missed · DRUG"' in mark.group(0)
    assert "<b>fever</b>" not in html, "text cannot become markup"
    assert 'data-chip="type: gold · PROBLEM"' in html
    assert 'data-chip="type: predicted · DRUG"' in html


def test_the_page_says_what_it_leaves_out(tmp_path):
    html, rows, _ = tagged(tmp_path, documents=1)
    assert "The 1 with the most errors of 2" in html
    assert "g2" not in html
    assert "+ 1" in html
    assert {row["document"] for row in rows} == {"g1", "g2"}


def test_relations_show_both_arguments(tmp_path):
    spans = (span("aspirin", "DRUG", id="T1"), span("fever", "PROBLEM", id="T2"), span("Aspirin", "DRUG", id="T3"))
    gold = Document("r1", TEXT, spans, (Relation("X", "T1", "T2"), Relation("Y", "T3", "T2")))
    predicted = gold.with_(relations=(Relation("Y", "T1", "T2", score=0.6), Relation("X", "T3", "T1", score=0.5)))
    kind_card = card("relation", ("X", "Y"), pairs=(("DRUG", "PROBLEM"),))
    html, rows, counts = made(kind_card, [gold], [predicted], tmp_path)
    assert counts["classes"] == {"invented": 1, "missed": 1, "type": 1}
    assert [(row["class"], row["head"], row["tail"]) for row in rows] == [
        ("type", "T1", "T2"),
        ("missed", "T3", "T2"),
        ("invented", "T3", "T1"),
    ]
    assert 'data-relation="type: X, predicted Y"' in html
    assert all(f'data-span="{name}"' in html for name in ("T1", "T2", "T3"))


def test_wrong_classes_are_grouped_and_the_surest_stand_first(tmp_path):
    pairs = [TextPair(f"p{i}", f"{CANARY} {i}", "second & last", labels=("yes",)) for i in range(12)]
    predicted = [pair.with_(labels=("no",), scores={"no": float(f"0.{50 + i}")}) for i, pair in enumerate(pairs)]
    html, rows, counts = made(
        card("classification", ("yes", "no"), record="pair"), pairs, predicted, tmp_path, documents=3
    )
    assert "gold yes, predicted no: 12" in html
    assert re.findall(r'note-caption">([^<]+)<', html) == ["1 · p11", "2 · p10", "3 · p9"]
    assert "predicted: no 0.61" in html
    assert "The 3 with the most confident errors of 12" in html
    assert counts["calibration"]["predictions"] == len(rows) == 12
    assert 'id="s-confidence"' in html


def test_labels_missed_and_invented(tmp_path):
    gold = [Document("m1", TEXT, labels=("DRUG",)), Document("m2", TEXT, labels=("DRUG", "PROBLEM"))]
    predicted = [gold[0].with_(labels=("PROBLEM",), scores={"PROBLEM": 0.9}), gold[1].with_(labels=("DRUG",))]
    html, rows, _ = made(card("multilabel"), gold, predicted, tmp_path)
    assert [(row["document"], row["class"], row["gold_type"] or row["predicted_type"]) for row in rows] == [
        ("m1", "missed", "DRUG"),
        ("m1", "invented", "PROBLEM"),
        ("m2", "missed", "PROBLEM"),
    ]
    assert "<li>invented: PROBLEM 0.90</li>" in html
    assert "<li>correct: DRUG</li>" in html


def test_values_furthest_off_stand_first(tmp_path):
    pairs = [TextPair(f"v{i}", CANARY, "b", value=float(i)) for i in range(6)]
    predicted = [pair.with_(value=3.0) for pair in pairs]
    kind_card = card("regression", (), metric="pearson", record="pair")
    html, rows, counts = made(kind_card, pairs, predicted, tmp_path, documents=2)
    assert re.findall(r'note-caption">([^<]+)<', html) == ["1 · v0", "2 · v1"]
    assert "difference +3" in html
    assert counts["mean_absolute_error"] == pytest.approx(1.5)
    assert len(rows) == 6


def test_nothing_wrong_is_said_so(tmp_path):
    gold = Document("ok", TEXT, (span("aspirin", "DRUG"),))
    html, rows, _ = made(card("tagging"), [gold], [gold], tmp_path)
    assert "No record has an error" in html
    assert rows == []
    assert CANARY not in html


def test_many_documents_are_paged_and_can_be_filtered_by_error_and_label(tmp_path):
    gold = [Document(f"g{i}", TEXT, (span("aspirin", "DRUG"),)) for i in range(50)]
    html, _, _ = made(card("tagging"), gold, [record.with_(spans=()) for record in gold], tmp_path)
    listed = re.findall(r'<div class="listed" data-tags="([^"]*)"( hidden)?>', html)
    assert [bool(hidden) for _, hidden in listed] == [False] * 20 + [True] * 30
    assert json.loads(unescape(listed[0][0])) == [[["missed"], ["DRUG"]]]
    assert '<option value="missed">missed (50)</option>' in html
    assert '<option value="DRUG">DRUG (50)</option>' in html
    assert "<noscript><p>The first 20 of 50 documents." in html
