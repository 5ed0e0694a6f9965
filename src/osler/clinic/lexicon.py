"""The vocabulary of one language and split: words from the data files, and names coined from their parts.

Chronic diseases, most other medical words and most places occur in every split. Surnames and coined names belong to one
split, whatever the seed, so a model that has read the training notes has not seen those of the test notes. Coined names
follow the morphology of real ones (-olol, -itis, -ectomy): their form and context identify them, a word list does not.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

LISTED_COMMON = 50
"""Percent of the listed drugs, acute diseases, symptoms, tests and procedures that occur in every split."""

_FEWEST = 2


@dataclass(frozen=True, slots=True)
class DrugClass:
    """A class of drugs: its names, how it is given, its side effects, and when to avoid it."""

    name: str
    groups: Sequence[str]
    listed: Sequence[str]
    coined: Sequence[str]
    brands: Sequence[str]
    strengths: Sequence[str]
    forms: Sequence[str]
    ways: Sequence[str]
    effects: Sequence[str]
    avoid: Sequence[str]
    frequencies: Sequence[str] = ()
    strengths_of: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MedicalProblem:
    """A disease with its synonyms, the drug classes that treat it, and a broader name for it."""

    name: str
    specialty: str
    general: str
    classes: Sequence[str]
    also: Sequence[str] = ()
    label: str = ""
    gender: str = ""


@dataclass(frozen=True, slots=True)
class LabTest:
    """A laboratory test with its unit and reference range; `spread` is how far an abnormal value strays."""

    name: str
    also: Sequence[str]
    unit: str
    low: float
    high: float
    spread: float
    decimals: int = 0


@dataclass(frozen=True, slots=True)
class Specialty:
    """The problems that one department sees."""

    name: str
    acute: tuple[MedicalProblem, ...]
    chronic: tuple[MedicalProblem, ...]
    coined: tuple[MedicalProblem, ...]
    symptoms: Sequence[str]
    findings: Sequence[str]


@dataclass(frozen=True, slots=True)
class Lexicon:
    """All words of one language and split; `people`, `studies`, `sig` and `notes` are data files."""

    language: str
    split: str
    female: Sequence[str]
    male: Sequence[str]
    surnames: Sequence[str]
    cities: Sequence[str]
    classes: dict[str, DrugClass]
    specialties: dict[str, Specialty]
    chronic: tuple[MedicalProblem, ...]
    general: dict[str, Any]
    labs: tuple[LabTest, ...]
    imaging: dict[str, Sequence[str]]
    procedures: dict[str, Sequence[str]]
    operations: dict[str, Sequence[str]]
    people: dict[str, Any]
    studies: dict[str, Any]
    sig: dict[str, Any]
    notes: dict[str, Any]


@cache
def table(*path: str) -> dict[str, Any]:
    """Read one data file: `table("en", "notes")` is data/en/notes.toml."""
    file = resources.files("osler.clinic").joinpath("data", *path[:-1], f"{path[-1]}.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def bucket(word: str, salt: str) -> int:
    """A fixed number from 0 to 99 for a word, independent of the seed."""
    return int.from_bytes(hashlib.blake2b(f"{salt}:{word}".encode(), digest_size=4).digest(), "little") % 100


def share(words: Iterable[str], split: str, salt: str, common: int = 0) -> tuple[str, ...]:
    """Words that a split may use: `common` percent are for all, the rest is split 60/15/25 into train, dev and test."""

    def allowed(word: str) -> bool:
        percent = bucket(word, salt)
        fraction = (percent - common) / (100 - common)
        return percent < common or split == ("train" if fraction < 0.6 else "dev" if fraction < 0.75 else "test")

    return tuple(filter(allowed, words))


def _listed(words: list[str], split: str, salt: str) -> tuple[str, ...]:
    kept = share(words, split, salt, LISTED_COMMON)
    # Most of a short list may fall to another split, but every class of drugs needs some drugs.
    missing = max(0, min(_FEWEST, len(words)) - len(kept))
    return kept + tuple([word for word in words if word not in kept][:missing])


@cache
def lexicon(language: str, split: str) -> Lexicon:
    """Return the vocabulary of this language and split."""
    people, studies, problems = (table(language, name) for name in ("people", "studies", "problems"))
    names = sorted(problems.keys() - {"general", "coin"})
    specialties = {name: _specialty(name, problems, split) for name in names}
    heads, roots = people["surname_heads"], problems["coin"]["roots"]
    surnames = dict.fromkeys([*people["surnames"], *(a + b for a in heads for b in people["surname_tails"])])
    towns = (a + b for a in people.get("city_heads", heads) for b in people["city_tails"])

    def procedures(key: str, suffixes: list[str]) -> dict[str, Sequence[str]]:
        """Tests or treatments per specialty, half of them coined: "arthr" and "-oscopy" make a test of the joints."""
        chosen: dict[str, Sequence[str]] = {}
        for name in names:
            known = [word for part in ("general", name) for word in _listed(studies[key][part], split, "done")]
            mine = (root["root"] + suffix for root in roots if root["specialty"] == name for suffix in suffixes)
            coined = share(mine, split, "done")
            chosen[name] = (*known, *coined * max(1, round(len(known) / max(len(coined), 1))))
        return chosen

    return Lexicon(
        language=language,
        split=split,
        female=share(people["female"], split, "given", 50),
        male=share(people["male"], split, "given", 50),
        surnames=share(surnames, split, "surname"),
        cities=(*people["cities"], *share(towns, split, "city", 40)),
        classes=_classes(table(language, "drugs"), split),
        specialties=specialties,
        chronic=tuple(problem for specialty in specialties.values() for problem in specialty.chronic),
        general=_general(problems["general"], split),
        labs=tuple(LabTest(**entry) for entry in studies["labs"]),
        imaging=procedures("imaging", studies["test_suffixes"]),
        procedures=procedures("procedures", []),
        operations=procedures("operations", studies["procedure_suffixes"]),
        people=people,
        studies=studies,
        sig=table(language, "sig"),
        notes=table(language, "notes"),
    )


def _general(entry: dict[str, Any], split: str) -> dict[str, Any]:
    chosen = {key: _listed(entry[key], split, "problem") for key in ("symptoms", "modifiers", "degrees")}
    for key in ("modifiers", "degrees"):
        # Adjectives with one form for both genders fit a Spanish noun whose gender is not listed.
        chosen[f"neutral_{key}"] = tuple(word for word in chosen[key] if "/" not in word)
    areas = {area: _listed(words, split, "problem") for area, words in entry["areas"].items()}
    return {**entry, **chosen, "areas": areas}


def _classes(drugs: dict[str, Any], split: str) -> dict[str, DrugClass]:
    beginnings = [head + link for head in drugs["coin_heads"] for link in drugs["coin_links"]]
    brands = share((head + tail for head in drugs["brand_heads"] for tail in drugs["brand_tails"]), split, "brand")
    classes = {}
    for index, (name, entry) in enumerate(drugs["classes"].items()):
        fields = {key: words for key, words in entry.items() if key != "stem"}
        for key, salt in (("listed", "drug"), ("effects", "problem"), ("avoid", "problem")):
            fields[key] = _listed(entry[key], split, salt)
        stem = entry["stem"]
        coined = share((start + stem for start in beginnings), split, "drug") if stem else ()
        mine = brands[index :: len(drugs["classes"])] if stem else ()
        classes[name] = DrugClass(name=name, coined=coined, brands=mine, **fields)
    return classes


def _specialty(name: str, problems: dict[str, Any], split: str) -> Specialty:
    entry, coin = problems[name], problems["coin"]

    acute, chronic = (
        tuple(MedicalProblem(specialty=name, general=entry["kind_of"], **raw) for raw in entry[key])
        for key in ("acute", "chronic")
    )
    # Document labels come from chronic diseases, so all splits have all of them.
    usable = _listed([problem.name for problem in acute], split, "problem")
    acute = tuple(problem for problem in acute if problem.name in usable)
    classes = tuple(dict.fromkeys(c for problem in (*acute, *chronic) for c in problem.classes))
    made: dict[str, MedicalProblem] = {}
    unprefixed = set()
    for root in (root for root in coin["roots"] if root["specialty"] == name):
        for suffix in coin["suffixes"]:
            base, means = root["root"] + suffix["suffix"], suffix["means"].format(**root)
            unprefixed.add(base)
            for word in (prefix + base for prefix in coin["prefixes"]):
                made[word] = MedicalProblem(word, name, means, classes, gender=suffix.get("gender", ""))
    mine = [made[word] for word in share(made, split, "problem")]
    plain = tuple(problem for problem in mine if problem.name in unprefixed)
    # Names without a prefix are few but the most natural: draw them as often as the others.
    coined = (*mine, *plain * (len(mine) // max(len(plain), 1)))
    symptoms, findings = (_listed(entry[key], split, "problem") for key in ("symptoms", "findings"))
    return Specialty(name, acute, chronic, coined, symptoms, findings)
