"""Speed of the corpus stage: cleaning against a plain Python loop, near-duplicates and the whole stage against other tools.

    python benchmarks/corpus.py clean [--files NOTES.jsonl ...] [--megabytes 40] [--rounds 3] [--workers 0]
    python benchmarks/corpus.py tools [--documents 10000] [--folder TEXT] [--tools osler rensa ...] [--json tools.json]
    python benchmarks/corpus.py scale [--documents 10000 100000 1000000]

clean: ftfy, a set of hashes and Parquet in the script one would write first. Both read the same JSON Lines, must keep the
same documents, and take turns; the best round of each counts. osler also counts words, writes the ledger and the card,
hashes every file and can resume after a kill; the loop does none of this.

tools: every tool reads the same Parquet file in a process of its own, with one thread. They take turns, and the median of
the rounds counts; a tool that needs more than ten seconds runs once. Tools that are not installed are left out. Some only find
near-duplicates, others clean, deduplicate and write a corpus (`-corpus`); each is compared with osler doing the same.

scale: the whole stage of osler on more and more documents, with one worker.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import lzma
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

MINIMUM = 40
WORD = re.compile(r"[^\W_]+")
EDITS = (1, 5, 20)
"""Percent of the words that are replaced in planted copies."""
SLOW = 10
"""Seconds of CPU after which a tool is not run again."""
COPIES = 0.05
"""Share of the documents that are copies, for each of EDITS."""


def generated(path: Path, megabytes: float) -> None:
    """Write the synthetic clinic's raw text, English and Spanish, over and over; a number makes each copy different."""
    from osler.clinic.raw import raw_texts

    records = [record for language in ("en", "es") for record in raw_texts(1500, language=language, seed=0)]
    with path.open("w", encoding="utf-8") as stream:
        for turn in itertools.count():
            for record in records:
                stream.write(
                    json.dumps({"id": record["id"], "text": f"{turn} {record['text']}"}, ensure_ascii=False) + "\n"
                )
                if stream.tell() > megabytes * 1e6:
                    return


def naive(files: list[Path], out: Path) -> int:
    """The script one would write first."""
    import ftfy

    settings = ftfy.TextFixerConfig(
        unescape_html=True,
        uncurl_quotes=False,
        fix_latin_ligatures=False,
        fix_character_width=False,
        explain=False,
    )
    seen: set[bytes] = set()
    kept: dict[str, list[str]] = {"id": [], "text": []}
    for file in files:
        with file.open(encoding="utf-8") as stream:
            for line in stream:
                record = json.loads(line)
                text = ftfy.fix_text(record["text"], settings).strip()
                digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
                if len(text) >= MINIMUM and digest not in seen:
                    seen.add(digest)
                    kept["id"].append(str(record["id"]))
                    kept["text"].append(text)
    pq.write_table(pa.table(kept), out, compression="zstd")
    return len(kept["id"])


def osler(files: list[Path], out: Path, workers: int) -> int:
    from osler.core.config import load_recipe
    from osler.stages.corpus.config import CorpusRecipe
    from osler.stages.corpus.run import run

    options = {"sources": [str(file) for file in files], "filters": {"length": {"min_characters": MINIMUM}}}
    recipe = load_recipe(CorpusRecipe, None, [], {**options, "workers": workers})
    return int(run(recipe, out).manifest.counts["documents"])


def cpu_seconds() -> float:
    """CPU time of this process and its finished workers: steadier than wall-clock time on a busy machine."""
    return sum(os.times()[:4])


