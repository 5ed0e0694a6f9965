"""Tokenizers of any origin: load them, cut words, show entries as people read them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osler.core.errors import InputError, RecipeError
from osler.core.extras import available, require
from osler.text.subwords import byte_alphabet, part_types, tokenizer_parts

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

_FILE = "tokenizer.json"
# What a folder of another layout may hold; transformers makes a tokenizer of these.
_OTHER = (
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
    "sentencepiece.model",
)


@dataclass(frozen=True)
class LoadedTokenizer:
    """A tokenizer and what it is called here."""

    name: str
    tokenizer: Tokenizer

    @property
    def digest(self) -> str:
        """A hash of all that decides how it cuts."""
        return hashlib.sha256(self.tokenizer.to_str().encode()).hexdigest()


def load_all(paths: Sequence[Path]) -> list[LoadedTokenizer]:
    """Load every tokenizer; the same one twice is a slip of the pen."""
    places = [_place(path) for path in paths]
    for number, place in enumerate(places):
        if place in places[:number]:
            raise RecipeError("the same tokenizer is given twice", where=paths[number], fix="Name different ones")
    return [LoadedTokenizer(name, _load(path)) for name, path in zip(_names(places), paths, strict=True)]


def _place(path: Path) -> Path:
    """The folder of a tokenizer; that of a file with another name is the file itself."""
    resolved = path.expanduser().resolve()
    return resolved.parent if resolved.name == _FILE else resolved


def _names(places: Sequence[Path]) -> list[str]:
    """The last parts of every path, as few as tell it from all others."""
    names = []
    for place in places:
        others = [other for other in places if other != place]
        tails = (
            (_tail(place, length), {_tail(other, length) for other in others}) for length in range(1, len(place.parts))
        )
        names.append(next((tail for tail, taken in tails if tail not in taken), str(place)))
    return names


def _tail(place: Path, length: int) -> str:
    return "/".join(place.parts[-length:]).removesuffix(".json")


def _load(path: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    path = path.expanduser()
    if not path.exists():
        raise InputError("no such tokenizer", where=path, fix="Give a tokenizer folder, or a tokenizer.json file")
    file = path / _FILE if path.is_dir() else path
    if not file.is_file():
        return _from_other_files(path)
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises plain Exception
        raise InputError(
            "this is not the description of a tokenizer", where=file, fix="Give a tokenizer.json of Hugging Face"
        ) from error


def _from_other_files(folder: Path) -> Tokenizer:
    """Let transformers make a tokenizer of a folder that has no tokenizer.json."""
    if not any((folder / name).is_file() for name in _OTHER):
        raise InputError(
            f"no {_FILE} in this folder",
            where=folder,
            fix="Give a Hugging Face tokenizer folder, or make one: osler vocab",
        )
    if not available("transformers"):
        raise InputError(
            f"the folder has no {_FILE}, and transformers, which could make one, is not installed",
            where=folder,
            fix='Install it with: pip install "osler[train]"',
        )
    auto: Any = require("transformers", "train").AutoTokenizer
    try:
        stock = auto.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
        made: Tokenizer = stock.backend_tokenizer
    except Exception as error:  # every tokenizer class has its own ways to fail
        raise InputError(
            "transformers cannot load this tokenizer",
            where=folder,
            fix=f"Save it with save_pretrained, so that the folder has a {_FILE}",
        ) from error
    return made


# A word and a blank before the word that is asked about: some tokenizers treat the first word of a text in their own way,
# some put a mark before a text and some do not. Behind another word all of them do what they do in running text.
_LEAD = "a "
_BATCH = 20_000


@dataclass(frozen=True, slots=True)
class Cut:
    """How often a word is cut, and whether some of it is unknown."""

    pieces: int
    unknown: bool

    @property
    def whole(self) -> bool:
        """One piece, and that not the one for what is unknown."""
        return self.pieces == 1 and not self.unknown


@dataclass(frozen=True, slots=True)
class Subword:
    """A token with the characters it stands for, counted from the start of the word; `start` may lie before it."""

    id: int
    token: str
    start: int
    end: int


class Cutter:
    """Cuts words with one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        # A copy: a tokenizer.json may state padding and truncation, which would falsify every count.
        self.tokenizer: Tokenizer = type(tokenizer).from_str(tokenizer.to_str())
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.description: dict[str, Any] = json.loads(self.tokenizer.to_str())
        self.model: dict[str, Any] = self.description["model"]
        self.unknown_id = _unknown_id(self.model, self.tokenizer)

    @property
    def unknown_token(self) -> str | None:
        """The token for what the tokenizer does not know; None where it has none."""
        return None if self.unknown_id is None else self.tokenizer.id_to_token(self.unknown_id)

    def cuts(self, words: Iterable[str]) -> dict[str, Cut]:
        """How every word is cut."""
        found = {}
        for word, encoding in self._encode(words):
            ids = [number for number, (_, end) in zip(encoding.ids, encoding.offsets, strict=True) if end >= len(_LEAD)]
            found[word] = Cut(len(ids), not ids or self.unknown_id in ids or self._loses(word, encoding))
        return found

    def pieces(self, words: Iterable[str]) -> dict[str, tuple[Subword, ...]]:
        """The pieces of every word."""
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
            encodings: Sequence[Encoding] = self.tokenizer.encode_batch(
                [_LEAD + word for word in batch], add_special_tokens=False
            )
            yield from zip(batch, encodings, strict=True)

    def _loses(self, word: str, encoding: Encoding) -> bool:
        """Whether a tokenizer without an unknown token leaves a letter out: BPE over characters drops what it lacks."""
        if self.unknown_id is not None:
            return False
        covered = {place for start, end in encoding.offsets for place in range(start, end)}
        return any(letter.isalpha() and place not in covered for place, letter in enumerate(word, len(_LEAD)))


