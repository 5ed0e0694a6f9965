"""Pairs for next-sentence prediction: what belongs together, what is random, and that any position can be read directly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from osler.artifacts.token_shards import TokenisedDocuments
from osler.core.errors import InputError
from osler.nn.masking import IGNORED
from osler.stages.pretrain.pairs import FOLLOWS, RANDOM, PairFrame, PairStream
from osler.text.subwords import SubwordTokenizer

CLS, SEP, FIRST = 1, 2, 10
FRAME = PairFrame((CLS,), (SEP,), (SEP,), 1)


def documents(*lengths: list[int], sources: list[int] | None = None) -> TokenisedDocuments:
    """Documents of sentences of these lengths. The id of a token is its position plus FIRST."""
    sizes = np.array([sum(document) for document in lengths], dtype=np.int32)
    borders = np.cumsum([sentence for document in lengths for sentence in document])
    ids = np.arange(borders[-1]) + FIRST
    kinds = np.array(sources or [0] * len(sizes), dtype=np.int32)
    return TokenisedDocuments((ids,), np.cumsum(sizes) - sizes, sizes, kinds, ("a", "b"), borders)


def some_documents(count: int, seed: int = 0) -> TokenisedDocuments:
    rng = np.random.default_rng(seed)
    return documents(*(rng.integers(1, 12, rng.integers(1, 15)).tolist() for _ in range(count)))


def pairs_of(stream: PairStream, epochs: int = 1) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """Positions of the first text, of the second, and the class of every pair."""
    ids, lengths, types, classes = stream.cut(0, stream.epoch_start(epochs))
    found = []
    for sequence, kinds, label in zip(
        np.split(ids, np.cumsum(lengths)[:-1]), np.split(types, np.cumsum(lengths)[:-1]), classes, strict=True
    ):
        middle, end = np.flatnonzero(sequence == SEP)
        assert (sequence[0], end) == (CLS, len(sequence) - 1)
        assert kinds.tolist() == [0] * (middle + 1) + [1] * (end - middle)
        found.append((sequence[1:middle] - FIRST, sequence[middle + 1 : end] - FIRST, int(label)))
    return found


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 40), st.integers(0, 5), st.integers(14, 40))
def test_second_texts_follow_or_are_sentences_of_another_document(count, seed, max_length):
    text = some_documents(count, seed)
    stream = PairStream(text, max_length, FRAME, seed)
    document = np.repeat(np.arange(count), text.lengths)
    begins = {0, *text.sentence_ends.tolist()}
    for first, second, label in pairs_of(stream, epochs=2):
        assert 0 < len(first) + len(second) <= max_length - 3
        for part in (first, second):
            assert (np.diff(part) == 1).all()
            assert len(set(document[part].tolist())) == 1
        assert int(second[0]) in begins
        if label == FOLLOWS:
            assert second[0] == first[-1] + 1
            assert document[first[0]] == document[second[0]]
        else:
            assert label == RANDOM
            assert document[first[0]] != document[second[0]]


def test_half_of_the_pairs_are_random_and_all_of_single_sentences():
    stream = PairStream(documents(*[[5, 5, 5, 5]] * 3000), 64, FRAME, 1)
    labels = np.array([label for *_, label in pairs_of(stream)])
    short = np.mean([len(first) == 5 and label == RANDOM for first, _, label in pairs_of(stream)])
    assert 0.48 < (labels == RANDOM).mean() < 0.56  # the short chunks include single sentences
    assert 0 < short < 0.4
    assert all(label == RANDOM for *_, label in pairs_of(PairStream(documents(*[[9]] * 50), 64, FRAME, 1)))


def test_every_sentence_is_read_about_once_per_epoch():
    text = some_documents(400)
    times = np.zeros(int(text.lengths.sum()))
    for first, second, _ in pairs_of(PairStream(text, 64, FRAME, 1), epochs=20):
        times[first] += 1
        times[second] += 1
    assert times.min() > 0
    assert 0.8 < times.mean() / 20 < 1.2


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=12), st.integers(0, 3000))
def test_any_stretch_can_be_read_alone(steps, start):
    text = some_documents(12)
    whole = PairStream(text, 32, FRAME, 3)
    edges = start + np.cumsum([0, *steps])
    complete = whole.cut(0, int(edges[-1]) + 100)
    borders = {0, *np.cumsum(complete.lengths).tolist()}
    ids = []
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part = PairStream(text, 32, FRAME, 3).cut(low, high)  # a new stream: nothing is remembered
        assert len(part.ids) == len(part.token_types) == part.lengths.sum() == high - low
        cut = (part.second_texts == IGNORED).sum()
        assert cut == len({low, high} - borders) or (len(part.lengths) == 1 and cut == 1)
        ids.append(part.ids)
    assert np.array_equal(np.concatenate(ids), complete.ids[start : edges[-1]])


def test_epochs_differ_and_validation_is_the_same_every_time():
    text = some_documents(50)
    stream = PairStream(text, 64, FRAME, 1)
    first, second = (stream.cut(stream.epoch_start(n), stream.epoch_start(n) + 200).ids for n in (0, 1))
    assert not np.array_equal(first, second)
    held_out = [PairStream(text, 64, FRAME, None).cut(0, 500) for _ in range(2)]
    assert all(np.array_equal(one, other) for one, other in zip(*held_out, strict=True))


def test_a_weight_repeats_the_documents_of_a_source():
    text = documents(*[[4, 4, 4]] * 20, sources=[0] * 10 + [1] * 10)
    stream = PairStream(text, 64, FRAME, 1, {"a": 1.0, "b": 3.0})
    firsts = [int(first[0]) // 12 for first, *_ in pairs_of(stream)]
    of_b = sum(number >= 10 for number in firsts)
    assert 2.2 < of_b / (len(firsts) - of_b) < 3.8


def test_one_document_is_refused():
    with pytest.raises(InputError, match="one document only"):
        PairStream(documents([5, 5]), 64, FRAME, 1).cut(0, 10)


def test_the_frame_is_what_the_tokenizer_puts_around_two_texts(tokenizer_folder):
    words = {"[CLS]": 0, "[SEP]": 1, "[UNK]": 2, "a": 3}
    bert = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    bert.pre_tokenizer = pre_tokenizers.Whitespace()
    bert.post_processor = processors.BertProcessing(("[SEP]", 1), ("[CLS]", 0))
    assert PairFrame.of(SubwordTokenizer(bert)) == PairFrame((0,), (1,), (1,), 1)
    roberta = SubwordTokenizer(Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json")))
    assert PairFrame.of(roberta) == PairFrame((0,), (2, 2), (2,), None)
