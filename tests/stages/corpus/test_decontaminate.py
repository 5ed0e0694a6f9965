"""Documents that share text with held-out documents of prepared tasks."""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from osler.artifacts.task_folder import TaskFolder
from osler.core.config import validate
from osler.core.errors import InputError, OutputError
from osler.core.processes import LocalPool
from osler.formats.registry import get_format
from osler.stages.corpus import decontaminate
from osler.stages.corpus.config import Decontaminate
from osler.stages.corpus.decontaminate import Contaminated, contaminated, tasks_digest
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.text.document import Document

_CARD = """
name = "{name}"
title = "{name}"
kind = "tagging"
language = "es"
labels = ["drug"]
protocol_family = "ner"
protocol = "strict"
[source]
reader = "files"
format = "jsonl"
{splits}
"""


def note(key: object, words: int = 120) -> str:
    """Random words, so that two notes share no run by chance."""
    rng = random.Random(str(key))
    return " ".join("".join(rng.choices("aeiouáéñdlmnrst", k=rng.randint(3, 9))) for _ in range(words))


def edited(text: str, share: float) -> str:
    """The text with a share of its words replaced at random."""
    rng = random.Random(text)
    return " ".join("otra" if rng.random() < share else word for word in text.split())


MakeTask = Callable[..., Path]


@pytest.fixture
def make_task(tmp_path: Path) -> MakeTask:
    def make(name: str, **splits: Sequence[str]) -> Path:
        folder = tmp_path / "official" / name
        folder.mkdir(parents=True)
        for split, texts in splits.items():
            documents = [Document(f"{split}-{number}", text) for number, text in enumerate(texts)]
            get_format("jsonl").write(documents, folder / f"{split}.jsonl")
        names = "\n".join(f'splits.{split}.files = ["{split}.jsonl"]' for split in splits)
        (folder / "card.toml").write_text(_CARD.format(name=name, splits=names))
        recipe = PrepareRecipe(task=str(folder / "card.toml"), source=folder)
        return prepare(recipe, tmp_path / "tasks" / name).path

    return make


@pytest.fixture
def search(tmp_path: Path) -> Callable[..., list[Contaminated]]:
    made = iter(range(100))

    def find(*files: Sequence[str], keep=None, folder=None, workers=1, **options) -> list[Contaminated]:
        folder = folder or tmp_path / f"search-{next(made)}"
        folder.mkdir(exist_ok=True)
        paths = []
        for number, texts in enumerate(files):
            paths.append(folder / f"kept-{number}.parquet")
            pq.write_table(pa.table({"text": list(texts)}), paths[-1], row_group_size=2)
        masks = keep or [np.ones(len(texts), dtype=np.bool_) for texts in files]
        return contaminated(paths, masks, Decontaminate(**options), folder, LocalPool(workers))

    return find


def test_a_copy_of_a_test_document_is_found_and_named(make_task, search):
    task = make_task("deid", train=[note("train")], dev=[note("dev")], test=[note("a"), note("b")])
    texts = [note("other"), note("train"), note("dev")], [note("more"), f"HISTORIA\n\n{note('b').upper()} (FIN)"]
    assert search(*texts, tasks=[str(task)]) == [Contaminated(4, "deid", "test", "test-1", 112, 1.0)]
    found = search(*texts, tasks=str(task), splits=("dev", "test"))
    assert [(item.document, item.split, item.record) for item in found] == [(2, "dev", "dev-0"), (4, "test", "test-1")]


def test_a_task_without_a_test_split_protects_dev(make_task, search):
    coded = make_task("coded", train=[note(1)], dev=[note(2)])
    whole = make_task("whole", train=[note(3)], dev=[note(4)], test=[note(5)])
    found = search([note(number) for number in range(6)], tasks=(str(coded), str(whole)))
    assert [(match.document, match.task, match.split) for match in found] == [(2, "coded", "dev"), (5, "whole", "test")]


def test_a_document_may_hold_a_test_text_or_be_a_part_of_one(make_task, search):
    task = make_task("long", train=[note("t")], test=[note("article", 2000), note("sentence", 14)])
    passage = " ".join(note("article", 2000).split()[700:760])
    around = f"{note('before', 900)} {note('sentence', 14)} {note('after', 900)}"
    assert [(item.record, item.shared, item.share) for item in search([passage, around], tasks=task)] == [
        ("test-0", 52, 1.0),
        ("test-1", 6, 1.0),
    ]


def test_edited_copies_are_found_and_chance_is_not(make_task, search):
    originals = [note(number, 200) for number in range(20)]
    task = make_task("edited", train=[note("t")], test=originals)
    for share in (0.01, 0.05, 0.1):
        assert len(search([edited(text, share) for text in originals], tasks=task)) == 20
    # Three runs of a short test text, and twenty of a long one, are wording that texts have in common.
    shared = [" ".join(text.split()[:28]) for text in originals]
    assert search([f"{text} {note(('x', text), 300)}" for text in shared], tasks=task) == []
    assert len(search([f"{text} {note(('x', text), 300)}" for text in shared], tasks=task, max_shared=20)) == 20


def test_the_closest_of_several_tasks_is_named(make_task, search):
    text = note("case", 100)
    make_task("b-whole", train=[note("t")], test=[text])
    make_task("a-part", train=[note("u")], test=[f"{text} {note('rest', 100)}"])
    [found] = search([f"{text} {note('tail', 200)}"], tasks=Path(make_task("c", train=[note("v")])).parent)
    assert (found.task, found.share) == ("b-whole", 1.0)


