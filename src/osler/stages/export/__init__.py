"""A head in the shape other tools load."""
