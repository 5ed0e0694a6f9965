"""What the papers' published code does and osler's defaults do not: each is a protocol that can be chosen by name."""

from __future__ import annotations

import numpy as np
import pytest

from osler.artifacts.tokenizer import Tokenizer as TokenizerFolder
from osler.core.config import read_toml
from osler.core.errors import RecipeError
from osler.stages.evaluate.errors import find_errors
from osler.tasks.card import Protocol
from osler.tasks.catalogue import all_cards, load_card, make_card, protocol_families
from osler.tasks.describe import describe
from osler.tasks.instances.base import Builder, Instance, make_builder
from osler.tasks.scoring import score
from osler.text.document import Document, Span, TextPair
from osler.text.subwords import SubwordTokenizer

PENG = {
    "clinicalsts-2018": "second-first-train+dev",
    "i2b2-2010-relations": "all-pairs-train+dev",
    "mednli": "second-first-train+dev",
    "share-clef-2013": "conlleval-train+dev",
    "chemprot": "blue-train+dev",
    "ddi2013": "micro-train+dev",
    "bc5cdr-disease": "conlleval-train+dev",
    "bc5cdr-chem": "conlleval-train+dev",
}
MULYAR = {
    "n2c2-2019-sts": "one-order-train+dev",
    "mednli": "accuracy-train+dev",
    "medrqe": "accuracy-train+dev",
    "n2c2-2018-ade": "strict-all-train+dev",
    "i2b2-2014-deid": "strict-all-train+dev",
    "i2b2-2012-events": "token-all-train+dev",
    "i2b2-2010-concepts": "token-all-train+dev",
    "quaero-emea": "strict-all-train+dev",
}
WADA = dict.fromkeys(("bc5cdr-disease", "bc5cdr-chem", "share-clef-2013"), "b-anchored-train+dev")
LEWIS = {"jnlpba": "merged-types"}
CARRINO = dict.fromkeys(("pharmaconer", "cantemist", "ictusnet"), "seqeval")


@pytest.fixture(scope="module")
def tokens(tokenizer_folder) -> SubwordTokenizer:
    return TokenizerFolder.open(tokenizer_folder)


@pytest.mark.parametrize("paper", [PENG, MULYAR, WADA, LEWIS, CARRINO])
def test_every_task_has_the_protocol_of_the_published_code_and_tasks_info_shows_it(paper):
    for task, name in paper.items():
        card = load_card(task)
        protocol = card.protocol_named(name)
        assert ("dev" in protocol.train_on) == ("train+dev" in name)
        shown = describe(card)
        assert f"{task}/{name}@v1" in shown
        assert name != card.protocol


def test_a_train_on_everything_protocol_differs_from_its_twin_only_in_the_training_data():
    for card in all_cards():
        for name, protocol in card.protocols.items():
            twin = card.protocols.get(name.removesuffix("-train+dev"))
            if "train+dev" in name and twin:
                assert protocol.changed(train_on=("train",), description=twin.description) == twin, (
                    f"{card.name}/{name}"
                )


def test_new_fields_at_their_default_leave_a_card_as_it_was():
    values = Protocol(metric="f1").resolved()
    assert set(values) == {"version", "description", "train_on", "metric", "scheme", "repair", "decoding", "subwords",
                           "unit", "records", "candidates", "markers"}  # fmt: skip
    merged = load_card("jnlpba").protocol_named("merged-types")
    assert merged.resolved()["merged"] == "entity"
    assert Protocol.model_validate(merged.resolved()) == merged


def test_a_card_may_have_several_families(root):
    card = load_card("bc5cdr-disease")
    families = protocol_families()
    assert set(card.protocols) == set(families["ner"]) | set(families["b-anchored"])
    values = read_toml(root / "src/osler/tasks/cards/bc5cdr-disease.toml") | {"protocol_family": ["ner", "b-ancored"]}
    with pytest.raises(RecipeError, match=r"no protocol_family 'b-ancored'.*b-anchored"):
        make_card(values, "card.toml")


# Merged types --------------------------------------------------------------------------------------------------------

GENES = "IL2 gene promoter"


def genes() -> Document:
    spans = (Span.at(0, 3, "protein", id="T1"), Span.at(4, 8, "DNA", id="T2"))
    return Document("d", GENES, spans)


def gold_logits(builder: Builder, instance: Instance) -> np.ndarray:
    return np.eye(len(builder.outputs), dtype=np.float32)[np.maximum(instance.target, 0)] * 20


