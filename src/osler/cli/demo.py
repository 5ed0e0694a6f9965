"""`osler demo`: run the six stages on notes written by the synthetic clinic."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field

from osler.cli.common import DryRunOption, ForceOption, SetOption, announce
from osler.core.artifact import Artifact
from osler.core.config import Recipe, load_recipe, shipped_recipe
from osler.core.console import console
from osler.core.errors import OutputError, writing
from osler.core.files import remove_tree, write_atomic

if TYPE_CHECKING:
    from osler.stages.finetune.config import FinetuneRecipe
    from osler.stages.pretrain.config import PretrainRecipe
    from osler.stages.study.recipe import StudyRecipe
    from osler.stages.vocab.config import VocabRecipe

TASKS = (
    "clinic-entities-en",
    "clinic-phi-en",
    "clinic-interactions-en",
    "clinic-treatments-en",
    "clinic-entailment-en",
    "clinic-similarity-en",
    "clinic-entities-es",
)
STUDY_TASKS = ("clinic-entities-en", "clinic-phi-en")

FIRST_NOTES = {
    "en": (
        "Discharge summary. A 64-year-old woman with type 2 diabetes mellitus and hypertension was admitted with acute kidney injury "
        "five days after she started ibuprofen 600 mg for back pain. She denies chest pain and dyspnea. No evidence of pneumonia on "
        "the radiograph. Ibuprofen and metformin were stopped, and creatinine fell from 3.1 to 1.2 mg/dl. Possible diabetic "
        "nephropathy. She carries a BRCA1 mutation; her mother had breast cancer. Urine grew Escherichia coli.\n"
    ),
    "es": (
        "Datos del paciente.\nNombre: Carmen.\nApellidos: Ruiz Ortega.\nNHC: 2187043.\nFecha de ingreso: 14/03/2021.\n"
        "Médico: Javier Soler Prats NºCol: 28 28 31456.\n\nMujer de 58 años con carcinoma ductal infiltrante de mama izquierda, "
        "tratada con tamoxifeno. La tomografía no muestra metástasis hepáticas. Se inicia paracetamol 1 g cada 8 horas y se suspende "
        "ibuprofeno. Hemoglobina 9,8 g/dl, ferritina baja.\n"
    ),
}
"""Invented notes, annotated by an installed model before anything is trained."""

app = typer.Typer(add_completion=False)


class DemoRecipe(Recipe):
    """The size of the demo. Its sections override values of the stages' own recipes."""

    raw_documents: int = Field(ge=50)
    notes: dict[str, int]
    pairs: dict[str, int]
    vocab: dict[str, Any] = Field(default_factory=dict)
    pretrain: dict[str, Any] = Field(default_factory=dict)
    finetune: dict[str, Any] = Field(default_factory=dict)
    study: dict[str, Any] = Field(default_factory=dict)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for everything the demo makes.")] = Path("demo"),
    fast: Annotated[bool, typer.Option("--fast", help="Less of everything: under a minute.")] = False,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Run every stage on embedded synthetic notes, write a report, and query the service."""
    name = "fast" if fast else "full"
    recipe, out = load_recipe(DemoRecipe, shipped_recipe(f"demo/{name}"), sets or ()), out / name
    plan = [
        "first       a note in English and one in Spanish, annotated by the installed model",
        f"1 corpus    {recipe.raw_documents:,} raw English and Spanish documents of the synthetic clinic, cleaned",
        "2 vocab     a byte-level vocabulary trained on them",
        "3 pretrain  a tiny encoder from random weights",
        f"4 finetune  {len(TASKS)} tasks on one encoder, round robin",
        f"5 study     with and without pretraining on {len(STUDY_TASKS)} tasks",
        "6 annotate  a note the models never saw, and the report",
        "7 serve     the same note, through the service",
        f"everything goes to {out}; finished parts are reused",
    ]
    # Validate the recipes of all stages now, not minutes later.
    for stage_recipe in (vocab_recipe, pretrain_recipe, finetune_recipe, study_recipe):
        stage_recipe(recipe, out)
    announce(plan, dry_run=dry_run)
    if dry_run:
        return
    if force:
        remove_tree(out)
    _make_folder(out)
    first_look(out)
    _run(recipe, out)


def _make_folder(out: Path) -> None:
    try:
        with writing(out):
            out.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError:  # a file system that takes no files, such as /proc
        raise OutputError("cannot write: no folder can be made here", where=out, fix="Choose another --out") from None


def _run(recipe: DemoRecipe, out: Path) -> None:
    from osler.cli.demo_report import write_report

    began = time.monotonic()
    made: dict[str, Artifact] = {}
    stages: tuple[tuple[Callable[[DemoRecipe, Path], Artifact], str], ...] = (
        (corpus, "{documents:,} documents kept of {read:,}"),
        (vocab, "{size:,} tokens"),
        (pretrain, "{parameters:,} parameters, {tokens_seen:,} tokens, perplexity {perplexity:.1f}"),
        (finetune, "{heads} heads, mean dev score {dev_percent:.1f}"),
        (study, "{runs} runs of {models} models on {tasks} tasks"),
        (annotate, "{entities} entities and {relations} relations in {documents} note"),
    )
    for number, (stage, summary) in enumerate(stages, start=1):
        stage_began = time.monotonic()
        artifact = made[stage.__name__] = stage(recipe, out)
        counts = artifact.manifest.counts
        text = summary.format(**counts, dev_percent=100 * (counts.get("dev_mean") or 0))
        seconds = "reused" if artifact.reused else f"{time.monotonic() - stage_began:.0f} s"
        console().print(f"[bold green]✓[/] {number}/7 {stage.__name__:<9} {text} → {artifact.path.name}/ ({seconds})")
    console().print(f"[bold green]✓[/] 7/7 {'serve':<9} {serve(out, made['annotate'])}")
    report = write_report(made, out / "report.html")
    console().print(f"done in {time.monotonic() - began:.0f} s")
    console().print(f"report  [bold]{report}[/]")
    console().print(f"next    osler annotate {out / 'note.txt'} --bundle {out / 'bundle'}")
    console().print(f"        osler serve --bundle {out / 'bundle'}")
    typer.echo(str(report))


def first_look(out: Path) -> None:
    """Annotate a note in English and one in Spanish with the installed model, if there is one."""
    from osler.core.models import bundle_title, find_model, installed_models
    from osler.stages.serve.annotate import run
    from osler.stages.serve.config import AnnotateRecipe

    names = installed_models()
    model = find_model(names[0]) if names else None
    if model is None:
        return
    for language, text in FIRST_NOTES.items():
        path = out / "first-look" / f"note-{language}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text)
        wanted = AnnotateRecipe(files=(path,), bundle=model, to="html")
        folder = path.with_suffix("")
        made = run(wanted, folder, force=True)
        page = folder / min(made.path.rglob("*.html")).relative_to(made.path)
        found = f"{made.counts['entities']} entities in {path.name} → {page}"
        console().print(f"[bold green]✓[/] {bundle_title(model)}: {found}")


def corpus(recipe: DemoRecipe, out: Path) -> Artifact:
    """Write raw text and clean it."""
    from osler.clinic.raw import raw_texts
    from osler.stages.corpus.config import CorpusRecipe
    from osler.stages.corpus.run import run

    for language in ("en", "es"):
        path = out / "raw" / f"clinic-{language}.jsonl"
        if not path.exists():
            texts = raw_texts(recipe.raw_documents // 2, language=language, seed=0)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, "".join(json.dumps(dict(text), ensure_ascii=False) + "\n" for text in texts))
    options = {"sources": [str(path) for path in sorted((out / "raw").glob("*.jsonl"))]}
    return run(load_recipe(CorpusRecipe, shipped_recipe("demo/corpus"), options=options), out / "corpus")


def vocab_recipe(recipe: DemoRecipe, out: Path) -> VocabRecipe:
    """Return the shipped vocabulary recipe with the demo's overrides."""
    from osler.stages.vocab.config import VocabRecipe

    options = {**recipe.vocab, "corpus": out / "corpus"}
    return load_recipe(VocabRecipe, shipped_recipe("demo/vocab"), options=options)


