"""What masked language modelling needs to know of a tokenizer."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import Tokenizer

from osler.core.errors import ArtifactError
from osler.tasks.mlm.words import WordTable, word_table
from osler.tasks.tokens import Tokens


@dataclass(frozen=True)
class Vocabulary:
    """Special ids, the frame of a sequence, the number of entries, and where words begin."""

    size: int
    pad_id: int
    mask_id: int
    special_ids: frozenset[int]
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    unused_ids: frozenset[int] = frozenset()
    """Numbers below `size` that no entry has: a few tokenizers have such gaps."""
    words: WordTable | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, tokens: Tokens) -> Vocabulary:
        """Read it from a loaded tokenizer folder."""
        tokenizer = tokens.tokenizer
        special = {number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        numbers = set(tokenizer.get_vocab().values())
        size = max(numbers) + 1
        return cls(
            size=size,
            pad_id=_special(tokenizer, "<pad>", "[PAD]"),
            mask_id=_special(tokenizer, "<mask>", "[MASK]"),
            special_ids=frozenset(special),
            prefix=tuple(tokens.prefix),
            suffix=tuple(tokens.suffix),
            unused_ids=frozenset(range(size)) - numbers,
            words=word_table(tokenizer, size),
        )


def count_entries(tokenizer: Path) -> int:
    """One more than the highest id of a tokenizer.json: what decides how wide an id is stored."""
    return max(Tokenizer.from_file(str(tokenizer)).get_vocab().values()) + 1


def _special(tokenizer: Tokenizer, *names: str) -> int:
    for name in names:
        number = tokenizer.token_to_id(name)
        if number is not None:
            return int(number)
    raise ArtifactError(f"the tokenizer has no {names[0]} token", fix="Train one with osler vocab, or add the token")
