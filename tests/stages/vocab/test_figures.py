from __future__ import annotations

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from osler.artifacts.corpus import CorpusText
from osler.stages.vocab.figures import count, measure_fertility
from osler.stages.vocab.tokenizers import Cutter


@pytest.fixture
def cutter() -> Cutter:
    """Knows two words whole, and single letters a to d of any other."""
    vocabulary = {
        piece: 10 + index for index, piece in enumerate(["aspirin", "fever", *"abcd", *("##" + c for c in "abcd")])
    }
    made = Tokenizer(models.WordPiece({"<unk>": 3, **vocabulary}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return Cutter(made)


def test_figures_by_source_and_by_language_over_words_with_letters(cutter: Cutter) -> None:
    documents = [
        CorpusText("x", "en", "aspirin 81 mg."),
        CorpusText("y", "en", "fever, abc; abc - dad"),
        CorpusText("y", None, "aspirin"),
    ]
    result = measure_fertility(cutter, count(documents)).plain()
    assert result["sources"]["x"] == {
        "documents": 1,
        "words": 2,
        "fertility": 1.0,
        "whole_words": 0.5,  # an unknown word is one piece, but not whole
        "unknown_words": 0.5,
        # aspirin, unknown 81, unknown mg, unknown full stop, in 14 characters
        "tokens_per_1000_characters": round(4000 / 14, 2),
    }
    assert result["sources"]["y"]["words"] == 5
    assert result["sources"]["y"]["fertility"] == pytest.approx((1 + 3 + 3 + 3 + 1) / 5)
    assert result["sources"]["y"]["whole_words"] == pytest.approx(2 / 5)
    assert {name: facts["words"] for name, facts in result["languages"].items()} == {"en": 6, "not stated": 1}
    assert result["languages"]["en"]["fertility"] == pytest.approx(12 / 6)
    assert (result["documents"], result["words"]) == (3, 7)
    assert result["fertility"] == pytest.approx(13 / 7, abs=1e-4)


def test_no_words_at_all(cutter: Cutter) -> None:
    assert measure_fertility(cutter, count([CorpusText("x", None, "1 2 3")])).plain()["fertility"] == 0
    assert measure_fertility(cutter, count([CorpusText("x", None, "")])).plain()["tokens_per_1000_characters"] == 0


def test_words_are_those_of_the_running_text() -> None:
    text = "El  niño,de 3 años: TC-craneal\ncafe\u0301 y 汉字; (IMC 30kg/m2)"
    from osler.text.words import words

    expected = [text[start:end] for start, end in words(text)]
    [counts] = count([CorpusText("x", None, text)]).values()
    assert sorted(counts.words.elements()) == sorted(word for word in expected if any(map(str.isalpha, word)))
    assert counts.characters == len(" ".join(text.split()))
