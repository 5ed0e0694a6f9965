"""Pairs of texts: which head answers, in which order it reads, and what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import osler
from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import BundleSpec
from osler.core.errors import InputError, OutputError, RecipeError
from osler.stages.serve.config import PairsRecipe
from osler.stages.serve.pairs import PairComparer, choose_head, compare, plan
from osler.text.document import TextPair

PAIRS = [TextPair("1", "The patient has a fever.", "No fever."), TextPair("2", "Chest pain.", "Pain in the chest.")]
SWAPPED = [TextPair(pair.id, pair.second, pair.first) for pair in PAIRS]


def recipe(files: Path, bundle: Path, **more) -> PairsRecipe:
    return PairsRecipe.model_validate({"files": (files,), "bundle": bundle, "device": "cpu"} | more)


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "pairs.tsv"
    rows = [("pairid", "sentence1", "sentence2"), *((f"p{pair.id}", pair.first, pair.second) for pair in PAIRS)]
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("order", ["both", "given"])
def test_similarity_does_not_depend_on_the_order_whatever_the_protocol_reads(pair_bundle, order):
    bundle = Bundle.load(pair_bundle, "cpu")
    head = bundle.spec.heads["similarity"]
    protocols = {"plain": head.card.protocols["plain"].changed(order=order)}
    changed = head.changed(card=head.card.changed(protocols=protocols))
    bundle = Bundle(bundle.runner, bundle.tokens, bundle.spec.changed(heads={"similarity": changed}))
    comparer = PairComparer(bundle, "similarity")
    assert len(bundle.builders["similarity"].orders) == (2 if order == "both" else 1)
    one, other = comparer.similar(PAIRS), comparer.similar(SWAPPED)
    assert [a.similarity for a in one] == pytest.approx([a.similarity for a in other], abs=2e-4)
    assert one[0].similarity != one[1].similarity


def test_inference_reads_premise_then_hypothesis(pair_bundle):
    comparer = PairComparer.load(pair_bundle, "infer", None, None, "cpu")
    one, other = (comparer.bundle.compare(pairs, ["entailment"]) for pairs in (PAIRS, SWAPPED))
    assert [pair.scores for pair in one] != [pair.scores for pair in other]
    answers = comparer.infer(PAIRS)
    assert [answer.id for answer in answers] == ["1", "2"]
    assert [f"entailment:{answer.label}" for answer in answers] == [pair.labels[0] for pair in one]
    assert [answer.score for answer in answers] == [round(pair.scores[pair.labels[0]], 4) for pair in one]


def test_the_answers_of_a_table_come_in_its_order_with_its_ids(pair_bundle, table):
    header, *rows = compare(recipe(table, pair_bundle, batch=1), "similar", None, [])
    assert header == "id\tsimilarity\n"
    assert [row.split("\t")[0] for row in rows] == ["p1", "p2"]
    lines = list(compare(recipe(table, pair_bundle), "infer", Path("x.jsonl"), []))
    assert [list(json.loads(line)) for line in lines] == [["id", "label", "score"]] * 2
    answers = osler.similar([(pair.first, pair.second) for pair in PAIRS], bundle=pair_bundle, device="cpu")
    assert [f"{answer.similarity:.4f}" for answer in answers] == [row.split("\t")[1].strip() for row in rows]
    labels = osler.infer(PAIRS, bundle=pair_bundle, device="cpu")
    assert [answer.label for answer in labels] == [json.loads(line)["label"] for line in lines]


def test_lines_that_cannot_be_read_are_skipped_and_told(pair_bundle, table):
    with table.open("a") as file:
        file.write("p3\tonly one\n")
    skipped = []
    rows = list(compare(recipe(table, pair_bundle), "similar", None, skipped))
    assert len(rows) == 3
    assert [item.problem for item in skipped] == ["2 columns instead of 3"]


def test_the_head_is_chosen_or_asked_for(bundle, pair_bundle):
    spec = BundleSpec.load(pair_bundle)
    assert choose_head(spec, "similar", None, None) == "similarity"
    with pytest.raises(RecipeError, match="entailment is not a head for similarity"):
        choose_head(spec, "similar", "entailment", None)
    with pytest.raises(RecipeError, match=r"no head for inference .* in the language 'es'"):
        choose_head(spec, "infer", None, "es")
    tagger = spec.changed(heads={"drugs": BundleSpec.load(bundle).heads["drugs"]})
    with pytest.raises(RecipeError, match=r"this bundle has no head for similarity .*; its heads: drugs"):
        choose_head(tagger, "similar", None, None)
    two = spec.changed(heads={**spec.heads, "again": spec.heads["similarity"]})
    with pytest.raises(RecipeError, match="2 heads of this bundle fit"):
        choose_head(two, "similar", None, None)


def test_single_texts_and_a_taken_place_are_refused_before_anything_runs(pair_bundle, table, tmp_path):
    note = tmp_path / "note.txt"
    note.write_text("One text.")
    with pytest.raises(InputError, match="single texts, not pairs"):
        plan(recipe(note, pair_bundle), "similar", None)
    with pytest.raises(OutputError, match="input file"):
        plan(recipe(table, pair_bundle), "similar", table, force=True)
    with pytest.raises(OutputError, match="there already"):
        plan(recipe(table, pair_bundle), "similar", note)
    assert plan(recipe(table, pair_bundle), "similar", note, force=True)[1] == "head: similarity"
