"""The pages of the documentation with their code blocks, and the commands at the head of recipes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
RESULTS = DOCS / "results"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(DOCS.glob("*.md")),
    *sorted(DOCS.glob("tutorials/*.md")),
    *sorted(DOCS.glob("guide/*.md")),
    # Without the pages of 2026-11-15, a record of that day: the recipes have changed since, and wada2020's now wants a pooler, which
    # the encoder of that page does not have.
    *sorted(
        page for page in RESULTS.rglob("*.md") if page.parent.name != "2026-11-15-h200" and ".about" not in page.name
    ),
]
RECIPES = [*sorted(ROOT.glob("recipes/*/*.toml")), *sorted(RESULTS.rglob("*.toml"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEAD = re.compile(r"(?:^#   osler .*\n)+", re.MULTILINE)
_NAMED_FILE = re.compile(r"`([\w./-]+\.\w+)`:\s*\Z")


class Block(NamedTuple):
    """A code block of a page, or the commands at the head of a recipe."""

    page: Path
    line: int
    language: str
    text: str
    file: str | None = None
    """The file that the reader is told to save the block as: the sentence before it ends in "`NAME`:"."""

    def __str__(self) -> str:
        page = self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page
        return f"{page}:{self.line}"


def blocks(*languages: str, page: Path | None = None) -> list[Block]:
    """The code blocks in some languages (none: in all), of all pages or of one. A recipe is a page whose commands are comments."""
    found = []
    for one in [page] if page else PAGES:
        text = one.read_text(encoding="utf-8")
        if one.suffix == ".toml":
            found += _of_recipe(one, text) if not languages or "bash" in languages else []
            continue
        for match in FENCE.finditer(text):
            if not languages or match[1] in languages:
                named = _NAMED_FILE.search(text[: match.start()])
                line = text[: match.start()].count("\n") + 2
                found.append(Block(one, line, match[1], match[2], named[1] if named else None))
    return found


def _of_recipe(recipe: Path, text: str) -> list[Block]:
    return [
        Block(recipe, text[: match.start()].count("\n") + 1, "bash", match[0].replace("#   ", ""))
        for match in _HEAD.finditer(text)
    ]
