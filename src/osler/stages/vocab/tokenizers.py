"""Load tokenizers of any origin, split words with them, and show the sub-words in readable form."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from tokenizers import Encoding, Tokenizer

from osler.artifacts.tokenizer import TOKENIZER, read_tokenizer_json
from osler.artifacts.tokenizer_files import states_casing
from osler.core.errors import InputError, RecipeError
from osler.core.extras import available, require
from osler.text.subwords import SubwordTokenizer, SubwordVocabulary

# Files of folders without a tokenizer.json; transformers can make a tokenizer from these.
_OTHER_FILES = (
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
    "sentencepiece.model",
)


@dataclass(frozen=True)
class LoadedTokenizer:
    """A tokenizer and its name in a comparison."""

    name: str
    tokenizer: Tokenizer

    @property
    def digest(self) -> str:
        """Hash of everything that decides how it splits text."""
        return hashlib.sha256(self.tokenizer.to_str().encode()).hexdigest()

    @cached_property
    def cutter(self) -> Cutter:
        return Cutter(self.tokenizer)


def load_all(paths: Sequence[Path]) -> list[LoadedTokenizer]:
    """Load tokenizers and name each by the shortest unique suffix of its path."""
    folders = [path.expanduser().resolve() for path in paths]
    folders = [folder.parent if folder.name == TOKENIZER else folder for folder in folders]
    loaded = []
    for number, (path, folder) in enumerate(zip(paths, folders, strict=True)):
        if folder in folders[:number]:
            raise RecipeError("the same tokenizer is given twice", where=path, fix="Give different tokenizers")
        others = [other for other in folders if other != folder]
        tails = ((_tail(folder, n), {_tail(other, n) for other in others}) for n in range(1, len(folder.parts)))
        name = next((tail for tail, taken in tails if tail not in taken), str(folder))
        loaded.append(LoadedTokenizer(name, _load(path.expanduser())))
    return loaded


def _tail(folder: Path, length: int) -> str:
    return "/".join(folder.parts[-length:]).removesuffix(".json")


def _load(path: Path) -> Tokenizer:
    if not path.exists():
        raise InputError("no such tokenizer", where=path, fix="Give a tokenizer folder, or a tokenizer.json file")
    file = path / TOKENIZER if path.is_dir() else path
    if file.is_file():
        return read_tokenizer_json(file)
    if not any((path / name).is_file() for name in _OTHER_FILES):
        raise InputError(
            f"no {TOKENIZER} in this folder",
            where=path,
            fix="Give a Hugging Face tokenizer folder, or train one: osler vocab",
        )
    if (path / "vocab.txt").is_file() and not states_casing(path):
        # transformers would silently lower-case it, which is wrong for a cased model.
        raise InputError(
            "no file says whether this tokenizer is cased",
            where=path,
            fix=f"Convert the model first: osler convert-model {path} --out DIR",
        )
    if not available("transformers"):
        raise InputError(
            f"the folder has no {TOKENIZER}, and transformers, which could make one, is not installed",
            where=path,
            fix='Install it with: pip install "osler[train]"',
        )
    auto: Any = require("transformers", "train").AutoTokenizer
    try:
        stock = auto.from_pretrained(str(path), local_files_only=True, trust_remote_code=False)
        made: Tokenizer = stock.backend_tokenizer
    except Exception as error:  # every tokenizer class fails in its own way
        raise InputError(
            "transformers cannot load this tokenizer",
            where=path,
            fix=f"Save it with save_pretrained, so that the folder has a {TOKENIZER}",
        ) from error
    return made


JOINT = "·"
"""Separator between two sub-words of a word."""
# A word and a space in front of every word: some tokenizers treat the first word of a text differently, and some put a mark
# before a text. After another word, all of them split as in running text.
_LEAD = "a "
_BATCH = 20_000


@dataclass(frozen=True, slots=True)
class Cut:
    """The number of sub-words of a word, and whether any part of it is unknown."""

    subwords: int
    unknown: bool

    @property
    def whole(self) -> bool:
        return self.subwords == 1 and not self.unknown


@dataclass(frozen=True, slots=True)
class Subword:
    """A token and its characters, counted from the start of the word; `start` may lie before it."""

    id: int
    token: str
    start: int
    end: int


class Cutter:
    """Splits words with one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        # A copy: SubwordTokenizer turns off padding and truncation, which would change every count.
        self._subwords = SubwordTokenizer(Tokenizer.from_str(tokenizer.to_str()))
        self.vocabulary = SubwordVocabulary(self._subwords.tokenizer)
        model = self.vocabulary.model
        # Only the model's own unknown token counts: one that is merely among the special tokens is never produced.
        self.unknown_id: int | None = model.get("unk_id")
        if self.unknown_id is None and model.get("unk_token") is not None:
            self.unknown_id = self.vocabulary.ids.get(model["unk_token"])

    @property
    def unknown_token(self) -> str | None:
        return None if self.unknown_id is None else self._subwords.tokenizer.id_to_token(self.unknown_id)

    def cuts(self, words: Iterable[str]) -> dict[str, Cut]:
        """Count the sub-words of every word."""
        found = {}
        for word, encoding in self._encode(words):
            ids = [number for number, (_, end) in zip(encoding.ids, encoding.offsets, strict=True) if end >= len(_LEAD)]
            found[word] = Cut(len(ids), not ids or self.unknown_id in ids or self._loses_letters(word, encoding))
        return found

    def subwords(self, words: Iterable[str]) -> dict[str, tuple[Subword, ...]]:
        shift = len(_LEAD)
        return {
            word: tuple(
                Subword(number, token, start - shift, end - shift)
                for number, token, (start, end) in zip(encoding.ids, encoding.tokens, encoding.offsets, strict=True)
                if end >= shift
            )
            for word, encoding in self._encode(words)
        }

    def _encode(self, words: Iterable[str]) -> Iterator[tuple[str, Encoding]]:
        rest = iter(words)
        while batch := list(islice(rest, _BATCH)):
            yield from zip(batch, self._subwords.encode([_LEAD + word for word in batch]), strict=True)

    def _loses_letters(self, word: str, encoding: Encoding) -> bool:
        """Whether a tokenizer without an unknown token drops a letter, as BPE over characters does."""
        if self.unknown_id is not None:
            return False
        covered = {offset for start, end in encoding.offsets for offset in range(start, end)}
        return any(letter.isalpha() and offset not in covered for offset, letter in enumerate(word, len(_LEAD)))

    def readable(self, subwords: Sequence[Subword]) -> list[str]:
        """Show the sub-words of a word without the space before it.

        Where a character's bytes are split, each side shows the character with the number of its part: `í₁`, `í₂`.
        """
        parts = [self.vocabulary.text(subword.token) for subword in subwords]
        # A byte that is not part of a character becomes a lone surrogate, so bytes can still be counted.
        text = b"".join(parts).decode("utf-8", "surrogateescape")
        shown = [""] * len(parts)
        owner = [number for number, part in enumerate(parts) for _ in part]
        offset = 0
        for character in text:
            size = len(character.encode("utf-8", "surrogateescape"))
            owners = list(dict.fromkeys(owner[offset : offset + size]))
            code = ord(character)
            written = f"⟨{code - 0xDC00:02x}⟩" if 0xDC80 <= code <= 0xDCFF else character
            for number, part in enumerate(owners, 1):
                shown[part] += written + (chr(0x2080 + number) if len(owners) > 1 else "")
            offset += size
        return [part.lstrip(" ") or part.replace(" ", "▁") for part in shown]

    def shown(self, term: str, subwords: Sequence[Subword]) -> str:
        """Show a term of one or more words with a joint between sub-words: `insuf·iciencia cardí·aca`."""
        result, before = "", 0
        for subword, text in zip(subwords, self.readable(subwords), strict=True):
            # The space may be part of the sub-word, or lie between it and the one before.
            gap = term[before : max(before, subword.end)]
            joint = " " if gap[:1].isspace() else JOINT
            result += (joint if result else "") + text
            before = max(before, subword.end)
        return result