def test_documents_that_are_gone_already_are_not_searched(make_task, search):
    task = make_task("deid", train=[note("t")], test=[note("a")])
    keep = [np.array([False, True, True])]
    assert [item.document for item in search([note("a"), note("b"), note("a")], keep=keep, tasks=task)] == [2]


def test_a_document_longer_than_a_block_is_searched_in_pieces(make_task, search, monkeypatch):
    task = make_task("deid", train=[note("t")], test=[note("a"), note("b")])
    texts = [f"{note('x', 900)} {note('a')} {note('y', 900)}", note("b"), note("c", 3000)]
    monkeypatch.setattr("osler.text.ngrams.BLOCK", 1000)
    assert [item.document for item in search(texts, tasks=task)] == [0, 1]


def test_workers_and_the_place_of_the_tasks_do_not_matter(make_task, search):
    first = make_task("one", train=[note("t")], test=[note("a"), note("b")])
    second = make_task("two", train=[note("u")], test=[note("a"), note("c")])
    files = [[note(name), note((name, 1))] for name in "abcd"]
    alone = search(*files, tasks=[str(first), str(second)])
    assert [item.task for item in alone] == ["one", "one", "two"]
    assert search(*files, tasks=[str(second), str(first)], workers=2) == alone
    options = Decontaminate(tasks=[str(first.parent / "*")])
    assert tasks_digest(options) == tasks_digest(Decontaminate(tasks=str(first.parent)))
    assert tasks_digest(options) != tasks_digest(Decontaminate(tasks=str(first)))
    assert "tasks" not in options.identity()


def test_a_search_goes_on_where_it_stopped(make_task, search, tmp_path, monkeypatch):
    task = make_task("deid", train=[note("t")], test=[note("a"), note("b")])
    files = [[note("a")], [note("x")], [note("b")]]
    folder = tmp_path / "search"
    expected = search(*files, folder=folder, tasks=task)
    (folder / "contaminated-000002.npy").unlink()
    searched = []
    matches = decontaminate._matches
    monkeypatch.setattr(decontaminate, "_matches", lambda rows, *rest: searched.append(rows) or matches(rows, *rest))
    assert search(*files, folder=folder, tasks=task) == expected
    assert searched == [[0]]


def test_errors_say_what_to_do(make_task, search, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no prepared task(.|\n)*osler tasks prepare"):
        search([note("a")], tasks=tmp_path / "empty")
    with pytest.raises(InputError, match=r"no text of 9 words in the splits test(.|\n)*decontaminate.splits"):
        search([note("a")], tasks=make_task("untested", train=[note("t")], dev=["short"]))
    with pytest.raises(Exception, match="min_share"):
        validate(Decontaminate, {"tasks": "x", "min_share": 0}, where="decontaminate")


@pytest.mark.realdata
def test_meddocan_is_found_in_the_spanish_text(data_dir, tmp_path, search):
    task = prepare(PrepareRecipe(task="meddocan", source=data_dir / "meddocan"), tmp_path / "meddocan").path
    with lzma.open(data_dir / "pretrain_es" / "spanish_clinical.jsonl.xz", "rt", encoding="utf-8") as lines:
        found = search([json.loads(line)["text"] for line in lines], tasks=task)
    assert len({item.document for item in found}) == len({item.record for item in found}) == 46
    assert min(item.share for item in found) > 0.6


@pytest.mark.realdata
@pytest.mark.parametrize(("name", "folder"), [("ncbi-disease", "ncbi_disease"), ("bc5cdr", "bc5cdr")])
def test_abstracts_are_found_as_medline_has_them(name, folder, data_dir, tmp_path, search):
    task = prepare(PrepareRecipe(task=name, source=data_dir / folder), tmp_path / name).path
    test = TaskFolder.open(task).read("test")
    titles = [record.text.partition("\n") for record in test if isinstance(record, Document)]
    with lzma.open(data_dir / "pretrain_en" / "elife_abstracts.jsonl.xz", "rt", encoding="utf-8") as lines:
        others = [json.loads(line)["text"] for line in lines]
    found = search(
        [f"[{title.rstrip('.')}].\nABSTRACT: {abstract}" for title, _, abstract in titles] + others, tasks=task
    )
    assert [item.record for item in found] == [record.id for record in test]


def test_a_corpus_loses_them_and_the_ledger_names_the_test_document(make_task, build, jsonl, documents, ledger):
    task = make_task("deid", train=[note("train")], test=[note("a"), note("b")])
    web, ehr = (jsonl([note("other"), note("b"), note(name)], f"{name}.jsonl") for name in ("web", "ehr"))
    source = {"files": str(ehr), "clean": {"decontaminate": False, "exact_duplicates": "keep"}}
    options = {"decontaminate": {"tasks": [str(task)]}}
    corpus = build(web, source, exact_duplicates="keep", **options)
    assert [(row["source"], row["id"]) for row in documents(corpus)] == [
        ("web", "web.jsonl:1"),
        ("web", "web.jsonl:3"),
        *(("ehr", f"ehr.jsonl:{row}") for row in (1, 2, 3)),
    ]
    [row] = ledger(corpus)
    assert (row["step"], row["reason"]) == ("decontaminate", "contaminated.deid.test")
    assert (row["kept_source"], row["kept_id"], row["share"]) == ("deid.test", "test-1", 1.0)
    assert build(web, source, exact_duplicates="keep", out=corpus.path, **options).reused
    # Another test set makes another corpus.
    other = make_task("other", train=[note("train")], test=[note("c")])
    with pytest.raises(OutputError, match="other inputs"):
        build(web, source, exact_duplicates="keep", out=corpus.path, decontaminate={"tasks": [str(other)]})
