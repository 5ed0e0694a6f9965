"""The tokenizer as a folder that stock Hugging Face `AutoTokenizer` loads, written without importing transformers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from osler.core.files import write_atomic, write_json
from osler.stages.vocab.special import BEGIN, END, MASK, PAD, UNKNOWN

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def write_folder(folder: Path, tokenizer: Tokenizer, max_length: int) -> None:
    """Write tokenizer.json and the two files that name its special tokens."""
    roles: dict[str, Any] = {
        "bos_token": BEGIN,
        "eos_token": END,
        "cls_token": BEGIN,
        "sep_token": END,
        "pad_token": PAD,
        "unk_token": UNKNOWN,
        "mask_token": {
            "content": MASK,
            "lstrip": True,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
        },
    }
    config = {
        # The general class: it takes everything from tokenizer.json, in every version of transformers.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        **roles,
        "mask_token": {"__type": "AddedToken", **roles["mask_token"], "special": True},
    }
    write_atomic(folder / "tokenizer.json", tokenizer.to_str(pretty=True) + "\n")
    write_json(folder / "tokenizer_config.json", config)
    write_json(folder / "special_tokens_map.json", roles)