def _unknown_id(model: dict[str, Any], tokenizer: Tokenizer) -> int | None:
    """The model's own unknown token; one that is only named beside it is never put into a text."""
    if model.get("unk_id") is not None:  # Unigram
        return int(model["unk_id"])
    token = model.get("unk_token")
    return None if token is None else tokenizer.token_to_id(token)


JOINT = "·"
"""Stands between two pieces of one word."""
_META = "▁"
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True)
class EntryStyle:
    """How a tokenizer writes its tokens."""

    byte_level: bool = False
    byte_fallback: bool = False
    blank: str = ""
    """The mark of a blank, at the head of a token that begins a word; "" where there is none."""
    prefix: str = ""
    """The mark of a token that goes on a word."""
    suffix: str = ""
    """The mark of a token that ends a word."""

    @classmethod
    def of(cls, cutter: Cutter) -> EntryStyle:
        """Read from the tokenizer's description."""
        kinds = part_types(cutter.description)
        prefix = cutter.model.get("continuing_subword_prefix") or ""
        marks = [part["replacement"] for part in tokenizer_parts(cutter.description) if part.get("type") == "Metaspace"]
        replaced = [
            part["content"]
            for part in tokenizer_parts(cutter.description.get("normalizer"))
            if part.get("type") == "Replace"
        ]
        if not marks and _META in replaced:
            marks = [_META]
        return cls(
            byte_level="ByteLevel" in kinds,
            byte_fallback=bool(cutter.model.get("byte_fallback")),
            blank=marks[0] if marks else "",
            prefix=prefix,
            suffix=cutter.model.get("end_of_word_suffix") or "",
        )

    def data(self, token: str) -> bytes:
        """The UTF-8 bytes a token stands for, without the marks of beginning and going on; a blank stays a blank."""
        if self.byte_fallback and (found := _BYTE.fullmatch(token)):
            return bytes.fromhex(found[1])
        if self.byte_level:
            table = byte_alphabet()
            if all(letter in table for letter in token):
                return bytes(table[letter] for letter in token)
        text = token
        if self.prefix:
            text = text.removeprefix(self.prefix)
        if self.suffix:
            text = text.removesuffix(self.suffix)
        if self.blank:
            text = text.replace(self.blank, " ")
        return text.encode()

    def entry(self, token: str) -> tuple[bool, bytes]:
        """A token in a form that can be compared between kinds: whether it goes on a word, and its bytes."""
        data = self.data(token)
        if self.byte_level or self.blank:
            return not data.startswith(b" "), data.removeprefix(b" ")
        if self.prefix:
            return token.startswith(self.prefix), data
        return False, data

    def readable(self, tokens: Iterable[str]) -> list[str]:
        """The tokens of one word for a reader, without blanks before them.

        Where a cut goes through the bytes of a character, each side shows the character with the number of its part: `í₁`, `í₂`.
        """
        parts = [self.data(token) for token in tokens]
        # A byte of no character becomes a lone surrogate, so that nothing is lost and bytes can be counted.
        text = b"".join(parts).decode("utf-8", "surrogateescape")
        shown = [""] * len(parts)
        owner = [number for number, part in enumerate(parts) for _ in part]
        place = 0
        for character in text:
            size = len(character.encode("utf-8", "surrogateescape"))
            owners = list(dict.fromkeys(owner[place : place + size]))
            for number, piece in enumerate(owners, 1):
                shown[piece] += _written(character) + (chr(0x2080 + number) if len(owners) > 1 else "")
            place += size
        return [piece.lstrip(" ") or piece.replace(" ", _META) for piece in shown]

    def shown(self, word: str, pieces: Sequence[Subword]) -> str:
        """A word or several with a joint at every cut: `insuf·iciencia cardí·aca`."""
        result, before = "", 0
        for piece, text in zip(pieces, self.readable(piece.token for piece in pieces), strict=True):
            # The blank may belong to the piece, or lie between it and the one before.
            gap = word[before : max(before, piece.end)]
            joint = " " if gap[:1].isspace() else JOINT
            result += (joint if result else "") + text
            before = max(before, piece.end)
        return result


def _written(character: str) -> str:
    """The character itself; a byte of none in hexadecimal."""
    code = ord(character)
    return f"⟨{code - 0xDC00:02x}⟩" if 0xDC80 <= code <= 0xDCFF else character
