"""Tokenizers of any origin, with short names that tell them apart."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osler.core.errors import InputError, RecipeError
from osler.core.extras import available, require

if TYPE_CHECKING:
    from tokenizers import Tokenizer

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
class Loaded:
    """A tokenizer and what it is called here."""

    name: str
    tokenizer: Tokenizer

    @property
    def digest(self) -> str:
        """A hash of all that decides how it cuts."""
        return hashlib.sha256(self.tokenizer.to_str().encode()).hexdigest()


def load_all(paths: Sequence[Path]) -> list[Loaded]:
    """Load every tokenizer; the same one twice is a slip of the pen."""
    places = [_place(path) for path in paths]
    for number, place in enumerate(places):
        if place in places[:number]:
            raise RecipeError("the same tokenizer is given twice", where=paths[number], fix="Name different ones")
    return [Loaded(name, _load(path)) for name, path in zip(_names(places), paths, strict=True)]


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