def clean(options: argparse.Namespace) -> None:
    """Race osler against the plain loop."""
    folder = Path(tempfile.mkdtemp(prefix="corpus-benchmark-"))
    try:
        files = options.files
        if not files:
            files = [folder / "notes.jsonl"]
            generated(files[0], options.megabytes)
        size = sum(file.stat().st_size for file in files) / 1e6
        best: dict[str, tuple[float, float]] = {}
        for number in range(options.rounds):
            kept = []
            for name in ("naive loop", "osler"):
                out = folder / f"{name}-{number}"
                began, used = time.perf_counter(), cpu_seconds()
                kept.append(naive(files, out) if name == "naive loop" else osler(files, out, options.workers))
                spent = (time.perf_counter() - began, cpu_seconds() - used)
                best[name] = min(best.get(name, spent), spent)
            if len(set(kept)) != 1:
                raise SystemExit(f"the two sides kept different numbers of documents: {kept}")
        print(f"{size:.1f} MB, {kept[0]:,} documents kept by both, best of {options.rounds} rounds")
        for name, (seconds, cpu) in best.items():
            ratio = best["naive loop"][0] / seconds
            print(f"{name:<12} {seconds:7.2f} s {size / seconds:8.1f} MB/s {ratio:6.1f}x   {cpu:7.2f} s of CPU")
        if options.json:
            sides = {name: {"seconds": seconds, "processor": cpu} for name, (seconds, cpu) in best.items()}
            options.json.write_text(json.dumps({"megabytes": size, **sides}, indent=1) + "\n")
    finally:
        shutil.rmtree(folder)


class Synthetic:
    """Documents of made-up words, always the same. One in five begins with one of twenty forms, as clinical notes do."""

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        syllables = np.array([a + b for a in "bcdfglmnprstv" for b in "aeiou"])
        lengths = generator.integers(1, 5, size=60_000)
        words = ("".join(syllables[generator.integers(len(syllables), size=length)]) for length in lengths)
        self.vocabulary = np.array(list(dict.fromkeys(words)))
        # Frequent words are frequent, as in a language.
        self._shares = np.cumsum(1.0 / np.arange(10, len(self.vocabulary) + 10))
        self._forms = [self._words(generator, 60) for _ in range(20)]

    def _words(self, generator: np.random.Generator, count: int) -> list[str]:
        return self.vocabulary[np.searchsorted(self._shares, generator.random(count) * self._shares[-1])].tolist()

    def __getitem__(self, number: int) -> list[str]:
        generator = np.random.default_rng((1, number))
        words = self._words(generator, 50 + int(generator.lognormal(5.0, 0.7)))
        words[::13] = [word.capitalize() for word in words[::13]]
        words[12::13] = [f"{word}." for word in words[12::13]]
        return self._forms[number // 5 % 20] + words if number % 5 == 0 else words


class Real:
    """The texts of the JSON Lines files of a folder. Those with a near-duplicate among them are left out beforehand."""

    def __init__(self, folder: Path, count: int, work: Path) -> None:
        from osler.core.processes import LocalPool
        from osler.stages.corpus.near_duplicates import NearDuplicates, find_near_duplicates

        files = [path for path in sorted(folder.rglob("*.jsonl*")) if path.suffix in (".jsonl", ".xz")]
        # From each file in turn, so that all kinds of text are there.
        turns = (text for group in itertools.zip_longest(*map(texts_of, files)) for text in group if text)
        texts = list(itertools.islice(turns, 2 * count))
        path = work / "real.parquet"
        pq.write_table(pa.table({"source": ["real"] * len(texts), "text": texts}), path, row_group_size=4096)
        strict = NearDuplicates(threshold=0.3, bands=40, rows=3)
        keep = [np.ones(len(texts), dtype=np.bool_)]
        found = find_near_duplicates([path], keep, {"real": 0}, strict, work / "real", LocalPool(1))
        similar = set(found["removed"].tolist())
        self._texts = [text for number, text in enumerate(texts) if number not in similar]
        self.vocabulary = np.array(sorted({word for text in self._texts[:2000] for word in text.split()}))

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, number: int) -> list[str]:
        return self._texts[number].split()


def texts_of(path: Path) -> Iterator[str]:
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)["text"]


