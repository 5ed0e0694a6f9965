"""Raw text to annotations."""
