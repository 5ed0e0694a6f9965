"""Speed of the corpus stage: osler against the same steps in a plain Python loop (ftfy, a set of hashes, Parquet).

    python benchmarks/corpus.py [--files NOTES.jsonl ...] [--megabytes 40] [--rounds 3] [--workers 0]

Both read the same JSON Lines, must keep the same documents, and take turns; the best round of each counts. osler also
counts words, writes the ledger and the card, hashes every file and can resume after a kill; the loop does none of this.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import ftfy
import pyarrow as pa
import pyarrow.parquet as pq

from osler.clinic.raw import raw_texts
from osler.core.config import load_recipe
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.run import run

MINIMUM = 40


def generated(path: Path, megabytes: float) -> None:
    """Write the synthetic clinic's raw text, English and Spanish, over and over; a number makes each copy different."""
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
    options = {"sources": [str(file) for file in files], "filters": {"length": {"min_characters": MINIMUM}}}
    recipe = load_recipe(CorpusRecipe, None, [], {**options, "workers": workers})
    return int(run(recipe, out).manifest.counts["documents"])


def cpu_seconds() -> float:
    """CPU time of this process and its finished workers: steadier than wall-clock time on a busy machine."""
    return sum(os.times()[:4])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--files", type=Path, nargs="+", help="JSON Lines with id and text, instead of generated notes")
    parser.add_argument("--megabytes", type=float, default=40.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0, help="worker processes of osler; 0 means one per core")
    options = parser.parse_args()
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
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
