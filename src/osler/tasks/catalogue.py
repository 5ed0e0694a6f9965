"""Find task cards: shipped with osler, from a plug-in, or a TOML file of the user."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from osler.core.config import read_toml, validate
from osler.core.errors import RecipeError, UnknownNameError, nearest
from osler.tasks.card import Protocol, TaskCard

_CARDS = Path(__file__).parent / "cards"
_FAMILIES = Path(__file__).parent / "protocols"


@cache
def card_paths() -> dict[str, Path]:
    """Return the card file of every known task. A plug-in gives a folder of cards in the group `osler.tasks`."""
    paths = {path.stem: path for path in sorted(_CARDS.glob("*.toml"))}
    for point in entry_points(group="osler.tasks"):
        for path in sorted(Path(str(point.load())).glob("*.toml")):
            paths.setdefault(path.stem, path)
    return paths


def load_card(name: str | Path) -> TaskCard:
    """Load the card of a task by name or by the path of a TOML file."""
    path = Path(name)
    if path.suffix == ".toml":
        return _read(path)
    known = card_paths()
    if str(name) not in known:
        close = nearest(str(name), known)
        hint = f"Did you mean {close!r}? " if close else ""
        raise UnknownNameError(
            f"no task {str(name)!r}", fix=f"{hint}See `osler tasks list`, or give the path of a card.toml"
        )
    return _read(known[str(name)])


def _read(path: Path) -> TaskCard:
    return make_card(read_toml(path), path)


def make_card(values: dict[str, Any], where: str | Path) -> TaskCard:
    """Make a card from the content of its file and add the protocols of its families; the card's own protocols win."""
    given = values.pop("protocol_family", [])
    shared: dict[str, Any] = {}
    for family in [given] if isinstance(given, str) else given:
        file = _FAMILIES / f"{family}.toml"
        if not file.is_file():
            known = ", ".join(protocol_families())
            raise RecipeError(f"no protocol_family {family!r}", where=where, fix=f"Known: {known}")
        shared |= read_toml(file)
    if shared:
        values["protocols"] = {**shared, **values.get("protocols", {})}
    return validate(TaskCard, values, where=str(where))


def protocol_families() -> dict[str, dict[str, Protocol]]:
    """Protocols that several cards share, by the name of their family."""
    return {
        path.stem: {name: validate(Protocol, values, where=str(path)) for name, values in read_toml(path).items()}
        for path in sorted(_FAMILIES.glob("*.toml"))
    }


def all_cards() -> list[TaskCard]:
    """Load all known cards, sorted by name."""
    return [load_card(name) for name in sorted(card_paths())]
