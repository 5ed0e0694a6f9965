"""Typed artifacts: one class per kind of folder. Nobody else knows their file names."""
