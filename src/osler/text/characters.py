"""Count kinds of characters without a loop over the text: bytes for ASCII, a table of counts for the few others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType

_ASCII = bytes(range(128))
_SENTENCE = 500  # a shorter text has too few non-ASCII characters for a table of them to pay off


class CharacterKind:
    """The characters that pass a test. `ascii_only` promises that only ASCII characters do."""

    def __init__(self, test: Callable[[str], bool], ascii_only: bool = False) -> None:
        self._test = test
        self._ascii_only = ascii_only
        self._ascii = bytes(code for code in _ASCII if test(chr(code)))

    def count(self, text: str) -> int:
        """How many characters of the text are of this kind."""
        data = text.encode("utf-8", "surrogatepass")
        found = len(data) - len(data.translate(None, self._ascii))
        if self._ascii_only or text.isascii():
            return found
        if len(text) < _SENTENCE:
            return found + sum(map(self._test, _others(text)))
        return found + sum(number for character, number in other_characters(text).items() if self._test(character))


@lru_cache(maxsize=1)  # several steps ask about the same document in turn
def other_characters(text: str) -> Mapping[str, int]:
    """How often each character outside ASCII occurs."""
    return MappingProxyType({} if text.isascii() else Counter(_others(text)))


def _others(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")


DIGITS = CharacterKind(str.isdigit)
UPPER = CharacterKind(str.isupper)
ALPHANUMERIC = CharacterKind(str.isalnum)
SPACES = CharacterKind(str.isspace)
