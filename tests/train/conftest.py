"""Makes the toy models of this folder importable by its tests; its worker scripts import them as neighbours."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
