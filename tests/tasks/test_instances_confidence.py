"""Temperature, bias and the map of mention scores: what they change in a prediction, and what they must not."""

from __future__ import annotations

import numpy as np
import pytest

from osler.artifacts.tokenizer import Tokenizer
from osler.tasks.card import TaskCard
from osler.tasks.instances.base import Confidence, HeadOptions, make_builder
from osler.text.document import Document, Relation, Span

TEXT = "Given aspirin 81 mg and heparin for chest pain on Monday."


def card(kind: str, **values) -> TaskCard:
    metric = "accuracy" if kind == "classification" else "f1"
    common = {
        "name": "toy",
        "title": "toy",
        "language": "en",
        "kind": kind,
        "protocol": "plain",
        "protocols": {"plain": {"metric": metric, "decoding": values.pop("decoding", "greedy")}},
        "source": {"reader": "files", "format": "jsonl", "splits": {"test": {"files": ["x"]}}},
    }
    return TaskCard.model_validate(common | values)


def tagger(folder, tagger: str, decoding: str):
    made = card("tagging", labels=("DRUG", "PROBLEM"), decoding=decoding)
    return make_builder(made, "plain", Tokenizer.open(folder), 64, 8, HeadOptions(tagger=tagger))


def tagged(builder, seed: int, confidence: Confidence | None = None):
    """The spans of a text under random outputs."""
    documents = [Document("a", TEXT)]
    instances = builder.build(documents, gold=False).instances
    rng = np.random.default_rng(seed)
    size = len(builder.outputs)
    outputs = [rng.normal(size=(instance.length, size)).astype(np.float32) * 3 for instance in instances]
    for output in outputs:
        output[:, 0] += 3  # mostly O
    steps = rng.normal(size=(size, size)).astype(np.float32) if builder.head == "crf" else None
    [found] = builder.decode(documents, instances, outputs, steps, *([confidence] if confidence else []))
    return found.spans


HEADS = [("linear", "greedy"), ("linear", "constrained"), ("crf", "greedy")]


@pytest.mark.parametrize(("kind", "decoding"), HEADS)
def test_a_temperature_changes_scores_and_never_what_is_found(tokenizer_folder, kind, decoding):
    builder = tagger(tokenizer_folder, kind, decoding)
    changed = 0
    for seed in range(20):
        plain = tagged(builder, seed)
        assert tagged(builder, seed, Confidence()) == plain
        for temperature in (0.2, 5.0):
            other = tagged(builder, seed, Confidence(temperature))
            assert [span.key for span in other] == [span.key for span in plain]
            changed += sum(one.score != two.score for one, two in zip(plain, other, strict=True))
    assert changed


@pytest.mark.parametrize(("kind", "decoding"), HEADS)
def test_a_bias_finds_more_with_lower_scores_and_a_huge_one_covers_every_word(tokenizer_folder, kind, decoding):
    builder = tagger(tokenizer_folder, kind, decoding)
    covered = []
    for bias in (0.0, 2.0, 4.0, 100.0):
        found = [tagged(builder, seed, Confidence(bias=bias)) for seed in range(20)]
        covered.append(sum(span.end - span.start for spans in found for span in spans))
        if bias == 2.0:
            likely = [span.score for spans in found for span in spans]
        if bias == 100.0:
            unlikely = [span.score for spans in found for span in spans]
    assert covered == sorted(covered)
    assert covered[0] < covered[1]
    assert np.mean(unlikely) < np.mean(likely)  # the bias is no part of the score
    everything = {place for span in tagged(builder, 0, Confidence(bias=100.0)) for place in range(span.start, span.end)}
    if kind == "linear" and decoding == "constrained":
        assert all(place in everything or not TEXT[place].isalnum() for place in range(len(TEXT)))


def test_the_map_of_mention_scores_keeps_their_order_and_stays_between_0_and_1():
    confidence = Confidence(slope=0.5, offset=-1.0)
    scores = [confidence.mention(score) for score in (0.0, 0.1, 0.5, 0.9, 1.0)]
    assert scores == sorted(scores)
    assert scores[0] > 0.0
    assert scores[-1] < 1.0
    assert confidence.mention(0.5) == pytest.approx(1 / (1 + np.e), abs=1e-6)
    assert Confidence().mention(0.123456789) == 0.123456789


