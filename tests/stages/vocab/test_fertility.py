from __future__ import annotations

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from osler.stages.vocab.fertility import measure


@pytest.fixture
def tokenizer() -> Tokenizer:
    """Knows two words whole, and single letters a to d of any other."""
    vocabulary = {
        piece: 10 + index for index, piece in enumerate(["aspirin", "fever", *"abcd", *("##" + c for c in "abcd")])
    }
    made = Tokenizer(models.WordPiece({"<unk>": 3, **vocabulary}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made


def test_counts_words_with_letters_only(tokenizer: Tokenizer) -> None:
    documents = [("x", "aspirin 81 mg."), ("y", "fever, abc; abc - dad"), ("y", "aspirin")]
    result = measure(tokenizer, documents)
    assert result["sources"]["x"] == {
        "documents": 1,
        "words": 2,
        "fertility": 1.0,
        "whole_words": 1.0,
        "unknown_words": 0.5,
    }
    assert result["sources"]["y"]["words"] == 5
    assert result["sources"]["y"]["fertility"] == pytest.approx((1 + 3 + 3 + 3 + 1) / 5)
    assert result["sources"]["y"]["whole_words"] == pytest.approx(2 / 5)
    assert (result["documents"], result["words"]) == (3, 7)
    assert result["fertility"] == pytest.approx(13 / 7, abs=1e-4)


def test_no_words_at_all(tokenizer: Tokenizer) -> None:
    assert measure(tokenizer, [("x", "1 2 3")])["fertility"] == 0
