"""Byte-level BPE, as in RoBERTa: any text can be written in it, nothing is unknown."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from osler.stages.vocab.algorithms import Texts
from osler.stages.vocab.config import VocabRecipe
from osler.stages.vocab.special import BEGIN, END, ID, special_tokens


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
        (END, ID[END]), (BEGIN, ID[BEGIN]), True, recipe.prefix_space
    )
    return tokenizer
