"""The pages of the documentation and their code blocks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(DOCS.glob("*.md")),
    *sorted(DOCS.glob("tutorials/*.md")),
    *sorted(DOCS.glob("guide/*.md")),
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED_FILE = re.compile(r"`([\w./-]+\.\w+)`:\s*\Z")


class Block(NamedTuple):
    """A code block of a page."""

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
    """The code blocks in some languages (none: in all), of all pages or of one."""
    found = []
    for one in [page] if page else PAGES:
        text = one.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            if not languages or match[1] in languages:
                named = _NAMED_FILE.search(text[: match.start()])
                line = text[: match.start()].count("\n") + 2
                found.append(Block(one, line, match[1], match[2], named[1] if named else None))
    return found
