"""A trained tokenizer as the builders use it: sub-words with character offsets, and the special tokens around them.

Only the `tokenizers` library and the folder's tokenizer.json are needed, so building instances costs no import of transformers.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Encoding, Tokenizer

from osler.core.errors import ArtifactError

Ids = np.ndarray

_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


def copy_tokenizer(source: Path, target: Path) -> None:
    """Copy the files of a tokenizer from one Hugging Face folder to another."""
    for name in _FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)


class Tokens:
    """One tokenizer, without its stateful truncation and padding."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.prefix, self.suffix = self._specials()

    @classmethod
    def load(cls, folder: Path) -> Tokens:
        """Read `tokenizer.json` of a Hugging Face folder."""
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise ArtifactError(
                "no tokenizer.json here",
                where=folder,
                fix="Give a folder with a fast tokenizer (osler vocab makes one)",
            )
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise ArtifactError(
                "this is not the description of a tokenizer", where=path, fix="Give a tokenizer.json of Hugging Face"
            ) from error
        return cls(tokenizer)

    @property
    def overhead(self) -> int:
        """How many special tokens stand around one text."""
        return len(self.prefix) + len(self.suffix)

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Sub-words and offsets of each text, without special tokens."""
        return self.tokenizer.encode_batch(list(texts), add_special_tokens=False)

    def wrap(self, ids: Sequence[int]) -> Ids:
        """Put the special tokens of a single text around sub-words."""
        return np.array([*self.prefix, *ids, *self.suffix], dtype=np.int32)

    def pair(self, first: Encoding, second: Encoding, max_length: int) -> tuple[Ids, Ids]:
        """Ids and segment ids of two texts in this order, the longer one cut until both fit."""
        room = max_length - self.tokenizer.num_special_tokens_to_add(is_pair=True)
        keep_first, keep_second = _share(len(first.ids), len(second.ids), room)
        first.truncate(keep_first)
        second.truncate(keep_second)
        joined = self.tokenizer.post_process(first, second, add_special_tokens=True)
        return np.array(joined.ids, dtype=np.int32), np.array(joined.type_ids, dtype=np.int32)

    def _specials(self) -> tuple[list[int], list[int]]:
        # The template is found on a real token: an empty text shows the special tokens but not where the text stands.
        plain = self.tokenizer.encode("a", add_special_tokens=False).ids
        full = self.tokenizer.encode("a").ids
        if not plain:
            return full[: len(full) // 2], full[len(full) // 2 :]
        start = next(i for i in range(len(full)) if full[i : i + len(plain)] == plain)
        return full[:start], full[start + len(plain) :]


def _share(first: int, second: int, room: int) -> tuple[int, int]:
    """Cut the longer of two lengths until their sum fits."""
    if first + second <= room:
        return first, second
    half = room // 2
    if first <= half:
        return first, room - first
    if second <= half:
        return room - second, second
    return room - half, half