def vocab(recipe: DemoRecipe, out: Path) -> Artifact:
    """Train a vocabulary on the corpus."""
    from osler.stages.vocab.run import run

    return run(vocab_recipe(recipe, out), out / "tokenizer")


def pretrain_recipe(recipe: DemoRecipe, out: Path) -> PretrainRecipe:
    """Return the shipped pretraining recipe with the demo's overrides."""
    from osler.stages.pretrain.config import PretrainRecipe

    options = {**recipe.pretrain, "corpus": out / "corpus", "tokenizer": out / "tokenizer"}
    return load_recipe(PretrainRecipe, shipped_recipe("demo/pretrain"), options=options)


def pretrain(recipe: DemoRecipe, out: Path) -> Artifact:
    """Pretrain a tiny encoder."""
    from osler.stages.pretrain.run import run

    return run(pretrain_recipe(recipe, out), out / "encoder")


def finetune_recipe(recipe: DemoRecipe, out: Path) -> FinetuneRecipe:
    """Return the shipped fine-tuning recipe with the demo's overrides."""
    from osler.stages.finetune.config import FinetuneRecipe

    tasks = [out / "tasks" / name for name in TASKS]
    options = {**recipe.finetune, "model": str(out / "encoder"), "tasks": tasks}
    return load_recipe(FinetuneRecipe, shipped_recipe("demo/finetune"), options=options)


