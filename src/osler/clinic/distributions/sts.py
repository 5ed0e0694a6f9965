"""Sentence similarity: ClinicalSTS of n2c2 2019 (tables without a header, test scores apart) and MedSTS of 2018 (with a header)."""

from __future__ import annotations

from collections.abc import Iterator

from osler.clinic.distributions.base import Distribution, DistributionWriter
from osler.clinic.labels import SPLITS, Split
from osler.clinic.pairs import similarity_pairs
from osler.formats.output import output_file
from osler.text.document import TextPair

_FOLDER_2019, _FOLDER_2018 = "clinicalSTS2019", "clinicalSTS"
_HEADER = ["index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2", "score"]


def _pairs(writer: DistributionWriter, split: Split) -> Iterator[TextPair]:
    for pair in similarity_pairs(writer.sizes[split], language="en", seed=writer.seed, split=split):
        yield TextPair(pair.id, pair.first, pair.second, value=pair.value)


def _make_2019(writer: DistributionWriter) -> None:
    """Write the training table, the test table and its scores."""
    stem = f"{_FOLDER_2019}/clinicalSTS2019"
    writer.save("train", _pairs(writer, "train"), f"{stem}.train.txt")
    test = list(_pairs(writer, "test"))
    writer.save("test", (pair.with_(value=None) for pair in test), f"{stem}.test.txt")
    with output_file(writer.folder / f"{stem}.test.gs.sim.txt") as stream:
        stream.writelines(f"{pair.value}\n".encode() for pair in test)


def _make_2018(writer: DistributionWriter) -> None:
    """Write one table per split."""
    for split in SPLITS:
        with output_file(writer.folder / _FOLDER_2018 / f"{split}.tsv") as stream:
            stream.write(("\t".join(_HEADER) + "\n").encode())
            for number, pair in enumerate(writer.counted(split, _pairs(writer, split))):
                front = (str(number), "clinical", "MedSTS", "2018", str(number), "none", "none")
                stream.write(("\t".join((*front, pair.first, pair.second, str(pair.value))) + "\n").encode())


CLINICAL_STS = Distribution(
    name="n2c2-2019-sts",
    title="n2c2 2019 track 1: ClinicalSTS",
    format="sts",
    sizes={"train": 1_642, "test": 412},
    splits={"train": ("*clinicalSTS2019.train.txt",), "test": ("*clinicalSTS2019.test*.txt",)},
    packages={_FOLDER_2019: f"{_FOLDER_2019}.zip"},
    make=_make_2019,
)
MEDSTS = Distribution(
    name="clinicalsts-2018",
    title="MedSTS of 2018, in the tables of the BLUE benchmark",
    format="sts",
    sizes={"train": 675, "dev": 75, "test": 318},
    splits={split: (f"*{_FOLDER_2018}/{split}.tsv",) for split in SPLITS},
    packages={_FOLDER_2018: f"{_FOLDER_2018}.zip"},
    make=_make_2018,
)
