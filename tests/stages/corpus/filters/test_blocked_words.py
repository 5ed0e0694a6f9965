from __future__ import annotations

from pathlib import Path

import pytest

from osler.core.errors import InputError
from osler.stages.corpus.documents import RepairedDocument
from osler.stages.corpus.filters.blocked_words import BlockedWords


@pytest.fixture
def words(tmp_path: Path) -> str:
    path = tmp_path / "blocked.txt"
    path.write_text("# web spam\nCasino\ncryptomoneda Éxito\nbonus code\n\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("text", "blocked"),
    [
        ("Visit the “CASINO”!", True),
        ("casinos and casinoless", False),
        ("la Cryptomoneda, ÉXITO", True),
        ("éxito de la cryptomoneda", False),
        ("a bonus\ncode", True),
        ("a code, a bonus", False),
        ("plain text", False),
    ],
)
def test_whole_words_and_phrases_in_any_case(words: str, text: str, blocked: bool) -> None:
    reason = BlockedWords(file=words).reason(RepairedDocument(text, len(text.split()), None))
    assert reason == ("max_count" if blocked else None)


def test_some_words_may_be_allowed(words: str) -> None:
    document = RepairedDocument("casino, casino, bonus code", 4, None)
    assert BlockedWords(file=words, max_count=1).reason(document) == "max_count"
    assert BlockedWords(file=words, max_count=2).reason(document) is None


def test_identity_is_the_words_not_the_path(words: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.txt"
    copy.write_text("bonus  code\ncasino\nCryptomoneda éxito", encoding="utf-8")
    assert BlockedWords(file=words).identity() == BlockedWords(file=str(copy)).identity()
    copy.write_text("casino", encoding="utf-8")
    assert BlockedWords(file=words).identity() != BlockedWords(file=str(copy)).identity()


def test_a_list_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    document = RepairedDocument("x", 1, None)
    with pytest.raises(InputError, match="no such file"):
        BlockedWords(file=str(tmp_path / "none.txt")).reason(document)
    path = tmp_path / "empty.txt"
    path.write_text("# nothing\n")
    with pytest.raises(InputError, match="no terms"):
        BlockedWords(file=str(path)).reason(document)
    path = tmp_path / "latin.txt"
    path.write_bytes(b"\xe9xito")
    with pytest.raises(InputError, match="not UTF-8"):
        BlockedWords(file=str(path)).reason(document)
