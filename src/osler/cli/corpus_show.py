"""`osler corpus show`, `explain` and `audit`: what is in a corpus, what is not, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from osler.artifacts.corpus import Corpus
    from osler.artifacts.ledger import LedgerEntry
    from osler.report.tables import Table
    from osler.stages.corpus.explain import Explanation

CorpusArgument = Annotated[Path, typer.Argument(metavar="CORPUS", help="The folder of a corpus.")]
SourceOption = Annotated[str | None, typer.Option("--source", help="Only documents of this source.")]
_PLACES = 40  # maximum number of places listed by --diff


def show(corpus: CorpusArgument) -> None:
    """Print the card of a corpus: sources before and after cleaning, removals, lengths, languages, licences and hashes."""
    from osler.artifacts.corpus import Corpus
    from osler.artifacts.corpus_card import counts_table, facts_table, lengths_table, reasons_table, shares_table
    from osler.core.errors import ArtifactError

    opened = Corpus.open(corpus)
    card = opened.card
    if card is None:
        raise ArtifactError("this corpus has no card", where=corpus, fix="Make the corpus again with --force")
    tables = [counts_table(card), facts_table(card)]
    tables += [reasons_table(card.removed, "documents")] if card.removed else []
    tables += [reasons_table(card.passages, "passages")] if card.passages else []
    tables += [lengths_table(card)] if card.words_per_document else []
    counted = {"language": card.languages, "licence": card.licences, "split": card.splits}
    tables += [shares_table(documents, name) for name, documents in counted.items() if documents]
    _print(tables)
    screen = _screen()
    screen.print(f"sha256 of the shards    {card.sha256 or 'not recorded'}")
    screen.print(f"sha256 of the raw files {opened.manifest.parents.get('inputs', 'not recorded')}")


def explain(
    corpus: CorpusArgument,
    key: Annotated[str, typer.Argument(metavar="ID", help="Id of a document; FILE:ROW if the raw file has no ids.")],
    source: SourceOption = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="For a duplicate: where it differs from the kept one. Needs the raw files.")
    ] = False,
    text: Annotated[
        bool, typer.Option("--text", help="Also print document text: with --diff the words that differ.")
    ] = False,
) -> None:
    """Explain what happened to a document: kept or removed, by which step, and which setting would keep it."""
    from osler.artifacts.corpus import Corpus
    from osler.stages.corpus.explain import explain as explained

    opened = Corpus.open(corpus)
    found = explained(opened, key, source)
    if text:
        _warn()
    for number, explanation in enumerate(found):
        if number:
            _screen().print()
        _print_facts(_facts(explanation))
        if diff:
            _print_differences(opened, explanation, text=text)
        elif text:
            _print_text(opened, explanation)


def audit(
    corpus: CorpusArgument,
    step: Annotated[str, typer.Option("--step", help="A step, such as filter, near-duplicates or rewrite.")],
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="Number of removals.")] = 20,
    source: SourceOption = None,
    seed: Annotated[int, typer.Option("--seed", help="Another seed draws another sample.")] = 1,
    text: Annotated[
        bool, typer.Option("--text", help="Also print snippets of the documents. Needs the raw files.")
    ] = False,
) -> None:
    """Show a sample of what one step removed, or changed if it removes nothing. A seed always gives the same sample."""
    from osler.artifacts.corpus import Corpus
    from osler.stages.corpus.audit import audit as audited
    from osler.stages.corpus.audit import audit_table

    sample, total = audited(Corpus.open(corpus), step, n, source=source, seed=seed, text=text)
    _print([audit_table(sample, total, step)])
    if text:
        _warn()
        for number, removal in enumerate(sample, 1):
            changed = removal.entry.unit == "document changed"
            before, after = ("before", "after") if changed else ("removed", "kept instead")
            columns = {f"{number}  {before}": removal.removed or "(was not read)"}
            columns |= {after: removal.kept} if removal.kept is not None else {}
            _print_columns(columns)


def _facts(explanation: Explanation) -> list[tuple[str, str]]:
    """Return what happened to a document, as (name, value) pairs."""
    removal, kept = explanation.removal, explanation.kept
    facts = [("document", explanation.id), ("source", explanation.source)]
    if explanation.file is not None:
        row = "" if explanation.row is None else f", row {explanation.row:,}"
        facts.append(("read from", f"{explanation.file}{row}"))
    if kept is not None:
        facts.append(("outcome", f"kept in {kept.shard}, {len(kept.text):,} characters"))
        known = {"language": kept.language, "licence": kept.licence, "date": kept.date, "section": kept.section}
        facts += [(name, value) for name, value in known.items() if value]
    elif removal is not None:
        size = "" if removal.characters is None else f", {removal.characters:,} characters"
        removed = f"removed by {removal.step} ({removal.reason}){size}"
        facts.append(("outcome", f"not read: {removal.reason}" if removal.step == "read" else removed))
        if removal.share is not None:
            found = f"{removal.kept_id} of {removal.kept_source}, {removal.share:.0%} of the shorter text"
            facts.append(("shares text with", found))
        elif removal.kept_id is not None:
            alike = "" if removal.jaccard is None else f", Jaccard {removal.jaccard:.3f}"
            test = removal.step == "decontaminate"
            name, of = ("shares text with", "of") if test else ("kept instead", "of source")
            facts.append((name, f"{removal.kept_id} {of} {removal.kept_source}{alike}"))
        facts.append(("what would keep it", explanation.advice))
    else:
        facts.append(
            ("outcome", "not in the corpus, and the ledger does not say why: its id may be that of several documents")
        )
    passages = [entry for entry in explanation.entries if entry.unit == "passage"]
    if passages:
        facts.append(("passages removed", _passages(passages)))
    changed = [f"{entry.step} ({entry.reason})" for entry in explanation.entries if entry.unit == "document changed"]
    if changed:
        facts.append(("changed by", ", ".join(changed)))
    return facts


def _passages(entries: list[LedgerEntry]) -> str:
    numbers: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for entry in entries:
        numbers[f"{entry.step} {entry.reason}"] += 1
        sizes[f"{entry.step} {entry.reason}"] += entry.characters or 0
    return "; ".join(f"{name}: {count:,} ({sizes[name]:,} characters)" for name, count in numbers.items())


def _print_differences(corpus: Corpus, explanation: Explanation, *, text: bool) -> None:
    """Print where a removed duplicate differs from the kept document; with `text`, also the words."""
    from osler.core.console import count_text
    from osler.report.tables import Row, Table
    from osler.stages.corpus.explain import kept_twin, original_of
    from osler.stages.corpus.originals import differing_words

    removal = explanation.removal
    if removal is None or removal.kept_id is None:
        _print_facts([("differences", "none to show: it was not removed as a duplicate")])
        return
    cleaned = original_of(corpus, explanation).cleaned
    twin = kept_twin(corpus, removal, cleaned)
    if twin is None:
        _print_facts([("differences", "none to show: the other document was removed by a later step")])
        return
    changes = differing_words(cleaned, twin.text)
    words = sum(len(change.removed) for change in changes), sum(len(change.kept) for change in changes)
    places = count_text(len(changes), "place")
    hint = "" if text or not changes else "; --text shows them"
    if any(entry.step == "boilerplate" for entry in explanation.entries):
        hint = f", boilerplate among them{hint}"
    _print_facts(
        [
            (
                "differences",
                f"{places}: {words[0]:,} words only in it, {words[1]:,} only in the kept one{hint}",
            )
        ]
    )
    rows: list[Row] = [
        [change.place + 1, *(" ".join(side) if text else len(side) for side in (change.removed, change.kept))]
        for change in changes[:_PLACES]
    ]
    if rows:
        more = f"{len(changes) - _PLACES:,} more places" if len(changes) > _PLACES else ""
        _print([Table(["word", "removed document", "kept document"], rows, note=more)])


def _print_text(corpus: Corpus, explanation: Explanation) -> None:
    from osler.stages.corpus.explain import original_of

    if explanation.kept is not None:
        _print_columns({"text in the corpus": explanation.kept.text})
    elif explanation.removal is not None and explanation.removal.step not in ("read", "select"):
        _print_columns({"text as it was read": original_of(corpus, explanation).text})


def _warn() -> None:
    from osler.core.console import console

    console().print("This prints the text of documents. Protect it like the documents.", style="yellow")


def _screen() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, soft_wrap=True)


def _print(tables: Iterable[Table]) -> None:
    from rich.console import Console
    from rich.measure import Measurement

    from osler.report.terminal import table_rich

    usual, wide = Console().width, Console(width=10_000)
    for table in tables:
        made = table_rich(table)
        # Never break numbers and ids, however narrow the terminal.
        needed = Measurement.get(wide, wide.options, made).minimum + len(made.columns)
        Console(highlight=False, width=max(usual, needed)).print(made)


def _print_facts(facts: Iterable[tuple[str, str]]) -> None:
    from osler.report.terminal import printable

    for name, value in facts:
        _screen().print(f"{name:<19} {printable(value).replace(chr(10), '␊')}")  # an id may contain line breaks


def _print_columns(texts: dict[str, str]) -> None:
    """Print texts side by side."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    from osler.report.terminal import printable

    made = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, expand=len(texts) > 1)
    for name in texts:
        made.add_column(name, ratio=1, overflow="fold")
    made.add_row(*(Text(printable(text)) for text in texts.values()))
    Console(highlight=False).print(made)
