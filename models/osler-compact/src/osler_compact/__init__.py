"""The files of osler-compact, found by osler through the entry point group `osler.models`."""

from pathlib import Path

FOLDER = Path(__file__).parent / "bundle"
"""A bundle: an int8 graph for annotation without torch, and the weights for training on."""
