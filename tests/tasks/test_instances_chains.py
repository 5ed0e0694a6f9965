"""Paths and marginals of many sequences and CRFs at once are those that a plain loop over one sequence gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.artifacts.tokenizer import Tokenizer
from osler.tasks.catalogue import load_card
from osler.tasks.instances import chains
from osler.tasks.instances.base import Confidence, HeadOptions, document_windows, fold_last, make_builder
from osler.tasks.instances.chains import ChainRules, best_paths, chain_marginals, chain_paths
from osler.tasks.instances.tagging import TaggerOutputs, decode_taggers
from osler.text.document import Document
from osler.text.tags import Scheme, label_set, transitions

LENGTHS = st.lists(st.integers(0, 12), min_size=1, max_size=7)


def rules(labels: int, scheme: Scheme) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    legal = transitions(label_set([f"L{number}" for number in range(labels)], scheme), scheme)
    return np.array(legal.allowed), np.array(legal.start), np.array(legal.end)


def plain_path(scores: np.ndarray, weights: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> list[int]:
    """Viterbi, one word after the other, in the arithmetic of the scores."""
    if not len(scores):
        return []
    total = [np.where(starts, scores[0], -np.inf)]
    for own in scores[1:]:
        total.append(np.array([max(total[-1] + weights[:, tag]) for tag in range(len(own))]) + own)
    path = [int(np.where(ends, total[-1], -np.inf).argmax())]
    for before in reversed(total[:-1]):
        path.append(int((before + weights[:, path[-1]]).argmax()))
    return path[::-1]


def plain_marginals(scores: np.ndarray, weights: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Forward and backward sums in logarithms."""
    if not len(scores):
        return np.zeros(scores.shape)

    def sums(rows: np.ndarray, steps: np.ndarray, first: np.ndarray) -> list[np.ndarray]:
        found = [np.where(first, rows[0], -np.inf)]
        for own in rows[1:]:
            found.append(np.logaddexp.reduce(found[-1][:, None] + steps, axis=0) + own)
        return found

    scores = scores.astype(np.float64)
    joint = np.array(sums(scores, weights, starts)) + np.array(sums(scores[::-1], weights.T, ends))[::-1] - scores
    return np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))


@settings(deadline=None, max_examples=60)
@given(LENGTHS, st.integers(1, 3), st.integers(1, 4), st.sampled_from(Scheme), st.integers(0, 2**31), st.booleans())
def test_everything_at_once_is_what_one_by_one_gives(lengths, heads, labels, scheme, seed, in_groups):
    rng = np.random.default_rng(seed)
    allowed, starts, ends = rules(labels, scheme)
    tags, words = len(starts), sum(lengths)
    scores = (rng.normal(size=(heads, words, tags)) * 4).astype(np.float32)
    steps = rng.normal(size=(heads, tags, tags)).astype(np.float32)
    shared = ChainRules(*(np.stack([rule] * heads) for rule in (allowed, starts, ends)))
    with pytest.MonkeyPatch.context() as patch:
        if in_groups:
            patch.setattr(chains, "_CELLS", 50)
        paths = chain_paths(scores, np.array(lengths), shared, steps)
        likely = chain_marginals(scores, np.array(lengths), shared, steps)
        free = best_paths(np.split(scores[0], np.cumsum(lengths)[:-1]), allowed, starts, ends)
    borders = np.cumsum(lengths)[:-1]
    for head in range(heads):
        weights = np.where(allowed, steps[head], -np.inf)
        for own, path, share in zip(
            np.split(scores[head], borders),
            np.split(paths[head], borders),
            np.split(likely[head], borders),
            strict=True,
        ):
            assert path.tolist() == plain_path(own, weights, starts, ends)
            with np.errstate(divide="ignore", invalid="ignore"):
                np.testing.assert_allclose(share, plain_marginals(own, weights, starts, ends), atol=1e-9)
    for own, path in zip(np.split(scores[0], borders), free, strict=True):
        equal = np.where(allowed, np.float32(0.0), np.float32(-np.inf))
        assert path.tolist() == plain_path(own, equal, starts, ends)


@given(st.integers(1, 20), st.integers(0, 2**31))
def test_reducing_entry_by_entry_is_what_numpy_gives(entries, seed):
    rows = np.random.default_rng(seed).normal(size=(3, 4, entries)).astype(np.float32)
    assert np.array_equal(fold_last(np.maximum, rows), rows.max(axis=-1, keepdims=True))
    np.testing.assert_allclose(fold_last(np.add, rows), rows.sum(axis=-1, keepdims=True), rtol=1e-5, atol=1e-6)


def test_taggers_that_are_decoded_together_find_what_each_finds_alone(tokenizer_folder):
    tokens = Tokenizer.open(tokenizer_folder)
    texts = ["Aspirin 81 mg was given for chest pain. No fever.", "", "She takes metformin and ibuprofen daily."]
    records = [Document(str(number), text) for number, text in enumerate(texts)]
    rng = np.random.default_rng(0)
    heads = []
    tasks = ("bc5cdr-chem", "bc5cdr-disease", "bc2gm", "pharmaconer", "linnaeus")
    windows = document_windows(tokens, records, 24, 4)
    for number, task in enumerate(tasks):
        options = HeadOptions(tagger="linear" if number == 2 else "crf", unit="document")
        builder = make_builder(load_card(task), None, tokens, 24, 4, options)
        tags = len(builder.outputs)
        outputs = [rng.normal(size=(window.length, tags)).astype(np.float32) * 2 for window in windows]
        steps = None if number == 2 else rng.normal(size=(tags, tags)).astype(np.float32)
        confidence = Confidence(1.0 + number / 2, 1.5, 0.1, 0.5 * (number % 2))
        heads.append(TaggerOutputs(builder, outputs, steps, confidence))
    together = decode_taggers(heads, records, windows)
    alone = [head.builder.decode(records, windows, *head[1:]) for head in heads]
    assert together == alone
    assert all(any(document.spans for document in found) for found in together)
    assert decode_taggers([head._replace(outputs=[]) for head in heads], [], []) == [[]] * len(heads)
