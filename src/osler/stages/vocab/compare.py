"""Compare several tokenizers on one corpus."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path

from osler.artifacts.corpus import Corpus, CorpusText
from osler.core.artifact import Artifact, Workspace, produce
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
    Ratios,
    TermFacts,
    TermRatios,
    TokenizerComparison,
    TokenizerFigures,
    WordCounts,
    count,
    measure_fertility,
    overlap,
)
from osler.stages.vocab.terms import Term, TermCount, read_terms
from osler.stages.vocab.tokenizers import Cutter, EntryStyle, LoadedTokenizer, Subword, load_all
from osler.stages.vocab.view import markdown, page

Cuts = Mapping[str, tuple[Subword, ...]]


def compare(
    loaded: Sequence[LoadedTokenizer],
    texts: Iterable[CorpusText],
    *,
    corpus_documents: int,
    given_terms: Sequence[str] | None,
    min_documents: int,
    shown_terms: int,
) -> TokenizerComparison:
    """Everything a comparison says."""
    counting = TermCount(given_terms)
    groups = count(counting.passing(texts))
    terms = counting.terms(min_documents)
    cutters = [Cutter(item.tokenizer) for item in loaded]
    cuts = [cutter.pieces(dict.fromkeys(term.spelling for term in terms)) for cutter in cutters]
    return TokenizerComparison(
        corpus_documents=corpus_documents,
        tokenizers=tuple(
            _figures(item, cutter, groups, terms, cut, shown_terms)
            for item, cutter, cut in zip(loaded, cutters, cuts, strict=True)
        ),
        overlaps=tuple(
            overlap((loaded[one].name, cutters[one]), (loaded[other].name, cutters[other]))
            for one, other in combinations(range(len(loaded)), 2)
        ),
        terms=TermFacts(
            from_file=given_terms is not None,
            given=None if given_terms is None else len(given_terms),
            seen=counting.seen,
            used=len(terms),
            occurrences=sum(term.occurrences for term in terms),
            min_documents=min_documents,
        ),
        differences=tuple(_differences(cutters, terms, cuts, shown_terms)),
    )


def _figures(
    item: LoadedTokenizer,
    cutter: Cutter,
    groups: Mapping[Group, WordCounts],
    terms: Sequence[Term],
    cuts: Cuts,
    shown: int,
) -> TokenizerFigures:
    found = measure_fertility(cutter, groups)
    return TokenizerFigures(
        name=item.name,
        model=str(cutter.model.get("type", "unknown")),
        size=cutter.tokenizer.get_vocab_size(with_added_tokens=True),
        unknown_token=cutter.unknown_token,
        digest=item.digest,
        everything=Ratios(**found.total.plain()),
        sources={name: Ratios(**sums.plain()) for name, sums in found.sources.items()},
        languages={name: Ratios(**sums.plain()) for name, sums in sorted(found.languages.items())},
        terms=_term_ratios(cutter, terms, cuts),
        worst=tuple(_worst(cutter, terms, cuts, shown)),
    )


def _term_ratios(cutter: Cutter, terms: Sequence[Term], cuts: Cuts) -> TermRatios | None:
    if not terms:
        return None
    words = pieces = whole = unknown = 0
    for term in terms:
        found = cuts[term.spelling]
        is_unknown = not found or any(piece.id == cutter.unknown_id for piece in found)
        words += term.occurrences * term.words
        pieces += term.occurrences * len(found)
        whole += term.occurrences * (len(found) == term.words and not is_unknown)
        unknown += term.occurrences * is_unknown
    total = sum(term.occurrences for term in terms)
    return TermRatios(
        fertility=round(pieces / words, 4), whole=round(whole / total, 4), unknown=round(unknown / total, 4)
    )


def _worst(cutter: Cutter, terms: Sequence[Term], cuts: Cuts, shown: int) -> list[CutTerm]:
    """The terms with most pieces beyond one a word, summed over their occurrences; ties in code point order."""
    style = EntryStyle.of(cutter)

    def cost(term: Term) -> int:
        return term.occurrences * _extra(term, cuts)

    ranked = sorted((term for term in terms if cost(term) > 0), key=lambda term: (-cost(term), term.text))
    return [
        CutTerm(
            term=term.text,
            documents=term.documents,
            occurrences=term.occurrences,
            pieces=tuple(style.readable(piece.token for piece in cuts[term.spelling])),
            shown=style.shown(term.spelling, cuts[term.spelling]),
        )
        for term in ranked[:shown]
    ]


def _extra(term: Term, cuts: Cuts) -> int:
    return max(0, len(cuts[term.spelling]) - term.words)


def _differences(
    cutters: Sequence[Cutter], terms: Sequence[Term], cuts: Sequence[Cuts], shown: int
) -> list[Difference]:
    """The terms on which the finest and the coarsest cut are furthest apart, weighted like the worst."""
    styles = [EntryStyle.of(cutter) for cutter in cutters]

    def spread(term: Term) -> int:
        counts = [len(cut[term.spelling]) for cut in cuts]
        return term.occurrences * (max(counts) - min(counts))

    ranked = sorted((term for term in terms if spread(term) > 0), key=lambda term: (-spread(term), term.text))
    return [
        Difference(
            term=term.text,
            documents=term.documents,
            occurrences=term.occurrences,
            counts=tuple(len(cut[term.spelling]) for cut in cuts),
            shown=tuple(
                style.shown(term.spelling, cut[term.spelling]) for style, cut in zip(styles, cuts, strict=True)
            ),
        )
        for term in ranked[:shown]
    ]


log = get_logger("osler.vocab")
RESULT = "comparison.json"


def plan(recipe: CompareRecipe, out: Path | None) -> list[str]:
    """What a run will do, a line a step."""
    corpus = Corpus.open(recipe.corpus)
    documents = int(corpus.manifest.counts.get("documents", 0))
    origin = f"the terms of {recipe.terms}" if recipe.terms else "medical terms found by their parts"
    return [
        f"load {len(recipe.tokenizers)} tokenizers: {', '.join(map(str, recipe.tokenizers))}",
        f"count the words of {min(recipe.sample_documents, documents):,} of {documents:,} documents of {recipe.corpus}, and {origin}",
        f"show terms that at least {recipe.min_documents} of these documents have",
        f"write comparison.json, comparison.md and comparison.html to {out}" if out else "write nothing (no --out)",
    ]


def measure(recipe: CompareRecipe) -> TokenizerComparison:
    """Compare without keeping the result."""
    return _compare(recipe, Corpus.open(recipe.corpus), load_all(recipe.tokenizers))


def run(recipe: CompareRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the comparison at `out`, or reuse the one that is there."""
    require("jinja2", "report")
    corpus = Corpus.open(recipe.corpus)
    loaded = load_all(recipe.tokenizers)
    # Names and their order stand in the result, so they are part of what it is made from.
    parents: dict[str, str | Artifact] = {
        f"tokenizer {n:02d} {one.name}": one.digest for n, one in enumerate(loaded, 1)
    }
    if recipe.terms:
        read_terms(recipe.terms)  # says what is wrong with it before anything is made
        parents["terms"] = sha256(recipe.terms)
    build = partial(_build, recipe, corpus, loaded)
    return produce(
        out, kind="comparison", recipe=recipe, parents={**parents, "corpus": corpus}, build=build, force=force
    )


