"""Raw text for the corpus stage: notes and abstracts, mixed with the defects of real collections.

The defect of record k depends only on language, seed and k (`raw_kind`), so tests can count the defects.
"""

from __future__ import annotations

from collections.abc import Iterator

from osler.clinic.dice import Dice
from osler.clinic.labels import LANGUAGES, Language, check_choice
from osler.clinic.lexicon import table
from osler.clinic.notes import abstract, note
from osler.core.seeding import derive

KINDS = {
    "note": 46,
    "abstract": 26,
    "duplicate": 7,
    "near-duplicate": 4,
    "mojibake": 5,
    "junk": 4,
    "control": 3,
    "boilerplate": 3,
    "foreign": 2,
}
"""Kinds of records with their share in percent: clean, copied, broken, worthless, or in the other language."""

_CLEAN = ("note", "abstract")
_TYPOGRAPHY = str.maketrans({"'": "\u2019", '"': "\u201d", "-": "\u2013"})
_CONTROLS = ("\x07", "\x0b", "\x1b", "\x7f", "\u200b", "\ufeff", "\u00ad")


def raw_texts(n: int, language: Language, seed: int) -> Iterator[dict[str, str]]:
    """The first `n` records, each with `id`, `text` and `source`; record k does not depend on n."""
    check_choice(language, "train")
    for number in range(n):
        source, text = _record(number, language, seed)
        yield {"id": f"{language}-raw-{number:07}", "text": text, "source": source}


def raw_kind(number: int, language: Language, seed: int) -> str:
    """The kind of record `number`: one of KINDS."""
    dice = Dice(seed, "raw-kind", language, number)
    kind = dice.weighted(list(KINDS), list(KINDS.values()))
    # The first records are clean, so every copy has an original before it.
    return kind if number > 3 or kind in _CLEAN else "note"


def raw_original(number: int, language: Language, seed: int) -> int:
    """The earlier clean record that a copy copies."""
    dice = Dice(seed, "raw-original", language, number)
    earlier = (dice.between(0, number - 1) for _ in range(40))
    return next((original for original in earlier if raw_kind(original, language, seed) in _CLEAN), 0)


def _record(number: int, language: Language, seed: int) -> tuple[str, str]:
    kind = raw_kind(number, language, seed)
    dice = Dice(seed, "raw", language, number)
    if kind in ("duplicate", "near-duplicate"):
        source, text = _record(raw_original(number, language, seed), language, seed)
        return source, text if kind == "duplicate" else _retouched(text, dice)
    if kind == "junk":
        return "web", dice.pick(table(language, "abstracts")["junk"])
    if kind == "boilerplate":
        line: str = dice.pick(table(language, "abstracts")["boilerplate"])
        return "web", "\n".join([line] * dice.between(6, 30))
    if kind == "foreign":
        other = next(candidate for candidate in LANGUAGES if candidate != language)
        return _clean("note", number, other, seed)
    source, text = _clean(kind if kind in _CLEAN else dice.pick(_CLEAN), number, language, seed)
    if kind == "mojibake":
        # No-break spaces give English text something to break too.
        text = mojibake(text.translate(_TYPOGRAPHY).replace(" ", "\u00a0", 3), twice=dice.chance(0.15))
    elif kind == "control":
        offsets = sorted((dice.between(0, len(text)) for _ in range(12)), reverse=True)
        for offset, character in zip(offsets, reversed([dice.pick(_CONTROLS) for _ in offsets]), strict=True):
            text = text[:offset] + character + text[offset:]
    return source, text


def _clean(kind: str, number: int, language: Language, seed: int) -> tuple[str, str]:
    # Another seed, so a model is not pretrained on the texts of a task.
    seed = derive(seed, "raw")
    if kind == "note":
        return "notes", note(number, language=language, seed=seed, split="train").text
    return "abstracts", abstract(number, language=language, seed=seed, split="train").text


def mojibake(text: str, *, twice: bool = False) -> str:
    """Read UTF-8 as Windows-1252, once or twice, as old systems do. Bytes without a character there stay as they are."""
    for _ in range(2 if twice else 1):
        decoded = (bytes((byte,)).decode("cp1252", "ignore") or chr(byte) for byte in text.encode("utf-8"))
        text = "".join(decoded)
    return text


def _retouched(text: str, dice: Dice) -> str:
    """Drop one line and add another at the end, as in a copied note."""
    lines = text.rstrip("\n").split("\n")
    if len(lines) > 4:
        lines.pop(dice.between(1, len(lines) - 2))
    return "\n".join([*lines, f"[{dice.between(2, 9)}] {dice.between(10, 23)}:{dice.between(10, 59)}"]) + "\n"
