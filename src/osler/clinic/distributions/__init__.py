"""Fake official distributions of access-controlled tasks, written by the synthetic clinic in the official formats.

Whoever waits for a data agreement can walk the whole road with one: the same readers read it. One file a family of distributions; here
only their names, so that nothing is imported before it is asked for.
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
"""Tasks whose name is not that of the distribution they are read from."""


def get_distribution(name: str) -> Distribution:
    """The distribution of this name, or the one that this task is read from."""
    return cast(Distribution, DISTRIBUTIONS.get(TASKS.get(name, name)))