def plant(texts: Synthetic | Real, documents: int, path: Path) -> int:
    """Write documents and edited copies of some of them; return the bytes of text. `original` says what is a copy of what."""
    copies = int(documents * COPIES)
    originals = documents - copies * len(EDITS)
    generator = np.random.default_rng(2)
    chosen = generator.permutation(originals)[: copies * len(EDITS)]
    # A copy comes somewhere after its original; here, after all originals, in random order.
    rows = [(number, 0) for number in range(originals)]
    rows += [(int(number), EDITS[index % len(EDITS)]) for index, number in enumerate(chosen)]
    schema = pa.schema(
        [("id", "string"), ("source", "string"), ("text", "string"), ("original", "int64"), ("edit", "int64")]
    )
    size = 0
    with pq.ParquetWriter(path, schema, compression="lz4") as writer:
        for low in range(0, len(rows), 4096):
            batch = []
            for position, (number, edit) in enumerate(rows[low : low + 4096], start=low):
                words = texts[number]
                if edit:
                    # At least one word: a copy of a short document would otherwise be exact.
                    count = max(1, round(len(words) * edit / 100))
                    for place in generator.permutation(len(words))[:count].tolist():
                        words[place] = str(generator.choice(texts.vocabulary))
                text = " ".join(words)
                size += len(text.encode())
                batch.append({"id": str(position), "source": "made", "text": text, "original": number, "edit": edit})
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))
    return size


def read_texts(path: Path) -> Iterator[tuple[str, str]]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(1024, columns=["id", "text"], use_threads=False):
            yield from zip(batch.column("id").to_pylist(), batch.column("text").to_pylist(), strict=True)


def word_shingles(text: str, count: int, *, normal: bool) -> list[str]:
    words = WORD.findall(text.lower()) if normal else text.split()
    return words if count == 1 else [" ".join(words[i : i + count]) for i in range(len(words) - count + 1)]


Removed = Sequence[int]
Tool = Callable[[Path, Path, int], Callable[[], Removed]]
"""Prepare a tool (imports); what is returned is timed, and returns the positions of the documents that it removes."""


def near_osler(path: Path, work: Path, words: int) -> Callable[[], Removed]:
    from osler.core.processes import LocalPool
    from osler.stages.corpus.near_duplicates import NearDuplicates, find_near_duplicates

    def find() -> Removed:
        keep = [np.ones(pq.read_metadata(path).num_rows, dtype=np.bool_)]
        found = find_near_duplicates([path], keep, {"made": 0}, NearDuplicates(words=words), work, LocalPool(1))
        return found["removed"].tolist()  # type: ignore[no-any-return]

    return find


def whole_osler(path: Path, work: Path, words: int) -> Callable[[], Removed]:
    """The whole stage: repair, filters, exact and near-duplicates, shards, ledger, card, report."""
    import_module("ftfy"), import_module("jinja2"), import_module("rich.progress")  # otherwise at first use
    from osler.core.config import load_recipe
    from osler.stages.corpus.config import CorpusRecipe
    from osler.stages.corpus.run import run

    options = {"sources": [str(path)], "near_duplicates": {"words": words}, "workers": 1}
    recipe = load_recipe(CorpusRecipe, None, [], options)

    def find() -> Removed:
        return missing(path, run(recipe, work / "corpus").shards)

    return find


def near_rensa(path: Path, work: Path, words: int, *, normal: bool = False) -> Callable[[], Removed]:
    from rensa import RMinHashDeduplicator

    def find() -> Removed:
        search = RMinHashDeduplicator(threshold=0.7, num_perm=128, use_lsh=True)
        kept = search.add_pairs((name, word_shingles(text, words, normal=normal)) for name, text in read_texts(path))
        return np.flatnonzero(~np.array(kept)).tolist()

    return find


