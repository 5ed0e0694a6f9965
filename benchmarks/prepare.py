"""Memory of `osler tasks prepare` as a corpus grows: BC5CDR repeated ten and a hundred times.

    python benchmarks/prepare.py [--times 10 100] [--data DIR]

Each size is prepared in its own process. Prints peak resident memory, documents per second and the ratio of the memory of the last
size to the first. Every copy has new ids. Without the public corpora, notes of the synthetic clinic are repeated instead.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

NAMES = ["CDR_TrainingSet.PubTator.txt", "CDR_DevelopmentSet.PubTator.txt", "CDR_TestSet.PubTator.txt"]
LABELS = {"DRUG": "Chemical", "PROBLEM": "Disease"}  # of the synthetic clinic and of BC5CDR
CHILD = """
import json, resource, sys, time
from pathlib import Path
from osler.stages.prepare.config import PrepareRecipe
from osler.stages.prepare.run import run
started = time.perf_counter()
artifact = run(PrepareRecipe(task="bc5cdr", source=Path(sys.argv[1])), Path(sys.argv[2]))
counts = artifact.manifest.counts
print(json.dumps({
    "documents": sum(counts[split] for split in ("train", "dev", "test")),
    "mentions": sum(counts["splits"][split]["mentions"] for split in ("train", "dev", "test")),
    "seconds": time.perf_counter() - started,
    "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}))
"""


def originals(data: Path) -> dict[str, str]:
    folder = data / "bc5cdr" / "pubtator"
    if folder.is_dir():
        return {name: lzma.open(folder / f"{name}.xz", "rt", encoding="utf-8").read() for name in NAMES}
    from osler.clinic.notes import notes
    from osler.formats.registry import get_format

    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, split in zip(NAMES, ("train", "dev", "test"), strict=True):
            records = [
                note.with_(
                    spans=tuple(
                        replace(span, label=LABELS[span.label])
                        for span in note.spans
                        if span.label in LABELS and not span.discontinuous
                    ),
                    relations=(),
                    id=str(number),
                )
                for number, note in enumerate(notes(200, language="en", seed=0, split=split), 1)
            ]
            get_format("pubtator").write(records, Path(scratch) / name)
            found[name] = (Path(scratch) / name).read_text(encoding="utf-8")
    return found


def replicate(text: str, times: int, path: Path) -> None:
    """Write the documents `times` times, with the number of the copy in front of each id."""
    with path.open("w", encoding="utf-8") as stream:
        for copy in range(times):
            stream.write(re.sub(r"(?m)^(?=\d+[|\t])", f"{copy + 1}00", text).rstrip("\n") + "\n\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, nargs="+", default=[10, 100])
    default = Path(os.environ.get("OSLER_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=default)
    arguments = parser.parse_args()
    texts = originals(arguments.data)
    results = []
    for times in arguments.times:
        with tempfile.TemporaryDirectory() as scratch:
            source = Path(scratch) / "source"
            source.mkdir()
            for name, text in texts.items():
                replicate(text, times, source / name)
            command = [sys.executable, "-c", CHILD, str(source), str(Path(scratch) / "task")]
            done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        results.append(done)
        rate = done["documents"] / done["seconds"]
        print(
            f"{times:>5} times: {done['documents']:>8,} documents, {done['mentions']:>10,} mentions, "
            f"{done['seconds']:6.1f} s, {rate:7,.0f} documents/s, peak {done['rss_mb']:6.0f} MB"
        )
    print(f"memory, last size to first: {results[-1]['rss_mb'] / results[0]['rss_mb']:.2f}")


if __name__ == "__main__":
    main()
