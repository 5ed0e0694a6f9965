"""The vocabulary of one language and split: what the clinic's data files list, and names coined from their parts.

Chronic diseases, most other words of medicine and most places are in every split; surnames and coined names belong to
one split only, whatever the seed, so that a reader of the training notes has not seen them. Coined names follow the
morphology of real ones (-olol, -itis, -ectomy): form and context tell what they are, a list does not.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from osler.clinic.dice import share
from osler.clinic.labels import SPECIALTIES, Language, Split

LISTED_COMMON = 50
"""Percent of the listed drugs, acute diseases, symptoms, tests and procedures that are in every split, not in one."""

_FEWEST = 2


@dataclass(frozen=True, slots=True)
class DrugClass:
    """A class of drugs: its names, how it is given, and what it does besides healing."""

    name: str
    groups: tuple[str, ...]
    listed: tuple[str, ...]
    coined: tuple[str, ...]
    brands: tuple[str, ...]
    strengths: tuple[str, ...]
    strengths_of: dict[str, list[str]]
    frequencies: tuple[str, ...]
    forms: tuple[str, ...]
    ways: tuple[str, ...]
    effects: tuple[str, ...]
    avoid: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A disease with its other names, the classes that treat it, and what it is in more general words."""

    name: str
    also: tuple[str, ...]
    specialty: str
    classes: tuple[str, ...]
    label: str
    general: str
    gender: str


@dataclass(frozen=True, slots=True)
class Lab:
    """A laboratory test with its unit and reference range; `spread` is how far a bad value strays."""

    name: str
    also: tuple[str, ...]
    unit: str
    low: float
    high: float
    spread: float
    decimals: int


@dataclass(frozen=True, slots=True)
class Specialty:
    """What one department sees."""

    name: str
    general: str
    acute: tuple[Problem, ...]
    chronic: tuple[Problem, ...]
    coined: tuple[Problem, ...]
    symptoms: tuple[str, ...]
    findings: tuple[str, ...]