def near_datatrove(path: Path, work: Path, words: int, *, spacy: bool) -> Callable[[], Removed]:
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.pipeline.readers import ParquetReader
    from loguru import logger

    class Whitespace:
        def word_tokenize(self, text: str) -> list[str]:
            return text.split()

    logger.remove()

    def find() -> Removed:
        config = MinhashConfig(n_grams=words)
        signature = MinhashDedupSignature(str(work / "signatures"), config=config)
        if not spacy:
            signature.word_tokenizer = Whitespace()
        reader = ParquetReader(str(path.parent), glob_pattern=path.name)
        buckets = MinhashDedupBuckets(str(work / "signatures"), str(work / "buckets"), config=config)
        cluster = MinhashDedupCluster(str(work / "buckets"), str(work / "removed"), config=config)
        for steps, tasks in (([reader, signature], 1), ([buckets], config.num_buckets), ([cluster], 1)):
            LocalPipelineExecutor(pipeline=steps, tasks=tasks, workers=1, logging_dir=str(work / "logs")).run()
            shutil.rmtree(work / "logs")  # it also says which tasks are done, whatever the pipeline
        return np.fromfile(work / "removed" / "000000.remove", dtype="<u4").tolist()

    return find


def whole_datatrove(path: Path, work: Path, words: int, *, spacy: bool) -> Callable[[], Removed]:
    """The same steps in datatrove: repair by ftfy, a limit on the length, near-duplicates, Parquet."""
    import_module("ftfy")  # otherwise at first use
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import MinhashDedupFilter
    from datatrove.pipeline.filters import LambdaFilter
    from datatrove.pipeline.formatters import FTFYFormatter
    from datatrove.pipeline.readers import ParquetReader
    from datatrove.pipeline.writers import ParquetWriter

    cleaned, written = work / "cleaned", work / "written"
    search = near_datatrove(cleaned / "*.parquet", work, words, spacy=spacy)

    def run(*steps: Any) -> None:
        LocalPipelineExecutor(pipeline=list(steps), tasks=1, workers=1, logging_dir=str(work / "logs")).run()
        shutil.rmtree(work / "logs")

    def find() -> Removed:
        long_enough = LambdaFilter(lambda document: len(document.text) >= MINIMUM)
        reader = ParquetReader(str(path.parent), glob_pattern=path.name)
        run(reader, FTFYFormatter(), long_enough, ParquetWriter(str(cleaned)))
        search()
        run(ParquetReader(str(cleaned)), MinhashDedupFilter(str(work / "removed")), ParquetWriter(str(written)))
        return missing(path, sorted(written.glob("*.parquet")))

    return find


def missing(path: Path, shards: Sequence[Path]) -> Removed:
    """Numbers of the documents that are not in the shards."""
    kept = {int(name) for shard in shards for name in pq.read_table(shard, columns=["id"])["id"].to_pylist()}
    return [number for number in range(pq.read_metadata(path).num_rows) if number not in kept]


