"""Annotate text with a bundle, and export its heads."""
