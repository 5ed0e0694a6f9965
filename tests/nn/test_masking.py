from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from osler.artifacts.tokenizer import Tokenizer as TokenizerFolder
from osler.nn.masking import IGNORED, Masker, Masking, MaskingVocabulary, WordTable
from osler.text.subwords import SubwordVocabulary

BOS, EOS, MASK, VOCAB = 0, 2, 4, 1000
# Entries from 500 on begin a word, 990 to 999 are punctuation, the rest continue.
_NUMBERS = np.arange(VOCAB)
WORDS = WordTable((_NUMBERS >= 500) | (_NUMBERS < 5), (_NUMBERS >= 990) | (_NUMBERS < 5))
VOCABULARY = MaskingVocabulary(VOCAB, 1, MASK, frozenset(range(5)), (BOS,), (EOS,), frozenset({7, 8}), WORDS)


def masker(**settings_) -> Masker:
    return Masker(VOCABULARY, Masking(**settings_))


def text(rng: np.random.Generator, size: int) -> np.ndarray:
    ids = rng.integers(9, VOCAB, size=size)
    ids[::50], ids[1::50] = EOS, BOS
    return ids


@pytest.mark.parametrize("unit", ["subword", "word"])
@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_masking_keeps_its_shares_and_never_touches_special_tokens(unit, rate):
    ids = text(np.random.default_rng(0), 20_000)
    masked = masker(rate=rate, unit=unit).apply(ids, np.random.default_rng(1))
    assert len(masked.positions) == int(rate * len(ids)) == len(masked.targets)
    assert (masked.targets == ids[masked.positions]).all()
    assert len(set(masked.positions.tolist())) == len(masked.positions)
    assert not np.isin(masked.targets, [0, 1, 2, 3, 4]).any()
    shown = masked.ids[masked.positions]
    assert np.mean(shown == MASK) == pytest.approx(0.8, abs=0.02)
    assert np.mean(shown == masked.targets) == pytest.approx(0.1, abs=0.02)
    untouched = np.ones(len(ids), dtype=bool)
    untouched[masked.positions] = False
    assert (masked.ids[untouched] == ids[untouched]).all()
    # Neither special tokens nor numbers that no entry has come in at random.
    assert not np.isin(shown[shown != MASK], [0, 1, 2, 3, 7, 8]).any()
    # All entries are masked equally often, those that continue a word as those that begin one.
    assert np.mean(masked.targets < 500) == pytest.approx(np.mean(ids[ids > 4] < 500), abs=0.03)


def words_of(ids: np.ndarray) -> list[list[int]]:
    """The words of a text by the plain rule, one token at a time."""
    found: list[list[int]] = []
    last = EOS
    for place, token in enumerate(ids.tolist()):
        if token < 5:
            last = token
            continue
        if token >= 500 or last < 5 or last >= 990:
            found.append([])
        found[-1].append(place)
        last = token
    return found


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**6), st.integers(5, 400), st.floats(0.05, 0.9))
def test_whole_words_are_never_split_and_the_number_is_met(seed, size, rate):
    ids = text(np.random.default_rng(seed), size)
    masked = masker(rate=rate, unit="word").apply(ids, np.random.default_rng(seed))
    wanted = max(1, int(size * rate))
    chosen = set(masked.positions[masked.targets != IGNORED].tolist())
    words = words_of(ids)
    assert all(chosen.isdisjoint(word) or chosen.issuperset(word) for word in words)
    assert len(masked.positions) == len(masked.targets) == wanted
    # What is left over is less than any word that was left.
    left = [len(word) for word in words if chosen.isdisjoint(word)]
    assert wanted - len(chosen) < min(left, default=wanted + 1)


def test_a_word_that_a_sequence_begins_with_is_apart_from_the_one_before():
    ids = np.full(6, 100)  # continuing pieces only: one word, or one for each sequence
    starts = np.array([0, 2, 4])
    together = masker(rate=0.5, unit="word").apply(ids, np.random.default_rng(0))
    apart = masker(rate=0.5, unit="word").apply(ids, np.random.default_rng(0), starts)
    assert (together.targets == IGNORED).all()
    assert (apart.targets != IGNORED).sum() == 2


