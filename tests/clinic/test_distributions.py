"""Fake distributions have official file names and lines, pass the strict readers, and are reproducible to the byte."""

from __future__ import annotations

import re
from collections import Counter
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.artifacts.task_folder import TaskFolder
from osler.clinic.distributions import DISTRIBUTIONS, TASKS, get_distribution
from osler.clinic.distributions.base import labels_of
from osler.clinic.distributions.i2b2_2012 import time_value
from osler.clinic.distributions.rewriting import contiguous, deidentified, edited, full_date, tokenised
from osler.clinic.notes import notes
from osler.clinic.synthesize import SynthesizeRecipe, plan, run
from osler.core.artifact import Artifact
from osler.core.errors import RecipeError, UnknownNameError
from osler.formats.base import configure
from osler.formats.registry import detect_formats, get_format
from osler.formats.sources import SourceTree
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.tasks.card import Kind
from osler.tasks.catalogue import card_paths, load_card
from osler.text.document import Document, Record, Relation, Span

N = 12
NAMES = DISTRIBUTIONS.names()
CARDS = sorted({*NAMES, *TASKS} & card_paths().keys())
"""Tasks that are read from these distributions."""
Made = dict[tuple[str, bool], Artifact]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Every distribution, as folders and as archives."""
    folder = tmp_path_factory.mktemp("distributions")
    return {
        (name, archives): run(SynthesizeRecipe(task=name, n=N, archives=archives), folder / f"{name}-{archives}")
        for name in NAMES
        for archives in (False, True)
    }


def read(artifact: Artifact, name: str, split: str) -> list[Record]:
    """Read a split with the format's reader, which raises at the first defect."""
    distribution = get_distribution(name)
    with SourceTree.open(artifact.path) as tree:
        chosen = tree.view({name: name for name in tree.names(*distribution.splits[split])})
        return list(configure(get_format(distribution.format), distribution.options).read(chosen))


def documents(made: Made, name: str, split: str = "train") -> list[Document]:
    return [record for record in read(made[name, False], name, split) if isinstance(record, Document)]


def content(record: Record) -> object:
    """Everything but the id, which in some formats contains the path of the file."""
    return record.with_(id="")


