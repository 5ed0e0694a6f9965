"""Near-duplicates against brute force, and the same result however the work is done."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from osler.core.config import validate
from osler.core.errors import RecipeError
from osler.core.processes import LocalPool
from osler.stages.corpus import near_duplicates
from osler.stages.corpus.config import NearDuplicates
from osler.stages.corpus.near_duplicates import find_near_duplicates

Find = Callable[..., list[tuple[int, int, float]]]
WORD = re.compile(r"[^\W_]+")


@cache
def shingles(text: str, words: int = 3) -> set[tuple[str, ...]]:
    found = WORD.findall(text.lower())
    return {tuple(found[i : i + words]) for i in range(len(found) - words + 1)}


def jaccard(one: str, other: str, words: int = 3) -> float:
    a, b = shingles(one, words), shingles(other, words)
    return len(a & b) / len(a | b) if a and b else 0.0


def made_texts(count: int, copies: int, seed: int = 0) -> list[str]:
    """Random documents; every one has some copies with more and more words replaced."""
    generator = np.random.default_rng(seed)
    texts = []
    for _ in range(count):
        words = generator.integers(2000, size=generator.integers(20, 120))
        for copy in range(copies + 1):
            edited = np.where(
                generator.random(len(words)) < 0.03 * copy, generator.integers(2000, size=len(words)), words
            )
            texts.append(" ".join(f"w{word}" for word in edited))
    order = generator.permutation(len(texts))
    return [texts[index] for index in order]


@pytest.fixture
def find(tmp_path: Path) -> Find:
    """Search documents, given as texts or as (source, text), cut into files of so many documents."""
    made = iter(range(100))

    def search(
        documents: Sequence[Any],
        *,
        size: int = 50,
        workers: int = 1,
        rank: dict[str, int] | None = None,
        keep: Sequence[bool] | None = None,
        folder: Path | None = None,
        untouched: Sequence[str] = (),
        **options: Any,
    ) -> list[tuple[int, int, float]]:
        rows = [item if isinstance(item, tuple) else ("notes", item) for item in documents]
        inputs = tmp_path / f"input-{next(made)}"
        inputs.mkdir()
        files, masks = [], []
        for number, low in enumerate(range(0, len(rows), size)):
            part = rows[low : low + size]
            files.append(inputs / f"{number}.parquet")
            columns = {"source": [source for source, _ in part], "text": [text for _, text in part]}
            pq.write_table(pa.table(columns), files[-1], row_group_size=max(1, size // 3))
            masks.append(np.array((keep or [True] * len(rows))[low : low + size], dtype=np.bool_))
        known = rank or {source: 0 for source, _ in rows}
        settings = NearDuplicates(**options)
        work = folder or inputs / "work"
        return find_near_duplicates(
            files, masks, known, settings, work, LocalPool(workers), untouched=untouched
        ).tolist()

    return search


def brute_force(texts: Sequence[str], threshold: float = 0.7) -> list[tuple[int, int, float]]:
    """Every document is compared with every kept one before it."""
    found: dict[int, tuple[int, int, float]] = {}
    for later, text in enumerate(texts):
        for earlier in range(later):
            if earlier not in found and (similarity := jaccard(text, texts[earlier])) >= threshold:
                found[later] = (later, earlier, similarity)
                break
    return list(found.values())


def test_near_duplicates_are_those_of_brute_force(find: Find) -> None:
    texts = made_texts(40, 4)
    expected = brute_force(texts)
    # With 200 bands a pair at the threshold is missed once in ten million times.
    assert find(texts, bands=200, rows=5) == expected
    assert 40 < len(expected) < 160


def test_defaults_find_nearly_all_pairs_and_only_real_ones(find: Find) -> None:
    texts = made_texts(60, 4, seed=1)
    found = find(texts)
    assert len(found) >= 0.97 * len(brute_force(texts))
    assert all(similarity == jaccard(texts[a], texts[b]) >= 0.7 for a, b, similarity in found)


def test_the_number_of_workers_changes_nothing(find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = made_texts(15, 4, seed=2)
    monkeypatch.setattr(near_duplicates, "_FEW", 0)
    results = [find(texts, workers=workers, size=20, bands=10) for workers in (1, 3)]
    assert results[0] == results[1] != []


def test_the_order_of_the_work_changes_nothing(find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = made_texts(15, 4, seed=2)
    expected = find(texts, size=7)
    run_all = LocalPool.run_all
    monkeypatch.setattr(
        LocalPool, "run_all", lambda pool, step, tasks, **more: run_all(pool, step, tasks[::-1], **more)
    )
    assert find(texts, size=7) == expected


def test_files_and_their_cuts_change_nothing(find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = made_texts(10, 4, seed=2)
    expected = find(texts, size=1000)
    assert find(texts, size=7) == expected
    monkeypatch.setattr(near_duplicates, "_PART_ROWS", 5)
    monkeypatch.setattr(near_duplicates, "_SLICE", 30)
    monkeypatch.setattr(near_duplicates, "BLOCK", 100)
    assert find(texts, size=20) == expected


def test_a_search_resumes_after_any_step(find: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = made_texts(20, 4, seed=4)
    expected = find(texts)
    folder = tmp_path / "resumed"
    save = near_duplicates._save
    written: list[str] = []

    def stop_now_and_then(path: Path, array: Any) -> None:
        if len(written) % 9 == 8:
            written.append("stopped")
            raise KeyboardInterrupt
        save(path, array)
        written.append(path.name)

    monkeypatch.setattr(near_duplicates, "_save", stop_now_and_then)
    for _ in range(50):
        try:
            assert find(texts, folder=folder) == expected
            break
        except KeyboardInterrupt:
            pass
    names = [name for name in written if name != "stopped"]
    assert written.count("stopped") > 3
    # Only the sets of a part whose index was not yet written are made twice.
    repeated = {name for name in names if names.count(name) > 1}
    assert all(name.startswith("sets-") and "index" not in name for name in repeated)
    monkeypatch.setattr(near_duplicates, "_save", None)
    assert find(texts, folder=folder) == expected


def test_no_document_is_removed_by_a_chain(find: Find) -> None:
    words = [f"word{number}" for number in range(120)]
    first, second, third = (" ".join(words[start : start + 100]) for start in (0, 10, 20))
    assert jaccard(first, second) >= 0.7 > jaccard(first, third)
    assert jaccard(second, third) >= 0.7
    assert [pair[:2] for pair in find([first, second, third], bands=200)] == [(1, 0)]


def test_the_source_of_lower_rank_is_kept(find: Find) -> None:
    text = made_texts(1, 0)[0]
    documents = [("web", text), ("web", f"{text} more"), ("papers", f"{text} less"), ("web", f"{text} again")]
    assert [pair[:2] for pair in find(documents)] == [(1, 0), (2, 0), (3, 0)]
    assert [pair[:2] for pair in find(documents, rank={"web": 2, "papers": 1})] == [(0, 2), (1, 2), (3, 2)]


def test_equal_ranks_keep_the_order_of_sources(find: Find) -> None:
    text = made_texts(1, 0)[0]
    documents = [("web", text), ("papers", f"{text} less")]
    assert [pair[:2] for pair in find(documents, rank={"papers": 0, "web": 0})] == [(0, 1)]


def test_untouched_sources_lose_nothing_but_their_copies_elsewhere_go(find: Find) -> None:
    text = made_texts(1, 0)[0]
    documents = [("web", text), ("ehr", f"{text} more"), ("ehr", f"{text} less")]
    found = find(documents, rank={"web": 0, "ehr": 1}, untouched=["ehr"])
    assert [pair[:2] for pair in found] == [(0, 1)]


def test_a_kept_document_of_the_same_source_is_named_first(find: Find) -> None:
    words = [f"word{number}" for number in range(120)]
    one, between, other = (" ".join(words[start : start + 100]) for start in (0, 10, 20))
    documents = [("papers", one), ("web", other), ("web", between)]
    assert [pair[:2] for pair in find(documents, bands=200)] == [(2, 1)]


def test_documents_that_are_not_kept_take_no_part(find: Find) -> None:
    text = made_texts(1, 0)[0]
    documents = [text, f"{text} more", f"{text} less"]
    assert [pair[:2] for pair in find(documents, keep=[False, True, True])] == [(2, 1)]
    assert find(documents, keep=[True, False, False]) == []


def test_short_and_empty_documents_are_left_alone(find: Find) -> None:
    assert find(["", "Hb 12", "Hb 12", "...", ""]) == []
    assert find([]) == []
    assert [pair[:2] for pair in find(["Hb 12 today", "", "Hb: 12, TODAY!"])] == [(2, 0)]


def test_many_similar_documents_are_all_compared_with_the_first(find: Find) -> None:
    text = " ".join(f"word{number}" for number in range(100))
    found = find([f"{text} end{number}" for number in range(300)])
    assert [(a, b) for a, b, _ in found] == [(number, 0) for number in range(1, 300)]


def test_options_are_checked() -> None:
    with pytest.raises(RecipeError, match="threshold"):
        validate(NearDuplicates, {"threshold": 1.5}, where="near_duplicates")
    assert NearDuplicates().recall(0.7) == pytest.approx(0.99, abs=0.001)


def test_pairs_are_linear_in_the_documents_of_a_band() -> None:
    later, earlier = near_duplicates._pairs(np.zeros(1000, np.uint64), np.arange(1000))
    assert len(later) < 1000 * near_duplicates._PARTNERS
    assert set(combinations(range(8), 2)) <= set(zip(earlier.tolist(), later.tolist(), strict=True))
