"""The special tokens, in RoBERTa's order, and how they frame a text or a pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import AddedToken
    from tokenizers.processors import TemplateProcessing

BEGIN, PAD, END, UNKNOWN, MASK = "<s>", "<pad>", "</s>", "<unk>", "<mask>"
SPECIAL = (BEGIN, PAD, END, UNKNOWN, MASK)
ID = {token: index for index, token in enumerate(SPECIAL)}


def special_tokens() -> list[AddedToken]:
    """The tokens as `tokenizers` takes them; the mask stands for a word together with the blank before it."""
    from tokenizers import AddedToken

    return [AddedToken(token, lstrip=token == MASK, normalized=False, special=True) for token in SPECIAL]


def framing() -> TemplateProcessing:
    """`<s> text </s>`, and `<s> text </s></s> other </s>` for a pair."""
    from tokenizers.processors import TemplateProcessing

    return TemplateProcessing(
        single=f"{BEGIN} $A {END}",
        pair=f"{BEGIN} $A {END} {END} $B {END}",
        special_tokens=[(BEGIN, ID[BEGIN]), (END, ID[END])],
    )
