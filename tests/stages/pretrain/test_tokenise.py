from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers

from osler.artifacts.corpus import Corpus
from osler.artifacts.token_shards import TokenisedDocuments, TokenShards
from osler.artifacts.tokenizer import Tokenizer
from osler.core.artifact import Workspace, identity_of, produce
from osler.core.config import Recipe
from osler.core.errors import ArtifactError, InputError, OutputError, RecipeError
from osler.core.files import write_json
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.run import run as build_corpus
from osler.stages.pretrain import tokenise as stage
from osler.stages.pretrain.data import source_weights
from osler.stages.pretrain.tokenise import TokensRecipe, hash_share, tokenise

WORDS = [f"w{number}" for number in range(300)]
SHARE = 0.2

# Started for several workers (which are spawned, so they need a main module of their own), or to be killed just before a
# file of the given name would appear.
SCRIPT = """
import json, os, signal, sys
from pathlib import Path
from osler.artifacts.corpus import Corpus
from osler.artifacts.tokenizer import Tokenizer
from osler.stages.pretrain import tokenise as stage

def main(corpus, tokenizer, out, share, workers=1, die=None):
    stage.SLICE_BYTES = 2_000
    replace = os.replace

    def fatal(source, target):
        if Path(target).name == die:
            os.kill(os.getpid(), signal.SIGKILL)
        return replace(source, target)

    os.replace = fatal
    stage.tokenise(Corpus.open(corpus), Tokenizer.open(tokenizer), Path(out), share, workers=workers)

if __name__ == "__main__":
    for options in json.loads(sys.argv[1]):
        child = os.fork()
        if child == 0:
            main(**options)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


class Made(Recipe):
    name: str = "made"


@pytest.fixture(scope="module")
def texts() -> list[tuple[str, str]]:
    rng = np.random.default_rng(0)
    drawn = [" ".join(rng.choice(WORDS, size=size)) for size in rng.integers(1, 30, size=200)]
    return [(("notes", "papers", "books")[n % 3], text) for n, text in enumerate([*drawn, " ", "\n\n"])]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, texts: list[tuple[str, str]]) -> Corpus:
    return make_corpus(tmp_path_factory.mktemp("corpus") / "corpus", texts, files=3)


def make_corpus(out: Path, texts: list[tuple[str, str]], files: int = 1, card: dict[str, Any] | None = None) -> Corpus:
    def build(work: Workspace) -> None:
        (work.path / "shards").mkdir()
        for number, part in enumerate(np.array_split(np.arange(len(texts)), files)):
            rows = {"text": [texts[n][1] for n in part], "source": [texts[n][0] for n in part]}
            pq.write_table(pa.table(rows), work.path / "shards" / f"{number}.parquet", row_group_size=20)
        if card is not None:
            sizes = {"documents": len(texts), "words": 1}
            write_json(work.path / "card.json", {"sources": {name: sizes | facts for name, facts in card.items()}})
        work.counts["documents"] = len(texts)

    return Corpus.open(produce(out, kind="corpus", recipe=Made(), parents={}, build=build).path)


def make_tokenizer(folder: Path, size: int = len(WORDS), **settings: Any) -> Tokenizer:
    entries = {word: number + size - len(WORDS) for number, word in enumerate(WORDS)}
    entries |= {f"filler{number}": number for number in range(size - len(WORDS))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(entries, unk_token="none such"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    if settings.get("cut"):
        tokenizer.enable_truncation(3)
        tokenizer.enable_padding(length=3)
    tokenizer.save(str(folder / "tokenizer.json"))
    return Tokenizer.open(folder)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return make_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "SLICE_BYTES", 2_000)


Contents = dict[str, bytes]


def contents(folder: Path) -> Contents:
    """All files but the logs, which hold times."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "logs" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def run_script(folder: Path, runs: list[dict[str, Any]]) -> list[int]:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    ended = subprocess.run(
        [sys.executable, str(script), json.dumps(runs)], check=True, capture_output=True, text=True, timeout=300
    )
    return [int(code) for code in ended.stdout.split()]


def documents_in(opened: TokenisedDocuments, first: int = 0) -> list[tuple[str, list[str]]]:
    """Source and words of every document."""
    found = []
    for start, length, source in zip(opened.starts, opened.lengths, opened.sources, strict=True):
        ids = opened.gather(np.array([start]), np.array([length]))
        found.append((opened.names[source], [WORDS[number - first] for number in ids]))
    return found


