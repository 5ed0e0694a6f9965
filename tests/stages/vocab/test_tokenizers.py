"""Every kind of tokenizer is asked as it would cut running text, and its pieces are shown alike."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from osler.stages.vocab.tokenizers import Cut, Cutter


def shown(cutter: Cutter, word: str) -> str:
    return cutter.shown(word, cutter.subwords([word])[word])


def byte_level(*merges: tuple[str, str]) -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = dict.fromkeys([*alphabet, *(first + second for first, second in merges)])
    made = Tokenizer(models.BPE({piece: number for number, piece in enumerate(pieces)}, list(merges)))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


def unigram(*pieces: str) -> Tokenizer:
    made = Tokenizer(models.Unigram([("<s>", 0.0), ("<?>", 0.0), *((piece, -1.0) for piece in pieces)], unk_id=1))
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    return made


def word_piece() -> Tokenizer:
    pieces = ["[UNK]", "nefr", "##itis", "[PAD]", "a", "aguda", "-"]
    made = Tokenizer(models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made


def test_byte_level_letters_are_readable_even_if_split() -> None:
    whole = Cutter(byte_level(("Ã", "©")))
    assert shown(whole, "é") == "▁·é"
    assert shown(Cutter(byte_level(("Ġ", "c"), ("Ã", "©"))), "cé té") == "c·é ▁·t·é"
    assert shown(Cutter(byte_level(("Ġ", "c"))), "cía") == "c·í₁·í₂·a"
    # U+00ED is c3 ad; byte ad is written Ń in the byte alphabet
    assert shown(Cutter(byte_level(("Ġ", "c"), ("\u0143", "a"))), "cía") == "c·í₁·í₂a"


def test_the_unknown_token_is_looked_up() -> None:
    assert Cutter(word_piece()).unknown_token == "[UNK]"
    assert Cutter(unigram("▁nefr", "itis")).unknown_token == "<?>"
    assert Cutter(byte_level()).unknown_token is None
    cuts = Cutter(word_piece()).cuts(["nefritis", "zzz", "aguda"])
    assert cuts == {"nefritis": Cut(2, False), "zzz": Cut(1, True), "aguda": Cut(1, False)}
    assert (cuts["zzz"].whole, cuts["aguda"].whole) == (False, True)
    assert Cutter(unigram("▁nefr", "itis", "▁")).cuts(["nefrzitis"])["nefrzitis"].unknown


def test_a_letter_dropped_without_a_token_for_it_is_unknown() -> None:
    made = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    cuts = Cutter(made).cuts(["ab", "aéb", "é"])
    assert cuts == {"ab": Cut(1, False), "aéb": Cut(1, True), "é": Cut(0, True)}


def test_padding_and_truncation_of_the_file_do_not_count() -> None:
    made = word_piece()
    made.enable_padding(pad_id=3, pad_token="[PAD]", length=9)
    made.enable_truncation(2)
    assert Cutter(made).cuts(["nefritis"]) == {"nefritis": Cut(2, False)}
    assert made.padding is not None  # the caller's tokenizer stays as it was


def test_a_mark_put_before_every_text_does_not_count_twice() -> None:
    pieces = ["▁", "a", "n", "▁a", "▁n", "<0xC3>", "<0xA9>"]
    made = Tokenizer(
        models.BPE({piece: number for number, piece in enumerate(pieces)}, [("▁", "a"), ("▁", "n")], byte_fallback=True)
    )
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    cutter = Cutter(made)
    assert cutter.cuts(["n", "na"]) == {"n": Cut(1, False), "na": Cut(2, False)}
    assert shown(cutter, "né") == "n·é₁·é₂"


@pytest.mark.parametrize(
    ("made", "term", "expected"),
    [
        (word_piece(), "Nefritis aguda", "nefr·itis aguda"),
        (word_piece(), "nefritis-aguda", "nefr·itis·-·aguda"),
        (word_piece(), "nefritis xyz", "nefr·itis [UNK]"),
        (unigram("▁nefr", "itis", "▁", "aguda"), "nefritis aguda", "nefr·itis ▁·aguda"),
    ],
)
def test_marks_of_every_algorithm_are_shown_alike(made: Tokenizer, term: str, expected: str) -> None:
    assert shown(Cutter(made), term) == expected


def test_a_mark_at_the_end_of_words() -> None:
    pieces = {"n": 0, "a</w>": 1, "na</w>": 2, "n</w>": 3, "a": 4}
    made = Tokenizer(models.BPE(pieces, [("n", "a</w>")], end_of_word_suffix="</w>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert shown(Cutter(made), "na an") == "na a·n"
