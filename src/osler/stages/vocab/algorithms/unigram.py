"""A unigram language model over sub-words, as in XLM-R.

Trained by sentencepiece: the trainer of `tokenizers` iterates over a hash map, so its vocabulary differs from run to run, while
sentencepiece is deterministic in one thread with words in a fixed order.
"""

from __future__ import annotations

import io
import re
from collections import Counter

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from osler.artifacts.tokenizer import SPECIAL_TOKENS, UNKNOWN
from osler.core.errors import RecipeError
from osler.core.extras import require
from osler.stages.vocab.algorithms import IDS, Texts, framing, special_tokens
from osler.stages.vocab.config import VocabRecipe

_COVERAGE = 0.9999


def train(texts: Texts, recipe: VocabRecipe) -> Tokenizer:
    """Count words, then remove the sub-words whose loss costs the least likelihood."""
    counts: Counter[str] = Counter()
    for batch in texts():
        for text in batch:
            counts.update(text.split())
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    subwords = _subwords([f"{word}\t{count}" for word, count in ranked], recipe.size - len(SPECIAL_TOKENS))
    entries = [(token, 0.0) for token in SPECIAL_TOKENS] + subwords
    tokenizer = Tokenizer(models.Unigram(entries, unk_id=IDS[UNKNOWN], byte_fallback=False))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = framing()
    tokenizer.add_special_tokens(special_tokens())
    return tokenizer


def _subwords(words: list[str], size: int) -> list[tuple[str, float]]:
    """Return sub-words with their scores, from lines of the form `word TAB count`."""
    sentencepiece = require("sentencepiece", "corpus")
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(words),
            input_format="tsv",
            model_writer=model,
            model_type="unigram",
            vocab_size=size + 1,  # its own <unk> is dropped below
            hard_vocab_limit=False,
            num_threads=1,
            character_coverage=_COVERAGE,
            normalization_rule_name="identity",
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            minloglevel=2,
        )
    except RuntimeError as error:
        needed = re.search(r"required_chars\D*(\d+) vs (\d+)", str(error))
        if needed is None:
            raise RecipeError(
                f"sentencepiece cannot find {size:,} sub-words in this corpus",
                where="size",
                fix="Set another size, or give more text",
            ) from None
        least = max(int(number) for number in needed.groups()) + len(SPECIAL_TOKENS)
        raise RecipeError(
            "the size is too small: single characters alone need more",
            where="size",
            fix=f"Set size to more than {least}",
        ) from None
    trained = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return [(trained.id_to_piece(index), trained.get_score(index)) for index in range(1, trained.get_piece_size())]
