"""One hash: every step gives the same bytes for 1, 2 or 4 workers, and after kills at random moments."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from osler.artifacts.corpus import Corpus

WORDS = (
    "fever",
    "pain",
    "cough",
    "dose",
    "tablet",
    "blood",
    "heart",
    "lung",
    "scan",
    "plan",
    "home",
    "week",
    "daily",
    "left",
)
MENU = "Home | About us | Contact | Legal notice"
SCRIPT = """
import json, sys
from pathlib import Path
from osler.core.config import load_recipe
from osler.stages.corpus import clean
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.run import run

if __name__ == "__main__":
    options, out = json.loads(sys.argv[1]), Path(sys.argv[2])
    clean.PART_BYTES = 20_000
    run(load_recipe(CorpusRecipe, None, [], options), out)
"""


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two sources with menus, copies, near copies, scraps and broken lines, and a recipe with every step but decontamination."""
    folder, drawn = tmp_path_factory.mktemp("raw"), random.Random(0)
    texts = [" ".join(drawn.choices(WORDS, k=60)) for _ in range(150)]
    for name in ("web", "ehr"):
        with (folder / f"{name}.jsonl").open("w") as file:
            for number in range(300):
                words = drawn.choice(texts).split()
                if number % 3 == 0:
                    words[drawn.randrange(60)] = f"changed{number}"
                text = "scrap" if number % 37 == 0 else f"{MENU}\n{'  '.join(words)}\r\n"
                row = {"id": f"{name}{number}", "text": text, "who": str(number % 50), "rights": "CC0"}
                file.write("{broken\n" if number % 71 == 70 else json.dumps(row) + "\n")
    facts = {"patient": "who", "licence": "rights"}
    sources = [
        {"files": [str(folder / "web.jsonl")], "facts": facts},
        {"files": [str(folder / "ehr.jsonl")], "facts": facts, "clean": "clinical"},
    ]
    return {
        "sources": sources,
        "rewrite": {"whitespace": {}, "repeated_lines": {}},
        "boilerplate": {"min_documents": 20},
        "near_duplicates": {},
        "licences": ["cc*"],
        "priority": ["ehr"],
        "shard_megabytes": 1,
    }


def start(folder: Path, options: dict[str, Any], out: Path) -> subprocess.Popen[bytes]:
    script = folder / "build.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), json.dumps(options), str(out)]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, options: dict[str, Any]) -> Corpus:
    folder = tmp_path_factory.mktemp("whole")
    assert start(folder, options | {"workers": 1}, folder / "out").wait() == 0
    return Corpus.open(folder / "out")


def test_every_step_has_something_to_do(whole: Corpus, ledger) -> None:
    assert {row["step"] for row in ledger(whole)} == {
        "read",
        "repair",
        "rewrite",
        "filter",
        "exact-duplicates",
        "boilerplate",
        "near-duplicates",
    }
    assert whole.has_patients
    assert whole.card.licences == {"CC0": whole.documents}


@pytest.mark.parametrize("workers", [2, 4])
def test_same_bytes_for_any_number_of_workers(tmp_path: Path, options, whole: Corpus, workers: int) -> None:
    assert start(tmp_path, options | {"workers": workers}, tmp_path / "out").wait() == 0
    assert Corpus.open(tmp_path / "out").manifest.files == whole.manifest.files


def test_same_bytes_after_kills_at_random_moments(tmp_path: Path, options, whole: Corpus) -> None:
    drawn, out, kills = random.Random(1), tmp_path / "out", 0
    for workers in (2, 1, 2, 1):
        process = start(tmp_path, options | {"workers": workers}, out)
        try:
            process.wait(drawn.uniform(0.5, 6.0))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
    assert start(tmp_path, options | {"workers": 1}, out).wait() == 0
    assert Corpus.open(out).manifest.files == whole.manifest.files
    assert kills
