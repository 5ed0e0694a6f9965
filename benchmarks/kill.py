"""Kill every command at random moments, and fill its disk: the same command must then end with the same bytes.

    python benchmarks/kill.py                       # 10 kills and 4 full disks for each command
    python benchmarks/kill.py --kills 100 --disks 20 --seed 1
    python benchmarks/kill.py --stages convert study --kills 50

Each command first runs undisturbed: its output is the reference and, for the next commands, the input. Then, in a new folder
for each trial:

- *kill*: the command dies by SIGKILL up to three times, then runs to its end. Half of the trials die just before the n-th change of
  a file or folder, half after a random time.
- *disk*: the command runs on a disk (tmpfs) with less room than it needs, in half of the trials with --force and a finished output
  in its place. It must end with one clear error and leave what was there as it is. Then the disk gets room, and the same command
  runs to its end.

Afterwards the folder must hold the files of the reference and no others, each with the same bytes. Only what CHANGES lists may
differ. The script exits with 1 if anything differs.

One process imports osler once and forks a child for every run, so that a trial takes a second or two. Disks need Linux and the
right to mount (root, or user namespaces); without it they are left out, and the script says so.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib
import json
import os
import pkgutil
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from osler.text.document import Document

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

CHANGES = re.compile(r"(^|/)logs/|^out\.runs/[^/]+/status\.json$")
"""Files that differ between two undisturbed runs: training curves and times, and the seconds of a study's runs."""
LEFT = re.compile(r"\.(partial|tmp|old|lock)$")
STUDY = """
title = "Killed"
seeds = [1]
workers = 1
tasks = ["{inputs}/task"]

[models.pretrained]
model = "{inputs}/encoder"

[models."random weights"]
model = "{inputs}/encoder"
settings.reinitialise = true

[finetune]
max_length = 64
overlap = 8
epochs = 1

[finetune.train]
lr = 1e-3
checkpoint_every = 3
"""
CORPUS = """
workers = {workers}
shard_megabytes = 1
licences = ["CC BY*", "internal"]
priority = ["notes"]
density_terms = "{inputs}/terms.txt"

[rewrite]
normalise = {{}}
markup = {{}}
masks = {{}}
repeated_lines = {{}}
sentences = {{ max_digits = 0.5 }}
whitespace = {{}}

[filters]
length = {{ min_characters = 60 }}
uppercase = {{}}
terms = {{ terms = "{inputs}/terms.txt", min_share = 0.001 }}

[boilerplate]
min_documents = 5

[near_duplicates]
threshold = 0.6

[decontaminate]
tasks = ["{inputs}/task"]

[[sources]]
name = "notes"
files = ["{inputs}/raw.jsonl", "{inputs}/task/test.parquet"]
licence = "internal"

[[sources]]
name = "pubmed"
files = ["{inputs}/pubmed*.xml.gz"]
licence = "CC BY 4.0"
options = {{ minimum = 100 }}
reader = "pubmed"

[[sources]]
name = "pmc"
files = ["{inputs}/articles/*.xml"]
reader = "jats"

[[sources]]
name = "export"
files = ["{inputs}/export.csv"]
licence = "internal"
facts = {{ patient = "patient" }}

[[sources]]
name = "letters"
files = ["{inputs}/letters"]
licence = "internal"
clean = "clinical"
"""
TRAINING = ["--set", "train.checkpoint_every=3", "--set", "train.log_every=1", "--set", "train.eval_every=3"]
COMMANDS: dict[str, list[str]] = {
    "tasks prepare": ["clinic-entities-en", "--set", "options={train=8,dev=2,test=3}"],
    "corpus build": ["--recipe", "{inputs}/corpus-1.toml"],
    "corpus build, two workers": ["--recipe", "{inputs}/corpus-2.toml"],
    "vocab train": ["{inputs}/corpus", "--size", "400"],
    "pretrain": [
        *("{inputs}/corpus", "--tokenizer", "{inputs}/tokenizer", "--recipe", "demo/pretrain", "--steps", "6"),
        *("--set", "batch_tokens=256", "--set", "validation_tokens=500", *TRAINING),
    ],
    "convert": ["{inputs}/notes.jsonl", "--to", "conll"],
    "finetune": [
        *("{inputs}/task", "--model", "{inputs}/encoder", "--recipe", "demo/finetune", "--epochs", "1"),
        *("--set", "max_length=64", "--set", "overlap=8", *TRAINING),
    ],
    "evaluate": ["{inputs}/bundle", "--task", "{inputs}/task", "--errors"],
    "study run": ["{inputs}/study.toml"],
    "annotate": ["{inputs}/notes.jsonl", "--bundle", "{inputs}/bundle"],
    "annotate, parquet": ["{inputs}/notes.jsonl", "--bundle", "{inputs}/bundle", "--to", "parquet"],
    "annotate, brat": ["{inputs}/notes.jsonl", "--bundle", "{inputs}/bundle", "--to", "brat"],
    "annotate, html": ["{inputs}/notes.jsonl", "--bundle", "{inputs}/bundle", "--to", "html"],
    "deid": [
        *("{inputs}/notes.jsonl", "--language", "en", "--style", "surrogate", "--dates", "shift"),
        *("--key-file", "{inputs}/key", "--write-mapping", "--review"),
    ],
    "corrections": ["{inputs}/corrections"],
    "export": ["{inputs}/bundle", "--to", "hf"],
}
"""Every command that makes something, in the order of the flow. What stands after a comma is not a part of the command."""
MADE = {
    "tasks prepare": "task",
    "corpus build": "corpus",
    "vocab train": "tokenizer",
    "pretrain": "encoder",
    "finetune": "bundle",
}
"""Under which name a command's output is an input of later ones."""


