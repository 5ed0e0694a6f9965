"""Byte-level BPE, as in RoBERTa: it can encode any text, so nothing is unknown."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from osler.artifacts.tokenizer import BEGIN, END
from osler.stages.vocab.algorithms import IDS, Texts, special_tokens
from osler.stages.vocab.config import VocabRecipe


def train(texts: Texts, recipe: VocabRecipe) -> Tokenizer:
    """Count words, then merge the most frequent pair until the vocabulary is full."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=recipe.prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=recipe.size,
        min_frequency=recipe.min_frequency,
        special_tokens=special_tokens(),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(), trainer)
    tokenizer.normalizer = normalizers.NFC()
    # By position: the names of the first two differ between versions of tokenizers.
    tokenizer.post_processor = processors.RobertaProcessing(
        (END, IDS[END]), (BEGIN, IDS[BEGIN]), True, recipe.prefix_space
    )
    return tokenizer
