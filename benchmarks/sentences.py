"""Speed of sentence splitting: osler against pysbd (if installed) and a naive regular expression.

python benchmarks/sentences.py [--file NOTES.txt] [--language en] [--megabytes 2]
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from osler.text.sentences import sentences

PARTS = {
    "en": "HISTORY:|1. Aspirin|Dr. Smith saw the patient, who complained of chest pain, at 10 a.m.|Given 5 mg i.v. "
    "b.i.d. for three days with good response.|Hb 12.5 g/dl.|There is no evidence of fracture or of pleural effusion.",
    "es": "Exploración:|1. AAS|El Dr. García valora al paciente, que refiere dolor torácico.|Se pauta 5 mg i.v. "
    "cada 12 h. durante tres días con buena respuesta.|Hb 12,5 g/dl.|No se observan fracturas ni derrame pleural.",
    "fr": "Examen :|1. Aspirine|Le Dr Martin examine le patient, qui se plaint de douleurs.|Traitement par 5 mg i.v. "
    "deux fois par jour avec une bonne réponse.|Hb 12,5 g/dl.|Absence de fracture et d'épanchement pleural.",
}
NAIVE = re.compile(r"(?<=[.!?])\s+")


def generated(language: str, characters: int) -> list[str]:
    """Generate notes of about two thousand characters, always the same."""
    parts = PARTS[language].split("|")
    choices = np.random.default_rng(0).integers(len(parts), size=characters // 25)
    text = "".join(parts[i] + ("\n" if parts[i][-1] != "." else " ") for i in choices)[:characters]
    return [text[i : i + 2000] for i in range(0, len(text), 2000)]


def main() -> None:
    """Run all splitters over the same notes and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--file", type=Path, help="notes separated by blank lines, instead of generated ones")
    parser.add_argument("--language", choices=PARTS, default="en")
    parser.add_argument("--megabytes", type=float, default=2.0)
    options = parser.parse_args()
    limit = int(options.megabytes * 1e6)
    if options.file:
        notes = options.file.read_text(encoding="utf-8")[:limit].split("\n\n")
    else:
        notes = generated(options.language, limit)

    splitters: dict[str, tuple[Callable[[str], object], int]] = {
        "osler": (lambda note: sentences(note, options.language), len(notes)),
        "naive regex": (NAIVE.split, len(notes)),
    }
    if importlib.util.find_spec("pysbd"):
        # pysbd is so slow that a tenth of the notes is enough to measure it.
        pysbd = importlib.import_module("pysbd")
        splitters["pysbd"] = (pysbd.Segmenter(language=options.language, clean=False).segment, -(-len(notes) // 10))
    rates: dict[str, float] = {}
    for name, (split, count) in splitters.items():
        split(notes[0])
        started = time.perf_counter()
        for note in notes[:count]:
            split(note)
        rates[name] = sum(len(note.encode()) for note in notes[:count]) / 1e6 / (time.perf_counter() - started)
    for name, rate in rates.items():
        print(f"{name:12} {rate:8.2f} MB/s   osler is {rates['osler'] / rate:.2f} times as fast")
    if "pysbd" not in rates:
        print("pysbd        not installed")


if __name__ == "__main__":
    main()
