from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.artifacts.tokenizer import Tokenizer
from osler.core.errors import InputError
from osler.tasks.card import TaskCard
from osler.tasks.instances.base import IGNORED, HeadOptions, make_builder
from osler.tasks.instances.chains import best_paths
from osler.tasks.scoring import score
from osler.text.document import Document, Relation, Span, TextPair
from osler.text.subwords import SubwordTokenizer

PROTOCOL = {"p": {"metric": "f1"}}


def card(kind: str, labels=("DRUG", "PROBLEM"), **more) -> TaskCard:
    values = {
        "name": "t", "title": "t", "kind": kind, "language": "en", "labels": labels,
        "source": {"reader": "clinic"}, "protocol": "p", "protocols": PROTOCOL,
    }  # fmt: skip
    return TaskCard.model_validate(values | more)


@pytest.fixture(scope="module")
def tokens(tokenizer_folder) -> SubwordTokenizer:
    return Tokenizer.open(tokenizer_folder)


TEXT = "He was given aspirin 81 mg for chest pain. Warfarin was stopped because of bleeding; no fever."


def span(text: str, label: str, name: str = "") -> Span:
    start = TEXT.index(text)
    return Span.at(start, start + len(text), label, id=name)


DOCUMENT = Document(
    "d1",
    TEXT,
    (
        span("aspirin", "DRUG", "T1"),
        span("chest pain", "PROBLEM", "T2"),
        span("Warfarin", "DRUG", "T3"),
        span("bleeding", "PROBLEM", "T4"),
        span("fever", "PROBLEM", "T5"),
    ),
    (Relation("TREATS", "T1", "T2", "R1"), Relation("CAUSES", "T3", "T4", "R2"), Relation("CAUSES", "T1", "T4", "R3")),
)


def perfect(builder, instances) -> list[np.ndarray]:
    """Outputs of a model that knows every target and nothing else."""
    outputs = []
    for instance in instances:
        if isinstance(instance.target, np.ndarray) and instance.target.dtype == np.int64:
            logits = np.zeros((instance.length, len(builder.outputs)), dtype=np.float32)
            for place, target in enumerate(instance.target):
                logits[place, target if target != IGNORED else 1] = 20.0
            outputs.append(logits)
        elif isinstance(instance.target, np.ndarray):
            outputs.append(instance.target * 40 - 20)
        elif isinstance(instance.target, int):
            outputs.append(np.eye(len(builder.outputs), dtype=np.float32)[instance.target] * 20)
        else:
            outputs.append(np.array([instance.target]))
    return outputs


@pytest.mark.parametrize("subwords", ["first", "all"])
@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
@pytest.mark.parametrize("max_length", [16, 24, 512])
def test_gold_survives_tokens_windows_and_back(tokens, scheme, subwords, max_length):
    protocols = {"p": {"metric": "f1", "scheme": scheme, "subwords": subwords}}
    builder = make_builder(card("tagging", protocols=protocols), None, tokens, max_length, 4)
    built = builder.build([DOCUMENT], gold=True)
    predicted = builder.decode([DOCUMENT], built.instances, perfect(builder, built.instances))
    assert [s.key for s in predicted[0].spans] == [s.key for s in DOCUMENT.spans]
    assert score(builder.card, builder.protocol, [DOCUMENT], predicted).main == 1.0


def test_each_labelled_token_is_learned_exactly_once(tokens):
    builder = make_builder(card("tagging"), None, tokens, 16, 6)
    whole = make_builder(card("tagging"), None, tokens, 512, 6)
    windows = builder.build([DOCUMENT], gold=True).instances
    assert len(windows) > 3
    labelled = sum(int((w.target != IGNORED).sum()) for w in windows)
    assert labelled == sum(builder.weight(w) for w in windows)
    assert labelled == int((whole.build([DOCUMENT], gold=True).instances[0].target != IGNORED).sum())


def test_special_tokens_and_later_subwords_carry_no_label(tokens):
    instance = make_builder(card("tagging"), None, tokens, 512, 0).build([DOCUMENT], gold=True).instances[0]
    assert instance.target[0] == IGNORED
    assert instance.target[-1] == IGNORED
    assert (instance.target == IGNORED).sum() > 2


