"""Remove documents with words from a list."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pydantic import Field

from osler.core.errors import InputError
from osler.stages.corpus.documents import RepairedDocument
from osler.stages.corpus.filters import Filter
from osler.text.characters import other_characters

_ASCII_WORDS = bytes(code | 32 if chr(code).isupper() else code if chr(code).isalnum() else 32 for code in range(128))
_WORDS = _ASCII_WORDS + bytes(range(128, 256))


class BlockedWords(Filter):
    """Words and phrases that a document must not have."""

    file: str
    """Text file in UTF-8 with one word or phrase per line; lines that begin with # are comments. Case does not count."""
    max_count: int = Field(0, ge=0)
    """How many different words and phrases of the list a document may have."""

    def identity(self) -> dict[str, Any]:
        """The words count, not the place of their file."""
        return {**super().identity(), "file": _read(self.file).digest}

    def reason(self, document: RepairedDocument) -> str | None:
        blocked = _read(self.file)
        words = _words(document.text)
        different = frozenset(words)
        found = len(different & blocked.words)
        possible = [phrase for phrase in blocked.phrases if different.issuperset(phrase.split())]
        if possible:
            text = b" %b " % b" ".join(words)
            found += sum(b" %b " % phrase in text for phrase in possible)
        return "max_count" if found > self.max_count else None


def _words(text: str) -> list[bytes]:
    """The words of a text in lower case, as UTF-8. Far faster than a pattern."""
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


@lru_cache(maxsize=8)
def _read(file: str) -> _Blocked:
    try:
        lines = Path(file).read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InputError("the list of blocked words is not UTF-8", where=file, fix="Save it as UTF-8") from None
    except OSError as error:
        problem = f"the list of blocked words cannot be read: {(error.strerror or 'unknown error').lower()}"
        raise InputError(problem, where=file, fix="Correct filters.blocked_words.file") from None
    entries = (b" ".join(_words(line)) for line in lines if not line.lstrip().startswith("#"))
    listed = sorted({entry for entry in entries if entry})
    if not listed:
        raise InputError("the list of blocked words is empty", where=file, fix="Write one word or phrase per line")
    return _Blocked(
        words=frozenset(entry for entry in listed if b" " not in entry),
        phrases=tuple(entry for entry in listed if b" " in entry),
        digest=blake2b(b"\n".join(listed), digest_size=16).hexdigest(),
    )
