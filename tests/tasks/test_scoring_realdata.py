"""Noisy predictions on every public corpus of tokens: osler's score is that of seqeval and conlleval.pl on the files' own tokens."""

from __future__ import annotations

import lzma
import random
from itertools import islice
from pathlib import Path

import pytest
from seqeval.metrics import f1_score
from tests.conlleval import conlleval, in_sentences, noisy, predictions, said_by

from osler.artifacts.tokenizer import Tokenizer
from osler.formats.base import Problems
from osler.formats.registry import get_format
from osler.tasks.card import TaskCard
from osler.tasks.catalogue import make_card
from osler.tasks.instances.base import HeadOptions, make_builder
from osler.tasks.scoring import score
from osler.text.document import Document

pytestmark = pytest.mark.realdata

CORPORA = [
    "bc2gm/iob/test.tsv.xz",
    "bc5cdr/iob/BC5CDR-IOB/test.tsv.xz",
    "bc5cdr/iob/BC5CDR-chem-IOB/test.tsv.xz",
    "bc5cdr/iob/BC5CDR-disease-IOB/test.tsv.xz",
    "e3c/clinical_entities/layer1/English/test.txt",
    "e3c/clinical_entities/layer1/French/test.txt",
    "e3c/clinical_entities/layer1/Spanish/test.txt",
    "jnlpba/iob/devel.tsv.xz",
    "jnlpba/iob/test.tsv.xz",
    "jnlpba/original/test/Genia4EReval1.iob2.xz",
    "linnaeus/iob/test.tsv.xz",
    "ncbi_disease/iob/test.tsv.xz",
    "s800/iob/test.tsv.xz",
]
SENTENCES = 250
"""The first ones of each file, or so many documents, to keep the test short."""


@pytest.fixture(scope="module")
def tokens(tokenizer_folder):
    return Tokenizer.open(tokenizer_folder)


def tags_in(path: Path) -> list[list[str]]:
    """The last column of a file, sentence by sentence, read without osler."""
    text = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
    sentences: list[list[str]] = [[]]
    for line in text.decode("utf-8").split("\n"):
        if not line.strip() or line.startswith(("-DOCSTART-", "###")):
            sentences.append([])
        else:
            tag = line.split("\t" if "\t" in line else " ")[-1]
            sentences[-1].append(f"{tag}-MENTION" if tag in ("B", "I") else tag)
    return [sentence for sentence in sentences if sentence]


def card_of(gold: list[list[str]]) -> TaskCard:
    labels = sorted({tag[2:] for sentence in gold for tag in sentence if tag != "O"})
    values = {"name": "iob", "title": "x", "kind": "tagging", "language": "en", "labels": labels, "protocol": "strict"}
    return make_card(values | {"protocol_family": "ner", "source": {"reader": "clinic"}}, "card.toml")


@pytest.mark.parametrize("file", CORPORA)
def test_scores_are_those_of_the_references(tokens, data_dir, file):
    gold = tags_in(data_dir / file)
    card = card_of(gold)
    records = get_format("conll").read(data_dir / file, problems=Problems())
    documents = [document for document in islice(records, SENTENCES) if isinstance(document, Document)]
    gold = gold[: sum(document.text.count("\n") + 1 for document in documents)]
    as_read = [line for document in documents for line in said_by(document)]
    assert [len(line) for line in as_read] == [len(line) for line in gold]
    for number, (protocol, unit) in enumerate(
        [("conlleval", "document"), ("seqeval", "sentence"), ("strict", "document")]
    ):
        drawn = random.Random(number)
        builder = make_builder(card, protocol, tokens, 128, 16, HeadOptions(unit=unit))
        wanted = [noisy([t for line in said_by(d) for t in line], builder.outputs, drawn) for d in documents]
        predicted, said = predictions(builder, documents, wanted, drawn)
        if protocol == "strict":  # constrained decoding says other tags than the best of each token
            found = [line for document in predicted for line in said_by(document)]
            assert sum(tag[0] == "B" for line in found for tag in line) == sum(len(d.spans) for d in predicted)
        else:
            found = [line for d, tags in zip(documents, said, strict=True) for line in in_sentences(d, tags)]
        micro = score(card, builder.protocol, documents, predicted, main_only=True).details["micro"]
        counts = conlleval(gold, found)
        assert (micro["tp"], micro["tp"] + micro["fp"]) == (counts.correct, counts.found)
        assert micro["tp"] + micro["fn"] == counts.gold
        assert micro["f1"] == pytest.approx(f1_score(gold, found), abs=1e-12)
        assert micro["f1"] == pytest.approx(counts.f1, abs=1e-12)
