from __future__ import annotations

import json

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from osler.text.subwords import Inventory, VocabularyEntry, origins

ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXT = ["He had nephritis and a fever. Fever, nephritis; the fever of nephritis.", "café naïve"] * 4


def byte_level(size: int = 330, *, prefix_space: bool = False) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=ROBERTA, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


def wordpiece(*entries: str, lower: bool = False) -> Tokenizer:
    names = [*BERT, *entries]
    tokenizer = Tokenizer(models.WordPiece({name: number for number, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(BERT)
    return tokenizer


def unigram(*entries: str) -> Tokenizer:
    pieces = [*((name, 0.0) for name in ROBERTA), *((entry, -float(place)) for place, entry in enumerate(entries))]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(ROBERTA)
    return tokenizer


def llama(*entries: str) -> Tokenizer:
    """BPE over characters in which the normaliser marks spaces, with bytes for what is not in the vocabulary."""
    tokenizer = Tokenizer(models.BPE({name: n for n, name in enumerate(entries)}, [("▁", "a")], byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return tokenizer


def suffixed(*entries: str) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE({name: n for n, name in enumerate(entries)}, [], end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def made_of(old: Tokenizer, new: Tokenizer, token: str) -> list[str]:
    """The old tokens that a new one is made of."""
    number = new.token_to_id(token)
    assert number is not None
    return [old.id_to_token(place) for place in origins(old, new).rows[number]]


@pytest.mark.parametrize(
    ("tokenizer", "token", "piece"),
    [
        (byte_level(), "Ġfever", VocabularyEntry(True, b"fever")),
        (byte_level(), "Ã", VocabularyEntry(False, b"\xc3")),
        (byte_level(), "Ġ", VocabularyEntry(True, b"")),
        (wordpiece("fever", "##itis", "."), "fever", VocabularyEntry(True, b"fever")),
        (wordpiece("fever", "##itis", "."), "##itis", VocabularyEntry(False, b"itis")),
        (wordpiece("fever", "##itis", "."), ".", VocabularyEntry(False, b".")),
        (unigram("▁fever", "itis", "▁caf", "é"), "▁fever", VocabularyEntry(True, b"fever")),
        (unigram("▁fever", "itis", "▁caf", "é"), "itis", VocabularyEntry(False, b"itis")),
        (llama("▁", "a", "▁a", "<0xC3>"), "▁a", VocabularyEntry(True, b"a")),
        (llama("▁", "a", "▁a", "<0xC3>"), "<0xC3>", VocabularyEntry(False, b"\xc3")),
        (suffixed("a", "a</w>"), "a", VocabularyEntry(True, b"a")),
        (suffixed("a", "a</w>"), "a</w>", VocabularyEntry(True, b"a", ends=True)),
    ],
)
def test_what_a_token_stands_for(tokenizer, token, piece):
    inventory = Inventory(tokenizer)
    assert inventory.entries[tokenizer.token_to_id(token)] == piece


def test_the_same_vocabulary_keeps_every_row():
    tokenizer = byte_level()
    size = tokenizer.get_vocab_size()
    made = origins(tokenizer, tokenizer)
    assert made.rows == tuple((number,) for number in range(size))
    assert (made.special, made.kept, made.composed, made.unknown) == (5, size - 5, 0, 0)


def test_special_tokens_go_by_their_role():
    old, new = byte_level(), wordpiece("fever")
    pairs = {"[PAD]": "<pad>", "[UNK]": "<unk>", "[CLS]": "<s>", "[SEP]": "</s>", "[MASK]": "<mask>"}
    assert {token: made_of(old, new, token) for token in pairs} == {a: [b] for a, b in pairs.items()}
    assert origins(old, new).special == 5
    assert made_of(new, old, "<s>") == ["[CLS]"]


def test_wordpiece_from_byte_level_keeps_beginnings_and_goings_on_apart():
    old = byte_level()
    assert {"Ġfever", "Ġnephritis"} <= old.get_vocab().keys()
    new = wordpiece("fever", "##fever", "nephritis", "nephrosis", "##osis", ".", "##.", "日")
    assert made_of(old, new, "fever") == ["Ġfever"]
    assert made_of(old, new, "##fever") == old.encode("fever").tokens
    assert made_of(old, new, "##fever")[0] != "Ġfever"
    assert made_of(old, new, "nephrosis") == old.encode(" nephrosis").tokens
    assert made_of(old, new, "##osis") == old.encode("osis").tokens
    assert made_of(old, new, ".") == ["."]
    assert len(made_of(old, new, "日")) == 4  # a blank and three bytes


def test_byte_level_from_wordpiece():
    old = wordpiece("fever", "he", "##ver", "nephr", "##itis", "itis", ".", "##.", "##c", "a", "##a", "c", "##f")
    new = byte_level()
    assert made_of(old, new, "Ġfever") == ["fever"]
    assert made_of(old, new, "Ġnephritis") == ["nephr", "##itis"]
    assert made_of(old, new, ".") == ["."], "the old tokenizer never writes ##. and so never trained it"
    assert made_of(old, new, "c") == ["##c"]
    assert made_of(old, new, "Ã") == [], "half a character has no place in a vocabulary of characters"
    assert made_of(old, new, "Ċ") == []


def test_a_piece_that_only_begins_words_is_taken_inside_one_where_it_must():
    old, new = wordpiece("itis", "nephr", "##ver"), byte_level(400)
    assert made_of(wordpiece("itis"), unigram("itis"), "itis") == ["itis"]
    assert made_of(wordpiece("it", "##it", "##is"), unigram("itis"), "itis") == ["##it", "##is"]
    assert made_of(old, new, "Ġ") == []


def test_metaspace_and_byte_level_with_a_prefix_space():
    old, new = unigram("▁fever", "▁", "f", "e", "v", "r", "itis", "▁nephr"), byte_level()
    assert made_of(old, new, "Ġfever") == ["▁fever"]
    assert made_of(old, new, "Ġnephritis") == ["▁nephr", "itis"]
    assert made_of(old, new, "f") == ["f"]
    spaced = byte_level(prefix_space=True)
    assert made_of(spaced, wordpiece("fever", "##ever"), "fever") == ["Ġfever"]
    assert not made_of(spaced, wordpiece("##xev"), "##xev")[0].startswith("Ġ")


def test_capitals_go_to_the_small_letters_of_a_tokenizer_that_has_no_others():
    old, new = wordpiece("fever", lower=True), wordpiece("Fever", "fever")
    made = origins(old, new)
    assert made_of(old, new, "Fever") == ["fever"]
    assert (made.kept, made.composed) == (1, 1)


def test_an_unknown_character_expresses_nothing():
    made = origins(wordpiece("fever"), wordpiece("fever", "日本"))
    assert made.rows[-1] == ()
    assert (made.kept, made.unknown) == (1, 1)


def test_the_old_tokenizer_s_truncation_has_no_say_and_stays():
    old = byte_level()
    old.enable_truncation(2)
    assert len(made_of(old, wordpiece("nephrosclerosis"), "nephrosclerosis")) > 2
    assert json.loads(old.to_str())["truncation"]["max_length"] == 2


def test_marks_of_words_are_not_part_of_what_an_entry_is_made_of():
    old = byte_level()
    assert made_of(old, suffixed("a", "a</w>"), "a</w>") == made_of(old, wordpiece("a"), "a")
    assert made_of(old, llama("▁", "a", "▁a"), "▁a") == made_of(old, wordpiece("a"), "a")
