"""What pretraining needs to know of a tokenizer."""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Tokenizer

from osler.core.errors import ArtifactError
from osler.tasks.tokens import Tokens


@dataclass(frozen=True)
class Vocabulary:
    """Special ids, the frame of a sequence, and the number of entries."""

    size: int
    pad_id: int
    mask_id: int
    special_ids: frozenset[int]
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]

    @classmethod
    def of(cls, tokens: Tokens) -> Vocabulary:
        """Read it from a loaded tokenizer folder."""
        tokenizer = tokens.tokenizer
        special = {number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        return cls(
            size=tokenizer.get_vocab_size(),
            pad_id=_special(tokenizer, "<pad>", "[PAD]"),
            mask_id=_special(tokenizer, "<mask>", "[MASK]"),
            special_ids=frozenset(special),
            prefix=tuple(tokens.prefix),
            suffix=tuple(tokens.suffix),
        )


def _special(tokenizer: Tokenizer, *names: str) -> int:
    for name in names:
        number = tokenizer.token_to_id(name)
        if number is not None:
            return int(number)
    raise ArtifactError(f"the tokenizer has no {names[0]} token", fix="Train one with osler vocab, or add the token")
