"""Every public corpus, prepared from its official files: all counts pinned, and what it shares with the others."""

from __future__ import annotations

import pytest

from osler.artifacts.task_folder import TaskFolder
from osler.stages.prepare.check import CheckReport, check
from osler.stages.prepare.run import PrepareOutcome, jobs, run_all
from osler.tasks.catalogue import all_cards, load_card
from osler.tasks.instances.relation import RelationBuilder

pytestmark = pytest.mark.realdata

# Documents, then mentions and relations, or labels given, as the kind of task has them.
PINNED = {
    "bc2gm": {"train": (12510, 15307), "dev": (2490, 2958), "test": (5000, 6331)},
    "bc5cdr": {"train": (500, 9385), "dev": (500, 9591), "test": (500, 9809)},
    "bc5cdr-chem": {"train": (500, 5203), "dev": (500, 5347), "test": (500, 5385)},
    "bc5cdr-disease": {"train": (500, 4182), "dev": (500, 4244), "test": (500, 4424)},
    "biosses": {"train": (64,), "dev": (16,), "test": (20,)},
    "cantemist": {"train": (501, 6396), "dev": (500, 6001), "test": (300, 3633)},
    "chemprot": {"train": (1020, 25752, 4157), "dev": (612, 15567, 2416), "test": (800, 20828, 3458)},
    "codiesp": {"train": (500, 5639), "dev": (250, 2677)},
    "codiesp-p": {"train": (500, 1550), "dev": (250, 817)},
    "ddi-drugs": {"train": (642, 13336), "dev": (72, 1429), "test": (112, 686)},
    "ddi2013": {"train": (642, 13336, 3670), "dev": (72, 1429, 350), "test": (191, 3040, 979)},
    "e3c-attributes-en": {"train": (30, 1701), "dev": (6, 341), "test": (48, 2843)},
    "e3c-attributes-es": {"train": (30, 1784), "dev": (6, 170), "test": (45, 2813)},
    "e3c-attributes-fr": {"train": (30, 1604), "dev": (6, 355), "test": (45, 2353)},
    "e3c-en": {"train": (602, 371), "dev": (67, 66), "test": (851, 516)},
    "e3c-es": {"train": (409, 466), "dev": (46, 43), "test": (679, 800)},
    "e3c-fr": {"train": (453, 483), "dev": (51, 86), "test": (605, 695)},
    "hoc": {"train": (1295, 1725), "dev": (186, 238), "test": (371, 503)},
    "jnlpba": {"train": (1800, 46016), "dev": (200, 5285), "test": (404, 8662)},
    "linnaeus": {"train": (60, 2609), "dev": (11, 479), "test": (29, 1171)},
    "meddocan": {"train": (500, 11333), "dev": (250, 5801), "test": (250, 5661)},
    "medrqe": {"train": (7736,), "dev": (852,), "test": (302,), "test-mediqa2019": (230,)},
    "ncbi-disease": {"train": (593, 5145), "dev": (100, 787), "test": (100, 960)},
    "nli4ct": {"train": (1700,), "dev": (200,), "test": (500,)},
    "nubes-attributes": {"train": (453, 42615), "dev": (59, 2862), "test": (96, 2408)},
    "pharmaconer": {"train": (500, 3733), "dev": (250, 1882), "test": (250, 1842)},
    "pubmedqa": {"train": (450,), "dev": (50,), "test": (500,)},
    "quaero-emea": {"train": (11, 2695), "dev": (12, 2260), "test": (15, 2204)},
    "quaero-medline": {"train": (833, 2994), "dev": (832, 2977), "test": (833, 3103)},
    "s800": {"train": (560, 2557), "dev": (80, 384), "test": (160, 767)},
}
NOT_PUBLIC = {"bc4chemd", "clinicalsts-2018", "i2b2-2010-assertions", "i2b2-2010-concepts", "i2b2-2010-relations",
              "i2b2-2012-events", "i2b2-2014-deid", "ictusnet", "mednli", "n2c2-2018-ade", "n2c2-2019-sts", "share-clef-2013"}  # fmt: skip
EXPLAINED = {("chemprot", "train", "relations"), ("ddi2013", "all", "documents"), ("pharmaconer", "all", "mentions")}
DEFECTS = {
    "bc2gm": {"train": {"text-mismatch": 1}},
    "codiesp": {
        "train": {"empty-fragment": 2, "text-mismatch": 4},
        "dev": {"empty-fragment": 2, "text-mismatch": 2},
    },
    "ddi-drugs": {"train": {"empty-label": 1, "text-mismatch": 4}},
    "ddi2013": {"train": {"empty-label": 1, "text-mismatch": 4}},
    "medrqe": {"train": {"empty-text": 1}},
    "ncbi-disease": {"train": {"duplicate-document": 1, "text-mismatch": 1}},
    "pharmaconer": {"train": {"text-mismatch": 5}},
}
DEFECTS["codiesp-p"] = DEFECTS["codiesp"]


