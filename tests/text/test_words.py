"""Words: what they are, that only whitespace lies between them, and how they relate to sub-words of all kinds of tokenizers."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from osler.text.words import covered, word_of_subword, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        (" \n\t ", ""),
        ("No fever.", "No fever ."),
        ("38.5\u00a0°C", "38 . 5 ° C"),
        ("10mg/kg b.i.d.", "10 mg / kg b . i . d ."),
        ("pT1b_N0", "pT 1 b _ N 0"),
        ("l'hôpital Saint-Louis", "l ' hôpital Saint - Louis"),
        ("e\u0301tude cafe\u0301.", "e\u0301tude cafe\u0301 ."),
        ("患者は38度", "患 者 は 38 度"),
        ("रोगी को", "रोगी को"),
        ("a\r\nb\u2028c", "a b c"),
        ("❤\ufe0f ok", "❤\ufe0f ok"),
        ("\u0301a", "\u0301 a"),
        ("x\x00y\ud800", "x \x00 y \ud800"),
        ("\u200fشلل\u200e (CP)", "شلل ( CP )"),
        ("\u202baspirin\u202c \u2067mg\u2069", "aspirin mg"),
        ("\ufeffaspi\u200brin e\u0301\u200f", "aspi rin e\u0301"),
    ],
)
def test_examples(text: str, expected: str) -> None:
    assert [text[start:end] for start, end in words(text)] == expected.split(" ") * bool(expected)


INVISIBLE = "\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
letters = st.text(
    st.sampled_from("aZéñµ5\uff10 .,-_/\n\r\u00a0\u0301\u0903漢か👩\u200d⚕\ufe0fﬁ\u200b\u200f"), max_size=40
)


def between(text: str) -> str:
    """Text between words without what may lie there."""
    return text.translate({ord(mark): "" for mark in INVISIBLE}).strip()


@settings(max_examples=200, deadline=None)
@given(st.one_of(letters, st.text(max_size=40)))
def test_offsets_rebuild_the_text(text: str) -> None:
    position = 0
    for start, end in words(text):
        assert position <= start < end <= len(text)
        assert between(text[position:start]) == ""
        assert not any(character.isspace() for character in text[start:end])
        position = end
    assert between(text[position:]) == ""


@settings(max_examples=100, deadline=None)
@given(letters)
def test_no_word_begins_with_a_mark_that_has_a_base(text: str) -> None:
    for start, _ in words(text):
        if start > 0 and unicodedata.category(text[start])[0] == "M":
            assert text[start - 1].isspace() or text[start - 1] in INVISIBLE


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(max_codepoint=255), min_size=101, max_size=200))
def test_long_latin_texts_are_read_as_by_the_pattern(text: str) -> None:
    """They are read another way, without a regular expression; an emoji after the text makes it one for the pattern."""
    assert words(text) == words(f"{text} \U0001f600")[:-1]


@settings(max_examples=50, deadline=None)
@given(letters, letters)
def test_words_do_not_depend_on_what_is_elsewhere(left: str, right: str) -> None:
    alone = [(start + len(left) + 1, end + len(left) + 1) for start, end in words(right)]
    assert words(f"{left} {right}") == words(left) + alone


TEXT = (
    "El niño de 5 años 👩\u200d⚕\ufe0f tomó 2,5mg/kg de ibuprofeno.\r\n"
    "E\u0301tude: cœur naïf, fièvre à 38,5\u00a0°C\t(le 3/4).  患者は発熱 ﬁbrosis µg\u200bx — fin\n\n"
)
SPECIALS = ["<unk>", "<s>", "</s>"]


def train(tokenizer: Tokenizer, trainer: trainers.Trainer, *, frame: bool = True) -> Tokenizer:
    """Train on the text and put special tokens around what is encoded."""
    tokenizer.train_from_iterator([TEXT] * 3, trainer)
    if frame:
        ids = [(token, tokenizer.token_to_id(token)) for token in SPECIALS[1:]]
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ids)
    return tokenizer


def byte_level(trim: bool, prefix: bool) -> Tokenizer:
    """Byte-level BPE small enough to spread characters over several tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=280, initial_alphabet=alphabet, special_tokens=SPECIALS, show_progress=False
    )
    train(tokenizer, trainer, frame=False)
    ends = [(token, tokenizer.token_to_id(token)) for token in ("</s>", "<s>")]
    tokenizer.post_processor = processors.RobertaProcessing(*ends, trim_offsets=trim, add_prefix_space=prefix)
    return tokenizer


def word_piece() -> Tokenizer:
    """WordPiece that lowers case and strips accents, so that pieces and characters differ in number."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=90, special_tokens=SPECIALS, show_progress=False)
    return train(tokenizer, trainer)


def unigram(normalize: bool) -> Tokenizer:
    """Unigram with a blank marker before each word."""
    tokenizer = Tokenizer(models.Unigram())
    if normalize:
        tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=120, unk_token="<unk>", special_tokens=SPECIALS, show_progress=False)
    return train(tokenizer, trainer)


TOKENIZERS = {
    "byte-level": lambda: byte_level(trim=False, prefix=False),
    "byte-level trimmed": lambda: byte_level(trim=True, prefix=True),
    "word-piece": word_piece,
    "unigram": lambda: unigram(normalize=False),
    "unigram normalized": lambda: unigram(normalize=True),
}


@pytest.fixture(scope="module", params=TOKENIZERS)
def offsets(request: pytest.FixtureRequest) -> list[tuple[int, int]]:
    """What a tokenizer of each kind says about the text."""
    found: list[tuple[int, int]] = TOKENIZERS[request.param]().encode(TEXT).offsets
    assert found[0] == found[-1] == (0, 0)
    return found


def test_a_subword_belongs_to_the_first_word_it_touches(offsets: list[tuple[int, int]]) -> None:
    ranges = words(TEXT)
    for (start, end), word in zip(offsets, word_of_subword(ranges, offsets), strict=True):
        touched = [i for i, (s, e) in enumerate(ranges) if s < end and start < e]
        assert word == (touched[0] if touched else None)


def test_blanks_around_a_word_change_nothing() -> None:
    ranges = words(" ab\n c ")
    assert word_of_subword(ranges, [(0, 4), (4, 7)]) == word_of_subword(ranges, [(1, 3), (5, 6)]) == [0, 1]


def test_a_character_spread_over_tokens_is_one_word() -> None:
    text = "a 👩 b"
    offsets = [(0, 0), (0, 1), (1, 3), (2, 3), (2, 3), (3, 5), (0, 0)]
    owners = word_of_subword(words(text), offsets)
    assert owners == [None, 0, 1, 1, 1, 2, None]


def test_one_token_over_several_words() -> None:
    text = "5mg/kg"
    ranges = words(text)
    assert word_of_subword(ranges, [(0, 3), (3, 6)]) == [0, 2]


def test_nothing_in_nothing_out() -> None:
    assert word_of_subword([(0, 4)], []) == []
    assert word_of_subword([], [(0, 0), (0, 2)]) == [None, None]
    assert word_of_subword([(0, 4)], [(2, 2), (0, 0), (4, 4)]) == [None, None, None]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 9, [0, 1, 2]), (1, 2, [0]), (2, 3, []), (3, 3, []), (2, 4, [1]), (4, 7, [1, 2]), (8, 9, []), (0, 0, [])],
)
def test_covered(start: int, end: int, expected: list[int]) -> None:
    assert list(covered([(0, 2), (3, 5), (6, 8)], start, end)) == expected
