"""The card of a corpus: `card.json` for programs, `README.md` for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from osler.core.files import write_atomic, write_json
from osler.stages.corpus.config import CorpusRecipe, Source
from osler.stages.corpus.documents import InputFile
from osler.stages.corpus.statistics import Statistics

CARD = "card.json"


def write_card(
    folder: Path, statistics: Statistics, files: Sequence[InputFile], recipe: CorpusRecipe, shards: int
) -> dict[str, Any]:
    """Write both cards, the machine's last: it marks the corpus as complete."""
    card: dict[str, Any] = {"shards": shards, **statistics.plain()}
    for name, facts in card["sources"].items():
        origin = _source_of(name, files, recipe)
        facts["language"], facts["licence"], facts["weight"] = origin.language, origin.licence, origin.weight
    write_atomic(folder / "README.md", _readme(card, recipe))
    write_json(folder / CARD, card)
    return card


def _source_of(name: str, files: Sequence[InputFile], recipe: CorpusRecipe) -> Source:
    return recipe.sources[next(file.source for file in files if file.source_name == name)]


def _readme(card: dict[str, Any], recipe: CorpusRecipe) -> str:
    removed = sum(card["removed"].values())
    shards = "shard" if card["shards"] == 1 else "shards"
    filters = [f"`{name}` ({_options(judge.resolved())})" for name, judge in recipe.filters.items()]
    lines = [
        "# Corpus card",
        "",
        f"{card['documents']:,} documents, {card['words']:,} words, {card['characters']:,} characters "
        f"in {card['shards']:,} Parquet {shards} (`shards/`, columns `id`, `text`, `source`, `language`).",
        "",
        f"Of {card['read']:,} documents read, {removed:,} were removed; `ledger.parquet` lists each with its reason.",
        "",
        "## Sources",
        "",
        *_table(
            ["source", "language", "licence", "read", "kept", "words", "repaired", "weight"],
            [
                [
                    name,
                    facts["language"] or "not stated",
                    facts["licence"] or "not stated",
                    *(f"{facts[key]:,}" for key in ("read", "documents", "words", "repaired")),
                    f"{facts['weight']:g}",
                ]
                for name, facts in card["sources"].items()
            ],
        ),
        "",
        "## Removed",
        "",
        *(
            _table(
                ["reason", "documents"], [[f"`{reason}`", f"{count:,}"] for reason, count in card["removed"].items()]
            )
            if removed
            else ["Nothing was removed."]
        ),
        "",
        "## Length of documents",
        "",
        *_table(
            ["words", "documents"],
            [
                [f"{int(low):,} to {2 * int(low) - 1:,}", f"{count:,}"]
                for low, count in card["words_per_document"].items()
            ],
        ),
        "",
        "## How it was made",
        "",
        f"- Unicode repair: {_repair(recipe)}",
        f"- Filters: {', '.join(filters) or 'none'}",
        f"- Exact duplicates: {'first copy kept' if recipe.exact_duplicates == 'remove' else 'all copies kept'}",
        "- A word is what stands between blanks.",
        "",
    ]
    return "\n".join(lines)


def _repair(recipe: CorpusRecipe) -> str:
    if not recipe.unicode.repair:
        return "off"
    entities = ", HTML entities resolved" if recipe.unicode.html_entities else ""
    return f"mojibake undone, control characters dropped, line ends unified{entities}, NFC"


def _options(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [_row(header), _row(["---"] * len(header)), *(_row(row) for row in rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