Done = dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Everything the scribes of one language and split draw from."""

    language: Language
    split: Split
    female: tuple[str, ...]
    male: tuple[str, ...]
    surnames: tuple[str, ...]
    cities: tuple[str, ...]
    people: dict[str, Any]
    classes: dict[str, DrugClass]
    specialties: dict[str, Specialty]
    chronic: tuple[Problem, ...]
    general: dict[str, Any]
    labs: tuple[Lab, ...]
    imaging: Done
    procedures: Done
    operations: Done
    departments: tuple[str, ...]
    wards: tuple[str, ...]
    intensive: tuple[str, ...]
    sig: dict[str, Any]
    notes: dict[str, Any]


@cache
def table(language: Language, name: str) -> dict[str, Any]:
    """One data file of a language, as TOML gives it."""
    path = resources.files("osler.clinic") / "data" / language / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


@cache
def lexicon(language: Language, split: Split) -> Lexicon:
    """The vocabulary of this language and split, read once."""
    people, studies = table(language, "people"), table(language, "studies")
    problems = table(language, "problems")
    specialties = {name: _specialty(name, problems, split) for name in SPECIALTIES}
    heads, links = people["surname_heads"], people["surname_tails"]
    surnames = share(_unique([*people["surnames"], *(a + b for a in heads for b in links)]), split, "surname")
    city_heads = people.get("city_heads", heads)
    cities = (*people["cities"], *share((a + b for a in city_heads for b in people["city_tails"]), split, "city", 40))
    roots = problems["coin"]["roots"]
    return Lexicon(
        language=language,
        split=split,
        female=share(people["female"], split, "given", 50),
        male=share(people["male"], split, "given", 50),
        surnames=surnames,
        cities=cities,
        people=people,
        classes=_classes(table(language, "drugs"), split),
        specialties=specialties,
        chronic=tuple(problem for specialty in specialties.values() for problem in specialty.chronic),
        general=_general(problems["general"], split),
        labs=tuple(_lab(entry) for entry in studies["labs"]),
        imaging=_done(studies["imaging"], roots, studies["test_suffixes"], split),
        procedures=_done(studies["procedures"], [], [], split),
        operations=_done(studies["operations"], roots, studies["procedure_suffixes"], split),
        departments=tuple(studies["departments"]),
        wards=tuple(studies["wards"]),
        intensive=tuple(studies["intensive"]),
        sig=table(language, "sig"),
        notes=table(language, "notes"),
    )


def _listed(words: list[str], split: Split, salt: str) -> tuple[str, ...]:
    kept = share(words, split, salt, LISTED_COMMON)
    # A short list may fall almost whole to another split; every class of drugs needs its drugs all the same.
    missing = max(0, min(_FEWEST, len(words)) - len(kept))
    return kept + tuple([word for word in words if word not in kept][:missing])


def _general(entry: dict[str, Any], split: Split) -> dict[str, Any]:
    chosen = {key: _listed(entry[key], split, "problem") for key in ("symptoms", "modifiers", "degrees")}
    for key in ("modifiers", "degrees"):
        # Adjectives with one form for both genders fit a Spanish noun whose gender is not listed.
        chosen[f"neutral_{key}"] = tuple(word for word in chosen[key] if "/" not in word)
    areas = {area: _listed(words, split, "problem") for area, words in entry["areas"].items()}
    return {**entry, **chosen, "areas": areas}


def _unique(words: list[str]) -> list[str]:
    return list(dict.fromkeys(words))


def _done(listed: dict[str, list[str]], roots: list[dict[str, str]], suffixes: list[str], split: Split) -> Done:
    """What is done in each specialty, half of it coined: "arthr" and "-oscopy" make a test of the joints."""
    chosen = {}
    for specialty in SPECIALTIES:
        known = (*_listed(listed["general"], split, "done"), *_listed(listed[specialty], split, "done"))
        words = (root["root"] + suffix for root in roots if root["specialty"] == specialty for suffix in suffixes)
        coined = share(words, split, "done")
        chosen[specialty] = (*known, *coined * max(1, round(len(known) / max(len(coined), 1))))
    return chosen


def _classes(drugs: dict[str, Any], split: Split) -> dict[str, DrugClass]:
    beginnings = [head + link for head in drugs["coin_heads"] for link in drugs["coin_links"]]
    brands = share((head + tail for head in drugs["brand_heads"] for tail in drugs["brand_tails"]), split, "brand")
    classes = {}
    for place, (name, entry) in enumerate(drugs["classes"].items()):
        stem = entry["stem"]
        classes[name] = DrugClass(
            name=name,
            groups=tuple(entry["group"]),
            listed=_listed(entry["names"], split, "drug"),
            coined=share((start + stem for start in beginnings), split, "drug") if stem else (),
            brands=brands[place :: len(drugs["classes"])] if stem else (),
            strengths=tuple(entry["strengths"]),
            strengths_of=entry.get("strengths_of", {}),
            frequencies=tuple(entry.get("frequencies", ())),
            forms=tuple(entry["forms"]),
            ways=tuple(entry["ways"]),
            effects=_listed(entry["effects"], split, "problem"),
            avoid=_listed(entry["avoid"], split, "problem"),
        )
    return classes


def _specialty(name: str, problems: dict[str, Any], split: Split) -> Specialty:
    entry = problems[name]
    general = entry["kind_of"]

    def read(raw: dict[str, Any]) -> Problem:
        classes, label = tuple(raw["rx"]), raw.get("label", "")
        return Problem(raw["name"], tuple(raw["also"]), name, classes, label, general, raw.get("g", ""))

    # Chronic diseases stay the same in all splits: document labels come from them.
    open_to = set(_listed([raw["name"] for raw in entry["acute"]], split, "problem"))
    acute = tuple(read(raw) for raw in entry["acute"] if raw["name"] in open_to)
    chronic = tuple(map(read, entry["chronic"]))
    classes = tuple(dict.fromkeys(c for problem in (*acute, *chronic) for c in problem.classes))
    coin = problems["coin"]
    made: dict[str, Problem] = {}
    unprefixed = set()
    for root in (root for root in coin["roots"] if root["specialty"] == name):
        for suffix in coin["suffixes"]:
            means = suffix["means"].format(**root)
            unprefixed.add(root["root"] + suffix["suffix"])
            for prefix in coin["prefixes"]:
                word = prefix + root["root"] + suffix["suffix"]
                made[word] = Problem(word, (), name, classes, "", means, suffix.get("g", ""))
    mine = [made[word] for word in share(made, split, "problem")]
    plain = tuple(problem for problem in mine if problem.name in unprefixed)
    # Names without a prefix are few but the most natural: as many of them as of the others are drawn.
    coined = (*mine, *plain * (len(mine) // max(len(plain), 1)))
    symptoms, findings = (_listed(entry[key], split, "problem") for key in ("symptoms", "findings"))
    return Specialty(name, general, acute, chronic, coined, symptoms, findings)


def _lab(entry: dict[str, Any]) -> Lab:
    return Lab(
        entry["name"],
        tuple(entry["also"]),
        entry["unit"],
        float(entry["low"]),
        float(entry["high"]),
        float(entry["spread"]),
        int(entry.get("decimals", 0)),
    )
