"""MedNLI: JSON Lines in the SNLI layout, parses included."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from osler.clinic.dice import Dice
from osler.clinic.distributions.base import Distribution, Order, Package, Tally
from osler.clinic.pairs import entailment_pairs
from osler.formats.output import output_file
from osler.text.document import TextPair
from osler.text.words import words

_FOLDER = "mednli-a-natural-language-inference-dataset-for-the-clinical-domain-1.0.0"
_OFFICIAL = {"train": 11_232, "dev": 1_395, "test": 1_422}
_HEX = "0123456789abcdef"


def _named(pairs: Iterator[TextPair], dice: Dice) -> Iterator[TextPair]:
    """The pairs under ids like the official ones: hexadecimal groups."""
    for pair in pairs:
        groups = ("".join(dice.pick(_HEX) for _ in range(size)) for size in (8, 4, 4, 4, 12))
        yield TextPair("-".join(groups), pair.first, pair.second, pair.labels)


def _binary(tokens: list[str]) -> str:
    """A binary tree that branches to the right."""
    *rest, tree = tokens
    for token in reversed(rest):
        tree = f"( {token} {tree} )"
    return tree


def _row(pair: TextPair) -> dict[str, str]:
    """One object; its parses are only the words in brackets, they stand there because the real files have them."""
    row = {"sentence1": pair.first, "pairID": pair.id}
    parses = {}
    for name, text in (("sentence1", pair.first), ("sentence2", pair.second)):
        tokens = [text[start:end].translate({40: "-LRB-", 41: "-RRB-"}) for start, end in words(text)]
        flat = " ".join(f"(X {token})" for token in tokens)
        parses[name] = {f"{name}_parse": f"(ROOT (S {flat}))", f"{name}_binary_parse": _binary(tokens)}
    return {**row, **parses["sentence1"], "sentence2": pair.second, **parses["sentence2"], "gold_label": pair.labels[0]}


def make(order: Order, folder: Path) -> Tally:
    """Write the three files."""
    tally = Tally()
    for split, official in _OFFICIAL.items():
        size = order.share(official, _OFFICIAL["train"])
        pairs = entailment_pairs(size, language="en", seed=order.seed, split=split)  # type: ignore[arg-type]
        with output_file(folder / _FOLDER / f"mli_{split}_v1.jsonl") as stream:
            for pair in tally.through(split, _named(pairs, Dice(order.seed, "mednli", split))):
                stream.write(json.dumps(_row(pair)).encode() + b"\n")
    return tally


DISTRIBUTION = Distribution(
    name="mednli",
    title="MedNLI: natural language inference for the clinical domain",
    format="mednli",
    splits={split: (f"*mli_{split}_v1.jsonl",) for split in _OFFICIAL},
    packages=(Package(_FOLDER, f"{_FOLDER}.zip"),),
    make=make,
)
