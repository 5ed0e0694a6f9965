"""The ledger: every removed document with its source, file, row, id and the reason. Never its text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osler.core.extras import require
from osler.stages.corpus.parts import Part, removed_schema
from osler.stages.corpus.tables import parquet_writer, read_columns, regrouped

LEDGER = "ledger.parquet"
_GROUP_ROWS = 65_536
_COLUMNS = ("source", "file", "row", "id", "reason")


def write_ledger(path: Path, parts: Sequence[Part], keep: Sequence[NDArray[np.bool_]]) -> None:
    """Join what each part removed with the duplicates found over all parts, in input order."""
    pa = require("pyarrow", "corpus")
    schema = pa.schema([removed_schema().field(name) for name in _COLUMNS])
    with parquet_writer(path, schema, compression="zstd", dictionary=("source", "file", "reason")) as writer:
        tables = (_removals(part, mask).select(_COLUMNS) for part, mask in zip(parts, keep, strict=True))
        for group in regrouped(tables, _GROUP_ROWS, lambda table: np.ones(table.num_rows, dtype=np.int64)):
            writer.write_table(group)


def _removals(part: Part, mask: NDArray[np.bool_]) -> Any:
    pa = require("pyarrow", "corpus")
    schema = removed_schema()
    tables = [read_columns(part.removed, *schema.names)]
    if not mask.all():
        known = [name for name in schema.names if name != "reason"]
        copies = read_columns(part.kept, *known).filter(pa.array(~mask))
        reasons = pa.array(["duplicate.exact"] * copies.num_rows, pa.string())
        tables.append(copies.append_column("reason", reasons).select(schema.names))
    return pa.concat_tables(tables).sort_by("position")
