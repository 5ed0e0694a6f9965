"""Partially annotated text: a head with the types of several corpora, taught by one that annotates only some of them.

Where such a corpus says O it says only that none of its own types stands there. What it teaches is therefore the probability of O
and of every tag of the other types together: a tag of another type on a word that it leaves out costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from osler.core.errors import RecipeError


@dataclass(frozen=True)
class Partial:
    """Which outputs of the joint head a corpus's O stands for, and which its own other tags are, in its own order."""

    outside: Tensor
    own: Tensor

    @classmethod
    def of(cls, own: Sequence[str], joint: Sequence[str]) -> Partial:
        """For a corpus whose tags are `own`, O first, of a head whose tags are `joint`."""
        place = {tag: number for number, tag in enumerate(joint)}
        missing = [tag for tag in own if tag not in place]
        if missing or own[0] != joint[0]:
            raise RecipeError(f"the joint head has no output for the tag {(missing or [own[0]])[0]}")
        kept = [place[tag] for tag in own[1:]]
        outside = [number for number in range(len(joint)) if number not in set(kept)]
        return cls(torch.tensor(outside), torch.tensor(kept))

    def narrowed(self, logits: Tensor) -> Tensor:
        """Logits [T, own tags] whose distribution is that of the joint head with all that is not the corpus's own added up as O."""
        outside = logits.float().index_select(-1, self.outside).logsumexp(-1, keepdim=True)
        return torch.cat([outside, logits.float().index_select(-1, self.own)], dim=-1)
