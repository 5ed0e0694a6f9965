"""A unigram language model over pieces, as in XLM-R.

Learned by sentencepiece: the trainer of `tokenizers` walks through a hash map, so two runs give two vocabularies.
sentencepiece gives one, as long as it has one thread and gets its words in one order.
"""

from __future__ import annotations

import io
import re
from collections import Counter

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from osler.core.errors import RecipeError
from osler.core.extras import require
from osler.stages.vocab.algorithms import Texts
from osler.stages.vocab.config import VocabRecipe
from osler.stages.vocab.special import ID, SPECIAL, UNKNOWN, framing, special_tokens

_COVERAGE = 0.9999


def train(texts: Texts, recipe: VocabRecipe) -> Tokenizer:
    """Count words, then prune pieces by how little the likelihood loses without them."""
    pieces = _pieces(_words(texts), recipe.size - len(SPECIAL))
    entries = [(token, 0.0) for token in SPECIAL] + pieces
    tokenizer = Tokenizer(models.Unigram(entries, unk_id=ID[UNKNOWN], byte_fallback=False))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = framing()
    tokenizer.add_special_tokens(special_tokens())
    return tokenizer


def _words(texts: Texts) -> list[str]:
    """Words with their counts, as lines `word TAB count`, the most frequent first and ties in code point order."""
    counts: Counter[str] = Counter()
    for batch in texts():
        for text in batch:
            counts.update(text.split())
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [f"{word}\t{count}" for word, count in ranked]


def _pieces(words: list[str], size: int) -> list[tuple[str, float]]:
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
        raise _refusal(str(error), size) from None
    learned = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return [(learned.id_to_piece(index), learned.get_score(index)) for index in range(1, learned.get_piece_size())]


def _refusal(message: str, size: int) -> RecipeError:
    needed = re.search(r"required_chars\D*(\d+) vs (\d+)", message)
    if needed is None:
        return RecipeError(
            f"sentencepiece cannot learn {size:,} pieces from this corpus",
            where="size",
            fix="Set another size, or give more text",
        )
    least = max(int(number) for number in needed.groups()) + len(SPECIAL)
    return RecipeError(
        "the size is too small: single characters alone take more", where="size", fix=f"Set size to more than {least}"
    )
