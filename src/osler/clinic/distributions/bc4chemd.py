"""BC4CHEMD as IOB columns: chemicals in sentences, one token and its tag a line."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Literal

from osler.clinic.distributions.base import Distribution, Order, Package, Tally
from osler.clinic.distributions.clinical import clinic_notes
from osler.clinic.distributions.rewriting import relabelled
from osler.clinic.distributions.tokenised import tokenised
from osler.formats.output import output_file
from osler.formats.tokens import TOKENS, token_ranges
from osler.text.document import Document, Span
from osler.text.tags import Scheme, spans_to_tags

_FOLDER = "BC4CHEMD"
_OFFICIAL = {"train": ("train", 30_682), "dev": ("devel", 30_639), "test": ("test", 26_364)}
"""Split to file name and sentences in the release."""
_ENOUGH = 1 << 40


def _sentences(seed: int, split: Literal["train", "dev", "test"]) -> Iterator[Document]:
    """The clinic's sentences with the chemicals in them; lines of tables and headers are left out."""
    for note in clinic_notes(_ENOUGH, seed, split):
        note = tokenised(relabelled(note, lambda span: "Chemical" if span.label == "DRUG" else None, lambda _: False))
        start = 0
        for line in note.text.splitlines():
            end = start + len(line)
            inside = [span for span in note.spans if start <= span.start and span.end <= end]
            if inside or line.endswith(" ."):
                spans = tuple(Span.at(s.start - start, s.end - start, s.label) for s in inside)
                yield Document(f"{note.id}-{start}", line, spans, meta=TOKENS)
            start = end + 1


def make(order: Order, folder: Path) -> Tally:
    """Write the three files; `n` counts sentences, since the files do not mark documents."""
    tally = Tally()
    for split, (name, official) in _OFFICIAL.items():
        size = order.share(official, _OFFICIAL["train"][1])
        sentences = islice(_sentences(order.seed, split), size)  # type: ignore[arg-type]
        with output_file(folder / _FOLDER / f"{name}.tsv") as stream:
            for sentence in tally.through(split, sentences):
                tokens = token_ranges(sentence)
                tags = spans_to_tags(sentence.spans, tokens, Scheme.BIO).tags
                rows = (f"{sentence.text[a:b]}\t{tag}\n" for (a, b), tag in zip(tokens, tags, strict=True))
                stream.write(("".join(rows) + "\n").encode())
    return tally


DISTRIBUTION = Distribution(
    name="bc4chemd",
    title="BC4CHEMD: chemicals, as IOB files",
    format="conll",
    splits={split: (f"*{_FOLDER}/{name}.tsv",) for split, (name, _) in _OFFICIAL.items()},
    packages=(Package(_FOLDER, f"{_FOLDER}.zip"),),
    make=make,
)