def finetune(recipe: DemoRecipe, out: Path) -> Artifact:
    """Prepare the tasks and fine-tune one encoder on all of them."""
    from osler.stages.finetune.run import run
    from osler.stages.prepare.config import PrepareRecipe
    from osler.stages.prepare.run import run as prepare
    from osler.tasks.catalogue import load_card

    for name in TASKS:
        sizes = recipe.pairs if load_card(name).record == "pair" else recipe.notes
        prepare(PrepareRecipe(task=name, options=sizes), out / "tasks" / name)
    return run(finetune_recipe(recipe, out), out / "bundle")


def study_recipe(recipe: DemoRecipe, out: Path) -> StudyRecipe:
    """Return the shipped study recipe with the demo's overrides."""
    from osler.stages.study.recipe import StudyRecipe

    options = {
        **recipe.study,
        "tasks": [out / "tasks" / name for name in STUDY_TASKS],
        "models.pretrained.model": str(out / "encoder"),
        "models.random weights.model": str(out / "encoder"),
    }
    return load_recipe(StudyRecipe, shipped_recipe("demo/study"), options=options)


def study(recipe: DemoRecipe, out: Path) -> Artifact:
    """Compare the encoder with and without its pretrained weights."""
    from osler.stages.study.run import run

    return run(study_recipe(recipe, out), out / "study")


def annotate(recipe: DemoRecipe, out: Path) -> Artifact:
    """Annotate a note from the test split."""
    from osler.clinic.notes import notes
    from osler.stages.serve.annotate import run
    from osler.stages.serve.config import AnnotateRecipe

    path = out / "note.txt"
    if not path.exists():
        write_atomic(path, next(iter(notes(1, language="en", seed=99, split="test"))).text)
    return run(AnnotateRecipe(files=(path,), bundle=out / "bundle"), out / "annotations")


def serve(out: Path, annotations: Artifact) -> str:
    """Start the service on a free port of this machine, annotate the note through it, and stop it."""
    from urllib.request import ProxyHandler, Request, build_opener

    from osler.core.extras import available

    if not (available("fastapi") and available("uvicorn")):
        return 'left out: it needs pip install "osler[serve]"'
    from osler.stages.serve.server.run import in_background
    from osler.stages.serve.server.settings import ServeRecipe

    note = {"id": "note", "text": (out / "note.txt").read_text(encoding="utf-8")}
    with in_background(ServeRecipe(bundle=out / "bundle", port=0)) as (_, address):
        headers = {"content-type": "application/json"}
        # On localhost, the service requires a token only if one is set.
        if token := os.environ.get("OSLER_TOKEN", "").strip():
            headers["authorization"] = f"Bearer {token}"
        began = time.monotonic()
        asked = Request(f"{address}/v1/annotate", json.dumps(note).encode(), headers)
        with build_opener(ProxyHandler({})).open(asked, timeout=60) as answer:  # never through a proxy
            found = len(json.load(answer).get("spans", ()))
        milliseconds = 1000 * (time.monotonic() - began)
    same = found == annotations.counts["entities"]
    return f"{found} entities from POST /v1/annotate in {milliseconds:.0f} ms{', as from the command line' if same else ''}"
