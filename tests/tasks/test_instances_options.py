"""What a recipe chooses about a head: chains, decoding, marks; and the search and the sums behind them against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from osler.artifacts.tokenizer import Tokenizer
from osler.tasks.card import TaskCard
from osler.tasks.catalogue import load_card
from osler.tasks.instances.base import IGNORED, HeadOptions, make_builder
from osler.tasks.instances.chains import best_paths, marginals
from osler.text.document import Document, Relation, Span
from osler.text.subwords import SubwordTokenizer
from osler.text.tags import Scheme, label_set, transitions

TAGS = label_set(["X", "Y"], Scheme.BIO)
RULES = tuple(np.array(rule) for rule in (lambda r: (r.allowed, r.start, r.end))(transitions(TAGS, Scheme.BIO)))
TEXT = "He was given aspirin 81 mg for chest pain."


@pytest.fixture(scope="module")
def tokens(tokenizer_folder) -> SubwordTokenizer:
    return Tokenizer.open(tokenizer_folder)


def enumerated(scores: np.ndarray, steps: np.ndarray) -> dict[tuple[int, ...], float]:
    allowed, starts, ends = RULES
    return {
        path: sum(scores[place, tag] for place, tag in enumerate(path))
        + sum(steps[a, b] for a, b in itertools.pairwise(path))
        for path in itertools.product(range(len(TAGS)), repeat=len(scores))
        if starts[path[0]] and ends[path[-1]] and all(allowed[a, b] for a, b in itertools.pairwise(path))
    }


@pytest.mark.parametrize("seed", range(6))
def test_the_best_path_and_the_probability_of_each_tag_are_those_of_all_paths_enumerated(seed):
    rng = np.random.default_rng(seed)
    scores, steps = rng.normal(size=(4, 5)) * 2, rng.normal(size=(5, 5)) * 2
    paths = enumerated(scores, steps)
    assert tuple(best_paths([scores], *RULES, steps)[0]) == max(paths, key=paths.__getitem__)
    plain = enumerated(scores, np.zeros((5, 5)))
    assert tuple(best_paths([scores], *RULES)[0]) == max(plain, key=plain.__getitem__)
    shares = np.exp(np.array(list(paths.values())))
    expected = np.zeros((4, 5))
    for path, share in zip(paths, shares / shares.sum(), strict=True):
        expected[range(4), path] += share
    np.testing.assert_allclose(marginals([scores], *RULES, steps)[0], expected, atol=1e-12)


def test_long_chains_neither_overflow_nor_vanish():
    rng = np.random.default_rng(0)
    [found] = marginals([rng.normal(size=(3000, 5)).astype(np.float32) * 60], *RULES, rng.normal(size=(5, 5)) * 30)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert marginals([np.zeros((0, 5))], *RULES, np.zeros((5, 5)))[0].shape == (0, 5)


def test_sequences_of_other_lengths_change_nothing():
    rng = np.random.default_rng(0)
    sequences = [rng.normal(size=(length, 5)) for length in (3, 0, 7, 1, 7)]
    steps = rng.normal(size=(5, 5))
    together = marginals(sequences, *RULES, steps)
    for scores, likely in zip(sequences, together, strict=True):
        np.testing.assert_allclose(likely, marginals([scores], *RULES, steps)[0], atol=1e-15)


def tagger(tokens, protocol="conlleval", **options):
    return make_builder(load_card("bc5cdr-chem"), protocol, tokens, 64, 4, HeadOptions(**options))


def lone_inside(builder) -> tuple[Document, list, np.ndarray]:
    """A document and outputs whose best tag on "aspirin" is an I- that continues nothing, and B- the next best."""
    document = Document("d", TEXT)
    (instance,) = builder.build([document], gold=False).instances
    logits = np.zeros((instance.length, 3), dtype=np.float32)
    logits[:, 0] = 10.0
    aligned = instance.place.aligned
    word = next(n for n, (start, _) in enumerate(aligned.words) if start == TEXT.index("aspirin"))
    place = aligned.word_ids.index(word) + len(builder.tokens.prefix)
    logits[place] = (0.0, 11.0, 12.0)
    return document, [instance], logits


@pytest.mark.parametrize(
    ("protocol", "decoding", "constrained"),
    [
        ("conlleval", "protocol", False),
        ("conlleval", "constrained", True),
        ("strict", "protocol", True),
        ("strict", "greedy", False),
        ("strict", "free", False),  # its earlier name
    ],
)
def test_decoding_is_the_protocols_unless_the_recipe_chooses(tokens, protocol, decoding, constrained):
    builder = tagger(tokens, protocol, decoding=decoding)
    document, instances, logits = lone_inside(builder)
    (found,) = builder.decode([document], instances, [logits])
    # The lone I- is a mention to conlleval and none to strict; constrained decoding never gives it, but the B-.
    chance = np.exp(11.0 if constrained else 12.0) / np.exp([0.0, 11.0, 12.0]).sum()
    if constrained or protocol == "conlleval":
        assert [(TEXT[span.start : span.end], span.score) for span in found.spans] == [
            ("aspirin", pytest.approx(chance, rel=1e-4))
        ]
    else:
        assert found.spans == ()


def test_a_crf_decodes_with_its_transitions_and_scores_by_marginals(tokens):
    builder = tagger(tokens, tagger="crf")
    assert builder.head == "crf"
    document, instances, logits = lone_inside(builder)
    with pytest.raises(ValueError, match="transition scores"):
        builder.decode([document], instances, [logits])
    transitions = np.zeros((3, 3), dtype=np.float32)
    (found,) = builder.decode([document], instances, [logits], transitions)
    assert [TEXT[span.start : span.end] for span in found.spans] == ["aspirin"]
    # I- is impossible there, so that B- has all but what O has.
    assert found.spans[0].score == pytest.approx(np.exp(11.0) / (np.exp(11.0) + 1.0), rel=1e-3)
    transitions[0, 1] = -50.0  # no mention begins after O
    (found,) = builder.decode([document], instances, [logits], transitions)
    assert found.spans == ()


def test_a_crf_labels_only_first_subwords_whatever_the_protocol_says(tokens):
    gold = Document("d", "He took paracetamol.", (Span.at(8, 19, "Chemical", id="T1"),))
    every = tagger(tokens, "strict-all").build([gold], gold=True).instances[0].target
    chained = tagger(tokens, "strict-all", tagger="crf").build([gold], gold=True).instances[0].target
    first = tagger(tokens, "strict", tagger="crf").build([gold], gold=True).instances[0].target
    assert (every != IGNORED).sum() > (chained != IGNORED).sum()
    assert chained.tolist() == first.tolist()


# Relations by marks --------------------------------------------------------------------------------------------------


def related(name: str) -> tuple[TaskCard, Document]:
    card = load_card(name)
    head, tail = card.pairs[0]
    text = "Given Aspirin it seems that COX1 rose."
    return card, Document(
        "d", text, (Span.at(6, 13, head, id="T1"), Span.at(28, 32, tail, id="T2")), meta={"sentences": f"0 {len(text)}"}
    )


@pytest.mark.parametrize("name", ["chemprot", "ddi2013", "i2b2-2010-relations", "clinic-treatments-en"])
def test_both_marks_are_found_in_every_relation_task_and_protocol(tokens, name):
    card, document = related(name)
    for protocol in card.protocols:
        builder = make_builder(card, protocol, tokens, 64, 0, HeadOptions(relations="markers"))
        assert builder.head == "markers"
        instance = builder.build([document], gold=False).instances[0]
        shown = [tokens.tokenizer.decode([instance.ids[place]]).strip() for place in instance.marks]
        assert [mark[0] for mark in shown] == ["<", "["]
        text = tokens.tokenizer.decode(instance.ids.tolist())
        blind = card.protocols[protocol].markers == "blind"
        assert (f"<< @{card.pairs[0][0].upper()}$ >>" if blind else "<< Aspirin >>") in text
        tagged = make_builder(card, protocol, tokens, 64, 0).build([document], gold=False).instances[0]
        assert tagged.marks is None


def test_the_first_mark_is_the_heads_wherever_it_stands(tokens):
    card, document = related("chemprot")
    turned = document.with_(spans=(Span.at(6, 13, "GENE", id="T1"), Span.at(28, 32, "CHEMICAL", id="T2")))
    builder = make_builder(card, None, tokens, 64, 0, HeadOptions(relations="markers"))
    (instance,) = builder.build([turned], gold=False).instances
    assert instance.place == ("T2", "T1")
    assert instance.marks[0] > instance.marks[1]
    assert tokens.tokenizer.decode([instance.ids[instance.marks[0]]]).strip()[0] == "<"


@pytest.mark.parametrize("between", [0, 3, 8, 12, 15, 30, 200])
@pytest.mark.parametrize(("before", "behind"), [(0, 0), (200, 0), (0, 200), (9, 6), (200, 200)])
def test_both_marks_survive_however_long_the_text_is(tokens, between, before, behind):
    text = f"{'word ' * before}aspirin {'for ' * between}pain{' word' * behind}"
    a, b = text.index("aspirin"), text.index("pain")
    spans = (Span.at(a, a + 7, "CHEMICAL", id="A"), Span.at(b, b + 4, "GENE", id="B"))
    card = load_card("chemprot")
    builder = make_builder(card, None, tokens, 64, 0, HeadOptions(relations="markers"))
    (instance,) = builder.build([Document("d", text, spans)], gold=False).instances
    assert instance.length <= 64
    shown = [tokens.tokenizer.decode([instance.ids[place]]).strip() for place in instance.marks]
    assert [mark[0] for mark in shown] == ["<", "["]


def test_what_is_read_does_not_depend_on_gold(tokens):
    """Rule 5, for windows of a chain and for marked candidates."""
    card, document = related("chemprot")
    gold = document.with_(relations=(Relation("CPR:4", "T1", "T2", "R1"),))
    builder = make_builder(card, None, tokens, 24, 0, HeadOptions(relations="markers"))
    taught, asked = (builder.build([d], gold=flag).instances for d, flag in ((gold, True), (document, False)))
    assert [(i.ids.tolist(), i.marks) for i in taught] == [(i.ids.tolist(), i.marks) for i in asked]
    chained = make_builder(load_card("bc5cdr-chem"), None, tokens, 16, 4, HeadOptions(tagger="crf"))
    drugs = Document("d", TEXT * 3, (Span.at(13, 20, "Chemical", id="T1"),))
    taught, asked = (
        chained.build([d], gold=flag).instances for d, flag in ((drugs, True), (Document("d", TEXT * 3), False))
    )
    assert len(taught) > 2
    assert [i.ids.tolist() for i in taught] == [i.ids.tolist() for i in asked]


def test_every_token_is_labelled_if_the_recipe_says_so(tokens):
    """For stock pipelines, which read every token: I- after the first sub-word, and line breaks inside or outside mentions."""
    text = "aspirin\n\nwith beta\nblocker\n81"
    start = text.index("beta")
    document = Document("d", text, (Span.at(0, 7, "Chemical"), Span.at(start, text.index("\n81"), "Chemical")))
    plain, every = tagger(tokens), tagger(tokens, subwords="every")
    ((before,), (after,)) = (builder.build([document], gold=True).instances for builder in (plain, every))
    frame = len(tokens.prefix)
    inner = slice(frame, after.length - (tokens.overhead - frame))
    assert IGNORED in before.target[inner]
    assert IGNORED not in after.target[inner]
    labelled = before.target != IGNORED
    assert (after.target[labelled] == before.target[labelled]).all()
    [encoding] = tokens.encode([text])
    tags = [every.outputs[number] for number in after.target[inner]]
    for (first, _), word, tag in zip(encoding.offsets, after.place.aligned.word_ids, tags, strict=True):
        if word is None:
            assert tag == ("I-Chemical" if start < first < len(text) - 3 else "O")
    # A chain scores transitions between words.
    (chain,) = tagger(tokens, tagger="crf", subwords="every").build([document], gold=True).instances
    assert (chain.target == before.target).all()
