"""Rows of a CSV file with the line each begins at, as a stream."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from osler.core.errors import InputError
from osler.formats.sources import SourceTree

# The csv module's own limit, 128 KiB, is shorter than a long discharge summary.
_FIELD_LIMIT = 1 << 30


def csv_rows(tree: SourceTree, name: str, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yield every row that is not empty; line breaks inside quotes are kept as they are."""
    csv.field_size_limit(_FIELD_LIMIT)
    lines = (line for _, line in tree.lines(name, keep_ends=True))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    number = 1
    try:
        for row in reader:
            if row:
                yield number, row
            number = reader.line_num + 1
    except csv.Error:
        where = tree.where(name, number)
        raise InputError("the table cannot be read from here on", where=where, fix="Check its quotes") from None
