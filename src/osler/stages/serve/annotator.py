"""Annotation in Python: texts in, annotated documents out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from osler.artifacts.bundle import Bundle
from osler.core.errors import InputError, RecipeError
from osler.stages.serve.config import AnnotateOptions
from osler.stages.serve.engine import AnnotationEngine
from osler.text.document import Document, Record, TextPair, check_text


class Annotator:
    """A loaded bundle. Annotates texts with spans, relations, labels and scores, and pairs of texts with labels, values and
    scores."""

    def __init__(
        self,
        bundle: Bundle,
        heads: Sequence[str] = (),
        language: str | None = None,
        options: AnnotateOptions | None = None,
    ) -> None:
        if isinstance(heads, str):
            raise RecipeError(f"heads= must be a list of names, not {heads!r}", fix=f"Write heads=[{heads!r}]")
        self.bundle = bundle
        asked = {"heads": tuple(heads), "language": language}
        self._engine = AnnotationEngine.steady(bundle, (options or AnnotateOptions()).changed(**asked))
        self._asked = (tuple(heads), language)
        self.heads = bundle.spec.heads_for("document", heads, language)
        """Heads for single texts. If neither heads nor a language were requested, each text is read by the heads for its
        language."""
        self.pair_heads = bundle.spec.heads_for("pair", heads, language)
        """Heads for pairs of texts."""
        self._advise = language is None
        if not self.heads and not self.pair_heads:
            bundle.spec.document_heads(heads, language)  # raises an error that says why there is none
        self.costs = self._engine.costs(self.heads)
        """Lines that state what the thresholds or the target recall cost on dev."""

    def __repr__(self) -> str:
        return f"Annotator(heads={[*self.heads, *self.pair_heads]})"

    def __call__(self, text: str) -> Document:
        """Annotate one text."""
        return next(self.pipe([text]))

    def pipe(self, texts: Iterable[str | Document], batch_size: int = 64) -> Iterator[Document]:
        """Annotate many texts in input order, with one batch in memory at a time."""
        if not self.heads:
            self.bundle.spec.document_heads(*self._asked)  # raises an error that says why there is none
        if isinstance(texts, str):
            raise InputError("pipe takes many texts, this is one", fix="Call the object itself, or give a list")
        _check_batch(batch_size)
        numbered = (
            text if isinstance(text, Document) else Document(str(number), _text(text, f"text {number}"))
            for number, text in enumerate(texts, start=1)
        )
        while batch := list(islice(numbered, batch_size)):
            languages = self._engine.languages(batch)
            self._check_language(batch, languages)
            yield from (made for made in self._engine.annotate(batch, languages) if isinstance(made, Document))

    def pairs(self, pairs: Iterable[tuple[str, str] | TextPair], batch_size: int = 64) -> Iterator[TextPair]:
        """Annotate pairs of texts, such as a premise and a hypothesis, with the heads for pairs.

        `labels` and `scores` of a result are prefixed with the name of the head. `value` is the result of the only regression
        head; if there are several, `meta` holds one value per head.
        """
        heads = self.pair_heads or self.bundle.spec.pair_heads(*self._asked)
        for batch in pair_batches(pairs, batch_size):
            self._check_language(batch)
            yield from self._engine.bundle.compare(batch, heads)

    def _check_language(self, records: Sequence[Record], languages: Sequence[str | None] | None = None) -> None:
        """Warn once if texts are in another language than the heads that read them."""
        if not self._advise:
            return
        mismatch = self._engine.language_mismatch(records, languages)
        if mismatch is not None:
            self._advise = False
            advice = f" Leave them out with osler.load(..., language={mismatch.choose!r})." if mismatch.choose else ""
            warnings.warn(f"{mismatch.problem}.{advice}", stacklevel=3)


def _text(text: Any, where: str) -> str:
    if not isinstance(text, str):
        raise InputError(f"this is {type(text).__name__}, not a string", where=where, fix="Give texts or documents")
    return check_text(text, where=where)


def _check_batch(size: int) -> None:
    if size < 1:  # islice would take nothing, as if there were no texts
        raise InputError(f"batch_size is {size}", fix="Give a number from 1")


def pair_batches(pairs: Iterable[tuple[str, str] | TextPair], size: int = 64) -> Iterator[list[TextPair]]:
    """Yield batches of pairs as records, numbered if they are not records yet."""
    _check_batch(size)
    numbered = (
        pair if isinstance(pair, TextPair) else TextPair(str(number), *_both(pair, f"pair {number}"))
        for number, pair in enumerate(pairs, start=1)
    )
    while batch := list(islice(numbered, size)):
        yield batch


def _both(pair: Any, where: str) -> tuple[str, str]:
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise InputError("not a pair of texts", where=where, fix="Give a list of (first, second)")
    return _text(pair[0], where), _text(pair[1], where)