@pytest.mark.parametrize("archives", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_the_reader_finds_exactly_what_was_generated(name: str, archives: bool, made: Made) -> None:
    artifact = made[name, archives]
    for split in get_distribution(name).splits:
        records = read(artifact, name, split)
        assert len(records) == artifact.manifest.counts[split] > 0
        assert len({record.id for record in records}) == len(records)
        labels = Counter(label for record in records for label in labels_of(record))
        assert labels == artifact.manifest.counts[f"{split}_detail"]


@pytest.mark.parametrize("name", NAMES)
def test_archives_and_folders_have_the_same_content(name: str, made: Made) -> None:
    for split in get_distribution(name).splits:
        plain, packed = (read(made[name, archives], name, split) for archives in (False, True))
        assert list(map(content, plain)) == list(map(content, packed))
    assert {path.name for path in made[name, True].path.iterdir()} == {
        "README.txt",
        "manifest.json",
        "recipe.toml",
        *get_distribution(name).packages.values(),
    }


@pytest.mark.parametrize("archives", [False, True])
@pytest.mark.parametrize("task", CARDS)
def test_the_task_can_be_prepared(task: str, archives: bool, made: Made, tmp_path: Path) -> None:
    distribution = made[TASKS.get(task, task), archives]
    counts = prepare(PrepareRecipe(task=task, source=distribution.path), tmp_path / "task").manifest.counts
    assert "problems" not in counts
    wanted = distribution.manifest.counts
    card = load_card(task)
    assert sum(counts[split] for split in card.source.splits) == sum(
        count for split, count in wanted.items() if not split.endswith("_detail")
    )
    prepared, generated = Counter[str](), Counter[str]()
    for split in counts["splits"].values():
        prepared.update(split.get("labels", {}))
    for split, labels in wanted.items():
        generated.update({k: v for k, v in labels.items() if k in card.labels} if split.endswith("_detail") else {})
    if card.kind is Kind.ATTRIBUTES:  # the distribution counts mentions and relations, not their attributes
        spans = (
            span for split in ("train", "test") for note in documents(made, TASKS[task], split) for span in note.spans
        )
        found = Counter(f"{name}={value}" for span in spans for name, value in span.attributes.items())
        generated = Counter({card.label_map[name]: count for name, count in found.items() if name in card.label_map})
        assert set(generated) == set(card.labels)
    assert prepared == generated


@pytest.mark.parametrize(
    ("task", "release", "folder"),
    [
        ("i2b2-2010-concepts", "public", "concept_assertion_relation_training_data/partners"),
        ("i2b2-2010-concepts", "full", "concept_assertion_relation_training_data/upmcd"),
        ("i2b2-2010-relations", "full", "concept_assertion_relation_training_data/upmcp"),
        ("clinicalsts-2018", "official", "ClinicalSTS"),
        ("clinicalsts-2018", "blue", "clinicalSTS"),
    ],
)
def test_every_release_can_be_made_and_is_recognised(task: str, release: str, folder: str, tmp_path: Path) -> None:
    recipe = SynthesizeRecipe(task=task, n=20, release=release)
    files = run(recipe, tmp_path / "files")
    assert (files.path / folder).is_dir()
    assert f"--release {release}" in (files.path / "README.txt").read_text()
    made = prepare(PrepareRecipe(task=task, source=files.path), tmp_path / "task")
    assert made.manifest.counts["release"] == release
    card = TaskFolder.open(made.path).card
    assert card.release == release
    assert card.paper == load_card(task).at_release(release).paper


def test_the_challenge_of_2018_has_750_pairs_of_which_75_are_dev(tmp_path: Path) -> None:
    files = run(SynthesizeRecipe(task="clinicalsts-2018", n=750), tmp_path / "files")
    made = [prepare(PrepareRecipe(task="clinicalsts-2018", source=files.path), tmp_path / name) for name in "ab"]
    assert [made[0].manifest.counts[split] for split in ("train", "dev", "test")] == [675, 75, 318]
    assert made[0].manifest.files == made[1].manifest.files
    pairs = TaskFolder.open(made[0].path).read("test")
    scores = (files.path / "ClinicalSTS" / "clinicalSTS.test.gs.sim.txt").read_text().split()
    assert [pair.value for pair in pairs] == [float(score) for score in scores]


def test_the_full_i2b2_2010_divides_its_records_between_four_folders(tmp_path: Path) -> None:
    folder = tmp_path / "files" / "concept_assertion_relation_training_data"
    run(SynthesizeRecipe(task="i2b2-2010", n=349, release="full"), tmp_path / "files")
    numbers = {site.name: len(list((site / "txt").iterdir())) for site in folder.iterdir()}
    assert numbers == {"beth": 73, "partners": 97, "upmcd": 98, "upmcp": 81}


def test_a_release_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"no release 'blu'.*official, blue"):
        run(SynthesizeRecipe(task="clinicalsts-2018", release="blu"), tmp_path / "out")
    with pytest.raises(UnknownNameError, match=r"mednli has no release 'x'.*Leave out --release"):
        run(SynthesizeRecipe(task="mednli", release="x"), tmp_path / "out")


def test_recipes_without_a_release_have_the_identity_they_always_had() -> None:
    assert "release" not in SynthesizeRecipe(task="mednli").identity()
    assert "release" not in PrepareRecipe(task="mednli").identity()
    assert SynthesizeRecipe(task="i2b2-2010", release="full").identity()["release"] == "full"
    assert PrepareRecipe(task="i2b2-2010", release="full").identity()["release"] == "full"