@pytest.mark.parametrize(("size", "width"), [(len(WORDS), 2), (2**16, 2), (2**16 + 1, 4)])
def test_every_document_is_found_again_once_in_its_split(tmp_path, corpus, texts, size, width):
    tokenizer = make_tokenizer(tmp_path, size, cut=True)
    made = tokenise(corpus, tokenizer, tmp_path / "tokens", SHARE, workers=1)
    assert len(list(made.path.glob("shards/*.ids"))) > 5
    expected: dict[str, list[tuple[str, list[str]]]] = {"train": [], "validation": []}
    for source, text in texts:
        if words := text.split():
            expected["validation" if hash_share(text) < SHARE else "train"].append((source, words))
    for split, wanted in expected.items():
        opened = made.split(split)
        assert {shard.dtype.itemsize for shard in opened.shards} == {width}
        assert documents_in(opened, size - len(WORDS)) == wanted
        assert made.manifest.counts[f"{split}_documents"] == len(wanted)
        assert made.manifest.counts[f"{split}_tokens"] == sum(len(words) for _, words in wanted)


def test_a_patient_is_never_on_both_sides(tmp_path, tokenizer):
    rows = [{"text": f"w{n} w{n % 7} w{n % 11}", "who": f"p{n % 40}" if n % 3 else None} for n in range(240)]
    raw = tmp_path / "notes.jsonl"
    raw.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {"files": [str(raw)], "facts": {"patient": "who"}}
    built = build_corpus(CorpusRecipe(sources=[source], filters={}, workers=1), tmp_path / "corpus")
    assert built.has_patients
    made = tokenise(built, tokenizer, tmp_path / "tokens", SHARE, workers=1)
    patients = {tuple(row["text"].split()): row["who"] for row in rows}
    sides = {}
    for split in ("train", "validation"):
        found = [(words, patients[tuple(words)]) for _, words in documents_in(made.split(split))]
        sides[split] = {patient for _, patient in found if patient}
        for words, patient in found:
            assert (hash_share(patient or " ".join(words)) < SHARE) == (split == "validation")
    assert sides["train"]
    assert sides["validation"]
    assert not sides["train"] & sides["validation"]
    stage.check_splits(built, SHARE)
    assert stage.split_hash(built) == "blake2b-64-patient"


def test_stretches_of_many_shards_are_gathered_in_the_order_asked_for(tmp_path, corpus, tokenizer):
    opened = tokenise(corpus, tokenizer, tmp_path / "t", SHARE, workers=1).split("train")
    order = np.random.default_rng(0).permutation(len(opened.starts))
    together = opened.gather(opened.starts[order], opened.lengths[order])
    apart = [opened.gather(opened.starts[n : n + 1], opened.lengths[n : n + 1]) for n in order]
    assert together.tolist() == np.concatenate(apart).tolist()
    assert together.dtype == np.int64


def test_killed_again_and_again_it_ends_with_the_same_bytes_for_any_number_of_workers(tmp_path, corpus, tokenizer):
    whole = tokenise(corpus, tokenizer, tmp_path / "whole", SHARE, workers=1).path
    options = {"corpus": str(corpus.path), "tokenizer": str(tokenizer.folder), "share": SHARE}
    places = ["00000.ids", "00001.documents.npy", "00004.ids", "index.json", "manifest.json"]
    killed = [{**options, "out": str(tmp_path / "killed"), "die": place} for place in places]
    ends = [{**options, "out": str(tmp_path / "killed")}, {**options, "out": str(tmp_path / "four"), "workers": 4}]
    assert run_script(tmp_path, [*killed, *ends]) == [*[-signal.SIGKILL] * len(places), 0, 0]
    assert contents(tmp_path / "killed") == contents(whole)
    assert contents(tmp_path / "four") == contents(whole)
    assert not [name for name in contents(whole) if name.endswith(".tmp")]


