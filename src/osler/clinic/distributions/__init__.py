"""Fake official distributions of access-controlled tasks, in the official formats.

With one, all stages can be tried while a data agreement is pending: the same readers read it. One file per family of
distributions; this module only names them, so nothing is imported before it is needed.
"""

from __future__ import annotations

from typing import cast

from osler.clinic.distributions.base import Distribution
from osler.core.registry import Registry

DISTRIBUTIONS = Registry(
    "distributions",
    {
        "bc4chemd": "osler.clinic.distributions.bc4chemd:DISTRIBUTION",
        "clinicalsts-2018": "osler.clinic.distributions.sts:MEDSTS",
        "i2b2-2010": "osler.clinic.distributions.i2b2_2010:DISTRIBUTION",
        "i2b2-2012": "osler.clinic.distributions.i2b2_2012:DISTRIBUTION",
        "i2b2-2014": "osler.clinic.distributions.i2b2_2014:DISTRIBUTION",
        "ictusnet": "osler.clinic.distributions.ictusnet:DISTRIBUTION",
        "mednli": "osler.clinic.distributions.mednli:DISTRIBUTION",
        "mimic-iii-notes": "osler.clinic.distributions.mimic:DISTRIBUTION",
        "n2c2-2018": "osler.clinic.distributions.n2c2_2018:DISTRIBUTION",
        "n2c2-2019-sts": "osler.clinic.distributions.sts:CLINICAL_STS",
        "share-clef-2013": "osler.clinic.distributions.share_clef:DISTRIBUTION",
    },
)

TASKS = {
    "i2b2-2010-concepts": "i2b2-2010",
    "i2b2-2010-relations": "i2b2-2010",
    "i2b2-2012-events": "i2b2-2012",
    "i2b2-2014-deid": "i2b2-2014",
    "n2c2-2018-ade": "n2c2-2018",
}
"""Tasks whose name differs from that of their distribution."""


def get_distribution(name: str) -> Distribution:
    """Return the distribution of this name, or the one that this task is read from."""
    return cast(Distribution, DISTRIBUTIONS.get(TASKS.get(name, name)))
