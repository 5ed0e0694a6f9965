"""Compare several tokenizers on one corpus."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, starmap
from pathlib import Path

from osler.artifacts.corpus import Corpus, CorpusText
from osler.core.artifact import Artifact, Workspace, check_out, produce, read_model
from osler.core.console import progress
from osler.core.errors import InputError
from osler.core.extras import require
from osler.core.files import sha256, write_atomic, write_json
from osler.core.logs import get_logger
from osler.stages.vocab.config import CompareRecipe
from osler.stages.vocab.figures import (
    CutTerm,
    Difference,
    Group,
    TermFacts,
    TermRatios,
    TokenizerComparison,
    TokenizerFigures,
    VocabularyOverlap,
    WordCounts,
    count,
    measure_fertility,
)
from osler.stages.vocab.terms import Term, TermCount
from osler.stages.vocab.tokenizers import Cutter, LoadedTokenizer, Subword, load_all
from osler.stages.vocab.view import markdown, page
from osler.text.terms import read_terms

log = get_logger("osler.vocab")
Cuts = Mapping[str, tuple[Subword, ...]]
_RESULT = "comparison.json"
_RULES = ("normalizer", "pre_tokenizer", "model", "added_tokens")


def plan(recipe: CompareRecipe, out: Path | None, *, check: bool = False, force: bool = False) -> list[str]:
    """Describe what a run will do, one line per step. With `check`, raise the errors of a run before it starts."""
    corpus = _open(recipe)
    documents = corpus.documents
    if check:
        parents = _parents(recipe, corpus, load_all(recipe.tokenizers))
        if out:
            check_out(out, kind="comparison", recipe=recipe, parents=parents, force=force)
    origin = f"the terms of {recipe.terms}" if recipe.terms else "words with medical stems or endings"
    return [
        f"load {len(recipe.tokenizers)} tokenizers: {', '.join(map(str, recipe.tokenizers))}",
        f"count words and {origin} in {min(recipe.sample_documents, documents):,} of {documents:,} documents of {recipe.corpus}",
        f"show terms that occur in at least {recipe.min_documents} of these documents",
        f"write comparison.json, comparison.md and comparison.html to {out}" if out else "write nothing (no --out)",
    ]


def run(recipe: CompareRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Write the comparison to `out`, or reuse an existing one."""
    require("jinja2", "report")
    corpus, loaded = _open(recipe), load_all(recipe.tokenizers)
    build = partial(_build, recipe, corpus, loaded)
    parents = _parents(recipe, corpus, loaded)
    return produce(out, kind="comparison", recipe=recipe, parents=parents, build=build, force=force)


def _open(recipe: CompareRecipe) -> Corpus:
    corpus = Corpus.open(recipe.corpus)
    if not corpus.documents:
        raise InputError("the corpus has no documents", where=corpus.path, fix="Build it from files that have text")
    return corpus


def _parents(recipe: CompareRecipe, corpus: Corpus, loaded: Sequence[LoadedTokenizer]) -> dict[str, str | Artifact]:
    # The result shows the names in this order, so they are part of its identity.
    parents: dict[str, str | Artifact] = {
        f"tokenizer {n:02d} {one.name}": one.digest for n, one in enumerate(loaded, 1)
    }
    if recipe.terms:
        read_terms(recipe.terms)  # raise on a bad file before anything is written
        parents["terms"] = sha256(recipe.terms)
    return {**parents, "corpus": corpus}


def read(artifact: Artifact) -> TokenizerComparison:
    """Read the result of a finished comparison."""
    return read_model(TokenizerComparison, artifact.path / _RESULT, fix="Compare again with --force")


def measure(recipe: CompareRecipe) -> TokenizerComparison:
    """Compare without writing anything."""
    return _compare(recipe, _open(recipe), load_all(recipe.tokenizers))


def _build(recipe: CompareRecipe, corpus: Corpus, loaded: list[LoadedTokenizer], workspace: Workspace) -> None:
    began = time.monotonic()
    found = _compare(recipe, corpus, loaded)
    write_json(workspace.path / _RESULT, found.model_dump(mode="json"))
    write_atomic(workspace.path / "comparison.md", markdown(found))
    page(found).write(workspace.path / "comparison.html")
    everything = found.tokenizers[0].everything
    counts = {
        "tokenizers": len(loaded),
        "documents": everything.documents,
        "words": everything.words,
        "terms": found.terms.used,
    }
    workspace.counts.update(counts)
    log.event("vocab.compared", seconds=round(time.monotonic() - began, 3), **counts)