def test_every_task_that_is_not_public_can_be_synthesized() -> None:
    assert set(TASKS.values()) <= set(NAMES)
    assert set(TASKS) <= card_paths().keys()
    closed = {name for name in card_paths() if re.search("agreement|PhysioNet|not public", load_card(name).licence)}
    assert closed <= set(CARDS)


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_says_that_nothing_is_real(name: str, made: Made) -> None:
    readme = (made[name, False].path / "README.txt").read_text()
    assert readme.startswith("SYNTHETIC DATA. This is not the real corpus")
    assert f"osler tasks synthesize {name} --n {N} --seed 0" in readme


@pytest.mark.parametrize("name", NAMES)
def test_the_same_recipe_gives_the_same_bytes_and_another_seed_other_text(
    name: str, made: Made, tmp_path: Path
) -> None:
    again = run(SynthesizeRecipe(task=name, n=N, archives=True), tmp_path / "again")
    assert again.manifest.files == made[name, True].manifest.files
    other = run(SynthesizeRecipe(task=name, n=N, seed=1), tmp_path / "other")
    split = next(iter(get_distribution(name).splits))
    assert [content(r) for r in read(other, name, split)] != [content(r) for r in read(made[name, False], name, split)]


@pytest.mark.parametrize("name", NAMES)
def test_the_format_is_recognised(name: str, made: Made) -> None:
    distribution = get_distribution(name)
    with SourceTree.open(made[name, True].path) as tree:
        train = tree.view({name: name for name in tree.names(*distribution.splits["train"])})
        assert distribution.format in detect_formats(train)


@pytest.mark.parametrize("name", NAMES)
def test_the_smallest_size_fills_every_official_folder(name: str, tmp_path: Path) -> None:
    run(SynthesizeRecipe(task=name, n=4), tmp_path / "out")
    for folder in get_distribution(name).packages:
        place = tmp_path / "out" / folder
        assert place.is_file() or any(path.is_file() for path in place.rglob("*"))


def test_splits_keep_the_proportions_of_the_release(made: Made) -> None:
    counts = {name: made[name, False].manifest.counts for name in NAMES}
    assert (counts["i2b2-2010"]["test"], counts["i2b2-2012"]["test"]) == (18, 8)
    assert (counts["mednli"]["dev"], counts["n2c2-2018"]["test"]) == (1, 8)


def test_two_distributions_of_one_seed_share_no_text(made: Made) -> None:
    texts = Counter(
        document.text
        for name in ("n2c2-2018", "share-clef-2013", "mimic-iii-notes", "i2b2-2014")
        for split in get_distribution(name).splits
        for document in documents(made, name, split)
    )
    assert set(texts.values()) == {1}


def test_official_names_and_lines(made: Made) -> None:
    def names(task: str) -> set[str]:
        root = made[task, False].path
        found = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
        return {re.sub(r"\d", "9", name) for name in found} - {"README.txt", "manifest.json", "recipe.toml"}

    train, gold = "concept_assertion_relation_training_data", "reference_standard_for_test_data"
    hospitals = {
        f"{train}/{hospital}/{kind}/{name}.{kind[:3]}"
        for hospital, some in (("beth", ("record-9",)), ("partners", ("999999999",)))
        for name in some
        for kind in ("txt", "concept", "ast", "rel")
    }
    test = {f"{gold}/{kind}/9999.{kind[:3]}" for kind in ("concepts", "ast", "rel")} | {"test_data/9999.txt"}
    assert names("i2b2-2010") == hospitals | test
    assert names("i2b2-2014") == {
        "training-PHI-Gold-Set9/999-99.xml",
        "testing-PHI-Gold-fixed/999-99.xml",
    }
    assert names("n2c2-2018") == {
        f"{folder}/999999.{suffix}"
        for folder in ("training_99999999", "gold-standard-test-data")
        for suffix in ("txt", "ann")
    }
    assert names("ictusnet") == {"ictusnet/99999.utf9.txt", "ictusnet/99999.utf9.ann"}
    assert names("clinicalsts-2018") == {
        f"ClinicalSTS/clinicalSTS.{part}.txt" for part in ("train", "test", "test.gs.sim")
    }
    assert names("n2c2-2019-sts") == {
        f"clinicalSTS9999/clinicalSTS9999.{part}.txt" for part in ("train", "test", "test.gs.sim")
    }


