"""The corpus stage: raw files in, a corpus artifact out.

Three steps, each of which leaves whole files or none, so that a killed run continues where it stopped: clean every part
of the input (in parallel), mark duplicates over all of them (hashes only), write the shards (in parallel).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from functools import partial
from pathlib import Path

from osler.core.artifact import Artifact, Workspace, produce
from osler.core.errors import InputError
from osler.core.extras import require
from osler.core.files import fingerprint, remove_tree
from osler.core.logs import get_logger
from osler.core.processes import run_all
from osler.stages.corpus.card import CARD, write_card
from osler.stages.corpus.clean import clean_part
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.documents import InputFile
from osler.stages.corpus.duplicates import documents_to_keep
from osler.stages.corpus.inputs import find_inputs, names_digest
from osler.stages.corpus.ledger import LEDGER, write_ledger
from osler.stages.corpus.parts import plan_parts
from osler.stages.corpus.shards import plan_shards, write_shard
from osler.stages.corpus.statistics import Statistics
from osler.stages.corpus.tables import read_columns

log = get_logger("osler.corpus")


def plan(recipe: CorpusRecipe, out: Path) -> list[str]:
    """What a run will do, a line a step."""
    files = find_inputs(recipe.sources)
    sources = Counter(file.source_name for file in files)
    shown = ", ".join(f"{name} ({count:,})" for name, count in list(sources.items())[:8])
    more = f" and {len(sources) - 8:,} more" if len(sources) > 8 else ""
    size = sum(file.size for file in files) / 1e6
    filters = ", ".join(recipe.filters) or "none"
    repair = "repair Unicode" if recipe.unicode.repair else "leave Unicode as it is"
    copies = (
        "remove exact duplicates (the first copy stays)" if recipe.exact_duplicates == "remove" else "keep duplicates"
    )
    return [
        f"read {len(files):,} files, {size:,.1f} MB; files by source: {shown}{more}",
        f"{repair}; filters: {filters}; {copies}",
        f"write Parquet shards of about {recipe.shard_megabytes} MB of text, a ledger of removals and a card to {out}",
    ]


def run(recipe: CorpusRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the corpus at `out`, or continue or reuse the one that is there."""
    require("pyarrow", "corpus")
    files = find_inputs(recipe.sources)
    parents = {"inputs": fingerprint(file.path for file in files), "names": names_digest(files)}
    return produce(
        out, kind="corpus", recipe=recipe, parents=parents, build=partial(_build, recipe, files), force=force
    )


def _build(recipe: CorpusRecipe, files: list[InputFile], workspace: Workspace) -> None:
    began = time.monotonic()
    folder = workspace.path / "parts"
    if not (workspace.path / CARD).exists():
        parts = plan_parts(files, recipe, folder)
        run_all(clean_part, parts, workers=recipe.workers, label="corpus: clean")
        keep = documents_to_keep([part.kept for part in parts], recipe.exact_duplicates == "remove")
        statistics = Statistics(list(dict.fromkeys(file.source_name for file in files)))
        for part, mask in zip(parts, keep, strict=True):
            statistics.add_part(part, mask)
        _refuse_empty(statistics, files)
        sizes = [read_columns(part.kept, "bytes")["bytes"].to_numpy() for part in parts]
        shards = plan_shards(parts, keep, sizes, workspace.path / "shards", recipe.shard_megabytes * 1_000_000)
        run_all(write_shard, shards, workers=recipe.workers, label="corpus: write")
        write_ledger(workspace.path / LEDGER, parts, keep)
        write_card(workspace.path, statistics, files, recipe, len(shards))
    remove_tree(folder)
    for left in workspace.path.rglob(".*.tmp"):  # half a file, from a run that was killed while it wrote
        left.unlink()
    card = json.loads((workspace.path / CARD).read_text(encoding="utf-8"))
    removed = sum(card["removed"].values())
    workspace.counts.update(
        documents=card["documents"],
        words=card["words"],
        characters=card["characters"],
        read=card["read"],
        removed=removed,
    )
    seconds = round(time.monotonic() - began, 3)
    log.event("corpus.done", documents=card["documents"], words=card["words"], removed=removed, seconds=seconds)


def _refuse_empty(statistics: Statistics, files: list[InputFile]) -> None:
    if statistics.total.documents:
        return
    place = files[0].path if len(files) == 1 else f"{files[0].path} and {len(files) - 1:,} more files"
    if not statistics.total.read:
        raise InputError("the input holds no document", where=place, fix="Give files with text")
    reasons = ", ".join(f"{reason} ({count:,})" for reason, count in sorted(statistics.total.removed.items()))
    raise InputError(
        f"no document is left of {statistics.total.read:,}: {reasons}",
        where=place,
        fix="Loosen the option that each reason names, or give other files",
    )
