from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from osler.core.artifact import Artifact
from osler.core.config import find_recipe, load_recipe
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.run import run as build_corpus
from osler.stages.vocab.config import VocabRecipe
from osler.stages.vocab.run import plan, run

# Releases of sentencepiece differ in how many sub-words they find in little text: 0.2.1 and 0.2.3 end at 104 here.
SIZES = {"bpe": 330, "wordpiece": 160, "unigram": 100}
TEXT = "Exploración:  nephritis leve,\n5 µg 😀 — pe\u0301rdida"


def learn(corpus: Path, out: Path, algorithm: str = "bpe", **options: Any) -> Artifact:
    if algorithm == "unigram":
        pytest.importorskip("sentencepiece")
    values = {"corpus": corpus, "algorithm": algorithm, "size": SIZES[algorithm], "max_length": 64, **options}
    return run(load_recipe(VocabRecipe, None, [], values), out)


@pytest.mark.parametrize("algorithm", SIZES)
def test_stock_auto_tokenizer_loads_the_folder_with_right_offsets(corpus: Path, tmp_path: Path, algorithm: str) -> None:
    from transformers import AutoTokenizer

    folder = learn(corpus, tmp_path / "tokenizer", algorithm).path
    stock = AutoTokenizer.from_pretrained(folder)
    assert len(stock) == stock.vocab_size == SIZES[algorithm]
    assert stock.model_max_length == 64
    roles = ("bos_token", "pad_token", "eos_token", "unk_token", "mask_token")
    assert [getattr(stock, f"{role}_id") for role in roles] == [0, 1, 2, 3, 4]
    assert (stock.cls_token_id, stock.sep_token_id) == (0, 2)

    encoding = stock(TEXT, return_offsets_mapping=True)
    ours = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(TEXT)
    assert encoding["input_ids"] == ours.ids
    assert encoding["input_ids"][0] == 0
    assert encoding["input_ids"][-1] == 2
    assert sorted(encoding) == ["attention_mask", "input_ids", "offset_mapping"]
    pieces = [TEXT[start:end] for start, end in encoding["offset_mapping"][1:-1]]
    assert [piece for piece in pieces if piece != piece.strip(" ")] == []
    covered = {place for start, end in encoding["offset_mapping"] for place in range(start, end)}
    # No character is lost but blanks, and a mark that was joined to the letter before it.
    assert {TEXT[place] for place in range(len(TEXT)) if place not in covered} <= {" ", "\n", "\u0301"}
    assert stock("leve", "alta")["input_ids"] == [
        0,
        *stock("leve", add_special_tokens=False)["input_ids"],
        2,
        2,
        *stock("alta", add_special_tokens=False)["input_ids"],
        2,
    ]
    assert stock("a <mask>")["input_ids"][-2] == 4


def test_composed_and_decomposed_letters_give_the_same_subwords(corpus: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(learn(corpus, tmp_path / "tokenizer").path / "tokenizer.json"))
    assert tokenizer.encode("Exploracio\u0301n").ids == tokenizer.encode("Exploración").ids
    assert tokenizer.encode("Exploracio\u0301n alta").offsets[-2][1] == len("Exploracio\u0301n alta")


def test_byte_level_subwords_write_any_text(corpus: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(learn(corpus, tmp_path / "tokenizer").path / "tokenizer.json"))
    text = "汉字 ɸ 😀\t\x07 <s> no"
    encoding = tokenizer.encode(text.replace("<s>", "< s>"))
    assert 3 not in encoding.ids
    assert tokenizer.decode(encoding.ids) == text.replace("<s>", "< s>")


def test_prefix_space_makes_the_first_word_like_any_other(corpus: Path, tmp_path: Path) -> None:
    folder = learn(corpus, tmp_path / "tokenizer", prefix_space=True).path
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    first, later = tokenizer.encode("leve"), tokenizer.encode("y leve")
    assert first.ids[1:-1] == later.ids[2:-1]
    assert first.offsets[1] == (0, first.offsets[1][1])


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_run import learn
for algorithm in sys.argv[4:]:
    print(learn(Path(sys.argv[2]), Path(sys.argv[3]) / algorithm, algorithm).manifest.digest)
