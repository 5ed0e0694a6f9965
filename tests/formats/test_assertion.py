"""Attributes of a mention, under whatever names they come, as what holds of it."""

from __future__ import annotations

import pytest

from osler.formats.assertion import assertions
from osler.text.document import Span


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, set()),
        ({"head": "drugs", "concept": "C1"}, set()),
        ({"negated": "yes"}, {"negated"}),
        ({"Negated": ""}, set()),
        ({"negated": "no", "possible": "true"}, {"possible"}),
        ({"hypothetical": "yes", "historical": "yes"}, {"hypothetical", "historical"}),
        ({"someone-else": "yes"}, {"other"}),
        ({"family": "yes"}, {"other"}),
        ({"assertion": "absent"}, {"negated"}),
        ({"assertion": "present"}, set()),
        ({"assertion": "associated_with_someone_else"}, {"other"}),
        ({"polarity": "NEG", "modality": "POSSIBLE"}, {"negated", "possible"}),
        ({"polarity": "POS", "modality": "FACTUAL"}, set()),
    ],
)
def test_what_attributes_say(attributes, expected):
    assert assertions(Span.at(0, 1, "X", attributes=attributes)) == expected
