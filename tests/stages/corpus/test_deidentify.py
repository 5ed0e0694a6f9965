"""De-identification by a bundle: what is replaced, what is removed, and that nothing else is written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from bundles import make_bundle

from osler.artifacts.bundle import Bundle
from osler.artifacts.corpus import Corpus
from osler.core.artifact import Artifact
from osler.core.config import load_recipe
from osler.core.errors import ArtifactError, MissingExtraError, OutputError, RecipeError
from osler.stages.corpus import clean, deidentify
from osler.stages.corpus.audit import audit
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.explain import explain
from osler.stages.corpus.run import plan
from osler.text.document import Document, Span

NOTES = [f"Mrs. Ana Garcia was seen on 3 May by Dr. Smith, visit {n}. She takes aspirin {n} mg." for n in range(12)]


@pytest.fixture(scope="module")
def bundle(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = ("drugs", "deid", "deid-es", "entailment")
    return make_bundle(tmp_path_factory.mktemp("deid") / "bundle", tokenizer_folder, names)


@pytest.fixture
def names_and_dates(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """A bundle that finds the names and the date of the notes; returns the heads of every call."""
    calls: list[tuple[str, ...]] = []

    def annotate(self: Bundle, documents: list[Document], heads: Any) -> list[Document]:
        calls.append(tuple(heads))
        assert not any("crash" in document.text for document in documents)
        return [document.with_(spans=tuple(_entities(document.text))) for document in documents]

    monkeypatch.setattr(Bundle, "annotate", annotate)
    return calls


def _entities(text: str) -> list[Span]:
    words = {"Ana Garcia": "NAME", "Garcia": "NAME", "Smith": "NAME", "3 May": "DATE"}
    return [
        Span.at(text.index(word), text.index(word) + len(word), label) for word, label in words.items() if word in text
    ]


def test_entities_are_replaced_by_their_labels_and_the_ledger_counts_them(
    build, jsonl, documents, ledger, bundle, names_and_dates
) -> None:
    made = build(jsonl(NOTES[:2]), deidentify={"bundle": bundle})
    assert [row["text"] for row in documents(made)] == [
        f"Mrs. [NAME] was seen on [DATE] by Dr. [NAME], visit {n}. She takes aspirin {n} mg." for n in range(2)
    ]
    rows = [(row["step"], row["reason"], row["unit"], row["characters"]) for row in ledger(made) if row["row"] == 1]
    assert rows == [
        ("deidentify", "deidentify.NAME", "passage", 10),
        ("deidentify", "deidentify.DATE", "passage", 5),
        ("deidentify", "deidentify.NAME", "passage", 5),
        ("deidentify", "deidentify", "document changed", len(documents(made)[0]["text"])),
    ]
    card = Corpus.open(made.path).card
    assert card.passages == {"deidentify.NAME": 4, "deidentify.DATE": 2}
    assert card.characters == sum(len(row["text"]) for row in documents(made))
    digest = Artifact.open(bundle).manifest.digest
    assert f"heads deid, deid-es of the bundle {digest}" in (made.path / "README.md").read_text()
    assert made.manifest.parents["deidentify"] == digest


def test_documents_that_differ_only_in_entities_are_copies(
    build, jsonl, documents, ledger, bundle, names_and_dates
) -> None:
    other = NOTES[0].replace("Ana Garcia", "Garcia")
    made = build(jsonl([NOTES[0], other]), deidentify={"bundle": bundle})
    assert len(documents(made)) == 1
    assert [row["reason"] for row in ledger(made) if row["unit"] == "document"] == ["duplicate.exact"]


def test_a_document_that_cannot_be_processed_is_removed(
    build, jsonl, documents, ledger, bundle, names_and_dates
) -> None:
    crash = f"{NOTES[1]} crash"
    made = build(jsonl([NOTES[0], crash, NOTES[2]]), deidentify={"bundle": bundle})
    assert [row["row"] for row in documents(made)] == [1, 3]
    [row] = [row for row in ledger(made) if row["unit"] == "document"]
    assert (row["row"], row["step"], row["reason"], row["characters"]) == (
        2,
        "deidentify",
        "deidentify.failed",
        len(crash),
    )
    [explained] = explain(Corpus.open(made.path), "notes.jsonl:2")
    assert "clean.deidentify = false" in explained.advice
    for path in made.path.rglob("*"):
        assert path.is_dir() or (b"crash" not in path.read_bytes() and b"Garcia" not in path.read_bytes())


def test_a_bundle_that_never_works_ends_the_run(build, jsonl, bundle, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Bundle, "annotate", fail)
    with pytest.raises(RuntimeError, match="out of memory") as raised:
        build(jsonl(NOTES[:2]), deidentify={"bundle": bundle})
    assert raised.value.__context__ is None


def test_sources_may_be_left_as_they_are_but_no_preset_does_that(
    build, jsonl, documents, bundle, names_and_dates
) -> None:
    sources = [
        {"name": name, "files": [str(jsonl([f"{name}: {NOTES[0]}"], f"{name}.jsonl"))]}
        for name in ("ehr", "web", "own")
    ]
    sources[0]["clean"] = "none"
    sources[1]["clean"] = {"deidentify": False}
    made = build(*sources, deidentify={"bundle": bundle})
    assert {row["source"]: "Garcia" in row["text"] for row in documents(made)} == {
        "ehr": False,
        "web": True,
        "own": False,
    }
    card = (made.path / "README.md").read_text()
    assert "labels in the documents of ehr, own" in card
    assert "exactly as they are" not in card


def test_each_head_reads_documents_of_its_language(build, jsonl, ledger, bundle, names_and_dates) -> None:
    languages = ["en", "es", None, "fr"]
    rows = [{"text": NOTES[n], "lang": language} for n, language in enumerate(languages)]
    source = {"files": [str(jsonl(rows))], "facts": {"language": "lang"}}
    made = build(source, deidentify={"bundle": bundle})
    assert names_and_dates == [("deid",), ("deid-es",), ("deid", "deid-es")]
    assert [(row["row"], row["reason"]) for row in ledger(made) if row["unit"] == "document"] == [
        (4, "deidentify.language")
    ]
    names_and_dates.clear()
    build(source, deidentify={"bundle": bundle, "heads": ["deid", "drugs"]})
    assert set(names_and_dates) == {("deid", "drugs")}


@pytest.mark.parametrize(
    ("options", "source", "pieces"),
    [
        ({"heads": ["entailment"]}, {}, ("'entailment' finds no entities", "drugs, deid, deid-es")),
        ({"heads": ["deid-en"]}, {}, ("no head 'deid-en'", "Heads: drugs, deid, deid-es")),
        ({}, {"language": "fr"}, ("'fr', which no head", "deid (en), deid-es (es)", "clean.deidentify = false")),
    ],
)
def test_mistakes_are_told_before_any_work(jsonl, bundle, tmp_path, options, source, pieces) -> None:
    sources = [{"files": [str(jsonl(NOTES))], **source}]
    values = {"sources": sources, "deidentify": {"bundle": str(bundle), **options}}
    with pytest.raises(RecipeError) as raised:
        plan(load_recipe(CorpusRecipe, None, [], values), tmp_path / "out")
    assert all(piece in str(raised.value) for piece in pieces)


def test_a_bundle_without_such_a_head_must_be_told_which_to_use(
    jsonl, build, bundle, tokenizer_folder, tmp_path
) -> None:
    other = make_bundle(tmp_path / "drugs", tokenizer_folder, ("drugs",))
    with pytest.raises(RecipeError, match=r"deidentify\.heads: drugs"):
        build(jsonl(NOTES), deidentify={"bundle": other})
    with pytest.raises(ArtifactError, match="no such folder"):
        build(jsonl(NOTES), deidentify={"bundle": tmp_path / "nowhere"})


def test_without_torch_the_extra_is_named(jsonl, build, bundle, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"osler\[train\]"):
        build(jsonl(NOTES), deidentify={"bundle": bundle})


def test_another_bundle_makes_another_corpus(jsonl, build, bundle, tokenizer_folder, tmp_path, names_and_dates) -> None:
    path, out = jsonl(NOTES), tmp_path / "out"
    build(path, deidentify={"bundle": bundle}, out=out)
    copy = tmp_path / "elsewhere"
    os.symlink(bundle, copy)
    assert build(path, deidentify={"bundle": copy}, out=out).reused
    other = make_bundle(tmp_path / "other", tokenizer_folder, ("deid",))
    with pytest.raises(OutputError, match="other inputs"):
        build(path, deidentify={"bundle": other}, out=out)


def test_an_audit_shows_what_was_replaced_only_if_asked(build, jsonl, bundle, names_and_dates) -> None:
    corpus = Corpus.open(build(jsonl(NOTES[:1]), deidentify={"bundle": bundle}).path)
    sample, total = audit(corpus, "deidentify", 10)
    assert total == 3
    assert {removal.removed for removal in sample} == {None}
    shown = {removal.entry.reason: removal.removed for removal in audit(corpus, "deidentify", 10, text=True)[0]}
    assert shown["deidentify.DATE"] == "3 May"


def test_the_real_model_gives_the_same_bytes_for_any_number_of_workers_and_after_a_stop(
    build, jsonl, documents, bundle, monkeypatch
) -> None:
    monkeypatch.setattr(clean, "PART_BYTES", 400)
    monkeypatch.setattr(deidentify, "SLICE_BYTES", 200)
    path, options = jsonl(NOTES), {"deidentify": {"bundle": bundle, "heads": ["deid"]}, "exact_duplicates": "keep"}
    whole = build(path, **options)
    texts = [row["text"] for row in documents(whole)]
    found = Bundle.load(bundle, "cpu").annotate([Document("", NOTES[0])], ["deid"])[0].spans
    assert found
    assert sum(text.count("[NAME]") + text.count("[DATE]") for text in texts) == sum(whole.card.passages.values())
    assert texts[0] != NOTES[0]
    assert build(path, workers=2, **options).manifest.files == whole.manifest.files

    # Stopped in the middle, the search goes on where it was: what was found is not looked for again.
    searched: list[Path] = []
    find = deidentify._find

    def stop(piece: Any) -> None:
        if len(searched) == 3:
            raise KeyboardInterrupt
        searched.append(piece.found)
        find(piece)

    out = path.parent / "stopped"
    monkeypatch.setattr(deidentify, "_find", stop)
    with pytest.raises(KeyboardInterrupt):
        build(path, out=out, **options)
    before = {piece: piece.stat().st_mtime_ns for piece in searched}
    assert all(isinstance(json.loads(piece.read_text()), list) for piece in before)
    monkeypatch.setattr(deidentify, "_find", find)
    replace = deidentify._replace
    monkeypatch.setattr(deidentify, "_replace", lambda part: (_unchanged(before), replace(part)))
    assert build(path, out=out, **options).manifest.files == whole.manifest.files


def _unchanged(files: dict[Path, int]) -> None:
    assert {path: path.stat().st_mtime_ns for path in files} == files
