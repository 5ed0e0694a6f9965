"""Named cleanings, for the recipe of a corpus or one of its sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PRESETS: Mapping[str, Mapping[str, Any]] = {
    # The cleaner of carrino2022 with its published thresholds. It differs in four places, where the published one loses text that it
    # should not: the first copy of a repeated sentence is kept; NFKC leaves doses and units alone; sentences are filtered before
    # documents, not after them; a space stays before a decimal point without a zero (".5 mg").
    "carrino2022": {
        "unicode": {"repair": True, "html_entities": True},
        "rewrite": {
            "normalise": {"quotes": False, "hyphens": False},
            "markup": {"wiki": False, "latex": False, "citations": False},
            "masks": {},
            "whitespace": {"before_marks": True},
            "sentences": {
                "min_characters": 21,
                "min_words": 4,
                "max_code": 0.25,
                "max_digits": 0.1,
                "repeated": True,
                "min_confidence": 0.3,
            },
        },
        "filters": {
            "length": {"min_characters": 40},
            "error_pages": {"words": ["found", "404", "robots.txt", "error", "trouvée"], "first_line": False},
            "digits": {"max_share": 0.1},
            "symbols": {"max_share": 0.3},
            "alphabet": {"max_foreign": 0.1, "foreign": "everything", "scripts": ["LATIN"]},
            "uppercase": {"max_share": 0.4},
            "language": {"min_confidence": 0.3},
        },
        "exact_duplicates": "remove",
    },
    # Notes: laboratory lines, tables, abbreviations, capitals and short lines stay. Only meaningless whitespace goes. Lines
    # that many notes share are headings and findings ("Antecedentes:", "No known allergies"), so no line is boilerplate.
    "clinical": {
        "unicode": {"repair": True, "html_entities": True},
        "rewrite": {"whitespace": {"blanks": False, "blank_lines": 2}},
        "filters": {"length": {"min_characters": 10}},
        "exact_duplicates": "remove",
        "boilerplate": False,
    },
    # Documents exactly as they are, as carrino2022 left its EHR corpus.
    "none": {
        "unicode": {"repair": False},
        "rewrite": {},
        "filters": {},
        "exact_duplicates": "keep",
        "strip": False,
        "boilerplate": False,
        "near_duplicates": False,
        "decontaminate": False,
    },
}

CORPUS_PRESETS: Mapping[str, Mapping[str, Any]] = {
    # ONION removes a document if half of its runs of five words were seen in any earlier documents. Here they must be shared with
    # a single kept document.
    "carrino2022": {"near_duplicates": {"threshold": 0.5, "words": 5, "rows": 3, "bands": 32}},
}
"""Settings of a preset that apply only to a whole corpus: steps that compare documents of all sources."""