def test_the_number_of_positions_is_fixed_even_where_few_tokens_can_be_masked():
    ids = np.array([BOS, 10, EOS, BOS, EOS, BOS, EOS, BOS, EOS, BOS])
    for unit in ("subword", "word"):
        masked = masker(rate=0.5, unit=unit).apply(ids, np.random.default_rng(0))
        assert len(masked.positions) == 5
        assert (masked.targets != IGNORED).sum() == 1


def test_masks_change_with_the_stream_and_repeat_with_it():
    ids = text(np.random.default_rng(0), 300)
    for unit in ("subword", "word"):
        runs = (masker(unit=unit, rate=0.3).apply(ids, np.random.default_rng(s)).ids.tolist() for s in (0, 0, 1))
        one, same, other = runs
        assert one == same != other


def cut(tokenizer: Tokenizer, sentence: str) -> list[str]:
    """The words that the table finds in a text, each as its pieces joined."""
    encoding = tokenizer.encode(sentence, add_special_tokens=False)
    table = WordTable.of(SubwordVocabulary(tokenizer))
    words: list[str] = []
    for piece, begins in zip(encoding.tokens, table.starts(np.array(encoding.ids)).tolist(), strict=True):
        if begins:
            words.append("")
        words[-1] += piece
    return words


def byte_level() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    entries = ["<s>", *alphabet, "Ġf", "ev", "er", "Ġfev"]
    merges = [("Ġ", "f"), ("e", "v"), ("e", "r"), ("Ġf", "ev")]
    tokenizer = Tokenizer(models.BPE({entry: number for number, entry in enumerate(entries)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>"])
    return tokenizer


def test_words_of_byte_level_pieces():
    # A blank without a piece of its own with the next letter, letters of two bytes, digits, punctuation, line breaks.
    assert cut(byte_level(), "No fever, né 38.5 (p53)\nfev<s>er") == [
        "No",
        "Ġfever",
        ",",
        "ĠnÃ©",
        "Ġ38",
        ".",
        "5",
        "Ġ",
        "(",
        "p53",
        ")",
        "Ċ",
        "fev",
        "<s>",
        "er",
    ]


def test_words_of_wordpiece():
    entries = ["[UNK]", "no", "fe", "##ve", "##r", ",", "3", "##8"]
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    assert cut(tokenizer, "no fever,38 zz no") == ["no", "fe##ve##r", ",", "3##8", "[UNK]", "no"]


def test_words_of_unigram():
    entries = ["<unk>", "▁", "▁no", "▁fe", "ver", ",", "3", "8", "▁(", "fe", "é"]
    tokenizer = Tokenizer(models.Unigram([(entry, -1.0) for entry in entries], unk_id=0, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    assert cut(tokenizer, "no fever,38 (fever ver no é") == [
        "▁no",
        "▁fever",
        ",",
        "38",
        "▁(",
        "fever",
        "▁ver",
        "▁no",
        "▁é",
    ]


def test_words_of_pieces_marked_at_their_end():
    vocabulary = {"fe": 0, "ver</w>": 1, "no</w>": 2, "f": 3, "e": 4, "v": 5, "r</w>": 6, "n": 7, "o</w>": 8}
    for piece in ("ver", "er</w>", "r", "no", "o"):
        vocabulary[piece] = len(vocabulary)
    merges = [("f", "e"), ("e", "r</w>"), ("v", "er</w>"), ("n", "o</w>")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert cut(tokenizer, "fever no fever") == ["fever</w>", "no</w>", "fever</w>"]


def test_a_vocabulary_knows_its_gaps_and_its_words(tokenizer_folder):
    tokens = TokenizerFolder.open(tokenizer_folder)
    vocabulary = MaskingVocabulary.of(tokens)
    assert vocabulary.size == tokens.tokenizer.get_vocab_size()
    assert vocabulary.unused_ids == frozenset()
    ids = np.array(tokens.encode(["chest pain."])[0].ids)
    assert vocabulary.words.starts(ids).sum() == 3
    assert Masker(vocabulary, Masking(unit="word")).ordinary.tolist() == list(range(5, vocabulary.size))
