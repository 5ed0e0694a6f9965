"""MedNLI: JSON Lines in the layout of SNLI, with parses."""

from __future__ import annotations

import json

from osler.clinic.dice import Dice
from osler.clinic.distributions.base import DistributionWriter
from osler.clinic.labels import SPLITS
from osler.clinic.pairs import entailment_pairs
from osler.formats.output import output_file
from osler.text.document import TextPair
from osler.text.words import words


def _row(pair: TextPair, dice: Dice) -> dict[str, str]:
    """One line. Its parses are only the words in brackets; they are here because the real files have them."""
    groups = ("".join(dice.pick("0123456789abcdef") for _ in range(size)) for size in (8, 4, 4, 4, 12))
    row = {"sentence1": pair.first, "pairID": "-".join(groups)}
    for name, text in (("sentence1", pair.first), ("sentence2", pair.second)):
        tokens = [text[start:end].translate({40: "-LRB-", 41: "-RRB-"}) for start, end in words(text)]
        *rest, tree = tokens
        for token in reversed(rest):
            tree = f"( {token} {tree} )"
        flat = " ".join(f"(X {token})" for token in tokens)
        row |= {name: text, f"{name}_parse": f"(ROOT (S {flat}))", f"{name}_binary_parse": tree}
    return {**row, "gold_label": pair.labels[0]}


def make(writer: DistributionWriter) -> None:
    """Write one file per split."""
    for split in SPLITS:
        pairs = entailment_pairs(writer.sizes[split], language="en", seed=writer.seed, split=split)
        dice = Dice(writer.seed, "mednli", split)
        with output_file(writer.folder / writer.packages[0] / f"mli_{split}_v1.jsonl") as stream:
            for pair in writer.counted(split, pairs):
                stream.write(json.dumps(_row(pair, dice)).encode() + b"\n")
