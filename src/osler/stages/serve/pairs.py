"""Compare pairs of texts: how similar they are, or what the first implies about the second."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import BundleSpec
from osler.core.console import progress
from osler.core.errors import InputError, OutputError, RecipeError
from osler.core.models import bundle_title
from osler.stages.serve.config import AnnotateRecipe, PairsRecipe
from osler.stages.serve.inputs import Notes, Skipped
from osler.tasks.card import Kind
from osler.text.document import TextPair

Question = Literal["similar", "infer"]
_KINDS: dict[Question, Kind] = {"similar": Kind.REGRESSION, "infer": Kind.CLASSIFICATION}
_HEADS: dict[Question, str] = {
    "similar": "similarity (a number for two texts)",
    "infer": "inference (a label for two texts)",
}


class PairSimilarity(NamedTuple):
    """Similarity of two texts, on the scale of the corpus that the head was trained on."""

    id: str
    similarity: float


class PairInference(NamedTuple):
    """Label of the second text, given the first, with its probability."""

    id: str
    label: str
    score: float


@dataclass(frozen=True)
class PairComparer:
    """Compares two texts with one head of a bundle."""

    bundle: Bundle
    head: str

    @classmethod
    def load(
        cls, bundle: str | Path, question: Question, head: str | None, language: str | None, device: str
    ) -> PairComparer:
        if Path(bundle).is_dir():  # report a wrong head before the weights are loaded
            choose_head(BundleSpec.load(bundle), question, head, language)
        loaded = Bundle.load(bundle, device)
        return cls(loaded, choose_head(loaded.spec, question, head, language))

    def similar(self, pairs: Sequence[TextPair]) -> list[PairSimilarity]:
        """Score the similarity of each pair. If the head reads one order only, average both orders, because similarity has
        none."""
        found = self._values(pairs)
        if len(self.bundle.builders[self.head].orders) == 1:
            swapped = self._values([TextPair(pair.id, pair.second, pair.first) for pair in pairs])
            found = [(one + other) / 2 for one, other in zip(found, swapped, strict=True)]
        return [PairSimilarity(pair.id, round(value, 4)) for pair, value in zip(pairs, found, strict=True)]

    def infer(self, pairs: Sequence[TextPair]) -> list[PairInference]:
        """Classify pairs, with the first text as the premise and the second as the hypothesis."""
        answers = []
        for pair in self.bundle.compare(pairs, [self.head]):
            [named] = pair.labels
            answers.append(PairInference(pair.id, named.removeprefix(f"{self.head}:"), round(pair.scores[named], 4)))
        return answers

    def answer(self, question: Question, pairs: Sequence[TextPair]) -> Sequence[PairSimilarity | PairInference]:
        return self.similar(pairs) if question == "similar" else self.infer(pairs)

    def _values(self, pairs: Sequence[TextPair]) -> list[float]:
        return [pair.value or 0.0 for pair in self.bundle.compare(pairs, [self.head])]


def choose_head(spec: BundleSpec, question: Question, name: str | None, language: str | None) -> str:
    """Return the named head, or the only one that fits."""
    able = [head for head in spec.heads_for("pair", (), language) if spec.heads[head].card.kind is _KINDS[question]]
    listed = ", ".join(able)
    if name is not None:
        spec.head(name)
        if name in able:
            return name
        raise RecipeError(
            f"{name} is not a head for {_HEADS[question]}" + (f" in the language {language!r}" if language else ""),
            fix=f"Choose one with --head: {listed}" if able else "Fine-tune one on a task of that kind",
        )
    if not able:
        what = f" in the language {language!r}" if language else ""
        raise RecipeError(
            f"this bundle has no head for {_HEADS[question]}{what}; its heads: {', '.join(spec.heads)}",
            fix=f"Give a bundle that was fine-tuned on a task such as clinic-{'similarity' if question == 'similar' else 'entailment'}-en",
        )
    if len(able) > 1:
        raise RecipeError(f"{len(able)} heads of this bundle fit", fix=f"Choose one with --head: {listed}")
    return able[0]


def plan(recipe: PairsRecipe, question: Question, out: Path | None, *, force: bool = False) -> list[str]:
    """Describe what will be done, and raise an error if the inputs do not fit."""
    notes = _notes(recipe)
    if out is not None:
        _check_out(recipe, out, force=force)
    one = notes.files[0].shown if len(notes.files) == 1 else f"{len(notes.files)} files"
    lines = [f"compare the pairs of {one} with {bundle_title(recipe.bundle)}"]
    if recipe.bundle.is_dir():
        lines.append(f"head: {choose_head(BundleSpec.load(recipe.bundle), question, recipe.head, recipe.language)}")
    return [*lines, f"write {_format(recipe, out)} to {out or 'standard output'}"]


def compare(recipe: PairsRecipe, question: Question, out: Path | None, skipped: list[Skipped]) -> Iterator[str]:
    """Yield the output lines in input order, batch by batch. What could not be read is added to `skipped`."""
    notes = _notes(recipe)
    comparer = PairComparer.load(recipe.bundle, question, recipe.head, recipe.language, recipe.device)
    tabbed = _format(recipe, out) == "tsv"
    if tabbed:
        yield "\t".join((PairSimilarity if question == "similar" else PairInference)._fields) + "\n"
    done, pairs_left = 0, _pairs(notes)
    with progress("compare", total=notes.count()) as bar:
        while pairs := list(islice(pairs_left, recipe.batch)):
            for answer in comparer.answer(question, pairs):
                yield _row(answer) if tabbed else json.dumps(answer._asdict(), ensure_ascii=False) + "\n"
            done += len(pairs)
            bar.advance(len(pairs))
    skipped.extend(notes.skipped)
    if not done and notes.skipped:
        first = notes.skipped[0]
        raise InputError(first.problem, where=first.where, fix=first.fix)


def _row(answer: PairSimilarity | PairInference) -> str:
    cells = (" ".join(value.split()) if isinstance(value, str) else f"{value:.4f}" for value in answer)
    return "\t".join(cells) + "\n"


def _notes(recipe: PairsRecipe) -> Notes:
    """The input files, read as `osler annotate` reads them."""
    shared: dict[str, Any] = {
        name: getattr(recipe, name) for name in ("files", "bundle", "text_columns", "id_column", "encoding")
    }
    notes = Notes(AnnotateRecipe(**shared))
    if notes.kinds == {"document"}:
        raise _single(notes.files[0].shown)
    return notes


def _pairs(notes: Notes) -> Iterator[TextPair]:
    for record in notes:
        if not isinstance(record, TextPair):
            raise _single("the input")
        yield record


def _single(where: str) -> InputError:
    return InputError(
        "these are single texts, not pairs",
        where=where,
        fix="Give a TSV, CSV or JSON Lines file, and name its two text columns with --text-column (twice)",
    )


def _format(recipe: PairsRecipe, out: Path | None) -> str:
    return recipe.format or ("jsonl" if out is not None and out.suffix in (".jsonl", ".ndjson") else "tsv")


def _check_out(recipe: PairsRecipe, out: Path, *, force: bool) -> None:
    if out.is_dir():
        raise OutputError("this is a folder", where=out, fix="Give the name of a file with --out")
    if out.exists() and any(path.exists() and path.samefile(out) for path in recipe.files):
        raise OutputError("this is an input file", where=out, fix="Choose another --out")
    if out.exists() and not force:
        raise OutputError(
            "this file is there already", where=out, fix="Choose another --out, or replace it with --force"
        )