@pytest.fixture(scope="module")
def outcomes(data_dir, tmp_path_factory) -> dict[str, PrepareOutcome]:
    out = tmp_path_factory.mktemp("tasks")
    return {outcome.job.name: outcome for outcome in run_all(data_dir, jobs(out))}


@pytest.fixture(scope="module")
def report(outcomes) -> CheckReport:
    """Everything but folds 3 to 10, which would only make the check slower."""
    wanted = [o for o in outcomes.values() if o.status == "made" and o.job.fold in (None, 1, 2)]
    folders = [TaskFolder.open(outcome.job.out) for outcome in sorted(wanted, key=lambda o: o.job.name)]
    return check(folders, leakage=False)


def test_all_public_tasks_are_made_and_the_others_are_said_to_be_missing(outcomes):
    missing = {name for name, outcome in outcomes.items() if outcome.status == "not found"}
    assert {n: (o.status, o.message) for n, o in outcomes.items() if o.status in ("failed", "incomplete")} == {}
    assert missing == NOT_PUBLIC
    assert (
        set(PINNED) | {f"{name}-fold{k}" for name in ("gad", "euadr") for k in range(1, 11)} == set(outcomes) - missing
    )


@pytest.mark.parametrize("task", PINNED)
def test_counts(outcomes, task):
    found = {}
    for split, numbers in outcomes[task].counts["splits"].items():
        shown = ("documents", "mentions", "relations", "assigned")
        found[split] = tuple(numbers[name] for name in shown if name in numbers)
    assert found == PINNED[task]
    assert outcomes[task].counts.get("problems", {}) == DEFECTS.get(task, {})


@pytest.mark.parametrize(("task", "positive", "negative"), [("gad", 2801, 2529), ("euadr", 262, 93)])
def test_the_test_sets_of_the_folds_are_the_corpus(outcomes, task, positive, negative):
    labels = [outcomes[f"{task}-fold{fold}"].counts["splits"]["test"]["labels"] for fold in range(1, 11)]
    assert sum(found["1"] for found in labels) == positive
    assert sum(found["0"] for found in labels) == negative


def test_every_number_is_the_papers_or_the_difference_is_explained(report):
    assert report.sound
    lines = [(task.task, line) for task in report.tasks for line in task.lines]
    explained = {(name, line.split, line.number) for name, line in lines if line.verdict == "explained"}
    assert explained == EXPLAINED
    assert sum(line.paper is not None for _, line in lines) > 80
    assert all(not task.offsets["on blanks alone"] for task in report.tasks)


def test_cards_pin_what_the_files_hold(report):
    for task in report.tasks:
        if "-fold" not in task.task:
            assert set(load_card(task.task).counts) == set(task.splits), task.task


def test_known_copies_across_and_within_tasks_are_found(outcomes):
    names = ("bc5cdr", "chemprot", "codiesp", "hoc", "jnlpba", "meddocan", "pharmaconer")
    report = check([TaskFolder.open(outcomes[name].job.out) for name in names])
    across = {(item.of, item.within): (item.texts, item.near) for item in report.across}
    assert across["codiesp/train", "pharmaconer/test"] == (116, 0)
    # MEDDOCAN adds headers to the same cases: no text is the same, all 129 with the same id are nearly the same.
    assert across["pharmaconer/train", "meddocan/test"] == (0, 129)
    assert across["hoc/train", "chemprot/test"] == (0, 1)
    within = {(item.of, item.within): (item.texts, item.ids) for item in report.within}
    assert within["jnlpba/train", "jnlpba/test"] == (10, 10)
    assert ("bc5cdr/train", "bc5cdr/test") not in within


def test_candidate_pairs_of_ddi_are_the_official_ones_and_those_of_chemprot_near_the_benchmarks(outcomes):
    def candidates(task: str, protocol: str) -> list[int]:
        data = TaskFolder.open(outcomes[task].job.out)
        builder = RelationBuilder(data.card, data.card.protocol_named(protocol), None, 512, 0)
        return [sum(1 for d in data.stream(split) for _ in builder.candidates(d)) for split in ("train", "dev", "test")]

    train, dev, test = candidates("ddi2013", "micro")
    assert (train + dev, test) == (27792, 5716)
    for protocol, published in (("blue", (19460, 11820, 16943)), ("blurb", (18035, 11268, 15745))):
        assert candidates("chemprot", protocol) == pytest.approx(published, rel=0.025)


def test_hoc_has_the_abstracts_that_blue_counts(outcomes):
    data = TaskFolder.open(outcomes["hoc"].job.out)
    assert sum(bool(d.labels) for split in data.splits for d in data.stream(split)) == 1580


def test_public_cards_are_exactly_those_that_are_free():
    free = {card.name for card in all_cards() if card.access.startswith("Free")}
    assert free - {"bc4chemd", "gad", "euadr"} == set(PINNED)
