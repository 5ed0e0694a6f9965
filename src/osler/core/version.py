"""The version of osler, for modules below the front door."""

VERSION = "0.1.0"