@pytest.mark.parametrize(
    ("name", "place", "line"),
    [
        ("i2b2-2010", "**/*.con", r'c="[^A-Z]+" \d+:\d+ \d+:\d+\|\|t="(problem|test|treatment)"'),
        ("i2b2-2010", "**/*.ast", r'c=".+" \d+:\d+ \d+:\d+\|\|t="problem"\|\|a="[a-z_]+"'),
        ("i2b2-2010", "**/*.rel", r'c=".+" \d+:\d+ \d+:\d+\|\|r="(Tr..|TrNAP|Te.P|PIP)"\|\|c=".+" \d+:\d+ \d+:\d+'),
        (
            "share-clef-2013",
            "**/Task1Gold/*.txt",
            r"\d{5}-\d{6}-[A-Z_]+\.txt\|\|Disease_Disorder\|\|(CUI-less|C\d{7})(\|\|\d+\|\|\d+)+",
        ),
        ("n2c2-2019-sts", "**/*.train.txt", r"[^\t]+\t[^\t]+\t[0-5]\.[05]"),
        ("n2c2-2019-sts", "**/*.test.txt", r"[^\t]+\t[^\t]+"),
        ("bc4chemd", "**/train.tsv", r"(\S+\t([BI]-Chemical|O))?"),
    ],
)
def test_every_line_has_the_official_grammar(name: str, place: str, line: str, made: Made) -> None:
    lines = [line for path in made[name, False].path.glob(place) for line in path.read_text().splitlines()]
    assert lines
    assert [found for found in lines if not re.fullmatch(line, found)] == []


def test_i2b2_2010_relations_stay_on_a_line_and_only_problems_have_assertions(made: Made) -> None:
    notes = documents(made, "i2b2-2010") + documents(made, "i2b2-2010", "test")
    assert {span.label for note in notes for span in note.spans if "assertion" in span.attributes} == {"problem"}
    assert len({span.attributes.get("assertion") for note in notes for span in note.spans}) > 4
    assert {"TrAP", "TrCP", "TeRP", "PIP"} <= {relation.label for note in notes for relation in note.relations}
    for note in notes:
        for relation in note.relations:
            head, tail = note.span(relation.head), note.span(relation.tail)
            assert "\n" not in note.text[min(head.start, tail.start) : max(head.end, tail.end)]
            assert tail.label == "problem"


def test_i2b2_2012_has_events_times_section_times_and_links(made: Made) -> None:
    notes = documents(made, "i2b2-2012")
    elements = Counter(span.attributes["element"] for note in notes for span in note.spans)
    assert elements.keys() == {"EVENT", "TIMEX3", "SECTIME"}
    assert {relation.label for note in notes for relation in note.relations} == {"BEFORE", "AFTER", "OVERLAP"}
    for span in (span for note in notes for span in note.spans):
        if span.attributes["element"] == "EVENT":
            assert span.attributes["polarity"] in {"POS", "NEG"}
            assert span.attributes["modality"] in {"FACTUAL", "CONDITIONAL", "POSSIBLE", "PROPOSED"}
        elif span.attributes["element"] == "TIMEX3":
            assert span.label in {"DATE", "DURATION", "FREQUENCY"}
            assert re.fullmatch(r"\d{4}(-..)?(-\d\d)?|R?PT?\d+[HDWMY]", span.attributes["val"])
    assert all(note.text.startswith("\n") and "  " not in note.text for note in notes)
    assert "'" not in "".join(note.text for note in notes)


