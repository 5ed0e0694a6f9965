"""Remove documents with words from a list."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pydantic import Field

from osler.stages.corpus.documents import RepairedDocument
from osler.stages.corpus.filters import Filter
from osler.text.characters import other_characters
from osler.text.terms import read_terms

_ASCII_WORDS = bytes(code | 32 if chr(code).isupper() else code if chr(code).isalnum() else 32 for code in range(128))
_WORDS = _ASCII_WORDS + bytes(range(128, 256))


class BlockedWords(Filter):
    """Words and phrases that a document must not have."""

    file: str
    """Text file in UTF-8 with one word or phrase per line; lines that begin with # are comments. Case does not count."""
    max_count: int = Field(0, ge=0)
    """Maximum number of different words and phrases of the list in a document."""

    def identity(self) -> dict[str, Any]:
        """Return the identity, with the words instead of the path of their file."""
        return {**super().identity(), "file": _blocked(self.file).digest}

    def check(self) -> None:
        _blocked(self.file)

    def reason(self, document: RepairedDocument) -> str | None:
        blocked = _blocked(self.file)
        words = _words(document.text)
        different = frozenset(words)
        found = len(different & blocked.words)
        possible = [phrase for phrase in blocked.phrases if different.issuperset(phrase.split())]
        if possible:
            text = b" %b " % b" ".join(words)
            found += sum(b" %b " % phrase in text for phrase in possible)
        return "max_count" if found > self.max_count else None


def _words(text: str) -> list[bytes]:
    """Return the words of a text in lower case, as UTF-8. Far faster than a regular expression."""
    for character in other_characters(text):
        if not character.isalnum():
            text = text.replace(character, " ")
        elif character.isupper():
            text = text.replace(character, character.lower())
    return text.encode("utf-8", "replace").translate(_WORDS).split()


@dataclass(frozen=True)
class _Blocked:
    words: frozenset[bytes]
    phrases: tuple[bytes, ...]
    """Phrases with one space between their words."""
    digest: str


def _blocked(file: str) -> _Blocked:
    """Read a list once per process, and again if it has changed."""
    try:
        status = Path(file).stat()
    except OSError:
        return _read(Path(file), 0, 0)  # which raises the error
    return _read(Path(file), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=8)
def _read(path: Path, size: int, changed: int) -> _Blocked:
    listed = sorted({b" ".join(_words(line)) for line in read_terms(path)} - {b""})
    return _Blocked(
        words=frozenset(entry for entry in listed if b" " not in entry),
        phrases=tuple(entry for entry in listed if b" " in entry),
        digest=blake2b(b"\n".join(listed), digest_size=16).hexdigest(),
    )
