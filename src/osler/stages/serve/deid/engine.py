"""De-identify notes: the single path shared by the command line, Python and the service.

Findings of the rules and of a bundle's heads are combined: every character that either finds is replaced. A note that cannot be
processed gives an error and no text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from osler.artifacts.bundle_spec import ALL_LANGUAGES, BundleSpec, reads
from osler.core.errors import RecipeError
from osler.stages.serve.config import AnnotateOptions
from osler.stages.serve.deid.config import DeidOptions
from osler.stages.serve.deid.dates import (
    WrittenDate,
    latest_year,
    month_first,
    parse_date,
    tells_old_age,
    weekday_start,
    with_centuries,
)
from osler.stages.serve.deid.kinds import PhiFinding, category_title, is_removed, kind_of, phi_map, united
from osler.stages.serve.deid.rules import LANGUAGES, repeated_names, rules_for
from osler.stages.serve.deid.surrogates import Keyed, Surrogates
from osler.tasks.card import Kind
from osler.text.document import Document
from osler.text.language import LanguageGuess
from osler.text.replacing import OffsetMap, replace_passages
from osler.text.words import words

if TYPE_CHECKING:
    from osler.stages.serve.engine import AnnotationEngine

MASK = "***"
_ENOUGH_WORDS = 50
# One word in three or four is common in English, Spanish and French prose, fewer in tables and telegrams, nearly none elsewhere.
_LEAST_COMMON = 0.03
_PROBE = "Probe."


class Failure(NamedTuple):
    """Why a note was not written, and what to do about it. Never quotes the note."""

    problem: str
    fix: str


@dataclass(frozen=True)
class DeidNote:
    """A de-identified note."""

    text: str
    offsets: OffsetMap
    findings: tuple[PhiFinding, ...]
    """What was replaced, with offsets in the original text."""
    language: str

    def counts(self) -> Counter[str]:
        """Replaced passages by Safe Harbor category."""
        return Counter(category_title(finding.kind) for finding in self.findings)


@dataclass(frozen=True)
class PhiHeads:
    """The heads of a bundle that find PHI: their languages and label maps."""

    languages: Mapping[str, str]
    maps: Mapping[str, str | None]
    named: bool
    """Whether the heads were named by the user. Named heads read every note, regardless of language."""

    @classmethod
    def of(cls, spec: BundleSpec, names: Sequence[str], where: Path | str) -> PhiHeads:
        """Select the named heads, or all that were trained on a PHI task."""
        taggers = {name: head.card for name, head in spec.heads.items() if head.card.kind is Kind.TAGGING}
        for name in names:
            if spec.head(name).card.kind is not Kind.TAGGING:
                fix = f"Heads of this bundle that find some: {', '.join(taggers) or 'none'}"
                raise RecipeError(f"the head {name!r} finds no entities", where=where, fix=fix)
        chosen = {name: taggers[name] for name in names} or {n: card for n, card in taggers.items() if phi_map(card)}
        if not chosen:
            fix = f"Name those to use with --head: {', '.join(taggers)}" if taggers else "Give another bundle"
            raise RecipeError("no head of this bundle finds PHI", where=where, fix=f"{fix}, or leave --bundle out")
        languages = {name: card.language for name, card in chosen.items()}
        return cls(languages, {name: phi_map(card) for name, card in chosen.items()}, bool(names))

    def reading(self, language: str | None) -> tuple[str, ...]:
        """Heads for a language, or all if the language is None. May be empty."""
        if self.named or language is None:
            return tuple(self.languages)
        return tuple(name for name, own in self.languages.items() if reads(own, language))


class DeidEngine:
    """De-identifies notes with rules, with a bundle, or with both."""

    def __init__(self, options: DeidOptions, bundle: Path | str | None = None, device: str = "auto") -> None:
        self.options = options
        self._loaded: Any = None
        self._engines: dict[tuple[str, ...], Any] = {}
        """Annotation engines by their heads, which depend on the language of a note."""
        self.heads: PhiHeads | None = None
        if bundle is not None:
            self.heads = PhiHeads.of(BundleSpec.load(bundle), options.heads, bundle)
            if options.language is not None and not self.heads.reading(options.language):
                listed = ", ".join(f"{name} ({own})" for name, own in self.heads.languages.items())
                raise RecipeError(
                    f"no head for de-identification reads the language {options.language!r}: {listed}",
                    where=bundle,
                    fix="Name the heads to use with --head, or leave --bundle out",
                )
        elif given := _for_heads(options):
            raise RecipeError(
                f"{', '.join(given)}: these are for the heads of a bundle, and there is none",
                fix="Give --bundle, or leave them out",
            )
        elif not options.rules:
            raise RecipeError("neither rules nor a bundle", fix="Give --bundle, or leave rules as they are")
        elif options.language not in (None, ALL_LANGUAGES, *LANGUAGES):
            known = ", ".join(LANGUAGES)
            raise RecipeError(f"no rules for the language {options.language!r}", fix=f"Use one of {known}, or a bundle")
        self._where, self._device = bundle, device

    def load(self, loaded: AnnotationEngine | None = None) -> DeidEngine:
        """Load the bundle now, or use a loaded one. Without this call, it is loaded with the first note that needs it."""
        if loaded is not None:
            self._loaded = loaded
        if self._where is not None and self._loaded is None:
            # Imported late, so that rules alone start at once and need no numpy.
            from osler.stages.serve.engine import AnnotationEngine

            self._loaded = AnnotationEngine.load(self._where, self.options.annotation(()), self._device)
        return self

    def costs(self) -> list[str]:
        """Lines that state what a target recall or a threshold costs on dev, to print before the run."""
        if self.heads is None or self._where is None:
            return []
        from osler.artifacts.calibration import BundleCalibration
        from osler.stages.serve.demands import Demands

        heads = self.heads.reading(self.options.language)
        calibration = BundleCalibration.load(self._where)
        return Demands(BundleSpec.load(self._where), calibration, self.options.annotation(heads)).costs(heads)

    @property
    def covers(self) -> str:
        """What finds PHI, and what this does not cover, for a plan and a card."""
        if self.heads is None:
            return (
                "rules only: identifiers, contacts, dates, and names with a title, a label or a frequent given name. "
                "Other names in running text are not found: give --bundle"
            )
        listed = ", ".join(self.heads.languages)
        return f"heads {listed}" + (" united with rules" if self.options.rules else " without rules")

    def find(self, notes: Sequence[Document]) -> list[list[PhiFinding] | Failure]:
        """Find the passages to replace in each note, disjoint and in text order, or the reason why that failed."""
        by_language: dict[str | Failure | None, list[int]] = {}
        for number, note in enumerate(notes):
            by_language.setdefault(self.language_of(note.text), []).append(number)
        found: dict[int, list[PhiFinding] | Failure] = {}
        for known, numbers in by_language.items():
            if isinstance(known, Failure):
                found.update(dict.fromkeys(numbers, known))
            else:
                found.update(zip(numbers, self._find([notes[n] for n in numbers], known), strict=True))
        return [found[number] for number in range(len(notes))]

    def language_of(self, text: str) -> str | Failure | None:
        """Guess the language of a note. None if it may be any of the three, a failure if it seems to be none of them.

        Heads and rules of other languages are only skipped if the language is certain: what they would find stays in the note.
        """
        if self.options.language is not None:
            return None if self.options.language == ALL_LANGUAGES else self.options.language
        guess = LanguageGuess.of([text])
        if guess.sure:
            return guess.sure
        count = sum(text[start].isalpha() for start, _ in words(text[:200_000]))
        if count >= _ENOUGH_WORDS and guess.hits < _LEAST_COMMON * count:
            return Failure("its language is not known", "Say which it is with --language, or leave the note out")
        return None

    def deidentify(self, note: Document, findings: Sequence[PhiFinding], keyed: Keyed) -> DeidNote:
        """Replace the findings in a note."""
        known = self.language_of(note.text)
        language = known if isinstance(known, str) else LanguageGuess.of([note.text]).language
        new = list(self._replacements(note.text, findings, language, keyed))
        # Unchanged text, such as a year that is kept, is not a replacement.
        changed = [(f, text) for f, text in zip(findings, new, strict=True) if text != note.text[f.start : f.end]]
        text, offsets = replace_passages(note.text, ((f.start, f.end, new) for f, new in changed))
        return DeidNote(text, offsets, tuple(finding for finding, _ in changed), language)

    def __call__(self, note: Document, keyed: Keyed) -> DeidNote | Failure:
        """De-identify one note."""
        [found] = self.find([note])
        return found if isinstance(found, Failure) else self.deidentify(note, found, keyed)

    def _find(self, notes: Sequence[Document], language: str | None) -> list[list[PhiFinding] | Failure]:
        spans: Sequence[list[PhiFinding] | Failure] = [[] for _ in notes]
        if self.heads is not None:
            heads = self.heads.reading(language)
            if not heads:
                problem = f"no head for de-identification reads its language, {language!r}"
                fix = (
                    "Give a bundle with a head for it, or use the rules and heads of all languages with --language all"
                )
                return [Failure(problem, fix)] * len(notes)
            self.load()
            spans = self._model(notes, heads, self.heads)
        return [
            found if isinstance(found, Failure) else self._united(note.text, found, language)
            for note, found in zip(notes, spans, strict=True)
        ]

    def _united(self, text: str, found: list[PhiFinding], language: str | None) -> list[PhiFinding]:
        if self.options.rules:
            found = [*found, *rules_for(LANGUAGES if language is None else (language,)).find(text)]
        # Drop what stays before merging passages: an age of 40 must not be removed together with a date that overlaps it.
        removed = [f for f in found if is_removed(f.kind, text[f.start : f.end], self.options.scope)]
        # A weekday beside a date is part of it: it would tell by how many days of a week the date was shifted.
        removed = [f._replace(start=weekday_start(text, f.start)) if f.kind == "DATE" else f for f in removed]
        return united([*removed, *repeated_names(text, removed)])

    def _model(
        self, notes: Sequence[Document], names: tuple[str, ...], heads: PhiHeads
    ) -> list[list[PhiFinding] | Failure]:
        options = self.options.annotation(names)
        maps = {name: heads.maps[name] for name in names}
        try:
            return [_findings(document, maps) for document in self._annotated(notes, options)]
        except Exception:
            pass  # continue outside this block, so that no later error is chained to one that may quote the text
        if len(notes) > 1:
            return [found for note in notes for found in self._model([note], names, heads)]
        # If the machine or the bundle is at fault and not the note, this raises too and ends the run.
        self._annotated([Document("probe", _PROBE)], options)
        return [Failure("the model could not read it", "Look at the note: it may not be text")]

    def _annotated(self, notes: Sequence[Document], options: AnnotateOptions) -> list[Document]:
        if options.heads not in self._engines:
            self._engines[options.heads] = replace(self._loaded, options=options)
        made = self._engines[options.heads].annotate([Document(note.id, note.text) for note in notes])
        return [document for document in made if isinstance(document, Document)]

    def _replacements(self, text: str, findings: Sequence[PhiFinding], language: str, keyed: Keyed) -> Iterator[str]:
        leads = month_first((text[f.start : f.end] for f in findings if f.kind == "DATE"), language)
        dates = with_centuries(
            [parse_date(text[f.start : f.end], language, leads) if f.kind == "DATE" else None for f in findings]
        )
        latest = latest_year(dates)
        surrogates = Surrogates(keyed, language)
        for finding, written in zip(findings, dates, strict=True):
            original = text[finding.start : finding.end]
            new = None
            if finding.kind == "DATE":
                new = self._date(written, latest, keyed)
            elif self.options.style == "surrogate":
                new = surrogates.of(finding.kind, original)
            yield new if new is not None else (MASK if self.options.style == "mask" else f"[{finding.kind}]")

    def _date(self, written: WrittenDate | None, latest: int | None, keyed: Keyed) -> str | None:
        """Replacement of a date. None if it is masked."""
        if written is None or self.options.dates == "mask" or tells_old_age(written, latest):
            return None
        if self.options.dates == "shift":
            return written.shifted(keyed.shift, latest)
        if written.year is None:
            return None
        return written.text if written.month is None else str(written.year)


def _for_heads(options: DeidOptions) -> list[str]:
    """Options in use that only change what a bundle finds. Rules alone would ignore them, and leave in what they ask for."""
    default = AnnotateOptions()
    names = ("heads", "min_score", "thresholds", "target_recall")
    return [name for name in names if getattr(options, name) != getattr(default, name)]


def _findings(document: Document, maps: Mapping[str, str | None]) -> list[PhiFinding]:
    """Convert the mentions of a document to findings. `maps` has the label map of every head."""
    found = []
    for span in document.spans:
        head = span.attributes.get("head", next(iter(maps)))
        kind = kind_of(span.label, maps.get(head))
        found += [PhiFinding(start, end, kind, head) for start, end in span.fragments]
    return found
