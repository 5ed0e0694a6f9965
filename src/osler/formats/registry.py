"""All formats, imported on first use.

Plug-ins add their own through the entry point group "osler.formats", or "osler.output_formats" for write-only formats.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from osler.core.errors import InputError
from osler.core.registry import Registry
from osler.formats.base import Format
from osler.formats.sources import Source, opened

FORMATS = Registry(
    "formats",
    {
        "bc2gm": "osler.formats.bc2gm:FORMAT",
        "bioc": "osler.formats.bioc:FORMAT",
        "biosses": "osler.formats.sts:BIOSSES",
        "brat": "osler.formats.brat:FORMAT",
        "bsc_tsv": "osler.formats.bsc_tsv:FORMAT",
        "chemprot": "osler.formats.chemprot:FORMAT",
        "codiesp": "osler.formats.codiesp:FORMAT",
        "conll": "osler.formats.conll:FORMAT",
        "csv": "osler.formats.tables:CSV",
        "ddi_xml": "osler.formats.ddi_xml:FORMAT",
        "gad_euadr": "osler.formats.gad_euadr:FORMAT",
        "hoc": "osler.formats.hoc:FORMAT",
        "i2b2_2010": "osler.formats.i2b2_2010:FORMAT",
        "i2b2_2012": "osler.formats.i2b2_xml:I2B2_2012",
        "i2b2_2014": "osler.formats.i2b2_xml:I2B2_2014",
        "jsonl": "osler.formats.jsonl:FORMAT",
        "label_studio": "osler.formats.label_studio:FORMAT",
        "meddocan_xml": "osler.formats.i2b2_xml:MEDDOCAN",
        "mednli": "osler.formats.mednli:FORMAT",
        "medrqe": "osler.formats.medrqe:FORMAT",
        "mimic": "osler.formats.mimic:FORMAT",
        "nli4ct": "osler.formats.nli4ct:FORMAT",
        "pubmedqa": "osler.formats.pubmedqa:FORMAT",
        "pubtator": "osler.formats.pubtator:FORMAT",
        "s800": "osler.formats.s800:FORMAT",
        "share_clef": "osler.formats.share_clef:FORMAT",
        "sts": "osler.formats.sts:FORMAT",
        "tsv": "osler.formats.tables:TSV",
        "webanno_xmi": "osler.formats.webanno_xmi:FORMAT",
    },
)


OUTPUT_FORMATS = Registry(
    "output_formats",
    {
        "entities_csv": "osler.formats.entity_tables:CSV",
        "entities_parquet": "osler.formats.entity_tables:PARQUET",
        "fhir": "osler.formats.fhir:FORMAT",
        "html": "osler.stages.serve.pages:FORMAT",  # in a higher layer, because it uses osler.report
        "omop": "osler.formats.omop:FORMAT",
    },
)
"""Write-only formats, for other programs."""


def get_format(name: str) -> Format:
    """Return the format with this name."""
    registry = OUTPUT_FORMATS if name in OUTPUT_FORMATS and name not in FORMATS else FORMATS
    return cast(Format, registry.get(name))


def detect_format(source: Source, where: Path, option: str) -> str:
    """Return the one format that the source looks like, else raise an error that refers to `option`."""
    with opened(source) as tree:
        if not len(tree):
            raise InputError("there are no files here", where=where, fix="Check the path")
        found = detect_formats(tree)
    if len(found) == 1:
        return found[0]
    problem = f"the files could be {' or '.join(found)}" if found else "no known format matches these files"
    raise InputError(problem, where=where, fix=f"Name the format with {option}: see `osler convert --list`")


def detect_formats(source: Source) -> list[str]:
    """Return the names of all formats that the source looks like."""
    with opened(source) as tree:
        return [name for name in FORMATS.names() if get_format(name).detect(tree)]
