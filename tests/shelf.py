"""What a reader of the guide has in the working folder before the first command, made small and made once.

Every item is made by osler itself from the texts of the synthetic clinic, when a page first needs it.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import raw_sources
from checkpoints import bert_folder
from official_files import write_official_files
from pages import ROOT

import osler
from osler.artifacts.bundle_spec import BundleSpec
from osler.artifacts.task_folder import TaskFolder
from osler.clinic import entailment_pairs, notes
from osler.clinic.labels import Language
from osler.formats.registry import get_format
from osler.stages.prepare.run import jobs, run_all
from osler.stages.serve.corrections import CorrectionLog
from osler.text.document import Document


class Shelf:
    """Items by name. A name with a slash is part of another item: `tasks/hoc`."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def get(self, name: str) -> Path:
        """Make an item, if it is not there yet."""
        path = self.place / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            maker = MAKERS.get(name) or MAKERS[name.split("/")[0] + "/"]
            maker(self, path)
        return path

    def lay(self, folder: Path, names: str) -> None:
        """Copy items into a working folder. `demo/full/bundle=bundle` puts the item `bundle` under another name."""
        for wanted in names.split():
            target, _, name = wanted.partition("=")
            source, path = self.get(name or target), folder / target
            path.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, path, dirs_exist_ok=True)
            else:
                shutil.copyfile(source, path)


def _notes(shelf: Shelf, path: Path) -> None:
    language: Language = "es" if path.name.endswith("-es") else "en"
    for number, note in enumerate(notes(5, language=language, seed=5, split="test"), 1):
        _write(path / f"note-{number:06}.txt", note.text)


def _note(shelf: Shelf, path: Path) -> None:
    _write(path, "Home medications: aspirin 81 mg daily, metformin 500 mg twice daily. Denies chest pain.\n")


def _texts(number: int = 4, language: Language = "en", seed: int = 6) -> list[str]:
    return [note.text for note in notes(number, language=language, seed=seed, split="test")]


def _table(shelf: Shelf, path: Path) -> None:
    """A table or a file of JSON Lines, packed or not, with the columns that the guide names."""
    columns = COLUMNS.get(path.name, "id text patient").split()
    rows = [dict(zip(columns, (f"n{k}", text, f"p{k % 2}"), strict=False)) for k, text in enumerate(_texts())]
    if ".jsonl" in path.suffixes:
        content = "".join(json.dumps(row) + "\n" for row in rows)
    else:
        stream = io.StringIO()
        writer = csv.DictWriter(stream, columns, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writeheader()
        writer.writerows(rows)
        content = stream.getvalue()
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())


def _bare_table(shelf: Shelf, path: Path) -> None:
    _write(path, "1\tNo fever.\tnormal\n2\tChest pain at rest.\turgent\n")


def _archive(shelf: Shelf, path: Path) -> None:
    shutil.make_archive(str(path.with_suffix("")), "zip", shelf.get("notes"))


def _pairs(shelf: Shelf, path: Path) -> None:
    rows = [f"{pair.first}\t{pair.second}\n" for pair in entailment_pairs(4, language="en", seed=1, split="test")]
    _write(path, "premise\thypothesis\n" + "".join(rows))


