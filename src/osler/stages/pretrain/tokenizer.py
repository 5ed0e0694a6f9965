"""The tokenizer beside an exported model."""

from __future__ import annotations

import json
import math
from pathlib import Path

from osler.core.files import write_json
from osler.tasks.tokens import copy_tokenizer


def write_tokenizer(source: Path, target: Path, room: int) -> None:
    """Copy the tokenizer, which says how long a text may be: no longer than the model reads, or stock pipelines break on it."""
    copy_tokenizer(source, target)
    path = target / "tokenizer_config.json"
    if not path.is_file():
        return
    settings = json.loads(path.read_text(encoding="utf-8"))
    if settings.get("model_max_length", math.inf) > room:
        write_json(path, settings | {"model_max_length": room})
