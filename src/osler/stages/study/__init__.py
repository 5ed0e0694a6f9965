"""Models x tasks x seeds to a table."""