def _raw(shelf: Shelf, path: Path) -> None:
    """Enough text for a vocabulary, in two languages."""
    for language in ("en", "es"):
        found = notes(30, language=language, seed=7, split="train")
        rows = [{"id": f"{language}{k}", "text": note.text} for k, note in enumerate(found)]
        _write(path / f"{language}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def _export(shelf: Shelf, path: Path) -> None:
    """The export of a record system. Note 48255 is nearly the same as the one before it, and the last one is empty."""
    texts = _texts(8, "es", seed=8)
    texts.insert(6, texts[5].replace(" de ", " del ", 1))
    texts.append(" ")
    fields = ("NOTE_ID", "PATIENT_ID", "DATE", "TEXT")
    rows = [zip(fields, (48249 + k, f"p{k}", "2026-11-18", text), strict=True) for k, text in enumerate(texts)]
    _write(path / "notes.jsonl", "".join(json.dumps(dict(row)) + "\n" for row in rows))


def _articles(shelf: Shelf, path: Path) -> None:
    rows = [{"id": f"a{k}", "text": text} for k, text in enumerate(raw_sources.texts("articles", 6))]
    raw_sources.write(path / "one.jsonl.gz", gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


def _pubmed(shelf: Shelf, path: Path) -> None:
    """A baseline of abstracts, one of them a test document of a task, and an update that revises the first."""
    texts = list(raw_sources.texts("pubmed", 6, "en"))
    texts += [record.text for record in TaskFolder.open(shelf.get("tasks/ncbi-disease")).read("test")[:1]]
    records = [raw_sources.citation(20118285 + k, text) for k, text in enumerate(texts)]
    raw_sources.pubmed_file(path / "baseline" / "pubmed26n0001.xml.gz", records)
    revised = [raw_sources.citation(20118285, f"{texts[0]} Revised.")]
    raw_sources.pubmed_file(path / "updatefiles" / "pubmed26n0002.xml.gz", revised)


def _open_text(shelf: Shelf, path: Path) -> None:
    """The files of `crammed/corpus`. No split of a task has these texts."""
    for name, language, prefix in (
        ("elife_1", "en", ""),
        ("medquad", "en", ""),
        ("spanish_clinical", "es", "codiesp-"),
    ):
        found = raw_sources.texts(name, 20, language)
        rows = [{"id": f"{prefix}{k}", "text": text} for k, text in enumerate(found)]
        _write(path / f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def _carrino(shelf: Shelf, path: Path) -> None:
    raw_sources.carrino(path, 4)


def _terms(shelf: Shelf, path: Path) -> None:
    _write(path, "# terms of the clinic\nchest pain\nmetformin\n")


def _corpus(shelf: Shelf, path: Path) -> None:
    osler.corpus(sources=[str(shelf.get("raw"))], out=path)


def _density_corpus(shelf: Shelf, path: Path) -> None:
    osler.corpus(sources=[str(shelf.get("raw"))], density_terms=shelf.get("terms.txt"), out=path)


def _corpus_recipe(shelf: Shelf, path: Path) -> None:
    """Two sources, in the files of `raw`."""
    _write(path, "".join(f'[[sources]]\nname = "{name}"\nfiles = ["text/{name}.jsonl"]\n' for name in ("en", "es")))


def _tokenizer(shelf: Shelf, path: Path) -> None:
    osler.vocab(corpus=shelf.get("corpus"), size=700, out=path)


def _encoder(shelf: Shelf, path: Path) -> None:
    osler.pretrain(
        corpus=shelf.get("corpus"),
        tokenizer=shelf.get("tokenizer"),
        preset="tiny",
        max_length=128,
        batch_tokens=256,
        validation_share=0.2,
        train={"steps": 2},
        out=path,
    )


def _checkpoint(shelf: Shelf, path: Path) -> None:
    bert_folder(path, cased=True)


def _official(shelf: Shelf, path: Path) -> None:
    write_official_files(path, path.name)


def _papers(shelf: Shelf, path: Path) -> None:
    write_official_files(path)


def _papers_tasks(shelf: Shelf, path: Path) -> None:
    for outcome in run_all(shelf.get("papers"), jobs(path), workers=1):
        assert outcome.status != "failed", outcome.message


def _task(shelf: Shelf, path: Path) -> None:
    name = path.name
    if name.startswith("clinic-"):
        pairs = "entailment" in name or "similarity" in name
        sizes = {"train": 16, "dev": 4, "test": 4} if pairs else {"train": 6, "dev": 2, "test": 2}
        osler.tasks_prepare(task=name, options=sizes, out=path)
    else:
        corpus, _, fold = name.partition("-fold-")
        source = shelf.get(f"official/{OFFICIAL.get(corpus, corpus)}")
        osler.tasks_prepare(task=corpus, source=source, out=path, **({"fold": int(fold)} if fold else {}))


def _bundle(shelf: Shelf, path: Path) -> None:
    tasks = [shelf.get(f"tasks/{name}") for name in BUNDLES[path.name].split()]
    # With fewer epochs or a higher rate, the heads of some seeds find nothing, and no recall can be asked for then.
    epochs = 8 if len(tasks) > 1 else 20
    osler.finetune("demo/finetune", model=str(shelf.get("encoder")), tasks=tasks, out=path, epochs=epochs)


def _annotations(shelf: Shelf, path: Path) -> None:
    osler.annotate(files=[shelf.get("notes")], bundle=shelf.get("bundle"), out=path)


def _corrections(shelf: Shelf, path: Path) -> None:
    """Gold notes, saved as if somebody had corrected them on the page."""
    spec = BundleSpec.load(shelf.get("bundle"))
    log = CorrectionLog.create(path, "0123abc", spec)
    for note in notes(8, language="en", seed=9, split="dev"):
        spans = [
            replace(span, attributes={"head": "clinic-entities-en"}, score=0.5)
            for span in note.spans
            if span.label in spec.heads["clinic-entities-en"].card.labels
        ]
        log.add(
            "ana", "0123abc", ["clinic-entities-en"], {"accepted": len(spans)}, Document("any", note.text, tuple(spans))
        )


def _brat(shelf: Shelf, path: Path) -> None:
    found = list(notes(2, language="en", seed=10, split="train"))
    get_format("brat").write(found, path)


def _windows_brat(shelf: Shelf, path: Path) -> None:
    """Texts with the line ends of Windows, whose offsets count a line end as one character."""
    _brat(shelf, path)
    for file in path.glob("*.txt"):
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))


def _brat_splits(shelf: Shelf, path: Path) -> None:
    for split, number in (("train", 6), ("dev", 2), ("test", 2)):
        get_format("brat").write(list(notes(number, language="en", seed=11, split=split)), path / split)


def _distemist(shelf: Shelf, path: Path) -> None:
    documents = []
    for note in notes(6, language="es", seed=12, split="train"):
        whole = [span for span in note.spans if span.label == "PROBLEM" and not span.discontinuous]
        kept = tuple(replace(span, label="ENFERMEDAD", attributes={}) for span in whole)
        documents.append(Document(note.id, note.text, kept))
    get_format("bsc_tsv").write(documents, path / "training")


def _label_studio(shelf: Shelf, path: Path) -> None:
    """The export of a project: tasks with annotations."""
    with tempfile.TemporaryDirectory() as folder:
        documents = list(notes(6, language="en", seed=13, split="train"))
        get_format("label_studio").write(documents, Path(folder, "project"))
        shutil.copyfile(Path(folder, "project", "tasks.json"), path)


def _study(shelf: Shelf, path: Path) -> None:
    _write(
        path,
        'tasks = ["tasks/phi"]\nseeds = [1]\nworkers = 1\n[models.mine]\nmodel = "encoder"\n'
        "[finetune]\nepochs = 1\nmax_length = 128\noverlap = 24\n",
    )


def _about(shelf: Shelf, path: Path) -> None:
    _write(path, "One GPU, twenty minutes.\n")


def _of_the_checkout(shelf: Shelf, path: Path) -> None:
    """A recipe that a page of results links to."""
    shutil.copyfile(ROOT / path.relative_to(shelf.place), path)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


COLUMNS = {
    "notes.jsonl": "id text",
    "export.csv": "accession report",
    "table.csv": "id note diagnosis",
    "visits.csv": "id report outcome",
}
"""Columns of tables that differ from the usual ones."""
OFFICIAL = {
    "bc5cdr-chem": "bc5cdr",
    "bc5cdr-disease": "bc5cdr",
    "e3c-attributes-en": "e3c-attributes",
    "e3c-attributes-es": "e3c-attributes",
    "e3c-attributes-fr": "e3c-attributes",
}
"""Distributions that several tasks are read from."""
BUNDLES = {
    "bundle": "clinic-entities-en clinic-phi-en clinic-entailment-en clinic-similarity-en",
    "bundle-ncbi": "ncbi-disease",
    "bundle-es": "meddocan",
}
"""Heads of the bundles."""
MAKERS: dict[str, Callable[[Shelf, Path], None]] = {
    "notes": _notes,
    "notes-es": _notes,
    "note.txt": _note,
    "notes.jsonl": _table,
    "notes.csv": _table,
    "more.jsonl.gz": _table,
    "export.csv": _table,
    "table.csv": _table,
    "visits.csv": _table,
    "bare.tsv": _bare_table,
    "notes.zip": _archive,
    "pairs.tsv": _pairs,
    "raw": _raw,
    "export": _export,
    "articles": _articles,
    "pubmed": _pubmed,
    "open-text": _open_text,
    "carrino": _carrino,
    "terms.txt": _terms,
    "corpus": _corpus,
    "corpus-with-density": _density_corpus,
    "corpus.toml": _corpus_recipe,
    "tokenizer": _tokenizer,
    "encoder": _encoder,
    "checkpoint": _checkpoint,
    "official/": _official,
    "papers": _papers,
    "papers-tasks": _papers_tasks,
    "tasks/": _task,
    **dict.fromkeys(BUNDLES, _bundle),
    "annotations": _annotations,
    "corrections": _corrections,
    "brat": _brat,
    "windows-brat": _windows_brat,
    "brat-splits": _brat_splits,
    "distemist": _distemist,
    "project-export.json": _label_studio,
    "study.toml": _study,
    "about.md": _about,
    "docs/": _of_the_checkout,
}