def _compare(recipe: CompareRecipe, corpus: Corpus, loaded: Sequence[LoadedTokenizer]) -> TokenizerComparison:
    given = read_terms(recipe.terms) if recipe.terms else None
    counting = TermCount(given)
    with progress("vocab: count", total=min(corpus.documents, recipe.sample_documents)) as bar:

        def documents() -> Iterator[CorpusText]:
            for document in corpus.sample(recipe.sample_documents):
                counting.add(document)
                bar.advance()
                yield document

        groups = count(documents())
    terms = counting.terms(recipe.min_documents)
    spellings = dict.fromkeys(term.spelling for term in terms)
    cuts = [item.cutter.subwords(spellings) for item in loaded]
    return TokenizerComparison(
        corpus_documents=corpus.documents,
        tokenizers=tuple(
            _figures(item, groups, terms, cut, recipe.shown_terms) for item, cut in zip(loaded, cuts, strict=True)
        ),
        overlaps=tuple(starmap(_overlap, combinations(loaded, 2))),
        terms=TermFacts(
            from_file=given is not None,
            given=None if given is None else len(given),
            seen=counting.seen,
            used=len(terms),
            occurrences=sum(term.occurrences for term in terms),
            min_documents=recipe.min_documents,
        ),
        differences=_differences([item.cutter for item in loaded], terms, cuts, recipe.shown_terms),
    )


def _figures(
    item: LoadedTokenizer, groups: Mapping[Group, WordCounts], terms: Sequence[Term], cuts: Cuts, shown: int
) -> TokenizerFigures:
    cutter = item.cutter
    found = measure_fertility(cutter, groups)
    return TokenizerFigures(
        name=item.name,
        model=str(cutter.vocabulary.model.get("type", "unknown")),
        size=len(cutter.vocabulary.ids),
        unknown_token=cutter.unknown_token,
        digest=item.digest,
        everything=found.total,
        sources=found.sources,
        languages=found.languages,
        terms=_term_ratios(cutter, terms, cuts),
        worst=_worst(cutter, terms, cuts, shown),
    )


def _term_ratios(cutter: Cutter, terms: Sequence[Term], cuts: Cuts) -> TermRatios | None:
    if not terms:
        return None
    words = subwords = whole = unknown = 0
    for term in terms:
        found = cuts[term.spelling]
        is_unknown = not found or any(subword.id == cutter.unknown_id for subword in found)
        words += term.occurrences * term.words
        subwords += term.occurrences * len(found)
        whole += term.occurrences * (len(found) == term.words and not is_unknown)
        unknown += term.occurrences * is_unknown
    total = sum(term.occurrences for term in terms)
    return TermRatios(
        fertility=round(subwords / words, 4), whole=round(whole / total, 4), unknown=round(unknown / total, 4)
    )


def _worst(cutter: Cutter, terms: Sequence[Term], cuts: Cuts, shown: int) -> tuple[CutTerm, ...]:
    """Terms with the most sub-words beyond one per word, over all occurrences; ties in code point order."""
    costs = {term: term.occurrences * (len(cuts[term.spelling]) - term.words) for term in terms}
    ranked = sorted((term for term in terms if costs[term] > 0), key=lambda term: (-costs[term], term.text))
    return tuple(
        CutTerm(
            term=term.text,
            documents=term.documents,
            occurrences=term.occurrences,
            pieces=tuple(cutter.readable(cuts[term.spelling])),
            shown=cutter.shown(term.spelling, cuts[term.spelling]),
        )
        for term in ranked[:shown]
    )


def _differences(
    cutters: Sequence[Cutter], terms: Sequence[Term], cuts: Sequence[Cuts], shown: int
) -> tuple[Difference, ...]:
    """Terms with the largest difference in sub-words between two tokenizers, over all occurrences."""
    counts = {term: tuple(len(cut[term.spelling]) for cut in cuts) for term in terms}
    spread = {term: term.occurrences * (max(counts[term]) - min(counts[term])) for term in terms}
    ranked = sorted((term for term in terms if spread[term] > 0), key=lambda term: (-spread[term], term.text))
    return tuple(
        Difference(
            term=term.text,
            documents=term.documents,
            occurrences=term.occurrences,
            counts=counts[term],
            shown=tuple(
                cutter.shown(term.spelling, cut[term.spelling]) for cutter, cut in zip(cutters, cuts, strict=True)
            ),
        )
        for term in ranked[:shown]
    )


def _overlap(first: LoadedTokenizer, second: LoadedTokenizer) -> VocabularyOverlap:
    one, other = first.cutter.vocabulary, second.cutter.vocabulary
    entries = [
        {
            (entry.begins, entry.text)
            for token, number in vocabulary.ids.items()
            if number not in vocabulary.special
            for entry in [vocabulary.entry(token)]
        }
        for vocabulary in (one, other)
    ]
    shared = len(entries[0] & entries[1])
    return VocabularyOverlap(
        first=first.name,
        second=second.name,
        same_vocabulary=one.ids == other.ids,
        same_tokens=one.ids.keys() == other.ids.keys(),
        same_rules=all(one.description[part] == other.description[part] for part in _RULES),
        shared=shared,
        shared_first=round(shared / max(1, len(entries[0])), 4),
        shared_second=round(shared / max(1, len(entries[1])), 4),
    )
