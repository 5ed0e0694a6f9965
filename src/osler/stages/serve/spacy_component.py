"""The spaCy component `osler`: adds the findings of a bundle to a spaCy document, as entities, spans, relations and categories.

Importing this module registers the component. If osler is installed, the entry point `spacy_factories` does so.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, Span, SpanGroup

from osler.core.config import validate
from osler.core.errors import RecipeError
from osler.core.files import remove_tree
from osler.core.models import model_folder
from osler.stages.serve.config import AnnotateOptions
from osler.stages.serve.engine import AnnotationEngine
from osler.text.document import Document

KEY = "osler"
"""Name of the component, of its span group, and of its key in a document's `user_data`."""
_BUNDLE = "bundle"


class OslerComponent:
    """Annotates spaCy documents with a bundle, which is loaded with the first document."""

    def __init__(self, name: str, bundle: str, options: AnnotateOptions, device: str) -> None:
        self.name = name
        self._bundle = bundle
        self._options = options
        self._device = device
        self._loaded: AnnotationEngine | None = None
        self._advised = False

    @property
    def engine(self) -> AnnotationEngine:
        """The loaded bundle."""
        if self._loaded is None:
            if not self._bundle:
                raise RecipeError(
                    "the component has no bundle", fix='nlp.add_pipe("osler", config={"bundle": "FOLDER"})'
                )
            self._loaded = AnnotationEngine.load(model_folder(self._bundle), self._options, self._device)
        return self._loaded

    def use(self, bundle: str | Path) -> None:
        """Switch to another bundle."""
        self._bundle, self._loaded = str(bundle), None

    def __call__(self, doc: Doc) -> Doc:
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 64) -> Iterator[Doc]:
        """Annotate documents batch by batch; the encoder reads a batch in one pass."""
        docs = iter(stream)
        while batch := list(islice(docs, batch_size)):
            self._annotate(batch)
            yield from batch

    def to_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> None:
        """Write a copy of the bundle, so that the pipeline works without the original."""
        source, target = Path(model_folder(self._bundle)), Path(path) / _BUNDLE
        if not source.is_dir():
            raise RecipeError("this bundle is no folder and cannot be copied", where=source, fix="Give a bundle folder")
        if source.resolve() != target.resolve():
            remove_tree(target)
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("logs"))

    def from_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> OslerComponent:
        """Use the copy of the bundle that `to_disk` wrote."""
        self.use(Path(path) / _BUNDLE)
        return self

    def __getstate__(self) -> dict[str, Any]:
        # Each process of nlp.pipe(n_process=…) loads its own copy of the bundle.
        return {**self.__dict__, "_loaded": None}

    def _annotate(self, docs: Sequence[Doc]) -> None:
        records = [Document(str(number), doc.text) for number, doc in enumerate(docs)]
        languages = self.engine.languages(records)
        if not self._advised and (mismatch := self.engine.language_mismatch(records, languages)):
            self._advised = True
            warnings.warn(f"{mismatch.problem}.", stacklevel=4)
        for doc, found in zip(docs, self.engine.annotate(records, languages), strict=True):
            assert isinstance(found, Document)
            _add(doc, found)


@Language.factory(
    KEY,
    assigns=["doc.ents", "doc.spans", "doc.cats", "doc._.osler", "doc._.relations", "span._.osler"],
    default_config={"bundle": "", "device": "auto", **AnnotateOptions().model_dump(mode="json")},
)
def make_component(
    nlp: Language,
    name: str,
    bundle: str,
    device: str,
    # The fields of AnnotateOptions: spaCy rejects settings that are not listed here.
    heads: list[str],
    language: str | None,
    min_score: float,
    thresholds: dict[str, float],
    target_recall: float | None,
    attributes: str,
) -> OslerComponent:
    """Create the component: `nlp.add_pipe("osler", config={"bundle": "FOLDER"})`."""
    values = {"heads": heads, "language": language, "min_score": min_score, "thresholds": thresholds}
    options = validate(
        AnnotateOptions, {**values, "target_recall": target_recall, "attributes": attributes}, where="config of osler"
    )
    return OslerComponent(name, str(bundle), options, device)


def _add(doc: Doc, found: Document) -> None:
    """Add annotations to a spaCy document.

    A spaCy span consists of whole spaCy tokens. A mention that begins or ends inside a token is widened to it, and
    `span._.osler` keeps its exact offsets.
    """
    plain = found.to_dict()
    doc.user_data[KEY] = {name: plain[name] for name in ("spans", "relations", "labels", "value", "scores", "meta")}
    spans = []
    for span in found.spans:
        made = doc.char_span(span.start, span.end, label=span.label, span_id=span.id, alignment_mode="expand")
        assert made is not None  # a mention is never empty, and spaCy's tokens cover the whole text
        spans.append(made)
    doc.spans[KEY] = SpanGroup(doc, name=KEY, spans=spans)
    scores = {span.id: span.score for span in found.spans}
    doc.ents = _apart([*sorted(spans, key=lambda span: -(scores[span.id_] or 0.0)), *doc.ents])
    doc.cats.update({label: found.scores.get(label, 1.0) for label in found.labels} | dict(found.scores))


def _apart(spans: Iterable[Span]) -> list[Span]:
    """Filter spans to those that share no token. The first of overlapping spans is kept."""
    kept: list[Span] = []
    taken: set[int] = set()
    for span in spans:
        if taken.isdisjoint(tokens := range(span.start, span.end)):
            taken.update(tokens)
            kept.append(span)
    return sorted(kept, key=lambda span: span.start)


def _mention(span: Span) -> dict[str, Any] | None:
    """Return the mention of a spaCy span, with its exact offsets, or None if osler did not find it."""
    found = [
        mention
        for mention in span.doc.user_data.get(KEY, {}).get("spans", ())
        if mention["label"] == span.label_ and _covers(span, mention)
    ]
    # The spans in doc.ents have no id.
    named = [mention for mention in found if mention["id"] == span.id_]
    return max(named or found, key=lambda mention: mention.get("score", 0.0), default=None)


def _covers(span: Span, mention: dict[str, Any]) -> bool:
    fragments = mention.get("fragments") or [(mention["start"], mention["end"])]
    start, end = fragments[0][0], fragments[-1][1]
    first, last = span[0], span[-1]
    return bool(
        first.idx <= start < first.idx + len(first.text_with_ws) and last.idx < end <= last.idx + len(last.text_with_ws)
    )


def _relations(doc: Doc) -> list[dict[str, Any]]:
    """Relations, with spaCy spans as `head` and `tail`."""
    spans = {span.id_: span for span in doc.spans.get(KEY, ())}
    found = doc.user_data.get(KEY, {}).get("relations", ())
    return [{**relation, "head": spans[relation["head"]], "tail": spans[relation["tail"]]} for relation in found]


def _register() -> None:
    """Define the extensions, unless another package has one with the same name."""
    for name, getter in (
        ("osler", _mention),
        ("score", lambda span: (_mention(span) or {}).get("score")),
        ("attributes", lambda span: (_mention(span) or {}).get("attributes", {})),
    ):
        if not Span.has_extension(name):
            Span.set_extension(name, getter=getter)
    for name, read in (("osler", lambda doc: doc.user_data.get(KEY, {})), ("relations", _relations)):
        if not Doc.has_extension(name):
            Doc.set_extension(name, getter=read)


_register()