@dataclass(frozen=True)
class Ended:
    """How a run ended: its exit code (negative for a signal), what it printed, how long it took and how many files it changed."""

    code: int
    printed: str
    seconds: float
    changes: int = 0


@dataclass
class Stage:
    """One command, its reference, and what its trials showed."""

    command: str
    inputs: Path
    reference: Path
    keep: Path | None = None
    seconds: float = 0.0
    changes: int = 0
    room: int = 0
    figures: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def run(self, folder: Path, *more: str, **options: float | None) -> Ended:
        values = [part.replace("{inputs}", str(self.inputs)) for part in COMMANDS[self.command]]
        return run([*self.command.partition(",")[0].split(), *values, "--out", "out", *more], folder, **options)

    def count(self, name: str, number: int = 1) -> None:
        self.figures[name] = self.figures.get(name, 0) + number

    def check(self, folder: Path, trial: str) -> None:
        """Compare a folder with the reference, file by file."""
        found, expected = contents(folder), contents(self.reference)
        left = sorted(name for name in found if name not in expected or LEFT.search(name))
        differing = sorted(name for name in expected if name not in found or found[name] != expected[name])
        self.count("same bytes", not differing)
        self.count("leftovers", len(left))
        self.problems += [f"{trial}: left behind {name}" for name in left]
        self.problems += [f"{trial}: {'differs' if name in found else 'missing'} {name}" for name in differing]
        if self.keep and (left or differing):
            shutil.copytree(folder, self.keep / self.command.replace(" ", "-") / trial.replace(" ", "-"), symlinks=True)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes; of the files that may differ, only those that should not be there at all."""
    found = {
        path.relative_to(folder).as_posix(): path
        for path in folder.rglob("*")
        if path.is_file() or LEFT.search(path.name)
    }
    return {
        name: path.read_bytes() if path.is_file() else b""
        for name, path in found.items()
        if not CHANGES.search(name) or LEFT.search(name)
    }


def output(folder: Path) -> dict[str, bytes]:
    """The finished output in a folder, without what lies beside it or beside its parts."""
    return {
        name: data
        for name, data in contents(folder).items()
        if name.partition("/")[0] == "out" and not any(LEFT.search(part) for part in name.split("/"))
    }


def complete_parts(found: dict[str, bytes], expected: dict[str, bytes]) -> dict[str, bytes]:
    """What a failed command may have made: of several artifacts (the tasks of `corrections`), those that are done."""
    ending = "manifest.json"
    artifacts = [name.removesuffix(ending) for name in expected if name.endswith(ending)]
    done = tuple(folder for folder in artifacts if len(artifacts) > 1 and folder + ending in found)
    return {name: data for name, data in expected.items() if name.startswith(done)} if done else {}


def run(arguments: list[str], folder: Path, *, after: float | None = None, at: float | None = None) -> Ended:
    """Run osler in a forked child; kill it `after` seconds, or just before its change of a file number `at`."""
    folder.mkdir(parents=True, exist_ok=True)
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as output:
        started, pid = time.monotonic(), os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            os.chdir(folder)
            _child(arguments, at, writing)
        os.setpgid(pid, pid)  # here and in the child, so that the group is there before anything can be killed
        os.close(writing)
        timer = threading.Timer(after, os.killpg, (pid, signal.SIGKILL)) if after is not None else None
        if timer:
            timer.start()
        # Not reaped yet, so the process group still exists: end the workers of a killed command, too.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        seconds = time.monotonic() - started
        if timer:
            timer.cancel()
            timer.join()
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        changes = int(os.read(reading, 20) or 0)
        os.close(reading)
        output.seek(0)
        return Ended(code, output.read().decode(errors="replace"), seconds, changes)


def _child(arguments: list[str], at: float | None, changes: int) -> None:
    from osler.cli.main import main

    code, count = 1, 0
    here = os.getcwd()

    def look(event: str, values: tuple) -> None:
        nonlocal count
        if event not in WATCHED or isinstance(values[0], int):
            return  # a descriptor was opened by its name before
        if event == "open" and not values[2] & (os.O_WRONLY | os.O_RDWR):
            return
        # Names without a folder are those of a tree that is being deleted.
        if os.path.abspath(os.fsdecode(values[0])).startswith(here):
            count += 1
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)
    sys.argv = ["osler", *arguments]
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else bool(ended.code)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(changes, str(count).encode())
        os._exit(code)


WATCHED = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"}


def prepare(inputs: Path) -> None:
    """Write what no command makes: raw text, annotated notes, corrections and a study."""
    from osler.clinic.notes import notes
    from osler.clinic.raw import raw_texts
    from osler.formats.registry import get_format

    inputs.mkdir(parents=True)
    rows = [json.dumps(dict(text), ensure_ascii=False) for text in raw_texts(200, language="en", seed=0)]
    (inputs / "raw.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    write_sources(inputs)
    for workers in (1, 2):
        recipe = CORPUS.format(inputs=inputs, workers=workers)
        (inputs / f"corpus-{workers}.toml").write_text(recipe, encoding="utf-8")
    written = list(notes(12, language="en", seed=3, split="test"))
    get_format("jsonl").write(written, inputs / "notes.jsonl")
    write_corrections(inputs, written)
    (inputs / "study.toml").write_text(STUDY.format(inputs=inputs), encoding="utf-8")


def write_corrections(inputs: Path, notes: Sequence[Document]) -> None:
    """Write what two annotators saved on the page of the service; the gold entities are what they corrected."""
    from osler.artifacts.bundle_spec import BundleHead, BundleSpec
    from osler.stages.serve.corrections import CorrectionLog
    from osler.tasks.catalogue import load_card

    card = load_card("clinic-entities-en")
    head = BundleHead(card=card, protocol=card.protocol)
    log = CorrectionLog.create(
        inputs / "corrections", "model", BundleSpec(max_length=64, overlap=8, heads={card.name: head})
    )
    for number, note in enumerate(notes):
        spans = [replace(span, attributes={"head": card.name}) for span in note.spans if span.label in card.labels]
        corrected = note.with_(spans=tuple(spans), relations=())
        log.add("ana" if number % 2 else "bo", "model", [card.name], {"added": len(spans)}, corrected)


def write_sources(inputs: Path) -> None:
    """Write sources of several formats, with something for every step to do: bad records, revisions, copies, near-copies."""
    from osler.clinic.raw import raw_texts

    texts = [text["text"] for text in raw_texts(500, language="en", seed=7)]
    (inputs / "terms.txt").write_text("fever\nblood pressure\nadmitted\npatient\nhistory\nmg\n", encoding="utf-8")
    for file, chosen in (("pubmed24n0001", range(150)), ("pubmed24n0002", range(100, 200))):
        records = "".join(
            f"<MedlineCitation><PMID>{number}</PMID><Article><ArticleTitle>A case in {file}</ArticleTitle>"
            f"<Abstract><AbstractText>{escape(texts[number])}</AbstractText></Abstract></Article></MedlineCitation>\n"
            for number in chosen
        ).replace("</Article>", "", 1)  # the first record of each file is broken
        deleted = f"<DeleteCitation><PMID>{chosen[9]}</PMID></DeleteCitation>"
        data = f"<PubmedArticleSet>{records}{deleted}</PubmedArticleSet>".encode()
        (inputs / f"{file}.xml.gz").write_bytes(gzip.compress(data, mtime=0))
    (inputs / "articles").mkdir()
    (inputs / "letters").mkdir()
    for number, text in enumerate(texts[180:280]):  # some of them are abstracts, too
        licence = "CC BY 4.0" if number % 5 else "CC BY-NC 4.0" if number % 2 else "all rights reserved"
        article = (
            f'<article><front><article-meta><article-id pub-id-type="pmc">{number}</article-id><permissions><license>'
            f"<license-p>{licence}</license-p></license></permissions></article-meta></front>"
            f"<body><p>{escape(text)}</p></body></article>"
        )
        (inputs / "articles" / f"{number:03d}.xml").write_text(article, encoding="utf-8")
    with (inputs / "export.csv").open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["id", "patient", "text"])
        for number, text in enumerate(texts[260:400]):
            rows.writerow([number, number // 3, text] if number % 40 else [number, text])
    for number, text in enumerate(texts[380:500]):
        letter = f"A letter of the clinic, as every other one.\n{text.replace('admitted', 'seen', 1)}"
        (inputs / "letters" / f"{number:03d}.txt").write_text(letter, encoding="utf-8")


def kill(stage: Stage, folder: Path, chance: random.Random, trial: str, by_change: bool) -> None:
    """One trial: kill the command up to three times, then let it end."""
    stage.count("kill trials")
    for _ in range(chance.randint(1, 3)):
        if by_change:
            ended = stage.run(folder, at=chance.randint(1, stage.changes))
        else:
            ended = stage.run(folder, after=chance.uniform(0, stage.seconds))
        if ended.code != -signal.SIGKILL:
            break  # it was done before
        stage.count("kills")
    finish(stage, folder, trial)


def finish(stage: Stage, folder: Path, trial: str, *more: str) -> None:
    """Run the command to its end, and compare."""
    ended = stage.run(folder, *more)
    # `convert` writes bare files, and does not replace the complete ones of a run that was killed after its last change.
    if ended.code == 0 or "--out already exists" in ended.printed:
        stage.check(folder, trial)
        return
    stage.count("errors")
    stage.problems.append(f"{trial}: the last run ended with {ended.code}: {last_line(ended.printed)}")


def fill(stage: Stage, folder: Path, chance: random.Random, trial: str, *, replace: bool) -> None:
    """One trial: too small a disk, then a large one. With `replace`, a finished output is there and --force replaces it."""
    stage.count("disk trials")
    more = ["--force"] if replace else []
    with disk(folder) as resize:
        if replace:
            shutil.copytree(stage.reference, folder, symlinks=True, dirs_exist_ok=True)
        used = os.statvfs(folder)
        taken = (used.f_blocks - used.f_bfree) * used.f_frsize
        before = output(folder)
        resize(max(4096, taken + round(chance.uniform(0.02, 0.98) * stage.room)))
        ended = stage.run(folder, *more)
        resize(0)
        if ended.code == 0:
            stage.count("enough room")  # a run of a study that is done is not done again
        else:
            if ended.code != 2 or ended.printed.count("error: ") != 1 or "Traceback" in ended.printed:
                stage.count("unclear errors")
                stage.problems.append(f"{trial}: a full disk ended with {ended.code}: {last_line(ended.printed)}")
            found = output(folder)
            if found != before | complete_parts(found, output(stage.reference)):
                stage.problems.append(f"{trial}: a full disk changed the output that was there")
        finish(stage, folder, trial, *more)


def last_line(printed: str) -> str:
    lines = [line for line in printed.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "nothing printed"


@contextmanager
def disk(folder: Path) -> Iterator:
    """A disk of its own at `folder`, and a function that changes its size in bytes (0: no limit)."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", str(folder)], check=True)
    try:
        yield lambda size: subprocess.run(
            ["mount", "-o", f"remount,size={size}", str(folder)], check=True, capture_output=True
        )
    finally:
        # A process that was killed may take a moment to let go of its files.
        for _ in range(100):
            if subprocess.run(["umount", str(folder)], capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.1)
        else:
            subprocess.run(["umount", str(folder)], check=True)


