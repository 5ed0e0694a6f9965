"""Find task cards: shipped with osler, from a plug-in, or a TOML file of the user."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from osler.core.config import read_toml, validate
from osler.core.errors import RecipeError, UnknownNameError, nearest
from osler.tasks.card import TaskCard

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
    """Make a card from the content of its file and add the protocols of its family; the card's own protocols win."""
    family = values.pop("protocol_family", None)
    if family is not None:
        shared = _FAMILIES / f"{family}.toml"
        if not shared.is_file():
            known = ", ".join(sorted(file.stem for file in _FAMILIES.glob("*.toml")))
            raise RecipeError(f"no protocol_family {family!r}", where=where, fix=f"Known: {known}")
        values["protocols"] = {**read_toml(shared), **values.get("protocols", {})}
    return validate(TaskCard, values, where=str(where))


def all_cards() -> list[TaskCard]:
    """Load all known cards, sorted by name."""
    return [load_card(name) for name in sorted(card_paths())]