def read(artifact: Artifact) -> TokenizerComparison:
    """What a finished comparison found."""
    return TokenizerComparison.model_validate_json((artifact.path / RESULT).read_bytes())


def _build(recipe: CompareRecipe, corpus: Corpus, loaded: list[LoadedTokenizer], workspace: Workspace) -> None:
    began = time.monotonic()
    found = _compare(recipe, corpus, loaded)
    write_json(workspace.path / RESULT, found.model_dump(mode="json"))
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


def _compare(recipe: CompareRecipe, corpus: Corpus, loaded: list[LoadedTokenizer]) -> TokenizerComparison:
    require("pyarrow", "corpus")
    documents = int(corpus.manifest.counts.get("documents", 0))
    if documents == 0:
        raise InputError("the corpus holds no document", where=corpus.path, fix="Make a corpus with text")
    with progress("vocab: count", total=min(documents, recipe.sample_documents)) as bar:

        def texts() -> Iterator[CorpusText]:
            for text in corpus.sample(recipe.sample_documents):
                bar.advance()
                yield text

        return compare(
            loaded,
            texts(),
            corpus_documents=documents,
            given_terms=read_terms(recipe.terms) if recipe.terms else None,
            min_documents=recipe.min_documents,
            shown_terms=recipe.shown_terms,
        )
