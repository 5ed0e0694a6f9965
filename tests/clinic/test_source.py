from __future__ import annotations

from collections import Counter

import pytest

from osler.clinic.source import ClinicSource
from osler.core.errors import RecipeError
from osler.tasks.catalogue import load_card
from osler.text.document import Document, TextPair


def source(name: str, **options: object) -> ClinicSource:
    card = load_card(name)
    values = {**card.source.options, **options}
    return ClinicSource(card.changed(source=card.source.changed(options=values)))


@pytest.mark.parametrize(("name", "kind"), [("clinic-entities-en", Document), ("clinic-similarity-en", TextPair)])
def test_splits_have_the_sizes_asked_for(name, kind):
    made = list(source(name, train=3, dev=1, test=2).records())
    assert Counter(split for split, _ in made) == {"train": 3, "dev": 1, "test": 2}
    assert all(isinstance(record, kind) for _, record in made)
    assert len({record.id for _, record in made}) == 6


def test_a_wrong_option_names_the_task():
    with pytest.raises(RecipeError, match=r"clinic-entities-en: source\.options"):
        source("clinic-entities-en", trian=3)