def test_windows_do_not_depend_on_gold(tokens):
    builder = make_builder(card("tagging"), None, tokens, 16, 4)
    bare = Document("d1", TEXT)
    with_gold = builder.build([DOCUMENT], gold=True).instances
    without = builder.build([bare], gold=False).instances
    assert [i.ids.tolist() for i in with_gold] == [i.ids.tolist() for i in without]


def test_what_a_flat_tagger_cannot_say_is_counted_and_stays_in_gold(tokens):
    overlapping = Span.at(DOCUMENT.spans[1].start, DOCUMENT.spans[1].end + 1, "DRUG", id="T9")
    gold = DOCUMENT.with_(spans=(*DOCUMENT.spans, overlapping), relations=())
    builder = make_builder(card("tagging"), None, tokens, 512, 0)
    built = builder.build([gold], gold=True)
    assert sum(built.unexpressed.values()) == 1
    predicted = builder.decode([gold], built.instances, perfect(builder, built.instances))
    assert score(builder.card, builder.protocol, [gold], predicted).metrics["recall"] == pytest.approx(5 / 6)


@settings(max_examples=40, deadline=None)
@given(st.text(alphabet="ab é漢😀.,\n\t 0", max_size=60), st.integers(8, 20))
def test_any_text_can_be_tagged(tokenizer_folder, text, max_length):
    tokens = Tokenizer.open(tokenizer_folder)
    document = Document("d", text)
    builder = make_builder(card("tagging"), None, tokens, max_length, 2)
    instances = builder.build([document], gold=False).instances
    outputs = [
        np.random.default_rng(0).normal(size=(i.length, len(builder.outputs))).astype(np.float32) for i in instances
    ]
    (predicted,) = builder.decode([document], instances, outputs)
    assert predicted.text == text
    for found in predicted.spans:
        assert text[found.start : found.end].strip() == text[found.start : found.end] != ""


def relation_builder(tokens, **more):
    settings_ = {"pairs": [("DRUG", "PROBLEM")]} | more
    return make_builder(card("relation", labels=("TREATS", "CAUSES"), **settings_), None, tokens, 64, 0)


def test_all_pairs_of_a_sentence_are_candidates_and_cross_sentence_gold_is_counted(tokens):
    builder = relation_builder(tokens)
    built = builder.build([DOCUMENT], gold=True)
    places = [i.place for i in built.instances]
    assert places == [("T1", "T2"), ("T3", "T4"), ("T3", "T5")]
    assert [builder.outputs[i.target] for i in built.instances] == ["TREATS", "CAUSES", "false"]
    assert sum(built.unexpressed.values()) == 1
    predicted = builder.decode([DOCUMENT], built.instances, perfect(builder, built.instances))
    assert score(builder.card, builder.protocol, [DOCUMENT], predicted).metrics["recall"] == pytest.approx(2 / 3)


def test_document_candidates_reach_every_relation(tokens):
    builder = relation_builder(tokens, protocols={"p": {"metric": "f1", "candidates": "document"}})
    built = builder.build([DOCUMENT], gold=True)
    assert len(built.instances) == 6
    assert sum(built.unexpressed.values()) == 0


def test_several_labels_of_one_pair_are_all_taught_and_predicted_once(tokens):
    both = DOCUMENT.with_(relations=(Relation("TREATS", "T1", "T2", "R1"), Relation("CAUSES", "T1", "T2", "R2")))
    builder = relation_builder(tokens)
    taught = [i for i in builder.build([both], gold=True).instances if i.place == ("T1", "T2")]
    assert sorted(builder.outputs[i.target] for i in taught) == ["CAUSES", "TREATS"]
    assert len([i for i in builder.build([both], gold=False).instances if i.place == ("T1", "T2")]) == 1