def test_merged_types_are_one_label_in_training_prediction_and_scoring(tokens):
    card = load_card("jnlpba")
    builder = make_builder(card, "merged-types", tokens, 64, 4)
    assert builder.outputs == ["O", "B-entity", "I-entity"]
    built = builder.build([genes()], gold=True)
    (found,) = builder.decode([genes()], built.instances, [gold_logits(builder, i) for i in built.instances])
    # Mentions of different types that touch stay two, because each begins with B-.
    assert [(s.start, s.end, s.label) for s in found.spans] == [(0, 3, "entity"), (4, 8, "entity")]
    protocol = card.protocol_named("merged-types")
    assert score(card, protocol, [genes()], [found]).main == 1.0
    assert set(score(card, protocol, [genes()], [found]).details["per_label"]) == {"entity"}
    assert [f.outcome.name for f in find_errors(card, protocol, [genes()], [found]).findings] == ["CORRECT"] * 2
    # A wrong type is right here, and wrong under five types.
    other = genes().with_(spans=(Span.at(0, 3, "RNA"), Span.at(4, 8, "DNA")))
    assert score(card, protocol, [genes()], [other]).main == 1.0
    assert score(card, card.protocol_named("conlleval"), [genes()], [other]).main == 0.5


# Sub-words -----------------------------------------------------------------------------------------------------------


def test_a_words_tag_is_copied_to_all_sub_words_and_read_from_the_last(tokens):
    card = load_card("i2b2-2010-concepts")
    text = "Hyperglycaemia resolved"
    document = Document("d", text, (Span.at(0, 14, "problem", id="T1"),))
    builder = make_builder(card, "token-all", tokens, 64, 4)
    (instance,) = builder.build([document], gold=True).instances
    kept = instance.target[instance.target >= 0]
    first = [builder.outputs[t] for t in kept]
    pieces = sum(word == 0 for word in instance.place.aligned.word_ids)
    assert pieces > 2
    assert first == ["S-problem"] * pieces + ["O"] * (len(kept) - pieces)
    logits = np.zeros((instance.length, len(builder.outputs)), dtype=np.float32)
    logits[:, 0] = 1.0
    last = len(tokens.prefix) + pieces - 1
    logits[last, builder.outputs.index("S-problem")] = 5.0
    (found,) = builder.decode([document], [instance], [logits])
    assert [(s.start, s.end) for s in found.spans] == [(0, 14)]
    # The same outputs on the first sub-word are not looked at.
    logits[[len(tokens.prefix), last]] = logits[[last, len(tokens.prefix)]]
    (found,) = builder.decode([document], [instance], [logits])
    assert found.spans == ()


def test_the_last_sub_word_can_only_be_read_if_it_has_the_tag_of_its_word():
    with pytest.raises(RecipeError, match='read = "last" needs subwords = "copy"'):
        load_card("jnlpba").protocol_named("strict-all").changed(read="last")


# Fragments and stray tags --------------------------------------------------------------------------------------------


def test_a_discontinuous_disorder_is_learned_and_scored_whole(tokens):
    card = load_card("share-clef-2013")
    text = "The left atrium is moderately dilated ."
    gold = Document("d", text, (Span(((4, 15), (30, 37)), "Disease_Disorder", "T1"),))
    for name, learned in (("b-anchored", 1.0), ("conlleval", 0.0)):
        builder = make_builder(card, name, tokens, 64, 4)
        built = builder.build([gold], gold=True)
        assert sum(built.unexpressed.values()) == (0 if learned else 1)
        predicted = builder.decode([gold], built.instances, [gold_logits(builder, i) for i in built.instances])
        assert score(card, builder.protocol, [gold], predicted).main == learned
    scored = score(card, card.protocol_named("b-anchored"), [gold], [gold], main_only=True)
    assert scored.main == 1.0
    assert scored.decomposed is not None
    assert "b_anchored_f1" not in score(card, card.protocol_named("conlleval"), [gold], [gold]).metrics


# Order of pairs ------------------------------------------------------------------------------------------------------


def shown(tokens: SubwordTokenizer, builder: Builder, *, gold: bool) -> list[str]:
    pair = TextPair("1", "aspirin", "fever", value=1.0, labels=builder.card.labels[:1])
    found = builder.build([pair], gold=gold).instances
    return ["aspirin" if (t := tokens.tokenizer.decode(i.ids.tolist())).index("aspirin") < t.index("fever") else "fever"
            for i in found]  # fmt: skip


def test_similarity_is_read_in_both_orders_in_one_or_the_second_first(tokens):
    card = load_card("biosses")
    for name, training, prediction in (
        ("pearson", ["aspirin"], ["aspirin", "fever"]),
        ("one-order", ["aspirin"], ["aspirin"]),
        ("second-first-train+dev", ["fever"], ["fever"]),
    ):
        builder = make_builder(card, name, tokens, 32, 0)
        assert shown(tokens, builder, gold=True) == training
        assert shown(tokens, builder, gold=False) == prediction


def test_the_hypothesis_can_come_first(tokens):
    builder = make_builder(load_card("mednli"), "second-first-train+dev", tokens, 32, 0)
    assert shown(tokens, builder, gold=True) == shown(tokens, builder, gold=False) == ["fever"]
