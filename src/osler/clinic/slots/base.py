"""The shape of a slot's function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from osler.clinic.template import Slot

if TYPE_CHECKING:
    from osler.clinic.scribe import Scribe

Fill = Callable[["Scribe", Slot], None]
