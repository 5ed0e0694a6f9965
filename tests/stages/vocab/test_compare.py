"""`osler vocab compare`: figures, terms, equal vocabularies, what is never shown, and the artifact."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from typer.testing import CliRunner

from osler.cli.main import app
from osler.core.artifact import Artifact
from osler.core.config import load_recipe
from osler.core.errors import ArtifactError, InputError, OslerError, RecipeError
from osler.stages.vocab.compare import measure, plan, read, run
from osler.stages.vocab.config import CompareRecipe, VocabRecipe
from osler.stages.vocab.run import run as learn

RARE = "zebedeemia"  # looks like a term, but two documents have it
NAME = "Zacharitis"  # looks like a term in every document, but is written like a name
SPANISH = f"Paciente con hipertensión y apendicitis aguda; {NAME} refiere cefaleas. Dialisis no."
ENGLISH = f"The patient {NAME} has hypertension and appendicitis, with acute nephritis."


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory, write_corpus: Callable[..., Path]) -> dict[str, Path]:
    """A corpus in two languages and a tokenizer of each; the names of both are the same."""
    folder = tmp_path_factory.mktemp("compare")
    spanish = [f"{SPANISH} Caso {n}." + (f" {RARE} {RARE}" if n < 2 else "") for n in range(12)]
    english = [f"{ENGLISH} Case {n}." for n in range(8)]
    made = {
        "corpus": write_corpus(
            folder / "corpus", spanish + english, ["notes"] * 12 + ["cases"] * 8, ["es"] * 12 + ["en"] * 8
        )
    }
    for name, texts in (("es", spanish[2:]), ("en", english)):
        corpus = write_corpus(folder / f"corpus-{name}", texts)
        recipe = load_recipe(VocabRecipe, None, [], {"corpus": corpus, "size": 320, "min_frequency": 1})
        made[name] = learn(recipe, folder / name / "tokenizer").path
    return made


def recipe_of(setting: dict[str, Path], *tokenizers: str | Path, **options: Any) -> CompareRecipe:
    paths = [setting[one] if isinstance(one, str) else one for one in tokenizers]
    return load_recipe(CompareRecipe, None, [], {"tokenizers": paths, "corpus": setting["corpus"], **options})


def test_each_vocabulary_is_better_on_its_own_language(setting: dict[str, Path]) -> None:
    found = measure(recipe_of(setting, "es", "en"))
    spanish, english = found.tokenizers
    assert (spanish.name, english.name) == ("es/tokenizer", "en/tokenizer")
    assert spanish.languages["es"].fertility < english.languages["es"].fertility
    assert spanish.languages["en"].fertility > english.languages["en"].fertility
    assert spanish.sources["notes"] == spanish.languages["es"]
    assert spanish.everything.documents == found.corpus_documents == 20
    assert spanish.everything.whole_words == pytest.approx(
        sum(part.words * part.whole_words for part in spanish.sources.values()) / spanish.everything.words, abs=1e-3
    )
    assert {one.term for one in english.worst} >= {"hipertensión", "apendicitis"}
    worst = {one.term: one for one in english.worst}["hipertensión"]
    assert worst.shown == "·".join(worst.pieces)
    assert re.sub("[·₁₂]", "", worst.shown).replace("óó", "ó") == "hipertensión"
    costs = [(len(one.pieces) - 1) * one.occurrences for one in english.worst]
    assert costs == sorted(costs, reverse=True)
    first = found.differences[0]
    assert (max(first.counts) - min(first.counts)) * first.occurrences == max(
        (max(one.counts) - min(one.counts)) * one.occurrences for one in found.differences
    )


def test_rare_words_and_names_are_never_shown(setting: dict[str, Path], tmp_path: Path) -> None:
    artifact = run(recipe_of(setting, "es", "en"), tmp_path / "out")
    printed = CliRunner().invoke(
        app, ["vocab", "compare", str(setting["es"]), str(setting["en"]), "--on", str(setting["corpus"])]
    )
    assert printed.exit_code == 0, printed.output
    everything = printed.output + "".join(path.read_text() for path in artifact.path.iterdir())
    assert "hipertensión" in everything
    assert RARE not in everything
    assert NAME.lower() not in everything.lower()
    found = read(artifact)
    assert found.terms.seen == found.terms.used + 1
    lower = measure(recipe_of(setting, "es", "en", min_documents=2, shown_terms=100))
    assert RARE in {one.term for one in lower.tokenizers[1].worst}


def test_terms_of_a_list(setting: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text("apendicitis aguda\ncefaleas\nausente\n")
    found = measure(recipe_of(setting, "es", "en", terms=tmp_path / "terms.txt"))
    assert (found.terms.given, found.terms.seen, found.terms.used) == (3, 2, 2)
    [worst] = [one for one in found.tokenizers[1].worst if one.term == "apendicitis aguda"]
    assert worst.shown.count(" ") == 1
    assert worst.occurrences == 12


def test_equal_vocabularies_are_named(setting: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(setting["es"], tmp_path / "copy")
    description = json.loads((setting["es"] / "tokenizer.json").read_text())
    other, numbers = json.loads(json.dumps(description)), json.loads(json.dumps(description))
    other["normalizer"] = {"type": "Lowercase"}
    vocabulary = numbers["model"]["vocab"]
    last, before = list(vocabulary)[-1], list(vocabulary)[-2]
    vocabulary[last], vocabulary[before] = vocabulary[before], vocabulary[last]
    paths = [tmp_path / "copy", tmp_path / "lower.json", tmp_path / "numbers.json"]
    for path, content in zip(paths[1:], (other, numbers), strict=True):
        path.write_text(json.dumps(content))
    found = measure(recipe_of(setting, "es", *paths, "en"))
    same, rules, tokens, none = found.overlaps[:4]
    assert (same.same_vocabulary, same.same_rules) == (True, True)
    assert same.statement == "es/tokenizer and copy have the same vocabulary and split every text the same way."
    assert (rules.same_vocabulary, rules.same_rules) == (True, False)
    assert "different rules" in rules.statement
    assert (tokens.same_vocabulary, tokens.same_tokens) == (False, True)
    assert tokens.shared_first == tokens.shared_second == 1
    assert not none.statement
    assert 256 <= none.shared < 315


def test_any_algorithm_and_a_folder_without_tokenizer_json(setting: dict[str, Path], tmp_path: Path) -> None:
    options = {"corpus": setting["corpus"], "size": 120, "algorithm": "wordpiece"}
    pieces = learn(load_recipe(VocabRecipe, None, [], options), tmp_path / "pieces").path
    vocabulary = Tokenizer.from_file(str(pieces / "tokenizer.json")).get_vocab()
    old = tmp_path / "old"
    old.mkdir()
    words = [word for word in sorted(vocabulary, key=lambda word: vocabulary[word]) if not word.startswith("<")]
    # Without the letter z: the names that have it are unknown.
    known = [word for word in words if "z" not in word.lower()]
    (old / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *known]) + "\n")
    (old / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "do_lower_case": false}')
    (old / "config.json").write_text('{"model_type": "bert"}')
    found = measure(recipe_of(setting, "es", pieces, old))
    assert [one.model for one in found.tokenizers] == ["BPE", "WordPiece", "WordPiece"]
    assert [one.unknown_token for one in found.tokenizers] == [None, "<unk>", "[UNK]"]
    unknown = [one.everything.unknown_words for one in found.tokenizers]
    assert unknown[:2] == [0, 0]
    assert unknown[2] > 0
    assert found.overlaps[2].shared == len(known)
    (old / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    with pytest.raises(OslerError, match=r"no file says whether this tokenizer is cased.*osler convert-model"):
        measure(recipe_of(setting, "es", old))


def test_the_artifact_is_complete_and_reproducible(setting: dict[str, Path], tmp_path: Path) -> None:
    first = run(recipe_of(setting, "es", "en"), tmp_path / "one")
    second = run(recipe_of(setting, "es", "en"), tmp_path / "two")
    assert set(first.manifest.files) == {"comparison.json", "comparison.md", "comparison.html"}
    assert first.manifest.digest == second.manifest.digest
    assert run(recipe_of(setting, "es", "en"), tmp_path / "one").reused
    assert run(recipe_of(setting, "en", "es"), tmp_path / "three").manifest.identity != first.manifest.identity
    page = (first.path / "comparison.html").read_text()
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="(?!data:|#)', page)
    assert "hipertensión" in page
    assert "| es/tokenizer |" in (first.path / "comparison.md").read_text()


def test_the_command_prints_plan_tables_and_folder(setting: dict[str, Path], tmp_path: Path) -> None:
    arguments = ["vocab", "compare", str(setting["es"]), str(setting["en"]), "--on", str(setting["corpus"])]
    out = tmp_path / "out"
    dry = CliRunner().invoke(app, [*arguments, "--out", str(out), "--dry-run"])
    assert dry.exit_code == 0
    assert not out.exists()
    made = CliRunner().invoke(app, [*arguments, "--out", str(out), "--documents", "10"], env={"COLUMNS": "160"})
    assert made.exit_code == 0, made.output
    assert made.stdout.rstrip().endswith(str(out))
    for word in ("by language", "es/tokenizer", "Terms split most differently", "hipertensión"):
        assert word in made.stdout
    assert Artifact.open(out, "comparison").manifest.counts["documents"] == 10
    assert "10 of 20 documents" in "\n".join(plan(recipe_of(setting, "es", "en", sample_documents=10), None))


@pytest.mark.parametrize(
    ("kind", "problem", "tokenizers"),
    [
        (RecipeError, "needs two tokenizers or more", ["es"]),
        (RecipeError, "given twice", ["es", "es"]),
        (InputError, "no such tokenizer", ["es", Path("nowhere")]),
        (InputError, "no tokenizer.json", ["es", Path(".")]),
        (ArtifactError, "not a valid tokenizer description", ["es", Path("broken.json")]),
    ],
)
def test_bad_input(
    setting: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[OslerError],
    problem: str,
    tokenizers: list[str | Path],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.json").write_text(f'{{"model": "{RARE}"}}')
    with pytest.raises(kind, match=problem) as caught:
        run(recipe_of(setting, *tokenizers), tmp_path / "out")
    assert RARE not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_an_empty_corpus_and_no_corpus(
    setting: dict[str, Path], make_corpus: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="has no documents"):
        measure(recipe_of({**setting, "corpus": make_corpus([])}, "es", "en"))
    with pytest.raises(ArtifactError, match="no such folder"):
        measure(recipe_of({**setting, "corpus": tmp_path / "none"}, "es", "en"))