def make_reference(stage: Stage, folder: Path, on_disk: bool) -> Ended:
    """Run the command undisturbed, and keep its output. On a disk of its own, also find the room it needs at a time."""
    most, done = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.002):
            state = os.statvfs(folder)
            most = max(most, (state.f_blocks - state.f_bfree) * state.f_frsize)

    with disk(folder) if on_disk else nullcontext():
        watcher = threading.Thread(target=watch)
        if on_disk:
            watcher.start()
        ended = stage.run(folder)
        if on_disk:
            done.set()
            watcher.join()
        shutil.copytree(folder, stage.reference, symlinks=True)
    shutil.rmtree(folder)
    stage.seconds, stage.changes, stage.room = ended.seconds, ended.changes, most
    return ended


def table(stages: list[Stage]) -> str:
    names = [
        "kill trials",
        "kills",
        "disk trials",
        "enough room",
        "unclear errors",
        "errors",
        "same bytes",
        "leftovers",
    ]
    lines = [f"| command | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    rows = [(stage.command, stage.figures) for stage in stages]
    rows.append(("total", {name: sum(stage.figures.get(name, 0) for stage in stages) for name in names}))
    for command, figures in rows:
        trials = figures.get("kill trials", 0) + figures.get("disk trials", 0)
        cells = [f"{figures.get(name, 0)}" + f" of {trials}" * (name == "same bytes") for name in names]
        lines.append(f"| `{command}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def load_everything() -> None:
    """Import what any command imports, but start nothing: children are forked from this process."""
    import osler

    for module in pkgutil.walk_packages(osler.__path__, "osler."):
        if not module.name.endswith(("__main__", "engine_ray")):
            importlib.import_module(module.name)
    for name in (
        "matplotlib.pyplot",
        "pyarrow.parquet",
        "torch._dynamo",
        "torch.utils.tensorboard",
        "transformers.models.modernbert",
    ):
        importlib.import_module(name)
    osler.stages.corpus.clean.PART_BYTES = 200_000  # so that a small corpus, too, is cleaned in several parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10, help="trials with kills for each command")
    parser.add_argument("--disks", type=int, default=4, help="trials with a full disk for each command")
    parser.add_argument("--stages", nargs="+", choices=list(COMMANDS), default=list(COMMANDS), metavar="COMMAND")
    parser.add_argument("--without", nargs="+", choices=list(COMMANDS), default=[], metavar="COMMAND")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a new folder for the output of trials that differ")
    arguments = parser.parse_args()
    arguments.stages = [command for command in arguments.stages if command not in arguments.without]
    # Mounting needs a mount namespace of its own, which also removes every mount when the script ends.
    if arguments.disks and "OSLER_KILL" not in os.environ:
        command = ["unshare", "--map-root-user", "--mount"]
        if shutil.which("unshare") and subprocess.run([*command, "true"], capture_output=True).returncode == 0:
            os.environ["OSLER_KILL"] = "inside"
            os.execvp("unshare", [*command, sys.executable, *sys.argv])
        print("no right to mount: full disks are left out", file=sys.stderr)
        arguments.disks = 0
    load_everything()
    with tempfile.TemporaryDirectory(prefix="osler-kill-") as scratch:
        stages = attack(Path(scratch), arguments)
    print(table(stages))
    problems = [f"{stage.command}, {problem}" for stage in stages for problem in stage.problems]
    print("\n".join(["", *problems]) if problems else "\nno difference, no leftover, no unclear error")
    sys.exit(bool(problems))


def attack(scratch: Path, arguments: argparse.Namespace) -> list[Stage]:
    inputs = scratch / "inputs"
    (scratch / "reference").mkdir()
    pid = os.fork()  # the synthetic clinic and Parquet may start threads, which a parent of forks must not have
    if pid == 0:
        prepare(inputs)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    stages = []
    last = max(list(COMMANDS).index(command) for command in arguments.stages)
    for command in list(COMMANDS)[: last + 1]:
        if command not in arguments.stages and command not in MADE:
            continue
        stage = Stage(command, inputs, scratch / "reference" / command.replace(" ", "-"), arguments.keep)
        # Manifests name paths, so every trial runs where the reference was made.
        ended = make_reference(stage, scratch / "work", on_disk=bool(arguments.disks) and command in arguments.stages)
        if ended.code != 0:
            raise SystemExit(f"{command} failed undisturbed:\n{ended.printed}")
        if command in MADE:
            (inputs / MADE[command]).symlink_to(stage.reference / "out")
        if command not in arguments.stages:
            continue
        stages.append(stage)
        for number in range(arguments.kills + arguments.disks):
            trial, folder = f"trial {number}", scratch / "work"
            chance = random.Random(f"{arguments.seed}/{command}/{number}")
            if number < arguments.kills:
                kill(stage, folder, chance, trial, by_change=number % 2 == 0)
            else:
                fill(stage, folder, chance, trial, replace=number % 2 == 1)
            shutil.rmtree(folder)
        print(
            f"{command}: {ended.seconds:.1f} s, {ended.changes} changes, {stage.figures}", file=sys.stderr, flush=True
        )
        for problem in stage.problems:
            print(f"  {problem}", file=sys.stderr, flush=True)
    return stages


if __name__ == "__main__":
    main()
