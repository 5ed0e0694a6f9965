"""Fake official distributions of access-controlled tasks, written by the synthetic clinic in the official formats.

Whoever waits for a data agreement can walk the whole road with one: the same readers read it. One file a family of distributions; here
only their names, so that nothing is imported before it is asked for.
"""

from __future__ import annotations

from typing import cast

from osler.core.registry import Registry
from osler.tasks.synthesis.base import Distribution

DISTRIBUTIONS = Registry(
    "distributions",
    {
        "bc4chemd": "osler.tasks.synthesis.bc4chemd:DISTRIBUTION",
        "clinicalsts-2018": "osler.tasks.synthesis.sts:MEDSTS",
        "i2b2-2010": "osler.tasks.synthesis.i2b2_2010:DISTRIBUTION",
        "i2b2-2012": "osler.tasks.synthesis.i2b2_2012:DISTRIBUTION",
        "i2b2-2014": "osler.tasks.synthesis.i2b2_2014:DISTRIBUTION",
        "ictusnet": "osler.tasks.synthesis.ictusnet:DISTRIBUTION",
        "mednli": "osler.tasks.synthesis.mednli:DISTRIBUTION",
        "mimic-iii-notes": "osler.tasks.synthesis.mimic:DISTRIBUTION",
        "n2c2-2018": "osler.tasks.synthesis.n2c2_2018:DISTRIBUTION",
        "n2c2-2019-sts": "osler.tasks.synthesis.sts:CLINICAL_STS",
        "share-clef-2013": "osler.tasks.synthesis.share_clef:DISTRIBUTION",
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
