"""Sentences or documents as the unit of tagging, and the corpus's own tokens as words."""

from __future__ import annotations

import numpy as np
import pytest
from seqeval.metrics import f1_score
from tests.tasks.test_instances import DOCUMENT, TEXT, card, perfect

from osler.artifacts.tokenizer import Tokenizer
from osler.core.config import load_recipe
from osler.core.errors import RecipeError
from osler.stages.finetune.config import FinetuneRecipe
from osler.tasks.instances.base import IGNORED, HeadOptions, ReadingUnit, make_builder
from osler.tasks.scoring import score
from osler.text.document import TOKENS, Document, Span, token_ranges
from osler.text.sentences import sentences


@pytest.fixture(scope="module")
def tokens(tokenizer_folder):
    return Tokenizer.open(tokenizer_folder)


def builder(tokens, max_length=512, *, protocols=None, **options):
    described = card("tagging", **({"protocols": protocols} if protocols else {}))
    return make_builder(described, None, tokens, max_length, 4, HeadOptions(**options))


def seen(tokens, instance) -> set[int]:
    window = instance.place.window
    return {word for word in instance.place.aligned.word_ids[window.start : window.end] if word is not None}


@pytest.mark.parametrize("max_words", [None, 4])
@pytest.mark.parametrize("max_length", [16, 512])
def test_gold_survives_sentences_and_pieces_of_them(tokens, max_length, max_words):
    made = builder(tokens, max_length, unit="sentence", max_words=max_words)
    built = made.build([DOCUMENT], gold=True)
    predicted = made.decode([DOCUMENT], built.instances, perfect(made, built.instances))
    assert [s.key for s in predicted[0].spans] == [s.key for s in DOCUMENT.spans]
    assert score(made.card, made.protocol, [DOCUMENT], predicted).main == 1.0


def test_no_window_reads_beyond_its_sentence(tokens):
    parts = sentences(TEXT, "en")
    assert len(parts) == 2
    instances = builder(tokens, unit="sentence").build([DOCUMENT], gold=False).instances
    assert len(instances) == len(parts)
    for instance, (start, end) in zip(instances, parts, strict=True):
        words = [instance.place.aligned.words[word] for word in seen(tokens, instance)]
        assert min(words)[0] == start
        assert max(words)[1] == end


def test_a_long_sentence_is_cut_after_so_many_words(tokens):
    instances = builder(tokens, unit="sentence", max_words=4).build([DOCUMENT], gold=False).instances
    sizes = [len(seen(tokens, instance)) for instance in instances]
    assert max(sizes) == 4
    assert sum(sizes) == len(token_ranges(DOCUMENT))


def test_each_word_is_learned_exactly_once_whatever_the_unit(tokens):
    def labelled(**options) -> int:
        built = builder(tokens, 16, **options).build([DOCUMENT], gold=True)
        return sum(int((instance.target != IGNORED).sum()) for instance in built.instances)

    assert labelled() == labelled(unit="sentence") == labelled(unit="sentence", max_words=3)


def test_an_empty_document_still_has_one_instance(tokens):
    made = builder(tokens, unit="sentence", max_words=30)
    documents = [Document("empty", ""), Document("blank", " \n "), DOCUMENT]
    built = made.build(documents, gold=False)
    assert {instance.record for instance in built.instances} == {0, 1, 2}
    outputs = [np.zeros((i.length, len(made.outputs)), dtype=np.float32) for i in built.instances]
    assert [d.spans for d in made.decode(documents, built.instances, outputs)] == [(), (), ()]


def test_a_mention_that_continues_in_the_next_sentence_is_counted(tokens):
    text = "He had pain. Fever too."
    document = Document("d", text, (Span.at(7, 18, "PROBLEM", id="T1"),))
    whole = builder(tokens).build([document], gold=True)
    parts = builder(tokens, unit="sentence").build([document], gold=True)
    assert whole.unexpressed["mentions that continue in the next sentence"] == 0
    assert parts.unexpressed["mentions that continue in the next sentence"] == 1


def test_heads_of_one_unit_share_a_reading(tokens):
    assert builder(tokens).reading == ReadingUnit()
    assert builder(tokens, unit="sentence").reading == builder(tokens, unit="sentence").reading
    assert builder(tokens, unit="sentence").reading != builder(tokens, unit="sentence", max_words=30).reading


TOKENISED = Document(
    "iob",
    "Give [PLD]2 and IL-2 receptor\nalpha for the pain",
    (Span.at(5, 11, "DRUG", id="T1"), Span.at(16, 29, "DRUG", id="T2"), Span.at(44, 48, "PROBLEM", id="T3")),
    meta=TOKENS,
)


def tag_logits(made, instances, tags: list[str]) -> list[np.ndarray]:
    """Outputs of a model that gives each token of the corpus this tag."""
    outputs = []
    for instance in instances:
        logits = np.zeros((instance.length, len(made.outputs)), dtype=np.float32)
        window = instance.place.window
        for place in range(window.start, window.end):
            word = instance.place.aligned.word_ids[place]
            if word is not None:
                logits[place - window.start + len(made.tokens.prefix), made.outputs.index(tags[word])] = 20.0
        outputs.append(logits)
    return outputs


@pytest.mark.parametrize("unit", ["document", "sentence"])
def test_tokens_of_the_corpus_are_the_words_and_lines_the_sentences(tokens, unit):
    """osler's own words are `[`, `PLD`, `]` and `2`, and a mention may cross a line of other text."""
    protocols = {"p": {"metric": "f1", "decoding": "greedy", "repair": "conlleval"}}
    made = builder(tokens, protocols=protocols, unit=unit)
    gold = [["O", "B-DRUG", "O", "B-DRUG", "I-DRUG"], ["O", "O", "O", "B-PROBLEM"]]
    # The last token of the first line and the first of the second: two mentions for seqeval.
    found = [["O", "B-DRUG", "O", "O", "B-DRUG"], ["I-DRUG", "O", "O", "B-PROBLEM"]]
    instances = made.build([TOKENISED], gold=False).instances
    predicted = made.decode([TOKENISED], instances, tag_logits(made, instances, [*found[0], *found[1]]))
    assert [(s.start, s.end) for s in predicted[0].spans] == [(5, 11), (21, 29), (30, 35), (44, 48)]
    ours = score(made.card, made.protocol, [TOKENISED], predicted).main
    assert ours == pytest.approx(f1_score(gold, found), abs=1e-12)


def test_max_words_needs_sentences():
    with pytest.raises(RecipeError, match='set unit = "sentence" too'):
        load_recipe(FinetuneRecipe, options={"model": "m", "tasks": ["t"], "max_words": 30})


def test_recipes_of_earlier_versions_keep_their_identity():
    plain = FinetuneRecipe(model="m", tasks=("t",))
    assert not {"unit", "max_words"} & plain.identity().keys()
    assert plain.changed(unit="sentence").identity()["unit"] == "sentence"
