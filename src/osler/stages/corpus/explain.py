"""Explain what happened to a document: kept or removed, by which step, and which setting would have kept it."""

from __future__ import annotations

from dataclasses import dataclass

from osler.artifacts.corpus import Corpus, KeptDocument
from osler.artifacts.ledger import Ledger, LedgerEntry
from osler.core.config import Recipe
from osler.core.errors import InputError
from osler.stages.corpus.config import Cleaning, CorpusRecipe
from osler.stages.corpus.originals import Origin, Original, Originals, kept_documents, twin_of


@dataclass(frozen=True, slots=True)
class Explanation:
    """One document: where it is from, and everything that was done to it."""

    source: str
    id: str
    file: str | None
    row: int | None
    kept: KeptDocument | None
    entries: tuple[LedgerEntry, ...]
    removal: LedgerEntry | None = None
    """What removed it, or None if it was kept."""
    advice: str = ""
    """Which setting would have kept it; empty for a document that was kept."""

    @property
    def origin(self) -> Origin | None:
        """Where to reread it; None if its row is not known."""
        return Origin(self.source, self.file, self.row, self.id) if self.file and self.row is not None else None


def explain(corpus: Corpus, key: str, source: str | None = None) -> list[Explanation]:
    """Return everything that happened to the documents with this id."""
    recipe = Originals(corpus).recipe
    places: dict[tuple[str, str | None, int | None], list[LedgerEntry]] = {}
    for entry in Ledger.of(corpus).find(key, source):
        places.setdefault((entry.source, entry.file, entry.row), []).append(entry)
    kept = {
        (found.source, found.file, found.row): found for found in corpus.find([key]) if source in (None, found.source)
    }
    if not places and not kept:
        names = ", ".join(list(corpus.sources)[:8])
        of = f" from the source {source!r}" if source else ""
        raise InputError(
            f"no document{of} has this id",
            where=corpus.path,
            fix=f"Ids are those of the raw files, or FILE:ROW where these have none. Sources: {names}",
        )
    explained = []
    for name, file, row in dict.fromkeys([*kept, *places]):
        entries = tuple(places.get((name, file, row), ()))
        removal = next((entry for entry in entries if entry.unit == "document"), None)
        advice = keeping(removal, recipe) if removal else ""
        explained.append(Explanation(name, key, file, row, kept.get((name, file, row)), entries, removal, advice))
    return explained


def keeping(entry: LedgerEntry, recipe: CorpusRecipe) -> str:
    """Describe which setting would have kept a removed document."""
    # A source without a name is named after its files, and all files of one command line are cleaned alike.
    sources = sorted(
        (source for source in recipe.sources if source.name in (entry.source, None)),
        key=lambda source: source.name is None,
    )
    own = sources[0].clean if sources else None
    cleaning = recipe.cleaning(own)
    if entry.step == "read":
        return "None: correct the raw file."
    if entry.reason == "ids":
        return "A pattern for its id in the source's `ids`."
    if entry.step == "select":
        return f"Another value of the reader's option ({entry.reason}) in the source's `options`."
    if entry.reason == "empty":
        return "None: it has no text."
    if entry.step == "filter":
        return _filter_option(entry, cleaning, of="clean.filters" if own and own.filters is not None else "filters")
    if entry.reason == "deidentify.language":
        return "A bundle with a head for its language, or the heads to use in deidentify.heads."
    if entry.step == "deidentify":
        return "None: the bundle cannot read it. clean.deidentify = false would leave its source as it is."
    if entry.step == "exact-duplicates":
        return f'{"clean." if own else ""}exact_duplicates = "keep" keeps all copies.'
    if entry.step == "near-duplicates":
        above = f" above {entry.jaccard:.3f}" if entry.jaccard is not None else " that is higher"
        return f"A near_duplicates.threshold{above}, or clean.near_duplicates = false for its source."
    if entry.step == "decontaminate":
        return "Leaving the task out of decontaminate.tasks. Then the model sees test text in training."
    if entry.step == "licence":
        return f"Its licence in `{entry.reason.partition('.')[0]}`, or no such list."
    if entry.step == "boilerplate":
        return "A higher value of boilerplate.min_documents or min_share, or clean.boilerplate = false for its source."
    if entry.step == "revisions":
        return "None: a record is kept in its latest version, and not at all if it was withdrawn."
    return f"Another value of `{entry.reason}`."


def _filter_option(entry: LedgerEntry, cleaning: Cleaning, of: str) -> str:
    name, _, option = entry.reason.partition(".")
    rule: Recipe | None = cleaning.filters.get(name)
    value = getattr(rule, option, None)
    if rule is None or value is None:
        return f"Leaving out the filter `{of}.{name}`."
    change = {"min": "a lower value", "max": "a higher value"}.get(option.partition("_")[0], "another value")
    fitting = ""
    if option.endswith("_characters") and entry.characters is not None:
        fitting = f"; the document has {entry.characters:,} characters"
    return f"{change.capitalize()} of `{of}.{entry.reason}` (now {value}{fitting}), or leaving out the filter."


def kept_twin(corpus: Corpus, entry: LedgerEntry, text: str) -> KeptDocument | None:
    """Return the document that was kept instead of a removed duplicate with this text."""
    if entry.kept_source is None or entry.kept_id is None:
        return None
    pair = (entry.kept_source, entry.kept_id)
    return twin_of(entry, text, kept_documents(corpus, [pair]).get(pair, []))


def original_of(corpus: Corpus, explanation: Explanation) -> Original:
    """Reread the document from its raw file."""
    origin = explanation.origin
    if origin is None:
        raise InputError(
            "it is not known where this document was read", where=explanation.id, fix="Build the corpus again"
        )
    return Originals(corpus).read([origin])[origin]
