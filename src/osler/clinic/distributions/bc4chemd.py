"""BC4CHEMD: chemicals in sentences, as IOB columns with one token and its tag per line."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from osler.clinic.distributions.base import DistributionWriter
from osler.clinic.distributions.rewriting import relabelled, tokenised
from osler.clinic.labels import SPLITS, Split
from osler.clinic.notes import notes
from osler.formats.output import output_file
from osler.text.document import TOKENS, Document, Span, token_ranges
from osler.text.tags import Scheme, spans_to_tags

_NAMES = {"dev": "devel"}
_MANY = 1 << 40


def _sentences(seed: int, split: Split) -> Iterator[Document]:
    """Sentences of the notes with their chemicals, without lines of tables and headers."""
    for note in notes(_MANY, language="en", seed=seed, split=split):
        note = tokenised(relabelled(note, lambda span: "Chemical" if span.label == "DRUG" else None, lambda _: False))
        start = 0
        for line in note.text.splitlines():
            end = start + len(line)
            inside = [span for span in note.spans if start <= span.start and span.end <= end]
            if inside or line.endswith(" ."):
                spans = tuple(Span.at(s.start - start, s.end - start, s.label) for s in inside)
                yield Document(f"{note.id}-{start}", line, spans, meta=TOKENS)
            start = end + 1


def make(writer: DistributionWriter) -> None:
    """Write one file per split; records are sentences, since the files do not mark documents."""
    for split in SPLITS:
        sentences = islice(_sentences(writer.seed, split), writer.sizes[split])
        with output_file(writer.folder / "BC4CHEMD" / f"{_NAMES.get(split, split)}.tsv") as stream:
            for sentence in writer.counted(split, sentences):
                tokens = token_ranges(sentence)
                tags = spans_to_tags(sentence.spans, tokens, Scheme.BIO).tags
                rows = (f"{sentence.text[a:b]}\t{tag}\n" for (a, b), tag in zip(tokens, tags, strict=True))
                stream.write(("".join(rows) + "\n").encode())
