"""Write the pages of studies in docs/results from their results.json and what is said about them: python docs/build_results.py

NAME.json is the results.json of a study, NAME.about.md what its tables do not say, and NAME.md is made from both, as by
`osler study page NAME.json --about NAME.about.md --out NAME.md`.
"""

from __future__ import annotations

from pathlib import Path

from osler.stages.study.page import study_markdown
from osler.stages.study.results import read_results

RESULTS = Path(__file__).parent / "results"


def pages() -> dict[Path, str]:
    """Every page that is made from a study, by its path."""
    abouts = sorted(RESULTS.rglob("*.about.md"))
    bases = [about.with_name(about.name.removesuffix(".about.md")) for about in abouts]
    return {
        base.with_suffix(".md"): study_markdown(read_results(base.with_suffix(".json")), about.read_text("utf-8"))
        for base, about in zip(bases, abouts, strict=True)
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
