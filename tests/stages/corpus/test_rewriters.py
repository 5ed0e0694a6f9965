"""Rewriters as part of the stage."""

from __future__ import annotations

import pytest

from osler.core.config import load_recipe
from osler.core.errors import RecipeError, UnknownNameError
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.rewriters import REWRITERS, Rewriter
from osler.stages.corpus.rewriters.whitespace import Whitespace

TEXT = (
    "<p>The <b>patient</b> has a fever of 39 ºC.</p><script>x()</script>\n\n\nWrite to ana@example.org for the report."
)


def test_every_rewriter_is_found_and_has_described_options() -> None:
    from osler.core.config import find_field

    for name in REWRITERS.names():
        kind = REWRITERS.get(name)
        assert issubclass(kind, Rewriter)
        assert all(find_field(kind, option)[1] for option in kind.model_fields)


def test_each_passage_is_in_the_ledger_with_its_option(build, jsonl, documents, ledger) -> None:
    corpus = build(jsonl([TEXT]), rewrite={"markup": {}, "masks": {}, "whitespace": {}})
    [document] = documents(corpus)
    assert document["text"] == "The patient has a fever of 39 ºC.\n\nWrite to [EMAIL] for the report."
    rows = [(row["step"], row["reason"], row["unit"]) for row in ledger(corpus)]
    assert ("rewrite", "markup.html", "passage") in rows
    assert ("rewrite", "masks", "document changed") in rows
    assert TEXT not in str(ledger(corpus))


def test_the_bytes_do_not_depend_on_the_number_of_workers(build, jsonl) -> None:
    texts = [f"{TEXT} Number {number}." for number in range(50)]
    files = [str(jsonl(texts[index::3], f"part{index}.jsonl")) for index in range(3)]
    steps = {"normalise": {}, "markup": {}, "masks": {}, "repeated_lines": {}, "sentences": {}, "whitespace": {}}
    one, two = (build(*files, rewrite=steps, workers=workers) for workers in (1, 2))
    shards = [[path.read_bytes() for path in sorted((corpus.path / "shards").iterdir())] for corpus in (one, two)]
    assert shards[0] == shards[1]


def test_mistakes_name_the_right_option() -> None:
    def recipe(**rewrite: object) -> CorpusRecipe:
        return load_recipe(CorpusRecipe, None, [], {"sources": ["notes.txt"], "rewrite": rewrite})

    assert recipe(whitespace={"blank_lines": 3}).rewrite["whitespace"] == Whitespace(blank_lines=3)
    with pytest.raises(RecipeError, match=r"rewrite.whitespace: unknown key 'blank_line', did you mean 'blank_lines'"):
        recipe(whitespace={"blank_line": 3})
    with pytest.raises(UnknownNameError, match="Did you mean 'whitespace'"):
        recipe(whitespaces={})