def test_the_map_is_applied_to_the_spans(tokenizer_folder):
    builder = tagger(tokenizer_folder, "linear", "greedy")
    confidence = Confidence(slope=0.5, offset=-1.0)
    plain, mapped = tagged(builder, 1), tagged(builder, 1, confidence)
    assert plain
    assert [span.score for span in mapped] == [confidence.mention(span.score) for span in plain]


def test_labels_of_a_text_have_tempered_scores_and_a_bias_adds_labels(tokenizer_folder):
    builder = make_builder(card("multilabel", labels=("a", "b", "c")), "plain", Tokenizer.open(tokenizer_folder), 64, 8)
    documents = [Document("x", TEXT)]
    instances = builder.build(documents, gold=False).instances
    outputs = [np.array([2.0, -1.0, -6.0], dtype=np.float32)]
    found = {
        name: builder.decode(documents, instances, outputs, None, confidence)[0]
        for name, confidence in {
            "plain": Confidence(),
            "warm": Confidence(2.0),
            "greedy": Confidence(2.0, bias=3.0),
        }.items()
    }
    assert found["plain"].labels == found["warm"].labels == ("a",)
    assert found["warm"].scores["a"] == pytest.approx(1 / (1 + np.exp(-1.0)), abs=1e-6)
    assert found["greedy"].labels == ("a", "b")
    assert found["greedy"].scores == found["warm"].scores


def test_one_label_keeps_its_place_and_only_its_score_is_tempered(tokenizer_folder):
    builder = make_builder(card("classification", labels=("a", "b")), "plain", Tokenizer.open(tokenizer_folder), 64, 8)
    documents = [Document("x", TEXT)]
    instances = builder.build(documents, gold=False).instances
    outputs = [np.array([1.0, 3.0], dtype=np.float32)]
    [plain] = builder.decode(documents, instances, outputs)
    [warm] = builder.decode(documents, instances, outputs, None, Confidence(4.0, bias=9.0))
    assert plain.labels == warm.labels == ("b",)
    assert warm.scores["b"] == pytest.approx(1 / (1 + np.exp(-0.5)), abs=1e-6)


@pytest.fixture
def relations(tokenizer_folder):
    made = card("relation", labels=("treats",), pairs=(("DRUG", "PROBLEM"),))
    return make_builder(made, "plain", Tokenizer.open(tokenizer_folder), 64, 8)


def test_a_bias_finds_more_relations_with_the_scores_they_have(relations):
    spans = (Span.at(6, 13, "DRUG", id="T1"), Span.at(36, 46, "PROBLEM", id="T2"))
    documents = [Document("x", TEXT, spans)]
    instances = relations.build(documents, gold=False).instances
    outputs = [np.array([0.0, 2.0], dtype=np.float32)]
    assert relations.decode(documents, instances, outputs)[0].relations == ()
    [found] = relations.decode(documents, instances, outputs, None, Confidence(2.0, bias=3.0))[0].relations
    assert (found.label, found.score) == ("treats", round(float(1 / (1 + np.e)), 4))


def test_the_evidence_of_relations_has_every_candidate_with_its_gold_label(relations):
    spans = (
        Span.at(6, 13, "DRUG", id="T1"),
        Span.at(24, 31, "DRUG", id="T2"),
        Span.at(36, 46, "PROBLEM", id="T3"),
    )
    documents = [Document("w", TEXT), Document("x", TEXT, spans, (Relation("treats", "T2", "T3", "R1"),))]
    instances = relations.build(documents, gold=False).instances
    outputs = [np.array([place, 0.0]) for place in range(len(instances))]
    evidence = relations.evidence(documents, instances, outputs)
    assert evidence.targets.tolist() == [1, 0]
    assert evidence.records.tolist() == [1, 1]