def test_i2b2_2014_has_the_official_categories_and_sets(made: Made) -> None:
    notes = documents(made, "i2b2-2014")
    elements = {(span.attributes["element"], span.label) for note in notes for span in note.spans}
    assert {("ID", "MEDICALRECORD"), ("NAME", "DOCTOR"), ("CONTACT", "PHONE"), ("LOCATION", "HOSPITAL")} <= elements
    assert all(re.match(r"\n+Record date: 20\d\d-\d\d-\d\d\n", note.text) for note in notes)
    folders = [made["i2b2-2014", False].path / f"training-PHI-Gold-Set{number}" for number in (1, 2)]
    first, second = ({path.stem.split("-")[0] for path in folder.iterdir()} for folder in folders)
    assert first
    assert second
    assert not first & second
    assert 'comment="" />' in next(folders[0].iterdir()).read_text()


def test_n2c2_2018_relates_attributes_to_drugs_and_breaks_spans_at_line_ends(made: Made) -> None:
    notes = documents(made, "n2c2-2018") + documents(made, "n2c2-2018", "test")
    relations = [(note, relation) for note in notes for relation in note.relations]
    assert {relation.label for _, relation in relations} >= {"Strength-Drug", "Reason-Drug", "ADE-Drug", "Form-Drug"}
    for note, relation in relations:
        ends = note.span(relation.head).label, note.span(relation.tail).label
        assert ends == (relation.label.removesuffix("-Drug"), "Drug")
    spans = [(note, span) for note in notes for span in note.spans]
    assert any(span.discontinuous for _, span in spans)
    assert all("\n" not in note.text[start:end] for note, span in spans for start, end in span.fragments)
    assert any("[**" in note.text for note in notes)


def test_share_clef_has_discontinuous_overlapping_and_concept_less_disorders(made: Made) -> None:
    notes = documents(made, "share-clef-2013") + documents(made, "share-clef-2013", "test")
    concepts = Counter(span.attributes["concept"] == "CUI-less" for note in notes for span in note.spans)
    assert concepts[True] > 0
    assert concepts[False] > 0
    wide = [(note, span) for note in notes for span in note.spans if span.discontinuous]
    assert wide
    assert any(
        other is not span and other.start < span.end and span.start < other.end
        for note, span in wide
        for other in note.spans
    )


def test_mimic_drops_errors_and_keeps_quotes_and_line_breaks(tmp_path: Path) -> None:
    artifact = run(SynthesizeRecipe(task="mimic-iii-notes", n=80), tmp_path / "out")
    every = list(configure(get_format("mimic"), {"errors": True}).read(artifact.path / "NOTEEVENTS.csv"))
    assert len(every) == 80 > artifact.manifest.counts["train"]
    table = (artifact.path / "NOTEEVENTS.csv").read_text()
    assert '""pleasant""' in table
    assert '"Physician "' in table
    assert any(isinstance(note, Document) and '"pleasant"' in note.text for note in every)
    assert {note.meta["category"] for note in every} >= {"Physician", "Discharge summary"}


def test_ictusnet_marks_suggestions_and_has_normalised_values(made: Made) -> None:
    folder = made["ictusnet", False].path / "ictusnet"
    assert any("\t_SUG_" in path.read_text() for path in folder.glob("*.ann"))
    notes = documents(made, "ictusnet")
    assert len({span.label for note in notes for span in note.spans}) == 38
    days = [span for note in notes for span in note.spans if span.label.startswith("Fecha_")]
    assert all(date.fromisoformat(span.attributes["AnnotatorNotes"]) for span in days)


def test_a_wrong_recipe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="i2b2-2010"):
        run(SynthesizeRecipe(task="i2b2-2011"), tmp_path / "out")
    from osler.core.config import load_recipe

    with pytest.raises(RecipeError, match="must be at least 4"):
        load_recipe(SynthesizeRecipe, options={"task": "mednli", "n": 1})


