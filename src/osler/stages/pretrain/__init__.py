"""A corpus and a vocabulary to an encoder."""
