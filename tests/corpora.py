"""A corpus that needs every step, and a process that builds it, for tests of the one hash."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from osler.formats.registry import get_format
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run as prepare
from osler.text.document import Document

_WORDS = [
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
]
_MENU = "Home | About us | Contact | Legal notice"
_CARD = """
name = "held-out"
title = "held-out"
kind = "tagging"
language = "en"
labels = ["drug"]
protocol_family = "ner"
protocol = "strict"
[source]
reader = "files"
format = "jsonl"
splits.train.files = ["train.jsonl"]
splits.test.files = ["test.jsonl"]
"""
# `order` shuffles the tasks, which are then done one by one. Parts are small, so that there are many.
_SCRIPT = """
import json, random, sys
from pathlib import Path

if __name__ == "__main__":
    from osler.core.config import load_recipe
    from osler.core.processes import LocalPool
    from osler.stages.corpus import clean, near_duplicates
    from osler.stages.corpus.config import CorpusRecipe
    from osler.stages.corpus.run import run

    options, out = json.loads(sys.argv[1]), Path(sys.argv[2])
    order, run_all = options.pop("order", None), LocalPool.run_all
    if order is not None:
        drawn = random.Random(order)
        LocalPool.run_all = lambda pool, step, tasks, **more: run_all(
            LocalPool(1), step, drawn.sample(tasks, len(tasks)), **more
        )
    clean.PART_BYTES, near_duplicates._FEW, near_duplicates._PART_ROWS = 20_000, 0, 100
    run(load_recipe(CorpusRecipe, None, [], options), out)
"""


def every_step(folder: Path) -> dict[str, Any]:
    """Write sources of four formats, with something to do for every step; return the recipe."""
    drawn = random.Random(0)
    texts, others = ([" ".join(drawn.choices(_WORDS, k=60)) for _ in range(150)] for _ in range(2))
    task = _prepared(folder, texts[:8])
    for name in ("web", "ehr"):
        with (folder / f"{name}.jsonl").open("w") as file:
            for number in range(300):
                words = drawn.choice(texts).split()
                if number % 3 == 0:
                    words[drawn.randrange(60)] = f"changed{number}"
                text = "scrap" if number % 37 == 0 else f"{_MENU}\n{'  '.join(words)}\r\n"
                rights = "closed" if number % 41 == 0 else "CC0"
                row = {"id": f"{name}{number}", "text": text, "who": str(number % 50), "rights": rights}
                file.write("{broken\n" if number % 71 == 70 else json.dumps(row) + "\n")
    with (folder / "notes.csv").open("w") as file:
        file.write(
            "id,text\n" + "".join(f'n{number},"Note {number}:\n{text}"\n' for number, text in enumerate(others[:110]))
        )
    for number in range(2):
        articles = "".join(_article(pmid, f"{others[pmid]} edition {number}") for pmid in range(100 + number * 20, 150))
        with gzip.open(folder / f"pubmed24n000{number}.xml.gz", "wt") as file:
            file.write(f"<PubmedArticleSet>{articles}</PubmedArticleSet>")
    facts = {"patient": "who", "licence": "rights"}
    return {
        "sources": [
            {"files": [str(folder / "web.jsonl")], "facts": facts},
            {"files": [str(folder / "ehr.jsonl")], "facts": facts, "clean": "clinical"},
            {"files": [str(folder / "notes.csv")], "licence": "CC BY"},
            {"files": [str(folder / "*.xml.gz")], "name": "pubmed", "reader": "pubmed", "licence": "CC0"},
        ],
        "rewrite": {"whitespace": {}, "repeated_lines": {}},
        "boilerplate": {"min_documents": 20},
        "near_duplicates": {},
        "decontaminate": {"tasks": [str(task)]},
        "licences": ["cc*"],
        "priority": ["ehr"],
        "shard_megabytes": 1,
    }


def _prepared(folder: Path, texts: list[str]) -> Path:
    """A task whose test documents are these texts."""
    source = folder / "official"
    source.mkdir()
    for split, held_out in (("train", ["nothing that is in the corpus"]), ("test", texts)):
        documents = [Document(f"{split}{number}", text) for number, text in enumerate(held_out)]
        get_format("jsonl").write(documents, source / f"{split}.jsonl")
    (source / "card.toml").write_text(_CARD)
    return prepare(PrepareRecipe(task=str(source / "card.toml"), source=source), folder / "task").path


def _article(pmid: int, text: str) -> str:
    return (
        f'<PubmedArticle><MedlineCitation><PMID Version="1">{pmid}</PMID><Article><ArticleTitle>{text}</ArticleTitle>'
        "</Article></MedlineCitation></PubmedArticle>"
    )


def start(
    options: dict[str, Any], out: Path, environment: Mapping[str, str] = os.environ, script: str = _SCRIPT
) -> subprocess.Popen[str]:
    """Begin to build a corpus in a process of its own, with the options of a recipe."""
    out.parent.mkdir(parents=True, exist_ok=True)
    path = out.parent / "build.py"
    path.write_text(script)
    command = [sys.executable, str(path), json.dumps(options), str(out)]
    return subprocess.Popen(command, env=dict(environment), stderr=subprocess.PIPE, text=True, cwd=out.parent)