"""


def test_same_bytes_in_every_process_and_with_any_number_of_threads(corpus: Path, tmp_path: Path) -> None:
    algorithms = ["bpe", "wordpiece"]
    try:
        import sentencepiece  # noqa: F401

        algorithms.append("unigram")
    except ModuleNotFoundError:
        pass
    expected = [learn(corpus, tmp_path / "here" / name, name).manifest.digest for name in algorithms]
    for threads in ("1", "2"):
        command = [sys.executable, "-c", SCRIPT, str(Path(__file__).parent), str(corpus), str(tmp_path / threads)]
        environment = {**os.environ, "RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "true"}
        ended = subprocess.run([*command, *algorithms], check=True, capture_output=True, text=True, env=environment)
        assert ended.stdout.split() == expected


def test_statistics_are_taken_on_a_sample_of_every_source(corpus: Path, tmp_path: Path, read_json) -> None:
    artifact = learn(corpus, tmp_path / "tokenizer", sample_documents=20)
    statistics = read_json(artifact.path / "statistics.json")
    assert statistics["size"] == SIZES["bpe"] == artifact.manifest.counts["size"]
    assert {name: facts["documents"] for name, facts in statistics["sources"].items()} == {"a": 14, "b": 6}
    assert statistics["documents"] == 20
    assert {name: facts["documents"] for name, facts in statistics["languages"].items()} == {"not stated": 20}
    assert statistics["fertility"] >= 1 >= statistics["whole_words"] > 0


def test_a_second_run_reuses(corpus: Path, tmp_path: Path) -> None:
    assert not learn(corpus, tmp_path / "tokenizer").reused
    assert learn(corpus, tmp_path / "tokenizer").reused


def test_plan_says_what_will_happen_and_does_nothing(corpus: Path, tmp_path: Path) -> None:
    recipe = load_recipe(VocabRecipe, find_recipe("demo/vocab"), [], {"corpus": corpus})
    lines = "\n".join(plan(recipe, tmp_path / "out"))
    for word in ("byte-level BPE", f"{recipe.size:,}", "60 documents", str(tmp_path / "out")):
        assert word in lines
    assert not (tmp_path / "out").exists()


def test_transformers_is_not_needed(corpus: Path, tmp_path: Path) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_run import learn
learn(Path({str(corpus)!r}), Path({str(tmp_path / "tokenizer")!r}))
assert not {{"torch", "transformers"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_weighted_vocabulary_counts_a_source_as_often_as_its_weight(tmp_path):
    """wada2020's amplified vocabulary: words of a small source outweigh those of a large one."""
    texts = {"large": ["zq " * 20 + "zw " * 6] * 4, "small": ["xkxkxk"] * 2}
    sources = []
    for name, documents in texts.items():
        (tmp_path / f"{name}.txt").write_text("\n".join(documents))
        sources.append({"name": name, "files": [str(tmp_path / f"{name}.txt")], "unit": "line", "clean": "none"})
    sources[1]["weight"] = 30.5
    corpus = build_corpus(CorpusRecipe(sources=sources, workers=1), tmp_path / "corpus").path
    known = {}
    for weighted in (False, True):
        recipe = VocabRecipe(corpus=corpus, size=263, weighted=weighted)
        made = run(recipe, tmp_path / f"vocab-{weighted}")
        known[weighted] = set(Tokenizer.from_file(str(made.path / "tokenizer.json")).get_vocab())
    assert "xk" not in known[False]
    assert "xk" in known[True]


def test_tokenizers_of_earlier_versions_are_recognised():
    assert VocabRecipe(corpus="c").identity().keys().isdisjoint({"lowercase", "weighted"})
