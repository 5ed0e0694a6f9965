"""Measure several tokenizers on one sample: documents are read and counted once, each distinct string is cut once a tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from osler.stages.vocab.comparison import (
    Comparison,
    CutTerm,
    Difference,
    Ratios,
    TermFacts,
    TermRatios,
    TokenizerFigures,
)
from osler.stages.vocab.counting import Counts, Group, count
from osler.stages.vocab.cutting import Cutter, Piece
from osler.stages.vocab.fertility import measure
from osler.stages.vocab.loading import Loaded
from osler.stages.vocab.pieces import Style
from osler.stages.vocab.terms import Term, TermCount
from osler.stages.vocab.texts import Text
from osler.stages.vocab.vocabularies import overlap

Cuts = Mapping[str, tuple[Piece, ...]]


def compare(
    loaded: Sequence[Loaded],
    texts: Iterable[Text],
    *,
    corpus_documents: int,
    given_terms: Sequence[str] | None,
    min_documents: int,
    shown_terms: int,
) -> Comparison:
    """Everything a comparison says."""
    counting = TermCount(given_terms)
    groups = count(counting.passing(texts))
    terms = counting.terms(min_documents)
    cutters = [Cutter(item.tokenizer) for item in loaded]
    cuts = [cutter.pieces(dict.fromkeys(term.spelling for term in terms)) for cutter in cutters]
    return Comparison(
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
    item: Loaded, cutter: Cutter, groups: Mapping[Group, Counts], terms: Sequence[Term], cuts: Cuts, shown: int
) -> TokenizerFigures:
    found = measure(cutter, groups)
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
    style = Style.of(cutter)

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
    styles = [Style.of(cutter) for cutter in cutters]

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
