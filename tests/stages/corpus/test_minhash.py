"""Words and MinHash in numpy, against a plain loop and against theory."""

from __future__ import annotations

import re

import numpy as np
import pytest

from osler.stages.corpus import minhash


def test_words_are_those_of_a_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["Dosis: 5 mg/día.", "", "fiebre", " ", "naïve naïve—test", "a" * 50, "x y z " * 30, "end"]
    data = [text.encode() for text in texts]
    bounds = np.cumsum([0, *map(len, data)])
    for block in (1 << 18, 64):
        monkeypatch.setattr(minhash, "BLOCK", block)
        minhash._powers.cache_clear()
        alone = {}
        for text, raw in zip(texts, data, strict=True):
            hashes, counts = minhash.shingle_hashes(np.frombuffer(raw, np.uint8), np.array([0, len(raw)]), 1)
            words = re.findall(r"(?:[a-z0-9]|[^\x00-\x7f])+", text.lower())
            assert counts.tolist() == [len(words)]
            for word, value in zip(words, hashes.tolist(), strict=True):
                assert alone.setdefault(word, value) == value
        assert len(set(alone.values())) == len(alone)
    minhash._powers.cache_clear()
    monkeypatch.undo()
    together, counts = minhash.shingle_hashes(np.frombuffer(b"".join(data), np.uint8), bounds, 1)
    words = [word for text in texts for word in re.findall(r"(?:[a-z0-9]|[^\x00-\x7f])+", text.lower())]
    assert together.tolist() == [alone[word] for word in words]
    assert counts.sum() == len(words)


def test_bands_collide_as_often_as_theory_says() -> None:
    generator = np.random.default_rng(3)
    collisions = []
    for _ in range(60):
        shared, own, other = np.split(generator.integers(1 << 63, size=300).astype(np.uint64), [200, 250])
        both = np.concatenate((shared, own, shared, other))
        one, two = minhash.band_hashes(both, np.array([250, 250]), 400, 1).T
        collisions.append(np.mean(one == two))
    assert abs(np.mean(collisions) - 200 / 300) < 0.01
    # Independent permutations: the share varies from pair to pair by no more than it must.
    assert np.std(collisions) < 1.5 * np.sqrt(2 / 9 / 400)
