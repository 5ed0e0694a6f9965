"""What a recipe chooses about one head beyond its protocol; kept in the bundle, so that it is read as it was taught."""

from __future__ import annotations

from typing import Literal

from osler.core.config import Recipe

Tagger = Literal["linear", "crf"]
Decoding = Literal["protocol", "free", "constrained"]
Relations = Literal["tagged", "markers"]


class HeadOptions(Recipe):
    """How a head reads its input and how its outputs are read; what does not concern its kind of task is without effect."""

    tagger: Tagger = "linear"
    decoding: Decoding = "protocol"
    relations: Relations = "tagged"

    def read_otherwise(self, decoding: str) -> str:
        """How a linear tagger's labels are taken in place of what a protocol says ("greedy", "constrained"); empty where that holds.

        A chain is always decoded as one: that is the head, and overrules nothing.
        """
        if self.tagger != "linear" or self.decoding == "protocol":
            return ""
        asked = "greedy" if self.decoding == "free" else self.decoding
        return "" if asked == decoding else self.decoding