@pytest.mark.parametrize(
    ("markers", "expected"),
    [("enclose", "<< aspirin >> 81 mg for [[ chest pain ]]"), ("blind", "@DRUG$ 81 mg for @PROBLEM$")],
)
def test_mentions_are_marked_or_hidden(tokens, markers, expected):
    builder = relation_builder(tokens, protocols={"p": {"metric": "f1", "markers": markers}})
    ids = builder.build([DOCUMENT], gold=False).instances[0].ids.tolist()
    assert expected in tokens.tokenizer.decode(ids)


def test_a_relation_without_direction_has_one_candidate_and_either_order_is_right(tokens):
    builder = relation_builder(tokens, pairs=[("PROBLEM", "PROBLEM")], symmetric=True)
    gold = DOCUMENT.with_(relations=(Relation("CAUSES", "T5", "T4", "R1"),))
    built = builder.build([gold], gold=True)
    assert [i.place for i in built.instances] == [("T4", "T5")]
    predicted = builder.decode([gold], built.instances, perfect(builder, built.instances))
    assert score(builder.card, builder.protocol, [gold], predicted).main == 1.0


def test_a_long_candidate_keeps_its_mentions(tokens):
    filler = "word " * 200
    text = f"{filler}aspirin for {'very ' * 3}pain {filler}"
    a, b = text.index("aspirin"), text.index("pain")
    document = Document("d", text, (Span.at(a, a + 7, "DRUG", id="A"), Span.at(b, b + 4, "PROBLEM", id="B")))
    instance = relation_builder(tokens).build([document], gold=False).instances[0]
    shown = tokens.tokenizer.decode(instance.ids.tolist())
    assert instance.length <= 64
    assert "aspirin" in shown
    assert "pain" in shown


def _long_note() -> Document:
    """600 words, half of them two sub-words or more, with 120 mentions and a relation from end to end."""
    rng = random.Random(0)
    pieces, spans, length = [], [], 0
    for number in range(600):
        word = rng.choice(["word", "Hypercalcaemia,", "aspirin", "81\nmg", "né", "(no)", "bleeding."])
        if number % 5 == 0:
            spans.append(Span.at(length, length + len(word), "DRUG" if number % 2 else "PROBLEM", id=f"T{number}"))
        pieces.append(word + rng.choice(["  ", " ", "\n"]))
        length += len(pieces[-1])
    return Document("d", "".join(pieces), tuple(spans), (Relation("CAUSES", "T595", "T0", "R1"),))


@pytest.mark.parametrize("relations", ["tagged", "markers"])
@pytest.mark.parametrize("candidates", ["document", "sentence"])
def test_cutting_a_long_text_before_it_is_tokenised_changes_nothing_that_is_read(
    tokens, monkeypatch, candidates, relations
):
    about = card("relation", ("CAUSES",), pairs=[("DRUG", "PROBLEM")], sentences="meta",
                 protocols={"p": {"metric": "f1", "candidates": candidates}})  # fmt: skip
    note = _long_note()
    note = note.with_(meta={"sentences": f"0 {len(note.text)}"})  # one very long sentence
    builder = make_builder(about, None, tokens, 40, 0, HeadOptions(relations=relations))
    built = builder.build([note], gold=True)
    lengths: list[int] = []
    marked = builder._marked
    monkeypatch.setattr(builder, "_marked", lambda *given: lengths.append(len((made := marked(*given)).text)) or made)
    cut = builder.build([note], gold=True).instances
    if candidates == "document":
        assert max(lengths) < len(note.text) / 2
    monkeypatch.setattr(builder, "_readable", lambda text, found: found)
    whole = {i.place: i for i in builder.build([note], gold=True).instances}
    assert max(lengths) > len(note.text)
    assert len(whole) == 60 * 60
    for instance in cut:
        other = whole[instance.place]
        assert (instance.ids.tolist(), instance.marks, instance.target) == (
            other.ids.tolist(),
            other.marks,
            other.target,
        )
    # Too far apart for a head that would see neither mention; a marker head sees both.
    apart = candidates == "document" and relations == "tagged"
    assert (len(cut) < len(whole) / 5) == apart
    assert (len(cut) == len(whole)) == (not apart)
    assert built.unexpressed["relations whose mentions are no candidate pair"] == int(apart)


