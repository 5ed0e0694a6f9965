"""Sentence similarity: ClinicalSTS of 2018 and 2019 (no header, test scores in a file of their own), and the first as tables of BLUE."""

from __future__ import annotations

from collections.abc import Iterator

from osler.clinic.distributions.base import DistributionWriter
from osler.clinic.labels import SPLITS, Split
from osler.clinic.pairs import similarity_pairs
from osler.formats.output import output_file
from osler.text.document import TextPair

_HEADER = ["index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2", "score"]


def _pairs(writer: DistributionWriter, split: Split) -> Iterator[TextPair]:
    for pair in similarity_pairs(writer.sizes[split], language="en", seed=writer.seed, split=split):
        yield TextPair(pair.id, pair.first, pair.second, value=pair.value)


def _challenge(writer: DistributionWriter, stem: str) -> None:
    """Write the training table, the test table and its scores."""
    writer.save("train", _pairs(writer, "train"), f"{stem}.train.txt")
    test = list(_pairs(writer, "test"))
    writer.save("test", (pair.with_(value=None) for pair in test), f"{stem}.test.txt")
    with output_file(writer.folder / f"{stem}.test.gs.sim.txt") as stream:
        stream.writelines(f"{pair.value}\n".encode() for pair in test)


def make_2018(writer: DistributionWriter) -> None:
    """Write the files of the challenge of 2018."""
    _challenge(writer, "ClinicalSTS/clinicalSTS")


def make_2019(writer: DistributionWriter) -> None:
    """Write the files of the challenge of 2019."""
    _challenge(writer, "clinicalSTS2019/clinicalSTS2019")


def make_blue(writer: DistributionWriter) -> None:
    """Write one table per split, as in the BLUE benchmark."""
    for split in SPLITS:
        with output_file(writer.folder / "clinicalSTS" / f"{split}.tsv") as stream:
            stream.write(("\t".join(_HEADER) + "\n").encode())
            for number, pair in enumerate(writer.counted(split, _pairs(writer, split))):
                front = (str(number), "clinical", "MedSTS", "2018", str(number), "none", "none")
                stream.write(("\t".join((*front, pair.first, pair.second, str(pair.value))) + "\n").encode())
