"""The tokenizer artifact: a Hugging Face tokenizer folder."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import tokenizers

from osler.core.errors import ArtifactError
from osler.core.files import fingerprint, unconverted, write_atomic, write_json
from osler.text.subwords import SubwordTokenizer

TOKENIZER = "tokenizer.json"
_CONFIG, _SPECIAL, _STATISTICS = "tokenizer_config.json", "special_tokens_map.json", "statistics.json"

BEGIN, PAD, END, UNKNOWN, MASK = "<s>", "<pad>", "</s>", "<unk>", "<mask>"
SPECIAL_TOKENS = (BEGIN, PAD, END, UNKNOWN, MASK)
"""Special tokens of the tokenizers that osler trains, in RoBERTa's order: their ids are 0 to 4."""
ROLES = {
    "bos_token": BEGIN,
    "eos_token": END,
    "cls_token": BEGIN,
    "sep_token": END,
    "pad_token": PAD,
    "unk_token": UNKNOWN,
    "mask_token": MASK,
}
"""Special token of each role."""


class Tokenizer(SubwordTokenizer):
    """A tokenizer and the folder it comes from."""

    def __init__(self, folder: Path, tokenizer: tokenizers.Tokenizer) -> None:
        super().__init__(tokenizer)
        self.folder = folder

    @classmethod
    def open(cls, folder: str | Path) -> Tokenizer:
        """Read `tokenizer.json` of a Hugging Face folder."""
        path = Path(folder) / TOKENIZER
        if not path.is_file():
            older = unconverted(Path(folder))
            raise ArtifactError(
                f"there is no {TOKENIZER} in this folder" if Path(folder).is_dir() else "no such folder",
                where=folder,
                fix=older.fix if older else "Give the folder of a tokenizer (osler vocab train) or of a model",
            )
        return cls(Path(folder), read_tokenizer_json(path))

    @classmethod
    def write(
        cls,
        folder: Path,
        tokenizer: tokenizers.Tokenizer,
        max_length: int,
        statistics: Mapping[str, Any] | None = None,
        *,
        roles: Mapping[str, str] = MappingProxyType(ROLES),
        segments: bool = False,
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> Tokenizer:
        """Write a tokenizer as a Hugging Face folder. `segments` says whether the model reads segment ids."""
        mask = {
            "content": roles["mask_token"],
            "lstrip": roles["mask_token"] == MASK,  # RoBERTa's mask takes the space before it, BERT's does not
            "normalized": False,
            "rstrip": False,
            "single_word": False,
        }
        config = {
            # The general class reads everything from tokenizer.json, in every version of transformers.
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": max_length,
            "model_input_names": ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"],
            "clean_up_tokenization_spaces": False,
            **roles,
            "mask_token": {"__type": "AddedToken", **mask, "special": True},
            **settings,
        }
        write_atomic(folder / TOKENIZER, tokenizer.to_str(pretty=True) + "\n")
        write_json(folder / _CONFIG, config)
        write_json(folder / _SPECIAL, {**roles, "mask_token": mask})
        if statistics is not None:
            write_json(folder / _STATISTICS, statistics)
        return cls(folder, tokenizer)

    @property
    def digest(self) -> str:
        """Hash of tokenizer.json, for artifacts made with this tokenizer."""
        return fingerprint([self.folder / TOKENIZER])

    def copy_to(self, folder: Path, max_length: int | None = None) -> None:
        """Copy the files into a model's folder.

        `max_length` lowers the limit in the copy, because stock pipelines fail on texts longer than the model reads.
        """
        for name in (TOKENIZER, _CONFIG, _SPECIAL):
            if (self.folder / name).is_file():
                shutil.copyfile(self.folder / name, folder / name)
        path = folder / _CONFIG
        if max_length is None or not path.is_file():
            return
        settings = json.loads(path.read_text(encoding="utf-8"))
        if settings.get("model_max_length", math.inf) > max_length:
            write_json(path, settings | {"model_max_length": max_length})


def read_tokenizer_json(path: Path) -> tokenizers.Tokenizer:
    """Read a tokenizer.json."""
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception
        fix = "Give a Hugging Face tokenizer.json; if it is one, download it again"
        raise ArtifactError("not a valid tokenizer description", where=path, fix=fix) from error
