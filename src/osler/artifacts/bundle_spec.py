"""The spec of a bundle: its heads, their tasks and protocols, and which head reads what. Needs no torch and no weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

from osler.core.artifact import read_model
from osler.core.config import Recipe
from osler.core.errors import ArtifactError, RecipeError, alternatives
from osler.core.files import unconverted, write_atomic
from osler.tasks.card import Kind, TaskCard
from osler.tasks.instances.base import HeadOptions
from osler.text.language import LANGUAGE_NAMES, LanguageGuess

SPEC_FILE = "bundle.json"
RecordKind = Literal["document", "pair"]
ALL_LANGUAGES = "all"
"""Value of a language option that selects every head."""
SEVERAL_LANGUAGES = "mul"
"""Language code of a head trained on tasks in several languages (ISO 639)."""
_ADDING = (Kind.RELATION, Kind.ATTRIBUTES)
"""Kinds of heads that find nothing by themselves, but add to the findings of other heads."""


def reads(own: str, language: str | None) -> bool:
    """Whether a head for the language `own` reads `language`. None and "all" match any language."""
    return language in (None, ALL_LANGUAGES, own) or own in ("", SEVERAL_LANGUAGES)


class BundleHead(Recipe):
    """One head: the task and protocol it was trained on."""

    card: TaskCard
    protocol: str
    options: HeadOptions = HeadOptions()
    members: dict[str, str] | None = None
    """Tasks of a joint head, each with its protocol. `card` then has the labels of all tasks."""


class TrainedTask(NamedTuple):
    """The head of a task, and the protocol it was trained under."""

    head: str
    protocol: str


class BundleSpec(Recipe):
    """The heads of a bundle and the window size they share."""

    max_length: int
    overlap: int
    heads: dict[str, BundleHead]

    @classmethod
    def load(cls, folder: str | Path) -> BundleSpec:
        path = Path(folder) / SPEC_FILE
        if not path.parent.exists():
            raise ArtifactError("no such folder", where=folder, fix="Make it first (osler finetune), or check the path")
        if not path.is_file():
            raise unconverted(path.parent) or ArtifactError(
                f"not a bundle: {SPEC_FILE} is missing", where=path.parent, fix="Give a folder that osler finetune made"
            )
        return read_model(cls, path, fix="Make the bundle again")

    def save(self, folder: Path) -> None:
        write_atomic(folder / SPEC_FILE, self.model_dump_json(indent=2, exclude_none=True) + "\n")

    @property
    def tasks(self) -> dict[str, TrainedTask]:
        """Every task the bundle was trained on."""
        return {
            task: TrainedTask(name, protocol)
            for name, head in self.heads.items()
            for task, protocol in (head.members or {name: head.protocol}).items()
        }

    @property
    def languages(self) -> set[str]:
        """Languages with document heads of their own."""
        cards = [head.card for head in self.heads.values()]
        found = {card.language for card in cards if card.record == "document" and card.kind not in _ADDING}
        return found - {"", SEVERAL_LANGUAGES}

    def head(self, name: str) -> BundleHead:
        """Return a head, or raise an error that lists the heads."""
        if name not in self.heads:
            raise RecipeError(f"this bundle has no head {name!r}", fix=alternatives(name, self.heads, "Heads"))
        return self.heads[name]

    def heads_for(self, record: RecordKind, names: Sequence[str] = (), language: str | None = None) -> list[str]:
        """Heads that read documents or pairs of texts, filtered by name and language. May be empty."""
        cards = {name: self.head(name).card for name in names or self.heads}
        return [name for name, card in cards.items() if card.record == record and reads(card.language, language)]

    def document_heads(self, names: Sequence[str] = (), language: str | None = None) -> list[str]:
        """Heads that annotate documents, filtered by name and language. Raises an error if there are none."""
        return self.heads_for("document", names, language) or self._refuse("document", names, language)

    def pair_heads(self, names: Sequence[str] = (), language: str | None = None) -> list[str]:
        """Heads that compare two texts, filtered by name and language. Raises an error if there are none."""
        return self.heads_for("pair", names, language) or self._refuse("pair", names, language)

    def attribute_heads(self) -> list[str]:
        """Heads that find attributes of other heads' mentions."""
        return [name for name, head in self.heads.items() if head.card.kind is Kind.ATTRIBUTES]

    def _refuse(self, record: RecordKind, names: Sequence[str], language: str | None) -> NoReturn:
        """Raise an error that says why no head fits and what to use instead."""
        able = self.heads_for(record)
        one, two = "single texts", "pairs of texts"
        given, other = (one, two) if record == "document" else (two, one)
        if able:
            if language is None or not self.heads_for(record, names):
                problem = f"{_listed(names)} can only read {other}, and the input is {given}"
            elif names:
                problem = f"{_listed(names)} cannot read the language {language!r}"
            else:
                problem = f"no head for {given} in the language {language!r}"
            listed = ", ".join(f"{name} ({self.heads[name].card.language})" for name in able)
            fix = f"Heads of this bundle that read {given}: {listed}"
        elif record == "document":
            problem = f"no head of this bundle reads {given}: {_listed(self.heads)} compare two texts"
            fix = "Give pairs of texts: JSON Lines with the keys first and second, or a CSV or TSV file with two text columns"
        else:
            problem = f"no head of this bundle reads {given}: {_listed(self.heads)} read one text"
            fix = "Give single texts, or a bundle with a head for pairs"
        raise RecipeError(problem, fix=fix)

    def language_mismatch(self, guess: LanguageGuess, heads: Sequence[str]) -> LanguageMismatch | None:
        """Find heads trained on another language than the text, if the language of the text is certain."""
        found = guess.sure
        others = {name: card for name in heads if not reads((card := self.heads[name].card).language, found)}
        if found is None or not others:
            return None
        languages = " and ".join(dict.fromkeys(LANGUAGE_NAMES.get(c.language, c.language) for c in others.values()))
        trained = "was" if len(others) == 1 else "were"
        problem = (
            f"the text looks {LANGUAGE_NAMES[found]} ({guess}), but {_listed(others)} {trained} trained on {languages}. "
            "Expect poor results"
        )
        return LanguageMismatch(problem, found if len(others) < len(heads) else None)


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


class LanguageMismatch(NamedTuple):
    """Text in another language than some of the heads. `choose` is the language to select if other heads support it."""

    problem: str
    choose: str | None
