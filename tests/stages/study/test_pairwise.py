"""Which task helps which: matrix, effects by the stated rule, groups."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from osler.core.errors import RecipeError
from osler.metrics.significance import PairedComparison
from osler.stages.study.cells import CellKey
from osler.stages.study.page import study_markdown, write_report
from osler.stages.study.pairwise import HELPS, HURTS, NOTHING, UNKNOWN, Effect, affinity_groups, effects, matrix
from osler.stages.study.results import Compared, Results, collect
from osler.stages.study.tables import accounting_table


@pytest.fixture
def results(bench) -> Results:
    """Alone every task has 10 of 20; with two, one has 18; with three, two has 2; nothing else changes."""
    for column in ("one", "two", "three"):
        bench.classes(column)
    together = {("one", "two"): (18, 10), ("one", "three"): (10, 10), ("two", "three"): (2, 11)}
    runs = []
    for seed in (1, 2):
        runs += [bench.run("a", column, seed, 10, steps=50) for column in ("one", "two", "three")]
        for pair, right in together.items():
            runs.append(bench.run("a", pair, seed, dict(zip(pair, right, strict=True)), mode="pair", steps=100))
    return collect(bench.recipe("a", modes=("single", "pairs")), runs)


def test_effects_follow_the_rule(results: Results) -> None:
    found = {(effect.helper, effect.helped): effect for effect in effects(results, "a")}
    assert len(found) == 6
    assert found["two", "one"].kind == HELPS
    assert found["two", "one"].difference == pytest.approx(0.4)
    assert found["one", "two"].kind == NOTHING
    assert found["three", "two"].kind == HURTS
    # One document more of twenty is not beyond doubt.
    assert found["two", "three"].difference == pytest.approx(0.05)
    assert found["two", "three"].kind == NOTHING
    assert (found["two", "one"].steps, found["two", "one"].single_steps) == (50, 50)


def test_the_matrix_has_the_helped_task_in_rows(results: Results) -> None:
    table = matrix(["one", "two", "three"], effects(results, "a"))
    assert [row[i] for i, row in enumerate(table)] == [None, None, None]
    assert table[0][1] == pytest.approx(0.4)
    assert table[1][2] == pytest.approx(-0.4)
    assert table[1][0] == 0


def test_the_markdown_page_has_every_effect(results: Results) -> None:
    text = study_markdown(results)
    section = text[text.index("## Pairs of tasks") : text.index("## More tables")]
    assert sum(line.startswith(("| one |", "| two |", "| three |")) for line in section.splitlines()) == 6
    assert "| two | three | −40.0" in section
    assert "hurts" in section


def test_page_and_json(bench, results: Results, tmp_path: Path) -> None:
    out = tmp_path / "study"
    out.mkdir()
    runs = [bench.run("a", column, 1, 10) for column in ("one", "two")]
    runs.append(bench.run("a", ("one", "two"), 1, {"one": 19, "two": 10}, mode="pair"))
    write_report(collect(bench.recipe("a"), runs, 0), out)
    made = json.loads((out / "pairwise.json").read_text())
    assert made["models"]["a"]["tasks"] == ["one", "two"]
    assert made["models"]["a"]["groups"] == [["one", "two"]]
    effect = made["models"]["a"]["effects"][0]
    assert (effect["helper"], effect["helped"], effect["effect"]) == ("two", "one", HELPS)
    assert effect["low"] > 0
    assert "95 % interval" in made["rule"]
    page = (out / "pairwise.html").read_text()
    assert "two to one: helps +45.0" in page
    assert "one/pair@v1 (accuracy)" in page
    assert "pairwise.html" in (out / "report.html").read_text()


def effect(helper: str, helped: str, difference: float, kind: str) -> Effect:
    low, high = {HELPS: (0.01, 1), HURTS: (-1, -0.01), NOTHING: (-1, 1)}[kind]
    comparison = PairedComparison(0.5 + difference, 0.5, difference, low, high, 0.01)
    key = CellKey("a", helped, "pair", 1.0, helper)
    return Effect(helper, helped, difference, Compared(key, key.plain, comparison, 0.01), 1, 1)


def test_groups_join_the_largest_help_first_and_never_across_harm() -> None:
    found = [
        effect("a", "b", 0.10, HELPS),
        effect("c", "b", 0.05, HELPS),
        effect("a", "c", -0.02, HURTS),  # so c cannot join the group of a and b
        effect("c", "d", 0.01, HELPS),
        effect("e", "a", 0.30, NOTHING),
    ]
    groups = affinity_groups(list("abcde"), found)
    assert [group.tasks for group in groups] == [("a", "b"), ("c", "d"), ("e",)]
    assert [(e.helper, e.helped) for e in groups[0].reasons] == [("a", "b")]


def test_without_an_interval_nothing_is_decided() -> None:
    assert Effect("a", "b", 0.5, None, 1, 1).kind == UNKNOWN


def test_accounting_states_steps_that_differ(bench) -> None:
    bench.classes("one")
    bench.classes("two")
    runs = [bench.run("a", "one", 1, 10, steps=100), bench.run("a", "two", 1, 10, steps=40)]
    runs.append(bench.run("a", ("one", "two"), 1, {"one": 10, "two": 14}, mode="together", steps=200))
    table = accounting_table(collect(bench.recipe("a"), runs))
    one, two = table.rows
    assert list(one[-3:]) == [100, 100, "yes"]
    assert list(two[-3:]) == [100, 40, "no, 2.50 x"]
    assert table.headings == {0: "a"}
    assert "1 seed" in table.note


def test_the_command_sets_the_modes(bench) -> None:
    bench.classes("one")
    with pytest.raises(RecipeError, match="two tasks"):
        bench.recipe("a").in_pairs()
    bench.classes("two")
    recipe = bench.recipe("a", fractions=[0.5], seeds=[7]).in_pairs()
    assert (recipe.modes, recipe.fractions, recipe.seeds) == (("single", "pairs"), (), (7,))