def test_finished_shards_are_not_made_again(tmp_path, corpus, tokenizer):
    options = {
        "corpus": str(corpus.path),
        "tokenizer": str(tokenizer.folder),
        "share": SHARE,
        "out": str(tmp_path / "out"),
    }
    assert run_script(tmp_path, [{**options, "die": "00003.documents.npy"}]) == [-signal.SIGKILL]
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out.partial" / "shards").glob("0*")}
    assert sorted(before) == [*(f"{n:05d}.{e}" for n in range(3) for e in ("documents.npy", "ids")), "00003.ids"]
    done = tokenise(corpus, tokenizer, tmp_path / "out", SHARE, workers=1)
    for name, time in before.items():
        assert ((done.path / "shards" / name).stat().st_mtime_ns == time) == (name != "00003.ids")


def _cut_ids(folder: Path) -> Path:
    path = folder / "shards" / "00002.ids"
    os.truncate(path, path.stat().st_size - 2)
    return path


def _cut_records(folder: Path) -> Path:
    path = folder / "shards" / "00001.documents.npy"
    os.truncate(path, 40)
    return path


def _change_a_byte(folder: Path) -> Path:
    path = folder / "shards" / "00001.ids"
    content = bytearray(path.read_bytes())
    content[7] ^= 1
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("damage", [_cut_ids, _cut_records, _change_a_byte])
def test_a_damaged_shard_is_named_with_the_way_out(tmp_path, corpus, tokenizer, damage: Callable[[Path], Path]):
    out = tmp_path / "tokens"
    tokenise(corpus, tokenizer, out, SHARE, workers=1)
    assert tokenise(corpus, tokenizer, out, SHARE).reused
    path = damage(out)
    with pytest.raises(ArtifactError) as refusal:
        tokenise(corpus, tokenizer, out, SHARE)
    assert refusal.value.where == str(path)
    assert str(out) in (refusal.value.fix or "")
    if damage is not _change_a_byte:  # what a look at sizes can tell is told without the checksums too
        with pytest.raises(ArtifactError, match=path.name):
            TokenShards.open(out).split("train")
    shutil.rmtree(out)
    tokenise(corpus, tokenizer, out, SHARE, workers=1)
    TokenShards.open(out).split("train")


def test_another_share_is_refused_until_it_may_replace(tmp_path, corpus, tokenizer):
    out = tmp_path / "tokens"
    tokenise(corpus, tokenizer, out, SHARE, workers=1)
    with pytest.raises(OutputError):
        tokenise(corpus, tokenizer, out, 0.3, workers=1)
    assert tokenise(corpus, tokenizer, out, SHARE, replace=True).reused
    assert not tokenise(corpus, tokenizer, out, 0.3, workers=1, replace=True).reused


def test_a_split_without_documents_and_a_damaged_corpus_are_refused(tmp_path, texts, tokenizer):
    few = make_corpus(tmp_path / "few", texts[:2])
    with pytest.raises(InputError, match="falls into the validation split"):
        tokenise(few, tokenizer, tmp_path / "none", 1e-9, workers=1)
    broken = make_corpus(tmp_path / "broken", texts)
    file = broken.path / "shards" / "0.parquet"
    content = bytearray(file.read_bytes())
    content[-8:] = b"\0" * 8
    file.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"0\.parquet"):
        tokenise(broken, tokenizer, tmp_path / "tokens", SHARE, workers=1)


def test_a_tokenizer_that_cannot_encode_the_corpus_is_named_and_no_text_is_quoted(tmp_path, tokenizer):
    strange = make_corpus(tmp_path / "corpus", [("notes", "w1 Szymborska")])
    with pytest.raises(ArtifactError, match=r"tokenizer\.json.*cannot encode") as refusal:
        tokenise(strange, tokenizer, tmp_path / "tokens", SHARE, workers=1)
    assert "Szymborska" not in str(refusal.value)


def test_weights_come_from_the_recipe_else_from_the_card(tmp_path, corpus, texts):
    assert source_weights(corpus, {"papers": 3}) == {"notes": 1.0, "papers": 3, "books": 1.0}
    facts = {"notes": {"weight": 2.5}, "papers": {"weight": 0.5}, "books": {}, "empty": {"weight": 1.0}}
    carded = make_corpus(tmp_path / "carded", texts, card=facts)
    assert source_weights(carded, {"papers": 4.0, "empty": 2.0}) == {
        "notes": 2.5,
        "papers": 4.0,
        "books": 1.0,
        "empty": 2.0,
    }
    with pytest.raises(RecipeError, match=r"no source 'paper'.*Did you mean 'papers'"):
        source_weights(carded, {"paper": 2.0})
    with pytest.raises(RecipeError, match="Its sources: books, empty, notes, papers"):
        source_weights(carded, {"qqqqq": 2.0})


