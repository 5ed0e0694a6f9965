"""Remove lines that a document repeats."""

from __future__ import annotations

from pydantic import Field

from osler.stages.corpus.rewriters import Removal, Rewriter, Rewritten


class RepeatedLines(Rewriter):
    """Keeps the first copy of a line. carrino2022's cleaner removes every copy of a repeated sentence, the first one too."""

    min_characters: int = Field(20, ge=1)
    """Shorter lines may repeat: headings, "negative", units."""

    def rewrite(self, text: str, language: str | None) -> Rewritten:
        lines = text.split("\n")
        if len(set(lines)) == len(lines):
            return Rewritten(text)
        kept: list[str] = []
        removed: list[Removal] = []
        seen: set[str] = set()
        for line in lines:
            words = line.strip()
            if len(words) >= self.min_characters:
                if words in seen:
                    removed.append(Removal("min_characters", len(line)))
                    continue
                seen.add(words)
            kept.append(line)
        return Rewritten("\n".join(kept), tuple(removed))
