"""On a corpus of tokens, `conlleval` and `seqeval` give what conlleval.pl and seqeval give on those tokens, to the last digit."""

from __future__ import annotations

import random

import pytest
from seqeval.metrics import f1_score
from tests.conlleval import conlleval, in_sentences, noisy, predictions, said_by

from osler.artifacts.tokenizer import Tokenizer
from osler.formats.base import Problems
from osler.formats.registry import get_format
from osler.tasks.card import TaskCard
from osler.tasks.catalogue import load_card
from osler.tasks.instances.base import HeadOptions, make_builder
from osler.tasks.scoring import score
from osler.text.document import TOKENS, Document, Span

# Tokens that osler would cut, a mention at each end of a sentence, a gold I- that continues nothing, a blank as a token.
IOB = """-DOCSTART-\tO

[PLD]2\tB-DNA
and\tO
IL-2\tB-protein
(p55)-alpha\tI-protein

IL-2R\tI-protein
rises\tO
α/β\tB-DNA
T-cells\tB-cell_type

-DOCSTART-\tO

in\tO
NF-κB\tB-protein
p65/RelA\tB-protein
\u2009x\tI-protein
\u2009\tI-protein
"""


@pytest.fixture(scope="module")
def tokens(tokenizer_folder):
    return Tokenizer.open(tokenizer_folder)


@pytest.fixture(scope="module")
def documents(tmp_path_factory) -> list[Document]:
    path = tmp_path_factory.mktemp("iob") / "test.tsv"
    path.write_text(IOB * 20, encoding="utf-8")
    return list(get_format("conll").read(path, problems=Problems()))


@pytest.fixture(scope="module")
def gold() -> list[list[str]]:
    """The tags as they are in the file, sentence by sentence."""
    parts = [part.splitlines() for part in (IOB * 20).split("\n\n")]
    lines = [[line.split("\t")[1] for line in part if line and not line.startswith("-DOC")] for part in parts]
    return [line for line in lines if line]


def jnlpba(documents: list[Document]) -> TaskCard:
    assert all("tokens" in document.meta for document in documents)
    return load_card("jnlpba")


@pytest.mark.parametrize("unit", ["document", "sentence"])
@pytest.mark.parametrize("protocol", ["conlleval", "seqeval"])
@pytest.mark.parametrize("seed", range(5))
def test_greedy_tags_score_as_the_references_score_them(tokens, documents, gold, protocol, unit, seed):
    card, drawn = jnlpba(documents), random.Random(seed)
    builder = make_builder(card, protocol, tokens, 24, 4, HeadOptions(unit=unit))
    wanted = [noisy([t for line in said_by(d) for t in line], builder.outputs, drawn) for d in documents]
    predicted, said = predictions(builder, documents, wanted, drawn)
    found = [line for d, tags in zip(documents, said, strict=True) for line in in_sentences(d, tags)]
    scored = score(card, builder.protocol, documents, predicted)
    counts, micro = conlleval(gold, found), scored.details["micro"]
    assert (micro["tp"], micro["tp"] + micro["fp"], micro["tp"] + micro["fn"]) == (
        counts.correct,
        counts.found,
        counts.gold,
    )
    assert 0.2 < counts.f1 < 0.9
    assert scored.main == pytest.approx(counts.f1, abs=1e-12)
    assert scored.main == pytest.approx(f1_score(gold, found), abs=1e-12)


@pytest.mark.parametrize("unit", ["document", "sentence"])
def test_constrained_tags_score_as_the_references_score_them(tokens, documents, gold, unit):
    card, drawn = jnlpba(documents), random.Random(1)
    builder = make_builder(card, "strict", tokens, 24, 4, HeadOptions(unit=unit))
    wanted = [noisy([t for line in said_by(d) for t in line], builder.outputs, drawn) for d in documents]
    predicted, _ = predictions(builder, documents, wanted, drawn)
    found = [line for document in predicted for line in said_by(document)]
    scored = score(card, builder.protocol, documents, predicted)
    # No mention begins or ends inside a token or crosses a sentence, so that the tags say exactly what was found.
    assert sum(tag.startswith("B-") for line in found for tag in line) == sum(len(d.spans) for d in predicted)
    assert scored.main == pytest.approx(f1_score(gold, found), abs=1e-12)
    assert scored.main == pytest.approx(conlleval(gold, found).f1, abs=1e-12)


def test_the_two_references_agree_on_any_tags():
    drawn = random.Random(0)
    choices = ["O", "B-X", "I-X", "B-Y", "I-Y"]
    for _ in range(300):
        gold = [drawn.choices(choices, k=drawn.randint(1, 8)) for _ in range(drawn.randint(1, 5))]
        found = [drawn.choices(choices, k=len(line)) for line in gold]
        assert conlleval(gold, found).f1 == pytest.approx(f1_score(gold, found, zero_division=0), abs=1e-12)


def test_words_of_a_corpus_with_tokens_are_its_tokens():
    card, text = load_card("jnlpba"), "[PLD]2 and IL-2"
    protocol = card.protocol_named("token")
    spans = (Span.at(0, 6, "DNA", id="T1"), Span.at(11, 15, "protein", id="T2"))
    for meta, words in ((TOKENS, 2), ({}, 7)):
        gold = Document("d", text, spans, meta=meta)
        assert score(card, protocol, [gold], [gold]).metrics["token_f1"] == 1.0
        half = score(card, protocol, [gold], [gold.with_(spans=spans[:1])])
        assert half.metrics["token_f1"] == pytest.approx({2: 2 / 3, 7: 8 / 11}[words])
