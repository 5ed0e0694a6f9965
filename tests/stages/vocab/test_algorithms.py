from __future__ import annotations

import pytest

from osler.artifacts.tokenizer import SPECIAL_TOKENS
from osler.core.config import load_recipe
from osler.core.errors import RecipeError
from osler.stages.vocab.algorithms import train
from osler.stages.vocab.config import VocabRecipe

TEXTS = [f"Nephritis number {n}: 5 µg of warfarin, pérdida leve." for n in range(30)]
SIZES = {"bpe": 330, "wordpiece": 90, "unigram": 80}
FEWEST = {"bpe": 50, "wordpiece": 50, "unigram": 40}
"""Releases of sentencepiece differ in how many sub-words they find in little text: 0.2.3 ends at 47 here, 0.2.2 at more."""


@pytest.mark.parametrize("algorithm", SIZES)
def test_every_algorithm_keeps_the_size_the_special_tokens_and_the_frame(algorithm):
    if algorithm == "unigram":
        pytest.importorskip("sentencepiece")
    options = {"corpus": "unused", "algorithm": algorithm, "size": SIZES[algorithm]}
    tokenizer = train(lambda: [TEXTS[:20], TEXTS[20:]], load_recipe(VocabRecipe, options=options))
    assert FEWEST[algorithm] < tokenizer.get_vocab_size() <= SIZES[algorithm]
    assert [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS] == list(range(len(SPECIAL_TOKENS)))
    single, pair = tokenizer.encode("warfarin"), tokenizer.encode("warfarin", "leve")
    assert (single.tokens[0], single.tokens[-1]) == ("<s>", "</s>")
    assert pair.tokens.count("</s>") == 3
    # Decomposed accents are the same word.
    assert tokenizer.encode("pérdida").ids == tokenizer.encode("pe\u0301rdida").ids


def test_an_uncased_vocabulary_has_no_capitals_and_no_accents():
    options = {"corpus": "unused", "algorithm": "wordpiece", "size": 80, "lowercase": True}
    tokenizer = train(lambda: [TEXTS], load_recipe(VocabRecipe, options=options))
    words = set(tokenizer.get_vocab()) - set(SPECIAL_TOKENS)
    assert all(word == word.lower() and "é" not in word for word in words)
    assert tokenizer.encode("NEPHRITIS Pérdida").ids == tokenizer.encode("nephritis perdida").ids
    assert tokenizer.token_to_id("<unk>") not in tokenizer.encode("NEPHRITIS Pérdida").ids
    with pytest.raises(RecipeError, match="lowercase is for algorithm = 'wordpiece'"):
        load_recipe(VocabRecipe, options={"corpus": "unused", "lowercase": True})


def test_the_second_text_of_a_wordpiece_pair_has_segment_one():
    tokenizer = train(
        lambda: [TEXTS], load_recipe(VocabRecipe, options={"corpus": "c", "algorithm": "wordpiece", "size": 90})
    )
    pair = tokenizer.encode("warfarin", "leve")
    border = pair.tokens.index("</s>") + 2
    assert pair.type_ids == [0] * border + [1] * (len(pair.ids) - border)