def test_the_command_makes_the_distribution_and_prints_its_path(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from osler.cli.main import app

    out = tmp_path / "fake"
    done = CliRunner().invoke(
        app, ["tasks", "synthesize", "i2b2-2014-deid", "--n", "4", "--archives", "--out", str(out)]
    )
    assert done.exit_code == 0, done.output
    assert done.stdout.strip().endswith(str(out))
    assert (out / "2014_training-PHI-Gold-Set1.tar.gz").is_file()


def test_the_plan_names_what_is_made_up(tmp_path: Path) -> None:
    lines = plan(SynthesizeRecipe(task="mednli", n=9, archives=True), tmp_path)
    assert "9 training records" in lines[0]
    assert "not the real corpus" in lines[1]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_edits_move_spans(data: st.DataObject) -> None:
    text = data.draw(st.text("ab \n", min_size=1, max_size=30))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    edits = [(a, b, data.draw(st.text("xyz", max_size=3))) for a, b in zip(cuts[::2], cuts[1::2], strict=False)]
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    changed = edited(Document("d", text, (Span.at(start, end, "X", id="T1"),)), edits)
    expected, position = "", 0
    for a, b, new in edits:
        expected, position = expected + text[position:a] + new, b
    assert changed.text == expected + text[position:]
    if all(b <= start or a >= end for a, b, _ in edits):
        assert [span.text_in(changed.text) for span in changed.spans] == [text[start:end]]


def test_notes_keep_every_mention_when_tokenised_and_deidentified() -> None:
    for note in notes(20, language="en", seed=5, split="train"):
        cut = tokenised(note)
        assert [s.text_in(cut.text).replace(" ", "") for s in cut.spans] == [
            "".join(s.text_in(note.text).split()) for s in note.spans
        ]
        assert all("\n" not in cut.text[span.start : span.end] for span in cut.spans)
        clean = deidentified(note)
        kept = [span for span in note.spans if span.id in {s.id for s in clean.spans}]
        assert [s.text_in(clean.text) for s in clean.spans] == [s.text_in(note.text) for s in kept]
        for span in note.spans:
            if span.label in {"PATIENT", "PHONE", "ID"} and len(span.text_in(note.text)) > 6:
                assert span.text_in(note.text) not in clean.text


def test_a_discontinuous_mention_merges_with_mentions_inside_it() -> None:
    wide = Span(((0, 4), (15, 24)), "problem", "T1")
    note = Document(
        "d",
        "left and right knee pain after ibuprofen",
        (wide, Span.at(9, 24, "problem", id="T2"), Span.at(31, 40, "treatment", id="T3")),
        (Relation("TrCP", "T3", "T1", "R1"), Relation("TrCP", "T3", "T2", "R2"), Relation("PIP", "T1", "T2", "R3")),
    )
    merged = contiguous(note)
    assert [(span.id, span.fragments) for span in merged.spans] == [("T1", ((0, 24),)), ("T3", ((31, 40),))]
    assert [relation.key for relation in merged.relations] == [("TrCP", "T3", "T1")]


def test_times_have_timex_values() -> None:
    def values(label: str, *mentions: str) -> list[str]:
        return [time_value(label, mention, date(2015, 9, 7))[0] for mention in mentions]

    assert full_date("09/07/2015") == full_date("07-SEP-2015") == full_date("September 7 , 2015") == date(2015, 9, 7)
    dates = ("December 2012", "9/15", "fall of 2012", "that winter")
    assert values("DATE", *dates) == ["2012-12", "2015-09-15", "2012-FA", "2015-09-07"]
    assert [time_value("DATE", mention, date(2015, 9, 7))[1] for mention in dates] == ["NA", "NA", "NA", "APPROX"]
    assert values("DURATION", "two weeks", "the next 10 days", "3 doses") == ["P2W", "P10D", "P1D"]
    often = ("BID", "q6-8h PRN", "every other day", "nightly", "every Friday")
    assert values("FREQUENCY", *often) == ["RPT12H", "RPT6H", "RP2D", "RP1D", "RP1W"]
