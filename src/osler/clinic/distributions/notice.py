"""The README of a fake distribution: nobody may take it for the real one."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from osler.clinic.distributions.base import Distribution

README = "README.txt"
_NOTICE = (
    "SYNTHETIC DATA. This is not the real corpus and holds nothing of it. Every text, name, number and annotation in this "
    "folder was made up by the synthetic clinic of osler. Only the file names and the file format are those of the official "
    "release, so that programs that will read the real files can be tried before a data agreement arrives. Results on these "
    "files say nothing about results on the real corpus and must not be reported as such."
)


def notice(distribution: Distribution, counts: Mapping[str, int], *, made_with: str) -> str:
    """What stands in README.txt."""
    splits = [f"  {split:<6}{counts[split]:>8} records   {'  '.join(distribution.splits[split])}" for split in counts]
    lines = [
        textwrap.fill(_NOTICE, 100),
        "",
        f"Mimics: {distribution.title}",
        f"Made with: {made_with}",
        f"Read by: the format {distribution.format!r} of osler",
        "",
        *splits,
        "",
    ]
    return "\n".join(lines)
