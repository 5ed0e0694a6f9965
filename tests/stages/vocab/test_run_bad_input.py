"""Every bad input gives one clear error that says what to change and never quotes the corpus."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from osler.core.config import load_recipe
from osler.core.errors import ArtifactError, InputError, OslerError, OutputError, RecipeError
from osler.stages.vocab.compare import measure
from osler.stages.vocab.config import CompareRecipe, VocabRecipe
from osler.stages.vocab.run import run

CANARY = "Zebedee"
MakeCorpus = Callable[..., Path]


def _learn(corpus: Path, out: Path, **options: Any) -> None:
    if options.get("algorithm") == "unigram":
        pytest.importorskip("sentencepiece")
    run(load_recipe(VocabRecipe, None, [], {"corpus": corpus, **options}), out)


def _refused(kind: type[OslerError], corpus: Path, out: Path, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        _learn(corpus, out, **options)
    assert CANARY not in str(caught.value)
    assert not out.exists()
    return str(caught.value)


@pytest.mark.parametrize(
    ("algorithm", "least"), [("bpe", 262), ("wordpiece", 40), ("unigram", 15)], ids=["bpe", "wordpiece", "unigram"]
)
def test_more_than_the_corpus_allows(make_corpus: MakeCorpus, tmp_path: Path, algorithm: str, least: int) -> None:
    corpus = make_corpus([f"{CANARY} came with fever and went home."] * 3)
    message = _refused(RecipeError, corpus, tmp_path / "out", algorithm=algorithm, size=50_000)
    assert "size = 50,000 is more than this corpus allows" in message
    reached = int(message.split("Set size = ")[1].split()[0])
    assert least < reached < 400
    _learn(corpus, tmp_path / "out", algorithm=algorithm, size=reached)


@pytest.mark.parametrize("algorithm", ["bpe", "wordpiece", "unigram"])
def test_less_than_the_alphabet_takes(make_corpus: MakeCorpus, tmp_path: Path, algorithm: str) -> None:
    corpus = make_corpus([f"{CANARY} came with fever and went home again by quick walk, vexed."] * 3)
    message = _refused(RecipeError, corpus, tmp_path / "out", algorithm=algorithm, size=16)
    assert "too small" in message
    least = int(message.split("more than ")[-1].strip("."))
    _learn(corpus, tmp_path / "out", algorithm=algorithm, size=least + 1)


def test_an_empty_corpus(make_corpus: MakeCorpus, tmp_path: Path) -> None:
    assert "the corpus has no documents" in _refused(InputError, make_corpus([]), tmp_path / "out")


def test_a_folder_that_is_not_a_corpus(tmp_path: Path, tokenizer_folder: Path) -> None:
    assert "osler corpus" in _refused(ArtifactError, tmp_path / "nowhere", tmp_path / "out")
    assert "manifest.json is missing" in _refused(ArtifactError, tokenizer_folder, tmp_path / "out")


@pytest.mark.parametrize("left", [0, 300])
def test_a_damaged_corpus(make_corpus: MakeCorpus, tmp_path: Path, tokenizer_folder: Path, left: int) -> None:
    corpus = make_corpus([f"{CANARY} came with fever and went home."] * 40)
    file = corpus / "shards" / "shard-00001.parquet"
    file.write_bytes(file.read_bytes()[:left])
    message = _refused(ArtifactError, corpus, tmp_path / "out", size=300)
    assert "shard-00001.parquet: this file of the corpus is damaged" in message
    other = tmp_path / "other" / "tokenizer.json"
    other.parent.mkdir()
    other.write_bytes((tokenizer_folder / "tokenizer.json").read_bytes())
    with pytest.raises(ArtifactError, match=r"shard-00001\.parquet: this file of the corpus is damaged"):
        measure(CompareRecipe(tokenizers=(tokenizer_folder, other), corpus=corpus))


def test_a_recipe_typo() -> None:
    with pytest.raises(RecipeError, match="did you mean 'algorithm'"):
        load_recipe(VocabRecipe, None, [], {"corpus": "c", "algorithn": "bpe"})
    with pytest.raises(RecipeError, match="'bpe', 'wordpiece' or 'unigram'"):
        load_recipe(VocabRecipe, None, ["algorithm=bpee"], {"corpus": "c"})


def test_output_below_a_file(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        _learn(corpus, tmp_path / "file" / "out", size=300)


FULL_DISK = """
import sys
from pathlib import Path
from osler.core.config import load_recipe
from osler.core.errors import OslerError
from osler.stages.vocab.config import VocabRecipe
from osler.stages.vocab.run import run

try:
    run(load_recipe(VocabRecipe, None, [], {"corpus": sys.argv[1], "size": 320}), Path(sys.argv[2]), force=True)
except OslerError as error:
    print(type(error).__name__, error)
    sys.exit(error.exit_code)
"""


def test_a_full_disk(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "tokenizer"
    _learn(corpus, out, size=300)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    ended = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(corpus), str(out)],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000)),
    )
    assert ended.returncode == 2, ended.stderr
    assert ended.stdout.startswith("OutputError ")
    assert "size limit" in ended.stdout
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert not (tmp_path / "tokenizer.partial" / "tokenizer.json").exists()
