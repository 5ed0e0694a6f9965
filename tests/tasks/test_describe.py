"""What people read about tasks comes from the cards: `osler tasks info`, `osler tasks list` and the page in the documentation."""

from __future__ import annotations

import runpy

import pytest
from typer.testing import CliRunner

from osler.cli.main import app
from osler.tasks.catalogue import all_cards, card_paths
from osler.tasks.describe import describe

PAPERS = [
    "bc5cdr-chem", "bc5cdr-disease", "bc5cdr", "jnlpba", "ncbi-disease", "bc4chemd", "bc2gm", "linnaeus", "s800",
    "i2b2-2010-concepts", "i2b2-2012-events", "i2b2-2014-deid", "n2c2-2018-ade", "share-clef-2013",
    "quaero-medline", "quaero-emea", "pharmaconer", "cantemist", "ictusnet", "meddocan", "chemprot", "ddi2013",
    "i2b2-2010-relations", "gad", "euadr", "hoc", "mednli", "medrqe", "clinicalsts-2018", "n2c2-2019-sts",
    "biosses", "nli4ct", "pubmedqa", "codiesp", "e3c-en", "e3c-fr", "e3c-es", "ddi-drugs",
]  # fmt: skip


def test_every_task_of_the_papers_has_a_card():
    assert set(PAPERS) <= set(card_paths())


def test_the_page_of_tasks_is_up_to_date(root):
    made = runpy.run_path(str(root / "docs" / "build_tasks.py"))["page"]()
    assert (root / "docs" / "tasks.md").read_text(encoding="utf-8") == made, "run: python docs/build_tasks.py"


@pytest.mark.parametrize("name", PAPERS)
def test_a_card_says_what_it_is_how_to_get_it_and_which_files_it_expects(name):
    card = next(card for card in all_cards() if card.name == name)
    assert card.access
    assert card.citation
    assert card.licence != "unknown"
    assert card.paper is not None
    assert card.distribution
    shown = describe(card)
    for piece in (card.protocol_id(), "train", *card.source.splits["train"].files):
        assert piece in shown


def test_a_card_printed_as_toml_can_be_used_as_a_card(tmp_path):
    from osler.tasks.catalogue import load_card

    done = CliRunner().invoke(app, ["tasks", "info", "chemprot", "--toml"])
    (tmp_path / "mine.toml").write_text(done.stdout, encoding="utf-8")
    assert load_card(tmp_path / "mine.toml") == load_card("chemprot")


def test_tasks_are_listed_by_language_kind_and_domain():
    shown = CliRunner().invoke(app, ["tasks", "list", "--language", "es", "--kind", "tagging"], env={"COLUMNS": "200"})
    names = {line.split()[0] for line in shown.output.splitlines()[1:] if line.strip()}
    wanted = {c.name for c in all_cards() if c.language == "es" and c.kind == "tagging"}
    assert wanted >= {"pharmaconer", "cantemist", "meddocan", "ictusnet", "e3c-es"}
    assert wanted == names
    assert CliRunner().invoke(app, ["tasks", "list", "--kind", "taging"]).exit_code == 2