def near_text_dedup(path: Path, work: Path, words: int) -> Callable[[], Removed]:
    os.environ.update(HF_HOME=str(work / "hub"), HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")
    from datasets import load_from_disk
    from text_dedup.minhash import main as deduplicate

    def find() -> Removed:
        arguments = {"path": "parquet", "data_files": path, "split": "train", "column": "text", "output": work / "out"}
        arguments |= {"cache_dir": work / "cache", "ngram": words, "num_proc": 1}
        deduplicate([f"--{name}={value}" for name, value in arguments.items()], standalone_mode=False)
        kept = {int(name) for name in load_from_disk(str(work / "out"))["id"]}
        return [number for number in range(pq.read_metadata(path).num_rows) if number not in kept]

    return find


TOOLS: dict[str, tuple[Tool, int, tuple[str, ...]]] = {
    "osler": (near_osler, 3, ()),
    "osler-words": (near_osler, 1, ()),
    "osler-corpus": (whole_osler, 3, ()),
    "rensa": (lambda *arguments: near_rensa(*arguments, normal=True), 3, ("rensa",)),
    "rensa-split": (near_rensa, 3, ("rensa",)),
    "rensa-words": (near_rensa, 1, ("rensa",)),
    "text-dedup": (near_text_dedup, 5, ("text_dedup", "datasets")),
    "text-dedup-3": (near_text_dedup, 3, ("text_dedup", "datasets")),
    "datatrove-whitespace": (lambda *arguments: near_datatrove(*arguments, spacy=False), 5, ("datatrove",)),
    "datatrove-whitespace-3": (lambda *arguments: near_datatrove(*arguments, spacy=False), 3, ("datatrove",)),
    "datatrove": (lambda *arguments: near_datatrove(*arguments, spacy=True), 5, ("datatrove", "spacy")),
    "datatrove-corpus-whitespace": (lambda *arguments: whole_datatrove(*arguments, spacy=False), 5, ("datatrove",)),
    "datatrove-corpus": (lambda *arguments: whole_datatrove(*arguments, spacy=True), 5, ("datatrove", "spacy")),
}
"""Tools with the words of their shingles, and the packages they need. rensa leaves shingles to its user: those of osler
(lower case, no punctuation), of `str.split`, and single words."""


def one_tool(name: str, path: Path, work: Path) -> None:
    """Run a tool in this process; print what it took and removed as JSON."""
    tool, words, _ = TOOLS[name]
    find = tool(path, work, words)
    began, used = time.perf_counter(), cpu_seconds()
    removed = find()
    figures = {"seconds": time.perf_counter() - began, "cpu": cpu_seconds() - used, "peak": peak_memory()}
    np.save(work / "removed.npy", np.array(removed, dtype=np.int64))
    print(json.dumps(figures))


def peak_memory() -> float:
    """Most memory of this process, or of one of its own processes, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    own = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1e3


def score(path: Path, removed: NDArray[np.int64]) -> dict[str, float]:
    """Precision, and recall by the share of words that was replaced. One of a pair is to be removed, whichever it is."""
    columns = pq.read_table(path, columns=["original", "edit"])
    original, edit = (columns[name].to_numpy() for name in ("original", "edit"))
    lost = Counter(original[removed].tolist())
    copies = np.flatnonzero(edit)
    found = {
        percent: [lost[number] > 0 for number in original[copies[edit[copies] == percent]].tolist()]
        for percent in EDITS
    }
    right = sum(map(sum, found.values()))
    recall = {f"recall_{percent}": sum(hits) / len(hits) for percent, hits in found.items()}
    return {"removed": len(removed), "precision": right / max(1, len(removed)), **recall}


def tools(options: argparse.Namespace) -> None:
    """Race all tools that are installed, in turns, over the same documents."""
    work = Path(tempfile.mkdtemp(prefix="corpus-benchmark-"))
    try:
        if options.child:
            one_tool(options.child, options.data, options.work)
            return
        texts = Real(options.folder, options.documents, work) if options.folder else Synthetic()
        documents = options.documents
        if isinstance(texts, Real):
            documents = min(documents, int(len(texts) / (1 - COPIES * len(EDITS))))
        path = work / "documents" / "documents.parquet"
        path.parent.mkdir()
        size = plant(texts, documents, path) / 1e6
        del texts
        print(
            f"{documents:,} documents, {size:.1f} MB of text, one thread; copies: {COPIES:.0%} for each edit",
            flush=True,
        )
        installed = []
        for name in options.tools:
            absent = [package for package in TOOLS[name][2] if find_spec(package) is None]
            if absent:
                print(f"{name}: left out, not installed: {', '.join(absent)}")
            else:
                installed.append(name)
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in installed}
        for _ in range(options.rounds):
            for name, done in rounds.items():
                if not done or done[0]["cpu"] < SLOW:
                    done.append(race(name, path, work))
                    print(
                        f"{name}: {done[-1]['cpu']:.2f} s of CPU, {done[-1]['seconds']:.2f} s",
                        file=sys.stderr,
                        flush=True,
                    )
        results = {name: sorted(done, key=lambda run: run["cpu"])[len(done) // 2] for name, done in rounds.items()}
        table(results, size)
        if options.json:
            machine = {"documents": documents, "megabytes": size, "versions": versions()}
            options.json.write_text(json.dumps({**machine, "tools": results}, indent=2) + "\n")
    finally:
        shutil.rmtree(work)


def race(name: str, path: Path, work: Path) -> dict[str, Any]:
    own = work / name
    own.mkdir()
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
    command = [sys.executable, __file__, "tools", "--child", name, "--data", str(path), "--work", str(own)]
    done = subprocess.run(command, env=os.environ | threads, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr.decode()[-2000:]}")
    figures = json.loads(done.stdout.splitlines()[-1])
    figures.update(score(path, np.load(own / "removed.npy")), words=TOOLS[name][1])
    shutil.rmtree(own)
    return figures  # type: ignore[no-any-return]


def table(results: dict[str, dict[str, Any]], size: float) -> None:
    recalls = " | ".join(f"recall {percent} %" for percent in EDITS)
    print(f"| tool | words | MB/s per core | osler is faster by | peak MB | removed | precision | {recalls} |")
    print("|---" * (7 + len(EDITS)) + "|")
    for name, row in results.items():
        ours = results.get("osler-corpus" if "-corpus" in name else "osler")
        ratio = f"{row['cpu'] / ours['cpu']:.1f}x" if ours else ""
        shares = " | ".join(f"{row[key]:.3f}" for key in ("precision", *(f"recall_{percent}" for percent in EDITS)))
        speed, peak = f"{size / row['cpu']:.1f}", f"{row['peak']:.0f}"
        print(f"| {name} | {row['words']} | {speed} | {ratio} | {peak} | {row['removed']:,} | {shares} |")


def scale(options: argparse.Namespace) -> None:
    """The whole stage on more and more documents."""
    print("| documents | MB | CPU seconds | ms per document | MB/s per core | wall seconds | peak MB | removed |")
    print("|---" * 8 + "|", flush=True)
    for documents in options.documents:
        work = Path(tempfile.mkdtemp(prefix="corpus-benchmark-"))
        try:
            path = work / "documents.parquet"
            size = plant(Synthetic(), documents, path) / 1e6
            row = race("osler-corpus", path, work)
        finally:
            shutil.rmtree(work)
        each, speed = 1000 * row["cpu"] / documents, size / row["cpu"]
        times = f"{row['cpu']:.1f} | {each:.3f} | {speed:.1f} | {row['seconds']:.0f}"
        print(f"| {documents:,} | {size:.0f} | {times} | {row['peak']:.0f} | {row['removed']:,} |", flush=True)


def versions() -> dict[str, str]:
    packages = ("numpy", "pyarrow", "rensa", "text-dedup", "datatrove", "spacy")
    return {name: version(name) for name in packages if find_spec(name.replace("-", "_"))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    cleaning = commands.add_parser("clean")
    cleaning.add_argument("--files", type=Path, nargs="+", help="JSON Lines with id and text, not generated notes")
    cleaning.add_argument("--megabytes", type=float, default=40.0)
    cleaning.add_argument("--rounds", type=int, default=3)
    cleaning.add_argument("--workers", type=int, default=0, help="worker processes of osler; 0 means one per core")
    cleaning.add_argument("--json", type=Path)
    cleaning.set_defaults(run=clean)
    pairs = commands.add_parser("tools")
    pairs.add_argument("--documents", type=int, default=10_000)
    pairs.add_argument("--folder", type=Path, help="JSON Lines with text (.xz too), instead of generated documents")
    pairs.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    pairs.add_argument("--rounds", type=int, default=3)
    pairs.add_argument("--json", type=Path)
    for internal in ("--child", "--data", "--work"):
        pairs.add_argument(internal, type=str if internal == "--child" else Path, help=argparse.SUPPRESS)
    pairs.set_defaults(run=tools)
    sizes = commands.add_parser("scale")
    sizes.add_argument("--documents", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    sizes.set_defaults(run=scale)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