def test_pairs_keep_their_order_and_both_orders_are_read_where_order_means_nothing(tokens):
    pair = TextPair("p", "aspirin", "fever", labels=("yes",), value=2.0)
    builder = make_builder(card("classification", labels=("yes", "no"), record="pair"), None, tokens, 32, 0)
    (instance,) = builder.build([pair], gold=True).instances
    shown = tokens.tokenizer.decode(instance.ids.tolist())
    assert shown.index("aspirin") < shown.index("fever")
    symmetric = make_builder(card("regression", labels=(), record="pair", symmetric=True), None, tokens, 32, 0)
    instances = symmetric.build([pair], gold=False).instances
    assert len(instances) == 2
    (mean,) = symmetric.decode([pair], instances, [np.array([1.0]), np.array([3.0])])
    assert mean.value == 2.0
    swapped = TextPair("p", "fever", "aspirin")
    assert {tuple(i.ids) for i in symmetric.build([swapped], gold=False).instances} == {tuple(i.ids) for i in instances}


def test_a_long_pair_is_cut_on_the_longer_side(tokens):
    pair = TextPair("p", "aspirin " * 50, "no fever", labels=("yes",))
    builder = make_builder(card("classification", labels=("yes", "no"), record="pair"), None, tokens, 32, 0)
    (instance,) = builder.build([pair], gold=True).instances
    assert instance.length <= 32
    assert "no fever" in tokens.tokenizer.decode(instance.ids.tolist())


def test_labels_of_long_documents_are_pooled_over_windows(tokens):
    record = Document("d", TEXT, labels=("PROBLEM",))
    builder = make_builder(card("multilabel"), None, tokens, 16, 4)
    instances = builder.build([record], gold=False).instances
    outputs = [np.array([-9.0, -9.0])] * (len(instances) - 1) + [np.array([-9.0, 9.0])]
    assert builder.decode([record], instances, outputs)[0].labels == ("PROBLEM",)


def test_the_best_labels_have_scores_best_first_so_that_they_can_be_ranked(tokens):
    codes = tuple(f"C{n:03}" for n in range(400))
    coding = card("multilabel", labels=codes, protocols={"p": {"metric": "map"}})
    gold = Document("d", TEXT, labels=("C007", "C200"))
    builder = make_builder(coding, None, tokens, 64, 0)
    outputs = np.linspace(-9.0, -12.0, 400)
    outputs[200], outputs[7] = -8.0, -11.99
    (found,) = builder.decode([gold], builder.build([gold], gold=False).instances, [outputs])
    assert found.labels == ()
    assert len(found.scores) == 300
    assert next(iter(found.scores)) == "C200"
    # C007 is not among the first 300. Rounding makes some probabilities equal, which does not change their order.
    assert score(coding, coding.protocols["p"], [gold], [found]).main == pytest.approx((1 + 0) / 2)
    assert score(coding, coding.protocols["p"], [gold.with_(labels=("C003",))], [found]).main == pytest.approx(1 / 5)


@pytest.mark.parametrize("kind", ["tagging", "classification", "multilabel"])
def test_a_label_the_card_does_not_know_is_refused_without_quoting_text(tokens, kind):
    record = Document(
        "d", "CANARY secret", (Span.at(0, 6, "UNSEEN", id="T1"),) if kind == "tagging" else (), labels=("UNSEEN",)
    )
    with pytest.raises(InputError, match="UNSEEN") as caught:
        make_builder(card(kind), None, tokens, 32, 0).build([record], gold=True)
    assert "CANARY" not in str(caught.value)


def test_viterbi_finds_the_best_legal_path_where_greedy_is_illegal():
    # tags: O, B, I; greedy would start with I
    scores = np.log(np.array([[0.3, 0.2, 0.5], [0.2, 0.1, 0.7]]))
    allowed = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1]], dtype=bool)
    [path] = best_paths([scores], allowed, np.array([True, True, False]), np.array([True, True, True]))
    assert path.tolist() == [1, 2]
    assert best_paths([np.zeros((0, 3))], allowed, np.ones(3, bool), np.ones(3, bool))[0].tolist() == []
