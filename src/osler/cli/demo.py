"""`osler demo`: the six stages on embedded data."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from osler.cli.common import DryRunOption, ForceOption, SetOption, announce
from osler.core.artifact import Artifact
from osler.core.config import Recipe, load_recipe, shipped_recipe
from osler.core.console import console

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


class DemoRecipe(Recipe):
    """How much of everything; the sections change single values of the stages' own recipes."""

    raw_documents: int = Field(ge=50)
    notes: dict[str, int]
    pairs: dict[str, int]
    vocab: dict[str, Any] = Field(default_factory=dict)
    pretrain: dict[str, Any] = Field(default_factory=dict)
    finetune: dict[str, Any] = Field(default_factory=dict)
    study: dict[str, Any] = Field(default_factory=dict)


class DemoFlow:
    """Runs the stages one after the other; what each needs is the folder the one before it made."""

    def __init__(self, recipe: DemoRecipe, out: Path) -> None:
        self.recipe = recipe
        self.out = out
        self.made: dict[str, Artifact] = {}

    def plan(self) -> list[str]:
        """What will be done, for a person."""
        return [
            f"1 corpus    {self.recipe.raw_documents:,} raw English and Spanish documents of the synthetic clinic, cleaned",
            "2 vocab     a byte-level vocabulary learned from them",
            "3 pretrain  a tiny encoder from random weights",
            f"4 finetune  {len(TASKS)} tasks taught to one encoder, round robin",
            f"5 study     with and without pretraining on {len(STUDY_TASKS)} tasks",
            "6 annotate  a note the models never saw, and the report",
            f"everything goes to {self.out}; done parts are reused",
        ]

    def run(self) -> None:
        """Do it all and say what to try next."""
        from osler.cli.demo_report import write_report

        started = time.monotonic()
        self._stage(1, "corpus", self._corpus)
        self._stage(2, "vocab", self._vocab)
        self._stage(3, "pretrain", self._pretrain)
        self._stage(4, "finetune", self._finetune)
        self._stage(5, "study", self._study)
        self._stage(6, "annotate", self._annotate)
        report = write_report(self.made, self.out / "report.html")
        console().print(f"done in {time.monotonic() - started:.0f} s")
        console().print(f"report  [bold]{report}[/]")
        console().print(f"next    osler annotate {self.out / 'note.txt'} --bundle {self.out / 'bundle'} --language en")
        typer.echo(str(report))

    def _stage(self, number: int, name: str, work: Callable[[], Artifact]) -> None:
        started = time.monotonic()
        artifact = self.made[name] = work()
        seconds = "reused" if artifact.reused else f"{time.monotonic() - started:.0f} s"
        console().print(
            f"[bold green]✓[/] {number}/6 {name:<9} {_summary(name, artifact)} → {artifact.path.name}/ ({seconds})"
        )

    def _corpus(self) -> Artifact:
        from osler.clinic.raw import raw_texts
        from osler.formats.output import output_file
        from osler.stages.corpus.config import CorpusRecipe
        from osler.stages.corpus.run import run

        raw = self.out / "raw"
        for language in ("en", "es"):
            path = raw / f"clinic-{language}.jsonl"
            if not path.exists():
                with output_file(path) as stream:
                    for item in raw_texts(self.recipe.raw_documents // 2, language=language, seed=0):
                        stream.write((_json(item) + "\n").encode())
        options = {"sources": [str(path) for path in sorted(raw.glob("*.jsonl"))]}
        return run(load_recipe(CorpusRecipe, shipped_recipe("demo/corpus"), options=options), self.out / "corpus")

    def _vocab(self) -> Artifact:
        from osler.stages.vocab.config import VocabRecipe
        from osler.stages.vocab.run import run

        options = {**self.recipe.vocab, "corpus": self.out / "corpus"}
        return run(load_recipe(VocabRecipe, shipped_recipe("demo/vocab"), options=options), self.out / "tokenizer")

    def _pretrain(self) -> Artifact:
        from osler.stages.pretrain.config import PretrainRecipe
        from osler.stages.pretrain.run import run

        options = {**self.recipe.pretrain, "corpus": self.out / "corpus", "tokenizer": self.out / "tokenizer"}
        return run(load_recipe(PretrainRecipe, shipped_recipe("demo/pretrain"), options=options), self.out / "encoder")

    def _finetune(self) -> Artifact:
        from osler.stages.finetune.config import FinetuneRecipe
        from osler.stages.finetune.run import run
        from osler.stages.prepare.config import PrepareRecipe
        from osler.stages.prepare.run import run as prepare
        from osler.tasks.catalogue import load_card

        for name in TASKS:
            sizes = self.recipe.pairs if load_card(name).record == "pair" else self.recipe.notes
            prepare(PrepareRecipe(task=name, options=sizes), self._task(name))
        options = {
            **self.recipe.finetune,
            "model": str(self.out / "encoder"),
            "tasks": [self._task(name) for name in TASKS],
        }
        return run(load_recipe(FinetuneRecipe, shipped_recipe("demo/finetune"), options=options), self.out / "bundle")

    def _study(self) -> Artifact:
        from osler.stages.study.recipe import StudyRecipe
        from osler.stages.study.run import run

        encoder = str(self.out / "encoder")
        options = {
            **self.recipe.study,
            "tasks": [self._task(name) for name in STUDY_TASKS],
            "models.pretrained.model": encoder,
            "models.random weights.model": encoder,
        }
        recipe = load_recipe(StudyRecipe, shipped_recipe("demo/study"), options=options)
        return run(recipe, self.out / "study")

    def _annotate(self) -> Artifact:
        from osler.clinic.notes import notes
        from osler.core.files import write_atomic
        from osler.stages.serve.annotate import AnnotateRecipe, run

        note = next(iter(notes(1, language="en", seed=99, split="test")))
        path = self.out / "note.txt"
        if not path.exists():
            write_atomic(path, note.text)
        return run(AnnotateRecipe(files=(path,), bundle=self.out / "bundle", language="en"), self.out / "annotations")

    def _task(self, name: str) -> Path:
        return self.out / "tasks" / name


def _json(value: Mapping[str, Any]) -> str:
    import json

    return json.dumps(dict(value), ensure_ascii=False)


def _summary(name: str, artifact: Artifact) -> str:
    counts = artifact.manifest.counts
    texts = {
        "corpus": lambda: f"{counts['documents']:,} documents kept of {counts['read']:,}",
        "vocab": lambda: f"{counts['size']:,} tokens",
        "pretrain": lambda: (
            f"{counts['parameters']:,} parameters, {counts['tokens_seen']:,} tokens, perplexity {counts['perplexity']:.1f}"
        ),
        "finetune": lambda: f"{counts['heads']} heads, mean dev score {100 * counts['dev_mean']:.1f}",
        "study": lambda: (
            f"{counts['runs']} runs, {counts['models']} models x {counts['tasks']} tasks x {counts['seeds']} seeds"
        ),
        "annotate": lambda: (
            f"{counts['entities']} entities and {counts['relations']} relations in {counts['documents']} note"
        ),
    }
    return texts[name]()


app = typer.Typer(add_completion=False)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for everything the demo makes.")] = Path("demo"),
    fast: Annotated[bool, typer.Option("--fast", help="Less of everything: under a minute.")] = False,
    sets: SetOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Run all six stages on notes the synthetic clinic writes, and make a report."""
    from osler.core.files import remove_tree

    recipe = load_recipe(DemoRecipe, shipped_recipe("demo/fast" if fast else "demo/full"), sets or ())
    flow = DemoFlow(recipe, out / ("fast" if fast else "full"))
    announce(flow.plan(), dry_run=dry_run)
    if dry_run:
        return
    if force:
        remove_tree(flow.out)
    flow.run()
