"""A card for a user's own data: what is discovered, and that the card works as it stands."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from osler.cli.main import app
from osler.core.errors import InputError, OslerError, OutputError, RecipeError
from osler.formats.registry import get_format
from osler.formats.sources import SourceTree
from osler.stages.prepare.survey import LanguageGuess, plan_splits
from osler.tasks.card import TaskCard
from osler.tasks.catalogue import load_card
from osler.text.document import Document, Record, Relation, Span, TextPair


def notes(first: int, count: int, **more: Any) -> list[Document]:
    """Notes with two drugs, a problem and a relation; every text is different."""
    made = []
    for number in range(first, first + count):
        text = f"The patient of case {number} was given aspirin with warfarin for the fever."
        place = {word: text.index(word) for word in ("aspirin", "warfarin", "fever")}
        spans = tuple(
            Span.at(start, start + len(word), "Problem" if word == "fever" else "Drug", id=f"T{index}")
            for index, (word, start) in enumerate(place.items(), 1)
        )
        made.append(Document(f"n{number:03}", text, spans, (Relation("treats", "T1", "T3", "R1"),), **more))
    return made


def plain(count: int, labels: Sequence[str] = (), **more: Any) -> list[Document]:
    chosen = [(labels[number % len(labels)],) if labels else () for number in range(count)]
    return [
        Document(f"d{n}", f"El paciente con los datos del caso {n}.", labels=chosen[n], **more) for n in range(count)
    ]


def pairs(count: int, **more: Any) -> list[TextPair]:
    return [TextPair(f"p{n}", f"The premise {n // 2}.", f"It is case {n}.", **more) for n in range(count)]


def osler(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["tasks", *map(str, arguments)], env={"COLUMNS": "150"})


def refused(result: Result) -> OslerError:
    assert isinstance(result.exception, OslerError), result.output
    return result.exception


def written(name: str, records: Sequence[Record], path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    get_format(name).write(records, path)
    return path


def card_of(source: Path, folder: Path, *more: object) -> tuple[TaskCard, Result]:
    """The card that is discovered, proved by preparing the task from it."""
    path = folder / "my-task.toml"
    done = osler("new", "my-task", "--from", source, "--out", path, *more)
    assert done.exit_code == 0, done.output + str(done.exception)
    assert done.stdout.strip().endswith("my-task.toml")
    prepared = osler("prepare", path, "--from", source, "--out", folder / "task")
    assert prepared.exit_code == 0, prepared.output + str(prepared.exception)
    return load_card(path), done


def test_brat_in_folders_of_splits(tmp_path: Path) -> None:
    for split, first in (("TrainingSet", 0), ("dev_set", 6), ("test", 8)):
        written("brat", notes(first, 6 if split == "TrainingSet" else 2), tmp_path / "data" / split)
    (tmp_path / "data" / "README.txt").write_text("About the data.")
    card, done = card_of(tmp_path / "data", tmp_path)
    assert card.kind == "relation"
    assert card.labels == ("treats",)
    assert card.pairs == (("Drug", "Problem"),)
    assert card.language == "en"
    assert {name: split.files for name, split in card.source.splits.items()} == {
        "train": ("TrainingSet/**",),
        "dev": ("dev_set/**",),
        "test": ("test/**",),
    }
    assert card.counts["train"].documents == 6
    assert card.counts["train"].relations == 6
    assert card.counts["dev"].labels == {"treats": 2}
    assert "a guess" in done.stderr
    assert "also fits: tagging" in done.stderr
    assert "README.txt" in done.stderr
    assert f"osler tasks prepare {tmp_path / 'my-task.toml'} --from {tmp_path / 'data'}" in done.stderr


def test_another_kind_can_be_chosen_if_the_data_serves_it(tmp_path: Path) -> None:
    source = written("brat", notes(0, 12), tmp_path / "data")
    card, _ = card_of(source, tmp_path, "--kind", "tagging")
    assert card.kind == "tagging"
    assert card.labels == ("Drug", "Problem")
    assert card.counts["train"].mentions == 3 * 7
    error = refused(osler("new", "t", "--from", source, "--out", tmp_path / "t.toml", "--kind", "regression"))
    assert "relation, tagging" in str(error)


def test_attributes_that_could_be_predicted_become_labels(tmp_path: Path) -> None:
    made = []
    for number, note in enumerate(notes(0, 30)):
        more = (
            {"Negated": "yes"} if number % 2 else {"certainty": "low", "remark": f"seen-{number}", "text": "two words"}
        )
        made.append(note.with_(spans=(Span.at(0, 3, "X", id="T1", attributes=more),), relations=()))
    source = written("jsonl", made, tmp_path / "all.jsonl")
    card = tmp_path / "card.toml"
    assert osler("new", "mine", "--from", source, "--kind", "attributes", "--out", card).exit_code == 0
    # Remarks, which differ from mention to mention and may quote a patient, are not on the card.
    assert load_card(str(card)).labels == ("Negated", "certainty=low")
    assert "seen" not in card.read_text()
    assert osler("prepare", card, "--from", source, "--out", tmp_path / "task").exit_code == 0


def test_without_splits_dev_and_test_are_carved_out_and_share_nothing(tmp_path: Path) -> None:
    source = written("bioc", notes(0, 20), tmp_path / "all.bioc.xml")
    card, done = card_of(source, tmp_path)
    assert "carved out of train" in done.stderr
    assert (card.counts["train"].documents, card.counts["dev"].documents, card.counts["test"].documents) == (14, 2, 4)
    from osler.artifacts.task_folder import TaskFolder

    data = TaskFolder.open(tmp_path / "task")
    ids = [record.id for split in data.splits for record in data.read(split)]
    assert len(ids) == len(set(ids)) == 20


@pytest.mark.parametrize("name", ["conll", "pubtator", "jsonl"])
def test_splits_by_file_name(name: str, tmp_path: Path) -> None:
    suffix = get_format(name).suffixes[0]
    for index, split in enumerate(("train", "devel", "test")):
        bare = [note.with_(relations=()) for note in notes(10 * index, 4)]
        written(name, bare, tmp_path / "data" / f"corpus.{split}{suffix}")
    card, _ = card_of(tmp_path / "data", tmp_path)
    assert card.kind == "tagging"
    assert card.source.format == name
    assert card.source.splits["dev"].files == (f"corpus.devel{suffix}",)
    assert card.counts["test"].mentions == 12


@pytest.mark.parametrize(
    ("records", "kind", "labels"),
    [
        (plain(20, ["a", "b"]), "classification", ("a", "b")),
        ([*plain(20, ["a", "b"])[:-1], Document("z", "uno", labels=("a", "c"))], "multilabel", ("a", "b", "c")),
        (plain(20, value=1.5), "regression", ()),
        (pairs(20, labels=("yes",)), "classification", ("yes",)),
        (pairs(20, value=2.0), "regression", ()),
    ],
)
@pytest.mark.parametrize("format_name", ["csv", "tsv", "jsonl"])
def test_the_kind_is_seen_in_tables(
    records: list[Record], kind: str, labels: tuple[str, ...], format_name: str, tmp_path: Path
) -> None:
    source = written(format_name, records, tmp_path / f"data{get_format(format_name).suffixes[0]}")
    card, _ = card_of(source, tmp_path, "--format", format_name)
    assert card.kind == kind
    assert card.labels == labels
    assert card.record == ("pair" if isinstance(records[0], TextPair) else "document")


def test_pairs_with_one_premise_stay_together(tmp_path: Path) -> None:
    card_of(written("jsonl", pairs(40, labels=("yes",)), tmp_path / "d.jsonl"), tmp_path)
    from osler.artifacts.task_folder import TaskFolder

    data = TaskFolder.open(tmp_path / "task")
    seen = [{record.first for record in data.read(split)} for split in data.splits]  # type: ignore[union-attr]
    assert sum(map(len, seen)) == len(set.union(*seen)) == 20


def test_notes_of_one_patient_stay_together(tmp_path: Path) -> None:
    records = [note.with_(meta={"patient": str(n // 3)}) for n, note in enumerate(plain(30, ["a", "b"]))]
    card, _ = card_of(written("jsonl", records, tmp_path / "d.jsonl"), tmp_path)
    carve = card.source.splits["test"].carve
    assert carve is not None
    assert carve.by == "meta:patient"
    assert card.language == "es"


def test_the_columns_of_a_table_can_be_named(tmp_path: Path) -> None:
    source = tmp_path / "notes.csv"
    rows = [f"{n},the note of case {n},{'ward' if n % 2 else 'home'}" for n in range(20)]
    source.write_text("\n".join(["case,report,outcome", *rows]) + "\n")
    arguments = ["new", "t", "--format", "csv", "--from", source, "--out", tmp_path / "t.toml"]
    assert "no column with texts" in str(refused(osler(*arguments)))
    error = refused(osler(*arguments, "--set", "options.text=report"))
    assert "case, outcome" in str(error)
    card, _ = card_of(
        source, tmp_path, "--format", "csv", "--set", "options.text=report", "--set", "options.label=outcome"
    )
    assert card.labels == ("home", "ward")
    assert card.source.options == {"text": "report", "label": "outcome"}


def test_defects_are_stated_on_the_card(tmp_path: Path) -> None:
    source = written("brat", notes(0, 10), tmp_path / "data")
    with (source / "n003.ann").open("a") as stream:
        stream.write("T9\tDrug 0 3\tCANARY\n")
    card, done = card_of(source, tmp_path)
    assert card.known_problems == {"train": {"text-mismatch": 1}}
    assert "1 text-mismatch" in done.stderr
    assert "CANARY" not in done.output + (tmp_path / "my-task.toml").read_text()


def test_files_of_one_name_in_several_folders_are_pointed_out(tmp_path: Path) -> None:
    for folder in ("plain", "iobes"):
        for split in ("training", "testing"):
            words = "".join(f"w{n}\tO\nAspirin{n}\tB-Drug\n\n" for n in range(12))
            (tmp_path / "data" / folder).mkdir(parents=True, exist_ok=True)
            (tmp_path / "data" / folder / f"{split}.tsv").write_text(words)
    _, done = card_of(tmp_path / "data", tmp_path, "--format", "conll")
    shown = " ".join(done.stderr.split())
    assert (
        "split train reads 2 files called training.tsv: if they are versions of one corpus, it counts 2 times" in shown
    )


def test_relations_across_sentences_are_looked_for_in_the_document(tmp_path: Path) -> None:
    text = "Aspirin was given to her. She had a fever."
    spans = (Span.at(0, 7, "Drug", id="T1"), Span.at(36, 41, "Problem", id="T2"))
    many = [Document(f"n{n}", text, spans, (Relation("treats", "T1", "T2", "R1"),)) for n in range(10)]
    card, _ = card_of(written("jsonl", many, tmp_path / "d.jsonl"), tmp_path)
    assert card.protocol_named().candidates == "document"


def test_sentences_marked_with_the_labels_of_their_document_are_not_mentions(tmp_path: Path) -> None:
    spans = (Span.at(0, 5, "growth", id="T1"), Span.at(6, 11, "death", id="T2"))
    records = [Document(f"d{n}", "One .\nTwo .", spans, labels=("growth", "death")) for n in range(12)]
    card, done = card_of(written("hoc", records, tmp_path / "data"), tmp_path)
    assert card.kind == "multilabel"
    assert "also fits: tagging" in done.stderr


def test_a_code_system_is_not_listed(tmp_path: Path) -> None:
    records = [Document(f"d{n}", f"case {n}", labels=(f"C{n}", f"C{n + 1}")) for n in range(400)]
    card, _ = card_of(written("jsonl", records, tmp_path / "d.jsonl"), tmp_path)
    assert card.discover_labels
    assert card.labels == ()


def test_the_card_is_never_replaced_without_force_and_not_made_in_a_dry_run(tmp_path: Path) -> None:
    source, out = written("jsonl", notes(0, 10), tmp_path / "d.jsonl"), tmp_path / "t.toml"
    assert osler("new", "t", "--from", source, "--out", out, "--dry-run").exit_code == 0
    assert not out.exists()
    assert osler("new", "t", "--from", source, "--out", out).exit_code == 0
    before = out.read_bytes()
    assert isinstance(refused(osler("new", "t", "--from", source, "--out", out)), OutputError)
    assert osler("new", "t", "--from", source, "--out", out, "--force").exit_code == 0
    assert out.read_bytes() == before
    assert isinstance(refused(osler("new", "t", "--from", source, "--out", tmp_path / "card.json")), OutputError)
    assert isinstance(refused(osler("new", "My Task", "--from", source)), RecipeError)


@pytest.mark.parametrize(
    ("records", "piece"),
    [
        ([Document("a", "x"), Document("b", "y")], "no mention, relation, label or value"),
        (notes(0, 1), "would be empty"),
        ([*notes(0, 4), TextPair("p", "a", "b", labels=("x",))], "mixed"),
        ([], "no records found"),
    ],
)
def test_data_that_makes_no_task_is_explained(records: list[Record], piece: str, tmp_path: Path) -> None:
    source = written("jsonl", records, tmp_path / "d.jsonl")
    error = refused(osler("new", "t", "--format", "jsonl", "--from", source, "--out", tmp_path / "t.toml"))
    assert isinstance(error, InputError)
    assert piece in str(error)
    assert str(source) in str(error)


def test_odd_labels_survive_the_toml(tmp_path: Path) -> None:
    labels = ['a "b"', "c\\d", "é\n", "x.y"]
    source = written("jsonl", plain(40, labels), tmp_path / "d.jsonl")
    card, _ = card_of(source, tmp_path)
    assert card.labels == tuple(sorted(labels))
    assert tomllib.loads((tmp_path / "my-task.toml").read_text())["counts"]["train"]["labels"].keys() <= set(labels)


def test_a_word_in_a_note_name_is_not_a_split(tmp_path: Path) -> None:
    for name in ("blood-test", "train-accident", "plain"):
        (tmp_path / f"{name}.txt").write_text("text")
        (tmp_path / f"{name}.ann").write_text("")
    with SourceTree.open(tmp_path) as tree:
        plan = plan_splits(tree, get_format("brat"))
    assert plan.files == {"train": ("**",)}
    assert plan.carved == ("dev", "test")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The patient was admitted with pain and had a fever.", "en"),
        ("El paciente fue ingresado por dolor y fiebre desde las diez.", "es"),
        ("Le patient est admis pour une douleur avec de la fièvre.", "fr"),
        ("", "en"),
    ],
)
def test_the_language_is_guessed_from_common_words(text: str, language: str) -> None:
    guess = LanguageGuess()
    guess.add(text)
    assert guess.language == language


def test_columns_of_a_table_without_a_header_are_given_with_commas(tmp_path: Path) -> None:
    rows = [f"d{n}\tEl paciente con los datos del caso {n}.\t{'ab'[n % 2]}\n" for n in range(40)]
    (tmp_path / "bare.tsv").write_text("".join(rows))
    card = tmp_path / "bare.toml"
    options = ("--format", "tsv", "--from", tmp_path / "bare.tsv", "--out", card)
    made = osler("new", "bare", *options, "--set", "options.columns=id,text,label")
    assert made.exit_code == 0, made.output
    assert load_card(card).source.options == {"columns": ["id", "text", "label"]}
    assert load_card(card).labels == ("a", "b")
    done = osler("prepare", card, "--from", tmp_path / "bare.tsv", "--out", tmp_path / "task")
    assert done.exit_code == 0, done.output
    # On top of a card, where the names are a list too.
    options = ("--from", tmp_path / "bare.tsv", "--out", tmp_path / "b", "--set", "options.columns=i,text,label")
    again = osler("prepare", card, *options)
    assert again.exit_code == 0, again.output


@pytest.mark.parametrize(
    ("records", "kind", "shipped"),
    [
        (notes(0, 40), "tagging", ["ncbi-disease"]),
        (pairs(40, value=0.5), "regression", ["biosses"]),
        (notes(0, 40), "relation", ["ddi2013"]),
        (plain(40, "ab"), "classification", ["pubmedqa", "medrqe"]),
        (plain(40, "ab"), "multilabel", ["codiesp"]),
    ],
)
def test_a_card_has_the_protocols_of_shipped_tasks(
    records: Sequence[Record], kind: str, shipped: Sequence[str], tmp_path: Path
) -> None:
    card = tmp_path / "mine.toml"
    source = written("jsonl", records, tmp_path / "data.jsonl")
    made = osler("new", "mine", "--from", source, "--format", "jsonl", "--kind", kind, "--out", card)
    assert made.exit_code == 0, made.output
    own = load_card(card)
    shipped_protocols = {name: p for task in shipped for name, p in load_card(task).protocols.items()}
    # A paper's order of the two texts of a pair is nothing for single texts.
    expected = {name: p for name, p in shipped_protocols.items() if kind != "classification" or not p.swapped}
    assert {name: (p.metric, p.train_on, p.decoding, p.repair, p.subwords) for name, p in own.protocols.items()} == {
        name: (p.metric, p.train_on, p.decoding, p.repair, p.subwords) for name, p in expected.items()
    }
    assert own.protocol == load_card(shipped[0]).protocol
    # What is printed next names the card by its path.
    assert f"osler tasks prepare {card} --from" in osler("info", card).stdout


@pytest.mark.parametrize("name", ["mean", "My task"])
def test_a_name_that_a_task_cannot_have_is_refused(name: str, tmp_path: Path) -> None:
    source = written("jsonl", notes(0, 40), tmp_path / "data.jsonl")
    error = refused(osler("new", name, "--from", source, "--out", tmp_path / "card.toml"))
    assert "'mean' cannot be the name of a task" in str(error) or "lower-case letters" in str(error)
    assert not (tmp_path / "card.toml").exists()
