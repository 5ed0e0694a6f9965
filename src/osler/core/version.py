"""The version of osler, importable from every layer."""

VERSION = "0.1.0"