def test_a_weight_given_to_a_source_of_the_corpus_reaches_pretraining(tmp_path):
    for name in ("notes", "papers"):
        rows = [{"text": f"{name} {n}: " + "no acute distress " * 20} for n in range(3)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sources = [{"files": [str(tmp_path / "notes.jsonl")], "weight": 2.5}, str(tmp_path / "papers.jsonl")]
    recipe = CorpusRecipe.model_validate({"sources": sources, "workers": 1})
    built = Corpus.open(build_corpus(recipe, tmp_path / "corpus").path)
    assert source_weights(built, {}) == {"notes": 2.5, "papers": 1.0}
    assert "| 2.5 |" in (built.path / "README.md").read_text()


def test_term_densities_of_a_corpus_come_with_its_documents(tmp_path, tokenizer):
    rows = [f"w{n} w{n % 7} w{n % 11} w1" for n in range(2, 200)]
    (tmp_path / "raw.jsonl").write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    (tmp_path / "terms.txt").write_text("w1\nw2 w3\n")
    recipe = {"sources": [str(tmp_path / "raw.jsonl")], "filters": {}, "workers": 1}
    plain = build_corpus(CorpusRecipe.model_validate(recipe), tmp_path / "plain")
    assert not plain.has_density
    assert tokenise(plain, tokenizer, tmp_path / "a", SHARE, workers=1).split("train").density is None
    dense = build_corpus(CorpusRecipe(**recipe, density_terms=tmp_path / "terms.txt"), tmp_path / "dense")
    assert dense.has_density
    opened = tokenise(dense, tokenizer, tmp_path / "b", SHARE, workers=1).split("train")
    for (_, words), density in zip(documents_in(opened), opened.density.tolist(), strict=True):
        inside = {n for n, word in enumerate(words) if word == "w1"}
        inside |= {m for n in range(3) if words[n : n + 2] == ["w2", "w3"] for m in (n, n + 1)}
        assert density == len(inside) / 4


def test_sentences_are_found_again_in_sub_words(tmp_path):
    """Their ends are those of the splitter, for every language, and no document without sub-words leaves a trace."""
    texts = {"en": "w1 w2 w3. W4 w5, Dr. w6 w7. W8.", "es": "w1 w2. W3 del Dr. W4. W5 w6", "de": "w9. W1 w2"}
    sources = []
    for language, text in texts.items():
        (tmp_path / f"{language}.txt").write_text(f"{text}\n...\n{text} w0")
        own = {"language": language, "unit": "line", "clean": "none"}
        sources.append({"files": [str(tmp_path / f"{language}.txt")], **own})
    corpus = build_corpus(CorpusRecipe(sources=sources, workers=1), tmp_path / "corpus")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: n for n, word in enumerate(["?", *WORDS])}, "?"))
    words.normalizer = tokenizers.normalizers.Lowercase()
    words.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"w\d+"), "removed", invert=True)
    (tmp_path / "tokenizer").mkdir()
    words.save(str(tmp_path / "tokenizer" / "tokenizer.json"))
    made = tokenise(corpus, Tokenizer.open(tmp_path / "tokenizer"), tmp_path / "t", 0.7, sentences=True, workers=1)
    opened = made.split("train")
    lengths = {"en": [3, 4, 1], "es": [2, 2, 2], "de": [1, 2]}
    expected = [n for known in lengths.values() for n in (*known, *known[:-1], known[-1] + 1)]
    assert np.diff(opened.sentence_ends, prepend=0).tolist() == expected
    assert opened.sentence_ends.tolist() == made.split("validation").sentence_ends.tolist()
    plain = tokenise(corpus, Tokenizer.open(tmp_path / "tokenizer"), tmp_path / "plain", 0.7, workers=1)
    assert plain.split("train").sentence_ends is None


def test_folders_of_earlier_versions_are_recognised():
    # Made before shards could have sentences.
    known = "2087bd75e3e4cd1ce555ab64303fc6272c74e4301a1f760836f7db97a4be0964"
    assert identity_of("tokens", TokensRecipe(validation_share=0.01), {}) == known
