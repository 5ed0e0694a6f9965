"""The rules that published pipelines broke, as tests on protocols: gold, windows, improper tags, candidates, sentences, pairs."""

from __future__ import annotations

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

from osler.artifacts.tokenizer import Tokenizer as TokenizerFolder
from osler.tasks.card import Kind
from osler.tasks.catalogue import all_cards, load_card
from osler.tasks.instances.base import joined, make_builder, sentences_of
from osler.tasks.scoring import score
from osler.text.document import Document, Relation, Span, TextPair
from osler.text.subwords import SubwordTokenizer

CARDS = all_cards()
TAGGING = load_card("bc5cdr-chem")
TEXT = "He took aspirin and warfarin daily. Ibuprofen was stopped ."


@pytest.fixture(scope="module")
def tokens(tokenizer_folder) -> SubwordTokenizer:
    return TokenizerFolder.open(tokenizer_folder)


@pytest.fixture(scope="module")
def characters() -> SubwordTokenizer:
    """A tokenizer that cuts every letter apart: as unlike the other as can be."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=3 + len(alphabet), special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return SubwordTokenizer(tokenizer)


def mention(text: str, name: str) -> Span:
    return Span.at(TEXT.index(text), TEXT.index(text) + len(text), "Chemical", id=name)


def drugs(*more: Span) -> Document:
    return Document("d", TEXT, (mention("aspirin", "T1"), mention("warfarin", "T2"), mention("Ibuprofen", "T3"), *more))


# Rule 3 --------------------------------------------------------------------------------------------------------------


def test_training_on_dev_is_always_said_in_the_name_and_test_is_never_trained_on():
    for card in CARDS:
        for name, protocol in card.protocols.items():
            assert "test" not in protocol.train_on
            assert ("train+dev" in name) == ("dev" in protocol.train_on), f"{card.name}/{name}"


def test_every_card_has_data_to_choose_by_that_is_not_its_test():
    for card in CARDS:
        if card.source.reader == "files":
            assert {"train", "dev", "test"} <= set(card.source.splits), card.name
            for split in card.source.splits.values():
                # A defective reading (dev opened as test) would show as one file in two splits without a rule that parts them.
                others = [
                    o for o in card.source.splits.values() if o is not split and o.files == split.files and split.files
                ]
                assert all((o.where, o.listed) != (split.where, split.listed) for o in others), card.name


# Rules 4 and 5 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["strict", "strict-all", "conlleval", "conlleval-all"])
@pytest.mark.parametrize("max_length", [16, 32, 256])
def test_gold_and_its_score_are_the_same_for_every_tokenizer_and_window(tokens, characters, protocol, max_length):
    nested = Span.at(TEXT.index("aspirin"), TEXT.index("warfarin") + 8, "Chemical", id="T4")
    broken = Span(
        ((TEXT.index("took"), TEXT.index("took") + 4), (TEXT.index("daily"), TEXT.index("daily") + 5)), "Chemical", "T5"
    )
    gold = [drugs(nested, broken)]
    outcomes = set()
    for tokenizer in (tokens, characters):
        builder = make_builder(TAGGING, protocol, tokenizer, max_length, 4)
        built = builder.build(gold, gold=True)
        outputs = []
        for instance in built.instances:
            logits = np.zeros((instance.length, len(builder.outputs)), dtype=np.float32)
            for place, target in enumerate(instance.target):
                logits[place, max(target, 0)] = 20.0
            outputs.append(logits)
        predicted = builder.decode(gold, built.instances, outputs)
        scored = score(TAGGING, builder.protocol, gold, predicted)
        counts = scored.details["micro"]
        outcomes.add((counts["tp"] + counts["fn"], counts["tp"], sum(built.unexpressed.values())))
    # Of five gold mentions a flat tagger says the longest of those that overlap, and what it cannot say is reported.
    assert outcomes == {(5, 2, 3)}


def test_windows_do_not_depend_on_gold(tokens):
    builder = make_builder(TAGGING, None, tokens, 16, 4)
    with_gold = builder.build([drugs()], gold=True).instances
    without = builder.build([Document("d", TEXT)], gold=False).instances
    assert [i.ids.tolist() for i in with_gold] == [i.ids.tolist() for i in without]


# Rule 6 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [(8, 15)]),
        ({"repair": "strict", "decoding": "greedy"}, []),
        ({"repair": "conlleval", "decoding": "greedy"}, [(8, 15)]),
    ],
)
def test_an_inside_tag_after_outside_is_read_by_the_rule_of_the_protocol(tokens, changes, expected):
    protocol = TAGGING.protocol_named("strict").changed(**changes)
    card = TAGGING.model_copy(update={"protocols": {"p": protocol}, "protocol": "p"})
    builder = make_builder(card, None, tokens, 64, 4)
    document = Document("d", TEXT)
    (instance,) = builder.build([document], gold=False).instances
    outside, begin, inside = (builder.outputs.index(tag) for tag in ("O", "B-Chemical", "I-Chemical"))
    logits = np.zeros((instance.length, 3), dtype=np.float32)
    logits[:, outside] = 10.0
    # Greedy decoding says a lone I- on "aspirin"; B- is the next best there, so that constrained decoding turns to it.
    aligned = instance.place.aligned
    word = next(n for n, (start, _) in enumerate(aligned.words) if start == TEXT.index("aspirin"))
    for token, owner in enumerate(aligned.word_ids):
        if owner == word:
            place = token + len(tokens.prefix)
            logits[place] = 0.0
            logits[place, inside], logits[place, begin] = 12.0, 11.0
    (found,) = builder.decode([document], [instance], [logits])
    assert [(span.start, span.end) for span in found.spans] == expected


# Rule 7 --------------------------------------------------------------------------------------------------------------


def test_all_pairs_of_a_line_are_candidates_whatever_their_types(tokens):
    card = load_card("i2b2-2010-relations")
    text = "aspirin for pain and fever\nno CT of the chest pain"
    spans = [
        ("aspirin", "treatment"),
        ("pain", "problem"),
        ("fever", "problem"),
        ("CT", "test"),
        ("chest pain", "problem"),
    ]
    made = tuple(
        Span.at(text.index(t), text.index(t) + len(t), label, id=f"T{n}") for n, (t, label) in enumerate(spans)
    )
    relations = (Relation("PIP", "T2", "T1", "R1"), Relation("TrAP", "T0", "T4", "R2"))
    document = Document("d", text, made, relations)
    builder = make_builder(card, None, tokens, 64, 0)
    built = builder.build([document], gold=True)
    assert [i.place for i in built.instances] == [("T0", "T1"), ("T0", "T2"), ("T1", "T2"), ("T3", "T4")]
    assert [builder.outputs[i.target] for i in built.instances] == ["false", "false", "PIP", "false"]
    # The relation across lines stays in gold, is counted, and costs recall.
    assert sum(built.unexpressed.values()) == 1
    outputs = [np.eye(len(builder.outputs))[i.target] for i in built.instances]
    predicted = builder.decode([document], built.instances, outputs)
    assert score(card, builder.protocol, [document], predicted).metrics["recall"] == 0.5


def test_chemprot_is_blind_and_scored_over_its_five_classes_alone(tokens):
    card = load_card("chemprot")
    text = "Aspirin blocks COX1 but spares COX2."
    spans = (
        Span.at(0, 7, "CHEMICAL", id="T1"),
        Span.at(15, 19, "GENE", id="T2"),
        Span.at(31, 35, "GENE", id="T3"),
    )
    document = Document("1", text, spans, (Relation("CPR:4", "T1", "T2", "R1"), Relation("CPR:3", "T1", "T2", "R2")))
    for name in ("blue", "blurb"):
        builder = make_builder(card, name, tokens, 64, 0)
        assert builder.outputs == [*card.labels, "false"]
        built = builder.build([document], gold=True)
        # Both labels of the first pair are taught, the second pair is an explicit negative.
        assert [builder.outputs[i.target] for i in built.instances] == ["CPR:4", "CPR:3", "false"]
        shown = tokens.tokenizer.decode(built.instances[0].ids.tolist())
        assert "@CHEMICAL$ blocks @GENE$ but spares COX2" in shown
    nothing = score(card, card.protocol_named("blue"), [document], [document.with_(relations=())])
    assert nothing.main == 0.0


def test_blue_joins_sentences_that_do_not_end_before_a_capital():
    text = "Given i.v. Aspirin helped. p53 rose. Then it fell."
    units = [(0, 10), (11, 26), (27, 36), (37, 50)]
    assert joined(text, units) == [(0, 36), (37, 50)]


def test_sentences_are_those_the_corpus_marks():
    ddi, i2b2 = load_card("ddi2013"), load_card("i2b2-2010-concepts")
    text = "One. Two\r\nstill two.\nThree ."
    marked = Document("d", text, meta={"sentences": "0 4;5 20;21 28"})
    assert sentences_of(ddi, marked) == [(0, 4), (5, 20), (21, 28)]
    assert sentences_of(i2b2, Document("d", "One . Two\n\n three")) == [(0, 9), (11, 17)]
    assert sentences_of(ddi, Document("d", "One is here. Two is there.")) == [(0, 12), (13, 26)]


def test_ddi_micro_and_macro_differ_only_in_averaging():
    card = load_card("ddi2013")
    micro, macro = card.protocol_named("micro"), card.protocol_named("macro")
    assert micro.model_copy(update={"metric": "macro_f1", "description": macro.description}) == macro


# Rule 8 --------------------------------------------------------------------------------------------------------------

HALLMARKS = load_card("hoc")
DEATH, ENERGY = "Resisting cell death", "Cellular energetics"


def abstract(name: str, *labels: str | None) -> Document:
    lines = [f"sentence number {n} of {name} ." for n in range(len(labels))]
    spans, start = [], 0
    for line, label in zip(lines, labels, strict=True):
        if label:
            spans.append(Span.at(start, start + len(line), label, id=f"T{len(spans)}"))
        start += len(line) + 1
    return Document(name, "\n".join(lines), tuple(spans), labels=tuple(dict.fromkeys(filter(None, labels))))


def test_sentences_are_classified_and_united_for_their_abstract(tokens):
    builder = make_builder(HALLMARKS, "blue", tokens, 64, 4)
    documents = [abstract("a", DEATH, None, ENERGY), abstract("b", None), abstract("c", DEATH, DEATH)]
    built = builder.build(documents, gold=True)
    # The abstract without a hallmark takes no part in training.
    assert [i.record for i in built.instances] == [0, 0, 0, 2, 2]
    assert [int(i.target.sum()) for i in built.instances] == [1, 0, 1, 1, 1]
    asked = builder.build([d.with_(spans=(), labels=()) for d in documents], gold=False).instances
    assert [i.record for i in asked] == [0, 0, 0, 1, 2, 2]
    place = {label: n for n, label in enumerate(builder.outputs)}
    outputs = [np.full(len(place), -5.0) for _ in asked]
    outputs[0][place[DEATH]] = outputs[2][place[ENERGY]] = outputs[4][place[ENERGY]] = 5.0
    predicted = builder.decode(documents, asked, outputs)
    assert [set(d.labels) for d in predicted] == [{DEATH, ENERGY}, set(), {ENERGY}]


def test_hoc_is_the_harmonic_mean_of_mean_precision_and_mean_recall_over_labelled_abstracts():
    gold = [abstract("a", DEATH, ENERGY), abstract("b", DEATH), abstract("c", None)]
    predicted = [gold[0].with_(labels=(DEATH,)), gold[1].with_(labels=(DEATH, ENERGY)), gold[2].with_(labels=(DEATH,))]
    blue = score(HALLMARKS, HALLMARKS.protocol_named("blue"), gold, predicted)
    precision, recall = (1 + 0.5) / 2, (0.5 + 1) / 2
    assert blue.main == pytest.approx(2 * precision * recall / (precision + recall))
    assert blue.details["by_document"]["precision"] == pytest.approx(precision)
    blurb = score(HALLMARKS, HALLMARKS.protocol_named("blurb"), gold, predicted)
    assert blurb.metrics["precision"] == pytest.approx(2 / 4)
    assert blurb.metrics["recall"] == pytest.approx(2 / 3)


def test_blurb_reads_the_whole_abstract(tokens):
    builder = make_builder(HALLMARKS, "blurb", tokens, 256, 4)
    built = builder.build([abstract("a", DEATH, None), abstract("b", None)], gold=True)
    assert [i.record for i in built.instances] == [0, 1]


# Rules 11 and 12 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [c.name for c in CARDS if c.record == "pair" and c.source.reader == "files"])
def test_entailment_keeps_its_order_and_similarity_has_none(tokens, name):
    card = load_card(name)
    assert card.symmetric == (card.kind is Kind.REGRESSION)
    builder = make_builder(card, None, tokens, 32, 0)
    forward = builder.build([TextPair("1", "aspirin", "fever")], gold=False).instances
    backward = builder.build([TextPair("1", "fever", "aspirin")], gold=False).instances
    same = {tuple(i.ids) for i in forward} == {tuple(i.ids) for i in backward}
    assert same == card.symmetric
    shown = tokens.tokenizer.decode(forward[0].ids.tolist())
    assert shown.index("aspirin") < shown.index("fever")


def test_every_protocol_of_every_card_is_named_described_and_scored_by_a_metric_its_kind_has():
    for card in CARDS:
        text = TextPair("1", "a", "b") if card.record == "pair" else Document("1", "some words")
        label = card.labels[:1]
        record = text.with_(labels=label) if card.kind in {Kind.CLASSIFICATION, Kind.MULTILABEL} else text
        gold = [record.with_(value=float(n)) if card.kind is Kind.REGRESSION else record for n in range(3)]
        for name, protocol in card.protocols.items():
            assert protocol.description, f"{card.name}/{name}"
            assert card.protocol_id(name) == f"{card.name}/{name}@v{protocol.version}"
            assert 0.0 <= score(card, protocol, gold, gold).main <= 1.0


def test_masking_is_scored_where_a_card_has_protected_information():
    card = load_card("meddocan")
    text = "Ana vive en Madrid"
    gold = [
        Document(
            "1", text, (Span.at(0, 3, "NOMBRE_SUJETO_ASISTENCIA", id="T1"), Span.at(12, 18, "TERRITORIO", id="T2"))
        )
    ]
    scored = score(card, card.protocol_named(), gold, [gold[0].with_(spans=gold[0].spans[:1])])
    assert scored.metrics["clean_share"] == 0.0
    assert 0.0 < scored.details["deid"]["recall"] < 1.0
