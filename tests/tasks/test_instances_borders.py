"""A mention at the border of two windows is found whole, by a linear tagger and by a CRF, whatever the windows are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from osler.artifacts.tokenizer import Tokenizer
from osler.tasks.card import TaskCard
from osler.tasks.instances.base import HeadOptions, Instance, make_builder
from osler.text.document import Document

CARD = TaskCard.model_validate(
    {
        "name": "drugs",
        "title": "drugs",
        "kind": "tagging",
        "language": "en",
        "labels": ("DRUG",),
        "protocol": "plain",
        "protocols": {"plain": {"metric": "f1"}},
        "source": {"reader": "files", "format": "jsonl", "splits": {"test": {"files": ["x"]}}},
    }
)
MENTION = ["aspirin", "tablets", "acetylsalicylic"]


@pytest.fixture(scope="module")
def tokens(tokenizer_folder):
    return Tokenizer.open(tokenizer_folder)


@pytest.mark.parametrize("tagger", ["linear", "crf"])
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_mention_at_any_border_is_whole(tokens, tagger, data):
    before, after = data.draw(st.integers(0, 40)), data.draw(st.integers(0, 40))
    size = data.draw(st.integers(8, 30))
    overlap = data.draw(st.integers(0, size - 5))
    length = data.draw(st.integers(1, len(MENTION)))
    text = " ".join(["the"] * before + MENTION[:length] + ["the"] * after)
    start = len("the ") * before
    end = start + len(" ".join(MENTION[:length]))
    builder = make_builder(CARD, None, tokens, size + tokens.overhead, overlap, HeadOptions(tagger=tagger))
    document = Document("d", text)
    instances = builder.build([document], gold=False).instances

    def outputs(instance: Instance) -> np.ndarray:
        """The right tag for every token of the core, and nothing found elsewhere: there the window is too short of context."""
        window, aligned = instance.place.window, instance.place.aligned
        rows = np.zeros((instance.length, len(builder.outputs)), dtype=np.float32)
        rows[:, 0] = 5.0
        for place in range(window.core_start, window.core_end):
            if (word := aligned.word_ids[place]) is None:  # a blank
                continue
            low, high = aligned.words[word]
            if start <= low and high <= end:
                row = rows[place - window.start + len(tokens.prefix)]
                row[0], row[builder.outputs.index("B-DRUG" if low == start else "I-DRUG")] = 0.0, 5.0
        return rows

    transitions = np.zeros((len(builder.outputs),) * 2, dtype=np.float32) if tagger == "crf" else None
    [found] = builder.decode([document], instances, [outputs(instance) for instance in instances], transitions)
    assert [(span.start, span.end) for span in found.spans] == [(start, end)]
