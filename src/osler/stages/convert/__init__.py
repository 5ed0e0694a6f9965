"""One file format to another."""
