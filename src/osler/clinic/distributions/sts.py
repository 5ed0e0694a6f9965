"""Sentence similarity: n2c2 2019 ClinicalSTS (tables without header, test scores apart) and MedSTS of 2018 (tables with a header)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from osler.clinic.distributions.base import Distribution, Order, Package, Tally, save
from osler.clinic.pairs import similarity_pairs
from osler.formats.output import output_file
from osler.text.document import TextPair

_FOLDER_2019 = "clinicalSTS2019"
_OFFICIAL_2019 = (1_642, 412)
_FOLDER_2018 = "clinicalSTS"
_OFFICIAL_2018 = {"train": 675, "dev": 75, "test": 318}
_HEADER = ["index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2", "score"]


def _pairs(n: int, seed: int, split: Literal["train", "dev", "test"]) -> Iterator[TextPair]:
    for pair in similarity_pairs(n, language="en", seed=seed, split=split):
        yield TextPair(pair.id, pair.first, pair.second, value=pair.value)


def _make_2019(order: Order, folder: Path) -> Tally:
    """Write the training table, the test table and its scores."""
    tally = Tally()
    place = folder / _FOLDER_2019
    save("sts", tally.through("train", _pairs(order.n, order.seed, "train")), place / "clinicalSTS2019.train.txt")
    size = order.share(_OFFICIAL_2019[1], _OFFICIAL_2019[0])
    test = list(tally.through("test", _pairs(size, order.seed, "test")))
    save("sts", (pair.with_(value=None) for pair in test), place / "clinicalSTS2019.test.txt")
    with output_file(place / "clinicalSTS2019.test.gs.sim.txt") as stream:
        stream.writelines(f"{pair.value}\n".encode() for pair in test)
    return tally


def _table(pairs: Iterable[TextPair], path: Path) -> None:
    with output_file(path) as stream:
        stream.write(("\t".join(_HEADER) + "\n").encode())
        for number, pair in enumerate(pairs):
            front = (str(number), "clinical", "MedSTS", "2018", str(number), "none", "none")
            stream.write(("\t".join((*front, pair.first, pair.second, str(pair.value))) + "\n").encode())


def _make_2018(order: Order, folder: Path) -> Tally:
    """Write the three tables."""
    tally = Tally()
    for split, official in _OFFICIAL_2018.items():
        size = order.share(official, _OFFICIAL_2018["train"])
        pairs = _pairs(size, order.seed, split)  # type: ignore[arg-type]
        _table(tally.through(split, pairs), folder / _FOLDER_2018 / f"{split}.tsv")
    return tally


CLINICAL_STS = Distribution(
    name="n2c2-2019-sts",
    title="n2c2 2019 track 1: ClinicalSTS",
    format="sts",
    splits={"train": ("*clinicalSTS2019.train.txt",), "test": ("*clinicalSTS2019.test*.txt",)},
    packages=(Package(_FOLDER_2019, f"{_FOLDER_2019}.zip"),),
    make=_make_2019,
)
MEDSTS = Distribution(
    name="clinicalsts-2018",
    title="MedSTS of 2018, in the tables of the BLUE benchmark",
    format="sts",
    splits={split: (f"*{_FOLDER_2018}/{split}.tsv",) for split in _OFFICIAL_2018},
    packages=(Package(_FOLDER_2018, f"{_FOLDER_2018}.zip"),),
    make=_make_2018,
)
