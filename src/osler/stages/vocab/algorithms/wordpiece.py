"""WordPiece, as in BERT: sub-words that continue a word are marked with `##`.

The library's trainer numbers the `##` characters in the order of a hash map, which differs from run to run and decides ties.
Here they are counted first and numbered in sorted order, so that the same corpus gives the same vocabulary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from osler.artifacts.tokenizer import UNKNOWN
from osler.stages.vocab.algorithms import Texts, framing, special_tokens
from osler.stages.vocab.config import VocabRecipe

_PREFIX = "##"
_ALPHABET = 1000
_UNCASED = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])


def train(texts: Texts, recipe: VocabRecipe) -> Tokenizer:
    """Count characters in a first pass, train sub-words in a second."""
    if recipe.lowercase:
        texts = partial(_lower_case, texts)
    alphabet = _alphabet(texts)
    learner = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    learner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=recipe.size,
        min_frequency=recipe.min_frequency,
        special_tokens=[*special_tokens(), *(_PREFIX + character for character in alphabet)],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        continuing_subword_prefix=_PREFIX,
        show_progress=False,
    )
    learner.train_from_iterator(texts(), trainer)
    # A new tokenizer, in which the `##` characters are ordinary entries and not special tokens.
    vocabulary = learner.get_vocab(with_added_tokens=True)
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=UNKNOWN, continuing_subword_prefix=_PREFIX))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(special_tokens())
    tokenizer.normalizer = _UNCASED if recipe.lowercase else normalizers.NFC()
    tokenizer.decoder = decoders.WordPiece(prefix=_PREFIX)
    tokenizer.post_processor = framing(segments=True)
    return tokenizer


def _lower_case(texts: Texts) -> Iterator[list[str]]:
    for batch in texts():
        yield [_UNCASED.normalize_str(text) for text in batch]


def _alphabet(texts: Texts) -> list[str]:
    """Return the most frequent characters, ties in code point order; all others become unknown."""
    counts: Counter[str] = Counter()
    for batch in texts():
        for text in batch:
            counts.update(text)
    known = [character for character in counts if not character.isspace()]
    return sorted(sorted(known, key=lambda character: (-counts[character], character))[:_ALPHABET])
