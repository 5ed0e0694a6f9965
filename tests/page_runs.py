"""Runs what the pages show: every shell block in a real bash, every Python block, in a folder that holds what the page supposes.

The recipes of docs/results are pages too: their commands are in the comments at their head.

Three tables say what differs from a reader's own run: `NOT_RUN`, `SMALLER` and `REPLACED`. `WORKING_FOLDERS` says what a page supposes.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pages import ROOT, Block, blocks
from shelf import Shelf
from shell import Shell

from osler.stages.serve.server import run as server
from osler.stages.serve.server.settings import ServeRecipe

NOT_RUN = {
    "pip ": "changes the environment that the tests run in",
    "python -m venv": "the tests have their environment",
    ". venv/bin/activate": "the tests have their environment",
    "make demo": "builds an environment; tests/e2e runs `osler demo`",
    "make test": "this is what runs here",
    "osler demo": "takes a minute; tests/e2e runs it",
    "osler --install-completion": "writes to the start-up file of the user's shell",
    "torchrun ": "needs several GPUs; tests/train starts several processes on one CPU",
    "python -m tests.raw_sources": "needs the checkout and public files; tests/recipes makes the same files",
    "RAY_ADDRESS=": "needs a cluster; tests/clusters.py starts Ray on one machine and compares the results",
    "import tensorflow as tf": "osler does not depend on TensorFlow",
}
"""How a command, or the first line of a Python block, begins, and why it is not run."""

SMALLER = {
    "tasks prepare clinic-": "--set options.train=6 --set options.dev=2 --set options.test=2",
    "tasks synthesize": "--set n=8",
    "tasks synthesize mimic-iii-notes": "--set n=40",  # a vocabulary needs more text
    "vocab train": "--set size=600",
    "pretrain": "--set preset=tiny --set shape= --set train.budget= --set train.steps=2 --set max_length=64 --set batch_tokens=256 "
    "--set accumulate=1 --set validation_share=0.2",
    "distill": "--set train.steps=2 --set max_length=64 --set batch_tokens=256 --set validation_share=0.2",
    "finetune": "--set epochs=1 --set max_length=128 --set overlap=24",
    "study run study.toml": "--set seeds=1 --set grid= --set finetune.epochs=1 --set without=gad --workers 1",
    "study run vocabulary.toml": "--set seeds=1 --set finetune.epochs=1 --workers 1",
    "study pairwise study.toml": "--set seeds=1 --set grid= --set finetune.epochs=1 --set without=gad --workers 1",
    # Hundreds of runs. tests/recipes runs every paper's study, with less of everything.
    "study run lewis2020": "--dry-run",
    "study run mulyar2020": "--dry-run",
    "study run wada2020": "--dry-run",
    "study run carrino2022": "--dry-run",
    "study run peng2020": "--dry-run",
    "study run docs/results/": "--dry-run",
    "study run mixing.toml": "--dry-run",
    "study run density.toml": "--dry-run",
    "study run distillation.toml": "--dry-run",
    "study run three-starts.toml": "--dry-run",
    "study run crammed/seven-tasks --set models.8-minutes": "--dry-run",
    "study run crammed/seven-tasks --set models.10-minutes": "--dry-run",
    "study run crammed/seven-tasks --set models.mine": "--set seeds=1 --set finetune.epochs=1 --set task_settings= --workers 1 "
    """--set 'without=["bc5cdr-chem", "bc5cdr-disease", "bc2gm", "jnlpba"]'""",
    # The ten sources need further packages. tests/recipes builds the corpus where they are installed.
    "corpus build --recipe carrino2022/corpus": "--dry-run",
    "serve": "--port {port}",
}
"""Options that are added to a command, so that it takes a moment and not an afternoon."""

REPLACED = {
    # Heads that were trained for a moment do not reach more.
    "target-recall 0.95": "target-recall 0.05",
    "target-recall 0.99": "target-recall 0.05",
    "target_recall=0.95": "target_recall=0.05",
    "for seed in 11 12 13": "for seed in 11",
}
"""Text of a block that is replaced, where no option helps."""

USING = {
    "README.md": "",
    "docs/guide/annotation.md": "bundle notes note.txt notes.zip more.jsonl.gz export.csv notes.csv pairs.tsv",
    "docs/guide/attributes.md": "encoder bundle my-notes=brat-splits official/e3c-attributes official/nubes-attributes",
    "docs/guide/correct-and-learn.md": "bundle encoder corrections tasks/clinic-entities-en",
    "docs/guide/deidentification.md": "bundle bundle-es notes notes.csv tasks/meddocan",
    "docs/guide/export.md": "bundle note.txt tasks/clinic-entities-en tasks/clinic-phi-en",
    "docs/guide/formats.md": "notes=brat windows-notes=windows-brat table.csv bare.tsv distemist annotations project-export.json",
    "docs/guide/scores.md": "demo/fast/encoder=encoder notes pairs.tsv",
    "docs/tutorials/integrator.md": "demo/fast/bundle=bundle demo/fast/tasks/clinic-entities-en=tasks/clinic-entities-en",
    "docs/guide/serving.md": "demo/full/bundle=bundle bundle notes.jsonl",
    "docs/osler-compact.md": "note.txt nota.txt=note.txt",
}
TRAINING = {
    "docs/index.md": "notes=raw note.txt study.toml",
    "docs/guide/command-line.md": "tasks/phi=tasks/clinic-phi-en encoder",
    "docs/guide/corpus.md": "export articles pubmed notes tasks/meddocan tasks/pharmaconer tasks/ncbi-disease",
    "docs/guide/distillation.md": "corpus corpus.toml text=raw large=encoder small=encoder tasks/ncbi-disease big-bundle=bundle-ncbi",
    "docs/guide/pretraining.md": "corpus tokenizer corpus-bio=corpus corpus-pm=corpus roberta-base=encoder roberta-bne=encoder "
    "my-tokenizer=tokenizer CHECKPOINT=encoder",
    "docs/guide/several-gpus.md": "",
    "docs/tutorials/hospital.md": "notes=notes-es official/meddocan official/pharmaconer other-text=raw",
    "docs/guide/vocabulary.md": "runs/corpus=corpus other/model=encoder third/tokenizer.json=tokenizer/tokenizer.json terms.txt",
}
TASKS = {
    "docs/guide/before-your-data.md": "runs/encoder=encoder official/i2b2-2010",
    "docs/guide/checkpoints.md": "downloads/biobert=checkpoint tasks=papers-tasks",
    "docs/guide/evaluation.md": "runs/bundle=bundle-ncbi runs/ncbi-disease=tasks/ncbi-disease "
    "runs/bc5cdr-disease=tasks/bc5cdr-disease",
    "docs/guide/finetuning.md": "BC5CDR=official/bc5cdr encoder corpus tasks/ncbi-disease tasks/hoc "
    "tasks/a=tasks/clinic-entities-en tasks/b=tasks/clinic-phi-en tasks/new=tasks/ncbi-disease",
    "docs/guide/own-task.md": "my-data=brat-splits encoder visits.csv",
    "docs/tutorials/researcher.md": "",
    "docs/guide/papers.md": "DATA=papers ENCODER=encoder",
    "docs/guide/studies.md": "encoder other-encoder=encoder tasks/bc5cdr-chem tasks/ncbi-disease tasks/gad-1=tasks/gad-fold-1 "
    "tasks/gad-2=tasks/gad-fold-2 tasks/gad-3=tasks/gad-fold-3",
}
H200 = "docs/results/2026-11-18-h200"
LATER = "docs/results/2026-11-19-h200"
RESULTS = {
    "docs/results/README.md": "DATA=papers text=open-text",
    "docs/results/race.md": "DATA=papers text=open-text about.md",
    "docs/results/2026-11-18-deid.md": "tasks/meddocan osler-compact=bundle-es",
    "docs/results/2026-11-16-corpora/README.md": "DATA=papers text=open-text raw=carrino",
    f"{H200}/carrino2022.md": "tasks=papers-tasks tasks/meddocan ENCODER=encoder",
    f"{H200}/distillation.md": f"distillation.toml={H200}/distillation.toml corpus tokenizer tasks=papers-tasks",
    f"{H200}/lewis2020.md": "tasks=papers-tasks ENCODER=encoder",
    f"{H200}/peng2020-fine-tune.md": "tasks=papers-tasks ENCODER=encoder",
    f"{H200}/peng2020-pairwise.md": "tasks=papers-tasks ENCODER=encoder",
    f"{H200}/peng2020-refine.md": "tasks=papers-tasks ENCODER=encoder",
    f"{H200}/seven-tasks.md": "tasks=papers-tasks ENCODER=encoder",
    f"{H200}/seven-tasks-10-minutes.md": "tasks=papers-tasks ENCODER=encoder",
    f"{H200}/wada2020.md": "tasks=papers-tasks ENCODER=encoder",
    "docs/results/codiesp.toml": "docs/results/codiesp.toml DATA=official/codiesp ENCODER=encoder",
    "docs/results/english.toml": "docs/results/english.toml DATA=official/bc5cdr DATA=official/ddi2013 DATA=official/e3c-entities "
    "DATA=official/nli4ct DATA=official/pubmedqa ENCODER=encoder",
    "docs/results/spanish-french.toml": "docs/results/spanish-french.toml DATA=official/meddocan DATA=official/e3c-entities "
    "DATA=official/quaero-medline ENCODER=encoder",
    f"{H200}/density-pretrain.toml": f"density-pretrain.toml={H200}/density-pretrain.toml "
    "CORPUS=corpus-with-density FILTERED=corpus TOKENIZER=tokenizer",
    f"{H200}/density.toml": f"density.toml={H200}/density.toml tasks=papers-tasks "
    "none=encoder weighted=encoder ordered=encoder filtered=encoder",
    f"{H200}/distillation.toml": f"distillation.toml={H200}/distillation.toml DATA=papers student=encoder longer=encoder "
    "longer-equal-time=encoder distilled=encoder aligned=encoder encoder",
    f"{H200}/mixing.toml": f"mixing.toml={H200}/mixing.toml DATA=papers encoder",
    "docs/results/2026-11-19-vocabulary.md": "corpus bert-uncased=tokenizer compact=tokenizer held-out=corpus terms.txt",
    f"{LATER}/peng2020-equal-updates.md": f"peng2020-equal-updates.toml={LATER}/peng2020-equal-updates.toml tasks=papers-tasks encoder",
    f"{LATER}/peng2020-equal-updates.toml": f"peng2020-equal-updates.toml={LATER}/peng2020-equal-updates.toml DATA=papers encoder",
    f"{LATER}/three-starts.md": f"three-starts.toml={LATER}/three-starts.toml corpus tokenizer minilm=encoder mpnet=encoder "
    "tasks=papers-tasks",
    f"{LATER}/three-starts.toml": f"three-starts.toml={LATER}/three-starts.toml DATA=papers random=encoder minilm=encoder "
    "minilm-continued=encoder mpnet=encoder mpnet-continued=encoder",
}
WORKING_FOLDERS = USING | TRAINING | TASKS | RESULTS
"""What lies in the working folder when a page begins: items of tests/shelf.py, `NAME=ITEM` under another name."""

NAMES: dict[str, dict[str, Any]] = {"docs/index.md": {"texts": ["Aspirin 81 mg daily.", "No fever."]}}
"""Python names that a page supposes."""


def steps(block: Block) -> list[str]:
    """The commands of a shell block, one in each line, or the whole of a Python block."""
    if block.language == "python":
        return [block.text]
    lines = re.sub(r"\\\n\s*", " ", block.text).splitlines()
    if block.language == "console":
        return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    found, open_line = [], ""
    for line in lines:
        open_line += line
        try:
            words = shlex.split(open_line, comments=True)
        except ValueError:  # a quotation goes on in the next line
            open_line += "\n"
            continue
        if words:
            found.append(open_line)
        open_line = ""
    return found


def why_not(step: str) -> str | None:
    """Why a step is not run."""
    return next((why for begin, why in NOT_RUN.items() if step.strip().startswith(begin)), None)


def runnable(page: Path) -> list[Block]:
    """The blocks of a page that a reader can run."""
    # The Python API page shows signatures; tests/test_api.py compares them with the functions.
    return [] if page.name == "api.md" else blocks("bash", "console", "python", page=page)


class PageRun:
    """One page in one working folder."""

    def __init__(self, page: str, folder: Path) -> None:
        self.page, self.folder = page, folder
        self._shell = Shell(self._changed)
        self._made: set[Path] = set()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.names = {"__name__": "page", **NAMES.get(page, {})}

    def run(self) -> None:
        """Run the page from top to bottom."""
        with contextlib.ExitStack() as services, pytest.MonkeyPatch.context() as patch:

            def serve(recipe: ServeRecipe, ready: Callable[[str], None]) -> None:
                services.close()
                ready(services.enter_context(server.in_background(recipe))[1])

            # A service runs until it is stopped. Here it ends with the page, or when the page starts another.
            patch.setattr(server, "run", serve)
            for block in blocks(page=ROOT / self.page):
                if block.file:
                    (self.folder / block.file).write_text(block.text, encoding="utf-8")
                elif block in runnable(block.page):
                    self._run_block(block)

    def _run_block(self, block: Block) -> None:
        chosen = [step for step in steps(block) if not why_not(step)]
        script = "\n".join(chosen).replace("localhost:8000", f"localhost:{self._port}")
        for old, new in REPLACED.items():
            script = script.replace(old, new)
        self._made.clear()
        if block.language == "python":
            for out in re.findall(r'\bout="([^"]+)"', script):
                self._clear(self.folder / out)
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(self.folder)
                exec(compile(script, str(block), "exec"), self.names)
            return
        done = len(self._shell.calls)
        ended = self._shell.run(script, self.folder)
        calls = self._shell.calls[done:]
        shown = "\n".join(f"osler {shlex.join(call.arguments)}\n{call.error}" for call in calls[-1:])
        fails = "\nerror: " in block.text
        assert (ended.returncode != 0) == fails, f"{block}: exit code {ended.returncode}\n{ended.stdout}\n{shown}"
        for call in calls:
            if call.out and "--dry-run" not in call.arguments and not fails:
                assert call.out.exists(), f"{block}: osler {shlex.join(call.arguments)} made no {call.out.name}"

    def _changed(self, arguments: list[str], folder: Path) -> list[str]:
        """Add what makes a command small, and make room for what it writes."""
        words = " ".join(arguments)
        added = [more for command, more in SMALLER.items() if words.startswith(command)]
        changed = [*arguments, *shlex.split(" ".join(added).format(port=self._port))]
        if "pretrain" in arguments and "--dry-run" in arguments:
            changed.append("--no-probe")
        for option in {"--out", "-o"} & {*arguments} if "--dry-run" not in arguments else ():
            self._clear(folder / arguments[arguments.index(option) + 1])
        return changed

    def _clear(self, out: Path) -> None:
        """Remove what was there before this block: blocks show alternatives under one name, and a reader runs one of them."""
        if out not in self._made and out.exists():
            shutil.rmtree(out) if out.is_dir() else out.unlink()
        self._made.add(out)


def run_page(page: str, shelf: Shelf, folder: Path) -> None:
    """Lay out what a page supposes, and run the page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for program in ("curl", "jq"):
        if f"{program} -" in text and shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    shelf.lay(folder, WORKING_FOLDERS[page])
    PageRun(page, folder).run()
